"""The little linguistics that the reader needs: words, sentences, normal forms, and what a question asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_NO_CONTENT = """
a an the this that these those it its he his him she her hers they their them theirs we our us you your i my me is are
was were be been being am do does did done has have had having can could will would shall should may might must and or
but nor so if then than as at by for from in into of off on onto out over to up with within without about after before
between during through under until upon against among also not no yes only very more most such same both each other
another any some all who whom whose which what when where why how there here while although though however since s t
"""
STOPWORDS = frozenset(_NO_CONTENT.split())
"""Words that carry no content of their own."""

_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety
"""
NUMBER_WORDS = {word: n if n <= 20 else 10 * (n - 18) for n, word in enumerate(_NUMBERS.split())}
"""English number words and their values, up to twenty and by tens."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_ABBREVIATION = re.compile(
    r"(?:\b(?!I\b)[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|No|vs|Prof|Gen|Col|Lt|Capt|Rev|Inc|Co|approx|ca))\.$"
)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9À-Þ])|\s+\.\.\.\s+")  # noqa: RUF001
_SUFFIX = re.compile(r"(?:ies|ied|ing|edly|ed|es|s|er|or|ly|ion|ions|al|e)$")
_DROPPED = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def tidy(text: str) -> str:
    """The text without the spaces that a tokenizer left around punctuation."""
    text = re.sub(r"\s+", " ", text.replace("``", '"').replace("''", '"').replace("-LRB-", "(").replace("-RRB-", ")"))
    text = re.sub(r"(\d) ?, ?(?=\d{3}\b)", r"\1,", text)
    text = re.sub(r" (?=[,.;:!?)\]%](?:\s|$))| (?='s\b)|(?<=[(\[$£€]) ", "", text)
    return text.strip()


def sentences(text: str) -> list[str]:
    """The sentences of a text, abbreviations and initials not taken for ends."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        piece = text[start : end.start() + 1].strip()
        if _ABBREVIATION.search(piece):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def words(text: str) -> list[str]:
    """Lower-case words and numbers, in order."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A crude stem: the same for most inflections of one word."""
    if word in NUMBER_WORDS:
        return str(NUMBER_WORDS[word])
    if word[0].isdigit():
        return word.replace(",", "")
    if len(word) == 4 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    while len(word) > 4:
        shorter = _SUFFIX.sub("", word)
        if shorter == word or len(shorter) < 3:
            break
        word = shorter
    return word


def content(text: str) -> list[str]:
    """Stems of the words that are no stopwords, in order."""
    return [stem(word) for word in words(text) if word not in STOPWORDS]


def normal(text: str) -> str:
    """The form in which two answers are compared: lower case, no punctuation or articles, number words as digits."""
    bare = _DROPPED.sub("", text.lower())
    plain = _ARTICLES.sub(" ", bare)
    if not plain.strip():  # the letter of an option is no article
        plain = bare
    return " ".join(str(NUMBER_WORDS.get(word, word)) for word in plain.split())


def same(left: str, right: str) -> bool:
    """Whether two answers say the same: equal in normal form, or one names the other in whole words."""
    a, b = normal(left).split(), normal(right).split()
    if not a or not b:
        return False
    short, long = sorted((a, b), key=len)
    return a == b or (len(short) * 2 >= len(long) and any(long[i : i + len(short)] == short for i in range(len(long))))


Kind = Literal["person", "place", "date", "year", "number", "name", "thing", "yes_no", "either"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question, analysed."""

    text: str
    kind: Kind
    focus: str = ""
    """Words that name the kind of answer: "a person", "government position", "episodes"."""
    wh: tuple[int, int] | None = None
    """Where the question word stands: a candidate put there makes a statement of the question."""
    either: tuple[str, ...] = ()
    """The two things of a comparison, as the question writes them."""

    def hypothesis(self, candidate: str) -> str:
        """The question as a statement with ``candidate`` as its answer."""
        start, end = self.wh or (len(self.text), len(self.text))
        return " ".join(f"{self.text[:start].rstrip(' ?')} {candidate} {self.text[end:].rstrip(' ?')}".split())


_AUXILIARY = r"is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might"
_YES_NO = re.compile(rf"^(?:{_AUXILIARY})\b(?!.*,? \bor\b)", re.IGNORECASE)
_HEAD_ENDS = re.compile(rf"\b(?:{_AUXILIARY}|in|of|on|at|from|to|for|that|who|which|during|with)\b|[,?]", re.IGNORECASE)
_HOW = r"how\s+(?:many|much|long|tall|high|far|old|deep|big|large|wide|fast|heavy|often|hot|cold)"
_WH = re.compile(rf"\b(?:{_HOW}|when|where|whom?|whose|what|which)\b(?:'s)?", re.IGNORECASE)
_NEVER_RELATIVE = re.compile(rf"{_HOW}|what", re.IGNORECASE)
_PREDICATE = re.compile(
    r"\s*(?:is|are|was|were)\s+(?:the|a|an)\s+(?:(?:full |first |real |original )?name of (?:the |a |an )?)?(.+)", re.I
)
_PLAIN: dict[str, tuple[Kind, str]] = {
    "who": ("person", "a person"),
    "where": ("place", "a place"),
    "when": ("date", "a date"),
}
_FOCUS_WORDS: dict[Kind, str] = {
    "number": "number percentage percent population height length age temperature distance speed depth",
    "year": "year",
    "date": "date day month century decade season",
    "place": "city country state county town village continent region province island place location nation river "
    "mountain lake capital district neighborhood street area sea ocean territory borough",
    "person": "actor actress singer author writer director composer player president king queen person man woman "
    "character architect engineer explorer emperor painter poet screenwriter producer coach general",
    "name": "band group team company album song film movie book novel show series university school college "
    "organization award magazine newspaper club label studio network brand airline airport station god goddess "
    "language nationality war battle treaty planet moon ship race title opera play painting poem game",
}
_KIND_OF = {word: kind for kind, listed in _FOCUS_WORDS.items() for word in listed.split()}
_NAME = r"[A-Z][\w.'-]*(?: (?:of |the |de |and )*[A-Z0-9][\w.'-]*)*"
_EITHER = re.compile(rf"({_NAME})\"?,? or (?:the |a |an )?\"?({_NAME})")
_BEFORE_NAME = re.compile(r"^(?:The|A|An|Is|Are|Was|Were|Did|Does|Do|Which|What|Who)\s+")


def analyse(question: str) -> Asked:
    """What the question asks for."""
    text = " ".join(question.split())
    if either := _EITHER.search(text):
        return Asked(text=text, kind="either", either=tuple(_BEFORE_NAME.sub("", name) for name in either.groups()))
    if _YES_NO.match(text):
        return Asked(text=text, kind="yes_no")
    wh = _question_word(text)
    if wh is None:
        return Asked(text=text, kind="date" if re.search(r"\bdates?$", text, re.I) else "thing")
    word, after = wh.group().lower(), text[wh.end() :]
    if word.startswith("how"):
        return Asked(text=text, kind="number", focus=_head(after) or "a number", wh=wh.span())
    kind, focus = _PLAIN.get(re.sub(r"m?(?:'s)?$", "", word), ("thing", ""))
    if not focus:
        predicate = _PREDICATE.match(after)
        focus = _head(after) or (_head(predicate[1]) if predicate else "")
        kind = _kind_of(focus)
    return Asked(text=text, kind=kind, focus=focus, wh=wh.span())


def _question_word(text: str) -> re.Match[str] | None:
    """The word that asks: one that opens the question, else the last that opens no relative clause, else the last."""
    found = list(_WH.finditer(text))
    opening = [match for match in found if len(text[: match.start()].split()) <= 1]
    asking = opening[:1] or [match for match in found if _NEVER_RELATIVE.match(match.group())][-1:] or found[-1:]
    return asking[0] if asking else None


def _head(after: str) -> str:
    """The noun phrase straight after a question word, up to the verb: "government position" of "was held by"."""
    return " ".join(_HEAD_ENDS.split(after, maxsplit=1)[0].split()[:5])


def _kind_of(focus: str) -> Kind:
    for word in reversed(words(focus)):
        if kind := _KIND_OF.get(word) or _KIND_OF.get(word.rstrip("s")):
            return kind
        if word.rstrip("s").endswith(("ist", "ician", "grapher", "sopher", "nomer")):
            return "person"
    return "thing"
