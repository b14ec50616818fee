"""What the words around a marker make of it: one notion of "which markers count" for every grammar."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from madke.engine.parse.places import NEAR, before, lead, tail

Standing = Literal["stated", "plain", "quoted", "none"]
"""``stated``: the words right before it say "the answer is". ``plain``: they say nothing. ``quoted``: somebody else's
answer. ``none``: it does not count; it is denied, imagined, an example, or part of a word, a link or a formula."""

_NOUN = r"\b(?:answer(?!\s+(?:choices|options))|verdict|label|option|choice|letter|result|solution|translation)\b"
SOMEBODY = (
    r"\b(?:(?:debater|agent|speaker)[ _]?(?:\w*\d\w*|[a-z]\b)|(?:my\s+|the\s+)?opponents?"
    r"|(?:my|the|an)\s?other\s+(?:debater|agent|side)s?|(?:affirmative|negative)\s+side)"
)
_SAYING = (
    r"(?:sa(?:id|ys?)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|th(?:inks|ought)|believe[sd]"
    r"|cho(?:se|oses)|conclude[sd]|propose[sd]|suggest(?:s|ed))"
)
_GAP = r"[\s*_`\"'“‘]+"  # noqa: RUF001
_QUIET = r"[^\w.!?]*"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_STATES = _any(
    rf"{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|were|be|equals)|[^.!?\n]{{0,40}}[:=]){_QUIET}\Z",
    rf"^\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n{_QUIET}\Z",
    r"\bfinish\Z",
)
_ABOUT = (
    r"\b(?:for|behind|support\w{0,3}|about|to\s+(?:determine|identify|find|choose|select)|what|where|why|how|whether|if"
    rf"|unless|suppose)\s+(?:(?:the|my|your|an?)\s+)?(?:(?:final|correct|right|best)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|was|would\s+be))?{_QUIET}\Z"
)
_DENIED = (
    r"(?:\b(?:not|never|neither|nor|than|instead\s+of|over|cannot|can't|unable\s+to|impossible\s+to|far\s+from)"
    rf"|n't(?:\s+be)?){_GAP}(?:(?:the|an?|simply|just|say|reply|answer|deserve|with|label|option){_GAP}){{0,3}}\Z"
)
_EXAMPLE = (
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|placeholder)(?:\s+of)?|\bone\s+of)"
    r"[^\w.!?\n]*\Z"
)
_INSTRUCTED = (
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}\b(?:reply|answer|respond|say|write|put|it\s+were)\W*\Z"
)
_NOT_COUNTED_BEFORE = _any(_ABOUT, _DENIED, _EXAMPLE, _INSTRUCTED)
_NOT_COUNTED_AFTER = _any(
    r"[\s*_`\"']*(?:(?:is|was|are|were|seems|does|do|did|could|would)\s*(?:n't\b|(?:(?:\w+ly|just|also)\s+)?(?:not|wrong"
    r"|incorrect|false|unlikely|impossible|ruled\s+out)\b)|can(?:not|'t)\b)",
    r"[^.!?\n]{0,120}\?",
)
_CONDITIONAL = _any(r"\W{0,9}(?:(?:only\s+)?(?:if|when|unless|provided)|would|might)\b")
_QUOTES_SOMEBODY = _any(
    rf"(?:{SOMEBODY}[^.\n]{{0,40}}\b{_SAYING}\b|{SOMEBODY}'s\s+(?:\w+\s+){{0,2}}{_NOUN}"
    rf"|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{SOMEBODY})"
    r"(?:(?!\b(?:but|I|however|differ|so)\b)[^.\n])*\Z"
)
_SPEAKER = _any(rf"^\W{{0,9}}{SOMEBODY}\W{{0,4}}:")
_ALONE = _any(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall)\W+)*"
    r"(?:(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion|choice|pick|winner)\W*(?:is\W*)?)?"
)
_GOES_ON = re.compile(r"\w|\((?:http|/|#|www)")
_FORMULA_GOES_ON = _any(r"\w|[(^_]|\s?[-+*/=<>×·÷]\s?(?:[\d(\\]|[a-z]\b)")  # noqa: RUF001
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = _any(r"\b(?:finish|answer|is)\Z")


def states(near: str) -> bool:
    """Whether the words before a marker state its content as an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _NOT_COUNTED_BEFORE.search(near)


def standing(text: str, start: int, end: int) -> Standing:
    """What a marker at ``start .. end`` is in a text."""
    near, after = _plain_quotes(before(text, start)), _plain_quotes(text[end : end + NEAR])
    stated = bool(_STATES.search(near))
    is_denied = _NOT_COUNTED_BEFORE.search(near) or _NOT_COUNTED_AFTER.match(after)
    if is_denied or _is_glued(text, start, end) or (not stated and _CONDITIONAL.match(after)):
        return "none"
    line = text.rfind("\n", 0, start) + 1
    if _QUOTES_SOMEBODY.search(near) or (_SPEAKER.match(text, line, line + NEAR) and _is_transcript(text)):
        return "quoted"
    return "stated" if stated else "plain"


def _is_glued(text: str, start: int, end: int) -> bool:
    """Whether a bracket belongs to a word, a call, a link or a formula: ``f[0]``, ``Search[Paris]``, ``(x+1)(x-2)``.

    An agent's ``Finish[Paris]`` is an answer all the same.
    """
    near, after = text[max(0, start - 9) : start].removesuffix("\\left"), text[end : end + 9]
    goes_on = _FORMULA_GOES_ON if text[start] == "(" else _GOES_ON
    return bool(goes_on.match(after) or (_WORD_END.search(near) and not _CALL.search(near)))


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a marker has a line to itself, or is a whole conclusion: "Therefore, my verdict is: [No]"."""
    return bool(_ALONE.fullmatch(lead(text, start))) and not re.search(r"\w", tail(text, end))


@lru_cache(maxsize=1)
def _is_transcript(text: str) -> bool:
    """Whether several lines begin with a debater's name: a single one in front of a reply is the speaker's own."""
    return len(_SPEAKER.findall(text)) > 1


def _plain_quotes(text: str) -> str:
    return text.replace("’", "'").removesuffix("\\left")  # noqa: RUF001
