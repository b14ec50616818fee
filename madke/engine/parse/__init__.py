r"""Parsers of model replies; all return the same typed result.

Model text is untrusted: no text raises, nothing is evaluated, and reading takes linear time. No value is given if the
text does not settle on one; the status says why. Quotations and copies of the request decide nothing. Call
:func:`without_reasoning` first. Figures on recorded text: ``eval/parser.md``.
"""

from madke.engine.parse.answer import IDS, Marker, answer_of, marked, parse_citations
from madke.engine.parse.decisions import (
    BoundReply,
    answer_schema,
    bound_answer,
    bound_selection,
    bound_side,
    bound_verdict,
    parse_confidence,
    parse_grade,
    parse_pick,
    parse_quotes,
    parse_searches,
    parse_selection,
    parse_side,
    parse_verdict,
    read_bound,
    review_schema,
    selection_schema,
    stance_schema,
    verdict_schema,
)
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import NO_CONTEXT, TRUNCATED, WINDOW, ParseContext, checked, is_copied, without_reasoning

__all__ = [
    "IDS", "NO_CONTEXT", "TRUNCATED", "WINDOW", "BoundReply", "Marker", "ParseContext", "Parsed", "answer_of",
    "answer_schema", "bound_answer", "bound_selection", "bound_side", "bound_verdict", "checked", "is_copied", "marked",
    "parse_citations", "parse_confidence", "parse_grade", "parse_pick", "parse_quotes",
    "parse_searches", "parse_selection", "parse_side", "parse_verdict", "read_bound", "review_schema",
    "selection_schema", "stance_schema", "verdict_schema", "without_reasoning",
]  # fmt: skip
