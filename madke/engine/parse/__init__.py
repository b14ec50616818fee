r"""Every marker grammar, one typed result.

Model text is untrusted: nothing here raises on any input, evaluates anything, takes more than linear time or invents a
value. Where a text settles on nothing, the grammars abstain. The markers:

* final answer ``[X]``, or ``(X)``, ``\boxed{X}``, the whole reply (:func:`parse_answer`)
* selection ``[0] [3]`` or ``[No Found]`` (:func:`parse_selection`), and a further search ``[Search: query]``
* verdict ``[Yes]`` / ``[No]``, or a record with side, reason and answer (:func:`parse_verdict`)
* the debater that a judge picks, ``[Name]`` (:func:`parse_pick`), and a grader's ``[True]`` / ``[False]``
* a debater's confidence, "Confidence: 0.8" (:func:`parse_confidence`)

:func:`without_reasoning` comes first. ``eval/parser.md`` says how they fare on recorded text.
"""

from madke.engine.parse.answer import Marker, parse_answer
from madke.engine.parse.asides import parse_confidence, parse_search, without_reasoning
from madke.engine.parse.pick import parse_pick
from madke.engine.parse.result import Parsed
from madke.engine.parse.selection import SelectedIds, parse_selection
from madke.engine.parse.verdict import Judged, parse_grade, parse_side, parse_verdict

__all__ = [
    "Judged",
    "Marker",
    "Parsed",
    "SelectedIds",
    "parse_answer",
    "parse_confidence",
    "parse_grade",
    "parse_pick",
    "parse_search",
    "parse_selection",
    "parse_side",
    "parse_verdict",
    "without_reasoning",
]
