r"""Every marker grammar, one typed result.

Model text is untrusted: no text raises, nothing is evaluated, reading takes linear time, and where a text settles on
nothing a grammar abstains. Call :func:`without_reasoning` first. ``eval/parser.md`` holds figures on recorded text.
"""

from madke.engine.parse.answer import Marker, answer_of, marked, parse_answer, parse_confidence
from madke.engine.parse.context import TRUNCATED, Parsed, checked, without_reasoning
from madke.engine.parse.selected_ids import SelectedIds, parse_search, parse_selection
from madke.engine.parse.verdict import Judged, parse_grade, parse_pick, parse_side, parse_verdict

__all__ = [
    "TRUNCATED", "Judged", "Marker", "Parsed", "SelectedIds", "answer_of", "checked", "marked", "parse_answer",
    "parse_confidence", "parse_grade", "parse_pick", "parse_search", "parse_selection", "parse_side", "parse_verdict",
    "without_reasoning",
]  # fmt: skip
