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
_STATES = re.compile(
    rf"(?:{_NOUN}(?:[^.!?\n]{{0,80}}\b(?:is|are|was|be|equals)|[^.!?\n]{{0,40}}[:=])"
    rf"|(?:\A|\n)\W{{0,9}}(?:(?:the|my|our|final|correct|best)\s+){{0,3}}{_NOUN}[^\w.!?\n]*\n){_QUIET}\Z|\bfinish\Z",
    re.IGNORECASE,
)
_CALLS = re.compile(rf"\banswer(?:\s+(?:choice|option|letter))?{_QUIET}\Z", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:for|behind|support\w{0,3}|about|towards?|back\w{0,3}|justif\w{1,4}"
    r"|to\s+(?:determine|identify|find|choose|select|evaluate)|(?:what|where|why|how|whether|if|unless|suppose|assuming)(?:\s+that)?)\s+"
    rf"(?:(?:the|my|your|his|her|their|its|an?|this|our)\s+)?(?:(?:final|correct|right|best|true)\s+)?{_NOUN}"
    rf"(?:\s+(?:is|are|was|were|(?:would|might|could|should|may|must)\s+be))?{_QUIET}\Z",
    re.IGNORECASE,
)
_QUOTES_SOMEBODY = re.compile(
    rf"(?:{SOMEBODY}[^.\n]{{0,40}}\b{SAYING}\b|{SOMEBODY}['’]s\s+(?:\w+\s+){{0,2}}{_NOUN}"  # noqa: RUF001
    rf"|{_NOUN}\s+(?:given\s+)?(?:of|from|by)\s+{SOMEBODY})(?:(?!\b(?:but|I|however)\b)[^.\n])*\Z",
    re.IGNORECASE,
)
_SPEAKER = re.compile(rf"^\W{{0,9}}{SOMEBODY}\W{{0,4}}:", re.IGNORECASE | re.MULTILINE)
_QUOTE = r"[\s*_`\"'“”‘’]"  # noqa: RUF001
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|than|rather\s+than|instead\s+of|over|against|rules?\s+out|reject\w{0,3})"
    rf"|n['’]t(?:\s+be)?){_QUOTE}+(?:(?:the|an?|simply|just|merely|label|option|answer)\s+)?{_QUOTE}*\Z"  # noqa: RUF001
    r"|\b(?:can\s?not|can['’]t|unable\s+to|impossible\s+to|(?:do|does|did|would|will|could|should)\s*n[o'’]t"  # noqa: RUF001
    r"|refuse\s+to|far\s+from)(?:\s+(?:simply|yet|really|say|reply|give|answer|conclude|call|deserve|be|it|with|an?|the)){0,4}"
    rf"{_QUOTE}*\Z",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    rf"{_QUOTE}*(?:(?:is|was|are|were|would\s+be|seems|looks)\s*(?:n['’]t\b|(?:(?:\w+ly|just|simply|also)\s+)?"  # noqa: RUF001
    r"(?:not|wrong|incorrect|false|mistaken|unlikely|impossible|ruled\s+out|out|invalid|irrelevant)\b)"
    r"|can(?:not|['’]t)\b|can\s+be\s+(?:ruled\s+out|excluded|rejected)\b|(?:does|do|did|could|would)\s*n[o'’]t\b)",  # noqa: RUF001
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:\bfor\s+(?:instance|example)|\be\.g\.?|\bsuch\s+as|,\s*like|\b(?:form|format|style|pattern|formatted\s+as"
    r"|written\s+as|placeholder)(?:\s+of)?|\bone\s+of)[^\w.!?\n]*\Z",
    re.IGNORECASE,
)
_ASKED = re.compile(r"[^.!?\n]{0,120}\?")
_CONDITIONAL = re.compile(r"[\s*_`\"'”’]*(?:only\s+)?(?:if|when|unless|provided)\b", re.IGNORECASE)  # noqa: RUF001
_INSTRUCTED = re.compile(
    r"\b(?:if|unless|whether|when|either)\b[^.\n]{0,120}"
    r"\b(?:reply|repl(?:ies|ied)|answer|respond|say|write|output|put|print|return|give)\W*(?:with\W*)?\Z",
    re.IGNORECASE,
)
_IMAGINED = re.compile(r"\b(?:would|were|could|might|should)\b[^.\n]{0,60}\Z", re.IGNORECASE)
_IMAGINED_AFTER = re.compile(r"\W{0,9}(?:(?:only\s+)?(?:if|when|unless)|would|could|might)\b", re.IGNORECASE)
_ALONE = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|in conclusion)\W+)?(?:(?:my|the|final|overall|winner|winning)\W+)*"
    r"(?:(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion|choice|pick|winner)\W*(?:is\W*)?)?",
    re.IGNORECASE,
)
_LINK = re.compile(r"\w|\((?:http|/|#|www)")
_FORMULA_GOES_ON = re.compile(r"\w|[(^_]|\s?[-+*/=<>×·÷]\s?(?:[\d(\\]|[a-z]\b)", re.IGNORECASE)  # noqa: RUF001
_WORD_END = re.compile(r"[\w)}^#/&]\Z")
_CALL = re.compile(r"\b(?:finish|answer|is)\Z", re.IGNORECASE)


def states(near: str) -> bool:
    """Whether the words before a marker state its content as an answer: "the answer, then, is", "Verdict:"."""
    return bool(_STATES.search(near)) and not _ABOUT.search(near)


def standing(text: str, start: int, end: int) -> Standing:
    """What a marker at ``start .. end`` is in a text."""
    near, after = before(text, start).removesuffix("\\left"), text[end : end + NEAR]
    if is_glued(text, start, end) or _EXAMPLE.search(near) or _ASKED.match(after) or is_denied(near, after):
        return "none"
    stated = bool(_STATES.search(near) or _CALLS.search(near))
    if _ABOUT.search(near) or _INSTRUCTED.search(near) or (_CONDITIONAL.match(after) and not stated):
        return "none"
    if _QUOTES_SOMEBODY.search(near) or (_SPEAKER.search(_line_start(text, start)) and _is_transcript(text)):
        return "quoted"
    return "stated" if stated else "plain"


def is_denied(near: str, after: str) -> bool:
    """Whether the words around a marker turn it down: "not [A]", "[A] is wrong", "I cannot say [A]"."""
    return bool(_DENIED_BEFORE.search(near) or _DENIED_AFTER.match(after))


def is_imagined(near: str, after: str) -> bool:
    """Whether a marker only says what a verdict would be: "if they agree, reply [Yes]", "[Yes] would need the same"."""
    return bool(_IMAGINED.search(near) or _INSTRUCTED.search(near) or _IMAGINED_AFTER.match(after))


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


def _line_start(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    return text[start : min(at, start + NEAR)]
