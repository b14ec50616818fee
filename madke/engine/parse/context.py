"""What the words around a marker make of it: a statement, a quotation, an example, a denial."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from madke.engine.parse.places import NEAR, before, lead, tail

Standing = Literal["stated", "plain", "quoted", "none"]
"""``stated``: the words right before it say "the answer is". ``plain``: they say nothing. ``quoted``: somebody else's
answer. ``none``: no answer, for instance an example or a denial."""

_NOUN = r"\b(?:answer(?!\s+(?:choices|options))|conclusion|verdict|label|option|choice|result|solution)\b"
SOMEBODY = (
    r"\b(?:(?:debater|agent|speaker)[ _]?(?:\w*\d\w*|[a-z]\b)|(?:my\s+|the\s+)?opponents?"
    r"|(?:my|the|an)\s?other\s+(?:debater|agent|side)s?|(?:affirmative|negative)\s+side)"
)
SAYING = (
    r"(?:sa(?:id|ys?)|answer(?:s|ed)|claim(?:s|ed)|argue[sd]|stat(?:es|ed)|g(?:ave|ives)|thinks|thought|believe[sd]"
    r"|cho(?:se|oses)|conclude[sd]|propose[sd]|suggest(?:s|ed))"
)
_QUIET = r"[^\w.!?]*"
_QUOTE = r"[\s*_`\"'“”‘’]"  # noqa: RUF001
_NOT = r"n[o'’]t"  # noqa: RUF001


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_STATES = _any(
    rf"(?:{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|be|equals)|[^.!?\n]{{0,40}}[:=])"
    rf"|^\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n){_QUIET}\Z",
    r"\bfinish\Z",
)
_CALLS = _any(rf"\banswer(?:\s+(?:choice|option|letter))?{_QUIET}\Z")
_ABOUT = _any(
    r"\b(?:for|behind|support\w{0,3}|about|towards?|back\w{0,3}|justif\w{1,4}|to\s+(?:determine|identify|find|choose"
    r"|select|evaluate)|(?:what|where|why|how|whether|if|unless|suppose|assuming)(?:\s+that)?)\s+"
    rf"(?:(?:the|my|your|his|her|their|its|an?|this|our)\s+)?(?:(?:final|correct|right|best|true)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|are|was|were|(?:would|might|could|should|may|must)\s+be))?{_QUIET}\Z",
)
_QUOTES_SOMEBODY = _any(
    rf"(?:{SOMEBODY}[^.\n]{{0,40}}\b{SAYING}\b|{SOMEBODY}['’]s\s+(?:\w+\s+){{0,2}}{_NOUN}"  # noqa: RUF001
    rf"|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{SOMEBODY})(?:(?!\b(?:but|I|however)\b)[^.\n])*\Z"
)
_SPEAKER = _any(rf"^\W{{0,9}}{SOMEBODY}\W{{0,4}}:")
_DENIED_BEFORE = _any(
    r"(?:\b(?:not|never|neither|nor|than|instead\s+of|over|against|rules?\s+out|reject\w{0,3})"
    rf"|n['’]t(?:\s+be)?){_QUOTE}+(?:(?:the|an?|simply|just|merely|label|option|answer)\s+)?{_QUOTE}*\Z",  # noqa: RUF001
    rf"\b(?:can\s?not|can['’]t|unable\s+to|impossible\s+to|(?:do|does|did|would|will|could|should)\s*{_NOT}|far\s+from)"  # noqa: RUF001
    rf"(?:\s+(?:simply|yet|say|reply|give|answer|conclude|call|deserve|be|it|with|an?|the)){{0,4}}{_QUOTE}*\Z",
)
_DENIED_AFTER = _any(
    rf"{_QUOTE}*(?:(?:is|was|are|were|would\s+be|seems|looks)\s*(?:{_NOT}\b|(?:(?:\w+ly|just|simply|also)\s+)?(?:not"
    r"|wrong|incorrect|false|mistaken|unlikely|impossible|ruled\s+out|out|invalid|irrelevant)\b)"
    rf"|can(?:not|['’]t|\s+be\s+(?:ruled\s+out|excluded|rejected))\b|(?:does|do|did|could|would)\s*{_NOT}\b)"  # noqa: RUF001
)
_INSTRUCTED = (
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}"
    r"\b(?:reply|repl(?:ies|ied)|answer|respond|say|write|output|put|print|return|give)\W*(?:with\W*)?\Z"
)
_NOT_MEANT = _any(
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|pattern|formatted\s+as"
    r"|written\s+as|placeholder)(?:\s+of)?|\bone\s+of)[^\w.!?\n]*\Z",
    _INSTRUCTED,
)
_ASKED = _any(r"[^.!?\n]{0,120}\?")
_CONDITIONAL = _any(rf"{_QUOTE}*(?:only\s+)?(?:if|when|unless|provided)\b")
_IMAGINED = _any(r"\b(?:would|were|could|might|should)\b[^.\n]{0,60}\Z", _INSTRUCTED)
_IMAGINED_AFTER = _any(r"\W{0,9}(?:(?:only\s+)?(?:if|when|unless)|would|could|might)\b")
_ALONE = _any(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall|winner|winning)\W+)*"
    r"(?:(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion|choice|pick|winner)\W*(?:is\W*)?)?"
)
_LINK = re.compile(r"\w|\((?:http|/|#|www)")
_FORMULA_GOES_ON = _any(r"\w|[(^_]|\s?[-+*/=<>×·÷]\s?(?:[\d(\\]|[a-z]\b)")  # noqa: RUF001
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = _any(r"\b(?:finish|answer|is)\Z")


def states(near: str) -> bool:
    """Whether the words before a marker state its content as an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _ABOUT.search(near)


def standing(text: str, start: int, end: int) -> Standing:
    """What a marker at ``start .. end`` is in a text."""
    near, after = before(text, start).removesuffix("\\left"), text[end : end + NEAR]
    stated = bool(_STATES.search(near) or _CALLS.search(near))
    if (
        is_glued(text, start, end)
        or is_denied(near, after)
        or _ASKED.match(after)
        or (_CONDITIONAL.match(after) and not stated)
        or any(pattern.search(near) for pattern in (_NOT_MEANT, _ABOUT))
    ):
        return "none"
    line = text.rfind("\n", 0, start) + 1
    if _QUOTES_SOMEBODY.search(near) or (_SPEAKER.match(text, line, line + NEAR) and _is_transcript(text)):
        return "quoted"
    return "stated" if stated else "plain"


def is_denied(near: str, after: str) -> bool:
    """Whether the words around a marker turn it down: "not [A]", "[A] is wrong", "I cannot say [A]"."""
    return bool(_DENIED_BEFORE.search(near) or _DENIED_AFTER.match(after))


def is_imagined(near: str, after: str) -> bool:
    """Whether a marker only says what a verdict would be: "if they agree, reply [Yes]", "[Yes] would need the same"."""
    return bool(_IMAGINED.search(near) or _IMAGINED_AFTER.match(after))


def is_glued(text: str, start: int, end: int) -> bool:
    """Whether a bracket belongs to a word, a call, a link or a formula: ``f[0]``, ``Search[Paris]``, ``(x+1)(x-2)``.

    An agent's ``Finish[Paris]`` is an answer all the same.
    """
    near, after = text[max(0, start - 9) : start].removesuffix("\\left"), text[end : end + 9]
    if (_FORMULA_GOES_ON if text[start] == "(" else _LINK).match(after):
        return True
    return bool(_WORD_END.search(near)) and not _CALL.search(near)


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a marker has a line to itself, or is a whole conclusion: "Therefore, my verdict is: [No]"."""
    return bool(_ALONE.fullmatch(lead(text, start))) and not re.search(r"\w", tail(text, end))


@lru_cache(maxsize=1)
def _is_transcript(text: str) -> bool:
    """Whether several lines begin with a debater's name: a single one in front of a reply is the speaker's own."""
    names = _SPEAKER.finditer(text)
    return next(names, None) is not None and next(names, None) is not None
