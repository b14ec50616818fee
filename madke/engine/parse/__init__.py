r"""Every marker grammar, one typed result.

Model text is untrusted. No text raises, nothing is evaluated, reading takes linear time, and no value is invented: a
grammar abstains where a text settles on nothing. The markers:

* final answer ``[X]``, or ``(X)``, ``\boxed{X}``, the whole reply (:func:`parse_answer`)
* selection ``Selected: [0] [3]`` or ``[No Found]`` (:func:`parse_selection`), a further search ``[Search: query]``
* verdict ``[SAME]`` / ``[DIFFERENT]``, ``[KEEP]`` / ``[REVISE]``, the papers' ``[Yes]`` / ``[No]``, or a record with
  side, reason and answer (:func:`parse_verdict`); an extraction's ``Side: NAME`` (:func:`parse_side`)
* the debater that a judge picks, ``[Name]`` (:func:`parse_pick`), and a grader's ``[True]`` / ``[False]``
* a debater's confidence, "Confidence: 0.8" (:func:`parse_confidence`)

Call :func:`without_reasoning` first. ``eval/parser.md`` holds the figures on recorded text.
"""

from madke.engine.parse.answer import Marker, answer_of, marked, parse_answer, parse_confidence
from madke.engine.parse.result import CUT, Parsed, checked, without_reasoning
from madke.engine.parse.selected_ids import SelectedIds, parse_search, parse_selection
from madke.engine.parse.verdict import Judged, parse_grade, parse_pick, parse_side, parse_verdict

__all__ = [
    "CUT",
    "Judged",
    "Marker",
    "Parsed",
    "SelectedIds",
    "answer_of",
    "checked",
    "marked",
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
