r"""Parsers of model replies, one for each marker grammar; all return the same typed result.

Model text is untrusted: no text raises, nothing is evaluated, and reading takes linear time. No value is given if the
text does not settle on one; the status says why. Quotations and copies of the request decide nothing. Call
:func:`without_reasoning` first. Figures on recorded text: ``eval/parser.md``.
"""

from madke.engine.parse.answer import Marker, answer_of, marked, parse_answer
from madke.engine.parse.bound import (
    BoundReply,
    bound_answer,
    bound_selection,
    bound_side,
    bound_verdict,
    read_bound,
)
from madke.engine.parse.confidence import parse_confidence
from madke.engine.parse.context import TRUNCATED, Parsed, checked, without_reasoning
from madke.engine.parse.echo import NOTHING_ASKED, Asked
from madke.engine.parse.quotes import parse_citations, parse_quotes
from madke.engine.parse.selected_ids import parse_ranking, parse_searches, parse_selection
from madke.engine.parse.verdict import parse_grade, parse_pick, parse_side, parse_verdict
from madke.engine.parse.worded import Form

__all__ = [
    "NOTHING_ASKED", "TRUNCATED", "Asked", "BoundReply", "Form", "Marker", "Parsed", "answer_of", "bound_answer",
    "bound_selection", "bound_side", "bound_verdict", "checked", "marked", "parse_answer", "parse_citations",
    "parse_confidence", "parse_grade", "parse_pick", "parse_quotes", "parse_ranking", "parse_searches",
    "parse_selection", "parse_side", "parse_verdict", "read_bound", "without_reasoning",
]  # fmt: skip
