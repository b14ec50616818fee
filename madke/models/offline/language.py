"""Simple linguistics for the reader: words, sentences, the kind of a question, and the sentences relevant to it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from madke.core.stage import ShownPassage

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]
    """Texts in, unit vectors out."""

_NO_CONTENT = """
a an the this that these those it its he his him she her hers they their them theirs we our us you your i my me is are
was were be been being am do does did done has have had having can could will would shall should may might must and or
but nor so if then than as at by for from in into of off on onto out over to up with within without about after before
between during through under until upon against among also not no yes only very more most such same both each other
another any some all who whom whose which what when where why how there here while although though however since s t
"""
STOPWORDS = frozenset(_NO_CONTENT.split())

_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety
"""
NUMBER_WORDS = {word: n if n <= 20 else 10 * (n - 18) for n, word in enumerate(_NUMBERS.split())}

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_ABBREVIATION = re.compile(
    r"(?:\b(?!I\b)[^\W\d_]|\b(?:Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|No|vs|Prof|Gen|Col|Lt|Capt|Rev|Inc|Co|approx|ca))\.$"
)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9À-Þ])|\s+\.\.\.\s+")  # noqa: RUF001
_SUFFIX = re.compile(r"(?:ies|ied|ing|edly|ed|es|s|er|or|ly|ion|ions|al|e)$")
_DROPPED = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def tidy(text: str) -> str:
    """The text without a tokenizer's spaces around punctuation."""
    text = re.sub(r"\s+", " ", text.replace("``", '"').replace("''", '"').replace("-LRB-", "(").replace("-RRB-", ")"))
    text = re.sub(r"(\d) ?, ?(?=\d{3}\b)", r"\1,", text)
    text = re.sub(r" (?=[,.;:!?)\]%](?:\s|$))| (?='s\b)|(?<=[(\[$£€]) ", "", text)
    return text.strip()


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[start : end.start() + 1].strip()):
            found.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in (*found, text[start:].strip()) if sentence]


def lower_words(text: str) -> list[str]:
    """Lower-case words and numbers."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A rough stem, equal for most inflections of a word."""
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
    """Stems of the words, without stopwords."""
    return [stem(word) for word in lower_words(text) if word not in STOPWORDS]


def normal(text: str) -> str:
    """Normal form for comparing answers: lower case, no punctuation or articles, number words as digits."""
    bare = _DROPPED.sub("", text.lower())
    plain = _ARTICLES.sub(" ", bare)
    if not plain.strip():  # "a" alone is the letter of an option
        plain = bare
    return " ".join(str(NUMBER_WORDS.get(word, word)) for word in plain.split())


def roughly_same(left: str, right: str) -> bool:
    """Whether two answers match: equal in normal form, or one contains the other in whole words."""
    a, b = normal(left).split(), normal(right).split()
    if not a or not b:
        return False
    short, long = sorted((a, b), key=len)
    return a == b or (len(short) * 2 >= len(long) and any(long[i : i + len(short)] == short for i in range(len(long))))


AnswerKind = Literal["person", "place", "date", "year", "number", "name", "thing", "yes_no", "either"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """An analysed question."""

    text: str
    kind: AnswerKind
    focus: str = ""
    """Words that name the kind of answer: "a person", "government position", "episodes"."""
    wh: tuple[int, int] | None = None
    """Span of the question word; replacing it by a candidate turns the question into a statement."""
    either: tuple[str, ...] = ()
    """The two things of a comparison, as written in the question."""

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
_PLAIN: dict[str, AnswerKind] = {"who": "person", "where": "place", "when": "date"}
_FOCUS_WORDS: dict[AnswerKind, str] = {
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


def analyse(question: str) -> Query:
    """Find the kind of answer that a question asks for."""
    text = " ".join(question.split())
    if either := _EITHER.search(text):
        return Query(text=text, kind="either", either=tuple(_BEFORE_NAME.sub("", name) for name in either.groups()))
    if _YES_NO.match(text):
        return Query(text=text, kind="yes_no")
    wh = _question_word(text)
    if wh is None:
        return Query(text=text, kind="date" if re.search(r"\bdates?$", text, re.I) else "thing")
    word, after = wh.group().lower(), text[wh.end() :]
    if word.startswith("how"):
        return Query(text=text, kind="number", focus=_head(after) or "a number", wh=wh.span())
    if plain := _PLAIN.get(re.sub(r"m?(?:'s)?$", "", word)):
        return Query(text=text, kind=plain, focus=f"a {plain}", wh=wh.span())
    predicate = _PREDICATE.match(after)
    focus = _head(after) or (_head(predicate[1]) if predicate else "")
    return Query(text=text, kind=_kind_of(focus), focus=focus, wh=wh.span())


def _question_word(text: str) -> re.Match[str] | None:
    """The question word: one at the start, else the last that cannot begin a relative clause, else the last."""
    found = list(_WH.finditer(text))
    opening = [match for match in found if len(text[: match.start()].split()) <= 1]
    asking = opening[:1] or [match for match in found if _NEVER_RELATIVE.match(match.group())][-1:] or found[-1:]
    return asking[0] if asking else None


def _head(after: str) -> str:
    """The noun phrase after a question word, up to the verb: "government position" in "... position was held by"."""
    return " ".join(_HEAD_ENDS.split(after, maxsplit=1)[0].split()[:5])


def _kind_of(focus: str) -> AnswerKind:
    for word in reversed(lower_words(focus)):
        if kind := _KIND_OF.get(word) or _KIND_OF.get(word.rstrip("s")):
            return kind
        if word.rstrip("s").endswith(("ist", "ician", "grapher", "sopher", "nomer")):
            return "person"
    return "thing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One sentence of a passage, with its relevance to the question."""

    number: int
    title: str
    text: str
    score: float


def stated(line: Line | None) -> str:
    """The sentence after its passage's title, which its pronouns refer to."""
    return f"{line.title}: {line.text}" if line else ""


_COMPARED = 12
"""Sentences that are compared with the query by their vectors."""
_UNRELATED = 0.25
"""The similarity that is assumed of the others."""


def read_lines(query: str, knowledge: Sequence[ShownPassage], embed: Embed) -> list[Line]:
    """All sentences of the passages, scored by cosine similarity with the query plus weighted word overlap.

    Vectors are slow: only the sentences that share most words with the query get one, the others an average similarity.
    """
    weights = word_weights(query, knowledge)
    lines = [
        Line(
            number=each.number,
            title=each.title,
            text=sentence,
            score=0.6 * overlap(weights, f"{each.title} {sentence}"),
        )
        for each in knowledge
        for sentence in split_sentences(each.text)
    ]
    if not lines:
        return []
    first = sorted(range(len(lines)), key=lambda n: -lines[n].score)[:_COMPARED]
    vectors = embed([query, *(stated(lines[n]) for n in first)])
    near = dict(zip(first, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    lines = [replace(line, score=line.score + near.get(n, _UNRELATED)) for n, line in enumerate(lines)]
    return _second_step(query, lines, weights)


def _second_step(query: str, lines: list[Line], weights: dict[str, float]) -> list[Line]:
    """Raise the scores of sentences about something that the best sentence names and the question does not.

    "Where was the architect of X born?" is answered by a sentence that shares only "born" with the question.
    """
    first = max(lines, key=lambda line: line.score)
    covered = set(content(f"{first.title} {first.text}"))
    left = {word: weight for word, weight in weights.items() if word not in covered}
    asked, named = squeezed(query), squeezed(first.text)

    def raised(line: Line) -> float:
        title = plain_title(line.title)
        if not left or line.number == first.number or not title or title in asked or title not in named:
            return line.score
        return max(line.score, 0.6 * first.score + 0.6 * overlap(left, line.text) / sum(left.values()))

    return [replace(line, score=raised(line)) for line in lines]


def word_weights(query: str, knowledge: Sequence[ShownPassage]) -> dict[str, float]:
    """Weights of the query's content words, higher for words that are rare in the passages; they sum to 1."""
    counts = Counter(word for passage in knowledge for word in set(content(f"{passage.title} {passage.text}")))
    raw = {word: 1 + math.log((len(knowledge) + 1) / (counts[word] + 0.5)) for word in dict.fromkeys(content(query))}
    total = sum(raw.values())
    return {word: weight / total for word, weight in raw.items()}


def overlap(weights: dict[str, float], text: str) -> float:
    """The total weight of the query's words in the text, 0 to 1."""
    present = set(content(text))
    return sum(weight for word, weight in weights.items() if word in present)


def rank_passages(query: str, knowledge: Sequence[ShownPassage], embed: Embed) -> list[tuple[ShownPassage, float]]:
    """The passages, best first, with scores of about 0 (unrelated) to 2.

    A passage scores by its best sentence, the query words in it, and whether query or best passage name its title.
    """
    lines = read_lines(query, knowledge, embed)
    weights = word_weights(query, knowledge)
    own: dict[int, float] = {}
    for passage in knowledge:
        best = max((line.score for line in lines if line.number == passage.number), default=0.0)
        score = 0.75 * best + 0.4 * overlap(weights, f"{passage.title} {passage.text}")
        own[passage.number] = score + 0.15 * _names(query, passage)
    first = max(knowledge, key=lambda passage: own[passage.number], default=None)
    ranked = [
        (passage, own[passage.number] + 0.2 * (passage is not first and _names(first.text if first else "", passage)))
        for passage in knowledge
    ]
    return sorted(ranked, key=lambda scored: (-scored[1], scored[0].number))


def _names(text: str, passage: ShownPassage) -> bool:
    title = plain_title(passage.title)
    return bool(title) and title in squeezed(text)


_FILE = re.compile(
    r"[^\n:]*\.(?:pdf|docx|xlsx|pptx|html?|xhtml|md|markdown|txt)(?:\.gz)?(?:, (?:p\.|slide) \d+|: .*)?", re.IGNORECASE
)


def names_file(title: str) -> bool:
    """Whether a title names a file, as those of documents do: ``birds/kestrel.pdf, p. 3``, ``notes.md: Nests``."""
    return bool(_FILE.fullmatch(title))


def plain_title(title: str) -> str:
    """The title without parentheses, squeezed; empty if at most one character is left."""
    plain = squeezed(re.sub(r"\(.*?\)", "", title))
    return plain if len(plain) > 3 else ""


def squeezed(text: str) -> str:
    """The normal form between spaces, so that ``in`` matches whole words."""
    return f" {normal(text)} "


_DIMENSION = 4096
_PART = 0.3
"""Weight of a group of letters, next to 1 for a whole word: forms of one word share most of their letters."""


class WordVectors:
    """Unit vectors without a model: their products are high for texts that share words, or parts of words."""

    name = "words"
    revision = "1"

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, shape (n, d), float32."""
        import numpy as np

        found = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for row, text in zip(found, texts, strict=True):
            for (part, weight), times in Counter(_parts(text)).items():
                row[crc32(part.encode()) % _DIMENSION] += weight * times**0.5
            row /= np.linalg.norm(row) or 1.0
        return found


def _parts(text: str) -> Iterator[tuple[str, float]]:
    for word in content(text):
        yield word, 1.0
        edged = f"^{word}$"
        for start in range(len(edged) - 3):
            yield edged[start : start + 4], _PART
