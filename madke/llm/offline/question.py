"""What a question asks for: the kind of answer, its focus words, and the things it compares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from madke.llm.offline.text import STOPWORDS, word_set, words

Kind = Literal["person", "place", "date", "year", "number", "name", "thing", "yes_no", "either"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question, analysed."""

    text: str
    kind: Kind
    focus: str
    """Words that name the kind of answer: "a person", "government position", "episodes"."""
    wh: tuple[int, int] | None = None
    """Where the question word stands: a candidate put there makes a statement of the question."""
    either: tuple[str, ...] = ()
    """The two things of a comparison, as the question writes them."""

    def hypothesis(self, candidate: str) -> str:
        """The question as a statement with ``candidate`` as its answer."""
        if self.wh is None:
            return f"{self.text.rstrip(' ?')} {candidate}"
        start, end = self.wh
        return " ".join(f"{self.text[:start]} {candidate} {self.text[end:].rstrip(' ?')}".split())


_YES_NO = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b(?!.*,? \bor\b)", re.IGNORECASE
)
_AUXILIARY = (
    r"is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might"
    r"|in|of|on|at|from|to|for|that|who|which|during|with"
)
_HOW = r"how\s+(?:many|much|long|tall|high|far|old|deep|big|large|wide|fast|heavy|often|hot|cold)"
_WH = re.compile(rf"\b(?:{_HOW}|when|where|whom?|whose|what|which)\b(?:'s)?", re.IGNORECASE)
_NEVER_RELATIVE = re.compile(rf"{_HOW}|what", re.IGNORECASE)
_NUMBER_FOCUS = re.compile(
    r"\b(?:number|percentage|percent|population|height|length|age|temperature|distance|speed|depth)\b", re.I
)
_YEAR_FOCUS = re.compile(r"\byears?\b", re.I)
_DATE_FOCUS = re.compile(r"\b(?:date|day|month|century|decade|season)\b", re.I)
_PLACE_WORDS = word_set(
    """
    city country state county town village continent region province island place location nation river mountain
    lake capital district neighborhood neighbourhood street area sea ocean territory borough
    """
)
_PERSON_WORDS = word_set(
    """
    actor actress singer author writer director composer player president king queen scientist artist painter poet
    person man woman character musician politician architect engineer explorer emperor philosopher astronomer
    physicist chemist mathematician inventor novelist screenwriter producer coach general
    """
)
_NAME_WORDS = word_set(
    """
    band group team company album song film movie book novel show series university school college organization
    award magazine newspaper club label studio network brand airline airport station god goddess language
    nationality war battle treaty planet moon ship race title opera ballet play painting poem game
    """
)
_PLAIN: tuple[tuple[re.Pattern[str], Kind, str], ...] = (
    (re.compile(r"who(?:m|'s)?", re.I), "person", "a person"),
    (re.compile(r"where(?:'s)?", re.I), "place", "a place"),
    (re.compile(r"when(?:'s)?", re.I), "date", "a date"),
)
_FORMS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("number", _NUMBER_FOCUS),
    ("year", _YEAR_FOCUS),
    ("date", _DATE_FOCUS),
)
_VOCABULARY: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("place", _PLACE_WORDS),
    ("person", _PERSON_WORDS),
    ("name", _NAME_WORDS),
)


def analyse(question: str) -> Asked:
    """What the question asks for."""
    text = " ".join(question.split())
    either = _either(text)
    if either:
        return Asked(text=text, kind="either", focus="", either=either)
    if _YES_NO.match(text):
        return Asked(text=text, kind="yes_no", focus="")
    wh = _question_word(text)
    if wh is None:
        return Asked(text=text, kind="date" if re.search(r"\bdates?$", text, re.I) else "thing", focus="")
    word, after = wh.group().lower(), text[wh.end() :]
    if word.startswith("how"):
        return Asked(text=text, kind="number", focus=_head(after) or "a number", wh=wh.span())
    for form, plain, focus in _PLAIN:
        if form.fullmatch(word):
            return Asked(text=text, kind=plain, focus=focus, wh=wh.span())
    focus = _head(after) or _predicate(after)
    return Asked(text=text, kind=_kind_of(focus), focus=focus, wh=wh.span())


def _question_word(text: str) -> re.Match[str] | None:
    """The word that asks: one that opens the question, else the last that opens no relative clause, else the last."""
    found = list(_WH.finditer(text))
    opening = [match for match in found if len(text[: match.start()].split()) <= 1]
    asking = opening[:1] or [match for match in found if _NEVER_RELATIVE.match(match.group())][-1:] or found[-1:]
    return asking[0] if asking else None


def _head(after: str) -> str:
    """The noun phrase straight after a question word, up to the verb: "government position" of "was held by"."""
    return " ".join(re.split(rf"\b(?:{_AUXILIARY})\b|[,?]", after, maxsplit=1, flags=re.I)[0].split()[:5])


def _predicate(after: str) -> str:
    """Of "what is the name of the fight song of ...": "fight song"."""
    found = re.match(
        r"\s*(?:is|are|was|were)\s+(?:the|a|an)\s+(?:(?:full |first |real |original )?name of (?:the |a |an )?)?(.+)",
        after,
        re.I,
    )
    return _head(found.group(1)) if found else ""


def _kind_of(focus: str) -> Kind:
    for kind, form in _FORMS:
        if form.search(focus):
            return kind
    tail = [word.rstrip("s") for word in words(focus)]
    for word in reversed(tail):
        for kind, known in _VOCABULARY:
            if word in known or word + "s" in known:
                return kind
        if word.endswith(("ist", "ician", "grapher", "sopher", "nomer")):
            return "person"
    return "thing"


_OR = re.compile(r"(.+?),?\s+\bor\b\s+(.+)")


def _either(text: str) -> tuple[str, ...]:
    """The two things that a comparison names: the last before its "or", and the one after it."""
    found = _OR.fullmatch(text.rstrip(" ?"))
    if found is None:
        return ()
    left, right = found.group(1), found.group(2)
    if ", " in left:
        left = left.rsplit(", ", 1)[1]
    elif ": " in left:
        left = left.rsplit(": ", 1)[1]
    elif re.match(r"(?:is|are|was|were|did|does|do|which|what|who)\b", left, re.I):
        left = " ".join(_longest_name(left.split()))
    right = right.split(", ")[0]
    left, right = _bare(left), _bare(right)
    if not left or not right or len(left.split()) > 8 or len(right.split()) > 8:
        return ()
    named = left[:1].isupper() and any(token[:1].isupper() for token in right.split())
    return (left, right) if named or ", " in text else ()


def _longest_name(tokens: list[str]) -> list[str]:
    """The words from the last run of capitals on: "... bigger Mount Etna" gives "Mount Etna"."""
    start = len(tokens)
    while start > 0 and (tokens[start - 1][:1].isupper() or tokens[start - 1].lower() in {"of", "the", "de", "and"}):
        start -= 1
    return tokens[start:] if any(token.lower() not in STOPWORDS for token in tokens[start:]) else []


_BEFORE_NAME = re.compile(r"^(?:the|a|an|either|between|is|are|was|were|did)\s+", re.I)


def _bare(name: str) -> str:
    return _BEFORE_NAME.sub("", name.strip(" ,?\"'")).strip(" \"'")
