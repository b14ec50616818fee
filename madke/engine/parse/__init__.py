r"""Parsers of model replies; all return the same typed result.

Model text is untrusted: no text raises, nothing is evaluated, and reading takes linear time. No value is given if the
text does not settle on one; the status says why. Quotations and copies of the request decide nothing. Call
:func:`without_reasoning` first. Figures on recorded text: ``eval/parser.md``.
"""

from madke.engine.parse.answer import Marker, answer_of, marked
from madke.engine.parse.bound import (
    BoundReply,
    bound_answer,
    bound_selection,
    bound_side,
    bound_verdict,
    read_bound,
)
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.passages import (
    IDS,
    parse_citations,
    parse_quotes,
    parse_searches,
    parse_selection,
)
from madke.engine.parse.reasoning import TRUNCATED, checked, without_reasoning
from madke.engine.parse.reply import NO_CONTEXT, WINDOW, ParseContext, is_copied
from madke.engine.parse.verdict import parse_confidence, parse_grade, parse_pick, parse_side, parse_verdict

__all__ = [
    "IDS", "NO_CONTEXT", "TRUNCATED", "WINDOW", "BoundReply", "Marker", "ParseContext", "Parsed", "answer_of",
    "bound_answer", "bound_selection", "bound_side", "bound_verdict", "checked", "is_copied", "marked",
    "parse_citations", "parse_confidence", "parse_grade", "parse_pick", "parse_quotes",
    "parse_searches", "parse_selection", "parse_side", "parse_verdict", "read_bound", "without_reasoning",
]  # fmt: skip
