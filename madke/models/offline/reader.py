"""What the offline model reads: the kind of a question, the sentences that are close to it, and candidate answers.

The weights were set by hand, not fitted to a dataset.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from madke.tasks.base import with_letters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from madke.core.chat import ShownPassage, Stage

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]
    """Texts in, unit vectors out."""

_NO_CONTENT = """
a an the this that these those it its he his him she her hers they their them theirs we our us you your i my me is are
was were be been being am do does did done has have had having can could will would shall should may might must and or
but nor so if then than as at by for from in into of off on onto out over to up with within without about after before
between during through under until upon against among also not no yes only very more most such same both each other
another any some all who whom whose which what when where why how there here while although though however since s t
"""
_STOPWORDS = frozenset(_NO_CONTENT.split())
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety
"""
_NUMBER_WORDS = {word: n if n <= 20 else 10 * (n - 18) for n, word in enumerate(_NUMBERS.split())}
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_SUFFIX = re.compile(r"(?:ies|ied|ing|edly|ed|es|s|er|or|ly|ion|ions|al|e)$")
_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))(?<!\b[A-Z]\.)(?<!\bMr\.|\bDr\.|\bSt\.|\bNo\.|\bvs\.)"  # noqa: RUF001
    r"\s+(?=[\"'“‘(]*[A-Z0-9À-Þ])"  # noqa: RUF001
)
_FILE = re.compile(
    r"[^\n:]*\.(?:pdf|docx|xlsx|pptx|html?|xhtml|md|markdown|txt)(?:\.gz)?(?:, (?:p\.|slide) \d+|: .*)?", re.IGNORECASE
)


def tidy(text: str) -> str:
    """The text without a tokenizer's spaces around punctuation."""
    text = re.sub(r"\s+", " ", text.replace("``", '"').replace("''", '"').replace("-LRB-", "(").replace("-RRB-", ")"))
    text = re.sub(r"(\d) ?, ?(?=\d{3}\b)", r"\1,", text)
    return re.sub(r" (?=[,.;:!?)\]%](?:\s|$))| (?='s\b)|(?<=[(\[$£€]) ", "", text).strip()


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """A rough stem, equal for most inflections of a word."""
    if word in _NUMBER_WORDS:
        return str(_NUMBER_WORDS[word])
    if word[0].isdigit():
        return word.replace(",", "")
    if len(word) == 4 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    while len(word) > 4 and len(shorter := _SUFFIX.sub("", word)) > 2 and shorter != word:
        word = shorter
    return word


def content(text: str) -> list[str]:
    """Stems of the words, without stopwords."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _STOPWORDS]


def normal(text: str) -> str:
    """Normal form for comparing answers: lower case, no punctuation or articles, number words as digits."""
    bare = re.sub(r"[^\w\s]|_", "", text.lower())
    plain = re.sub(r"\b(?:a|an|the)\b", " ", bare)
    words = plain.split() or bare.split()  # "a" alone is the letter of an option
    return " ".join(str(_NUMBER_WORDS.get(word, word)) for word in words)


def roughly_same(left: str, right: str) -> bool:
    """Whether two answers match: equal in normal form, or one contains the other in whole words."""
    short, long = sorted((normal(left).split(), normal(right).split()), key=len)
    parts = (long[i : i + len(short)] for i in range(len(long)))
    return bool(short) and (short == long or (len(short) * 2 >= len(long) and short in parts))


def names_file(title: str) -> bool:
    """Whether a title names a file, as those of documents do: ``birds/kestrel.pdf, p. 3``, ``notes.md: Nests``."""
    return bool(_FILE.fullmatch(title))


def _padded(text: str) -> str:
    """The normal form between spaces, so that ``in`` matches whole words."""
    return f" {normal(text)} "


def _plain_title(title: str) -> str:
    """The title without parentheses, in normal form between spaces; empty if at most one character is left."""
    plain = _padded(re.sub(r"\(.*?\)", "", title))
    return plain if len(plain) > 3 else ""


class Query(NamedTuple):
    """An analysed question."""

    text: str
    kind: str
    """``person place date year number name thing``, or ``yes_no`` and ``either``."""
    focus: str = ""
    """Words that name the kind of answer: "government position", "episodes"."""
    wh: tuple[int, int] = (0, 0)
    """Span of the question word; replacing it by a candidate turns the question into a statement."""
    either: tuple[str, ...] = ()
    """The two things of a comparison, as written in the question."""

    def hypothesis(self, candidate: str) -> str:
        """The question as a statement with ``candidate`` as its answer."""
        start, end = self.wh if self.wh[1] else (len(self.text), len(self.text))
        return " ".join(f"{self.text[:start].rstrip(' ?')} {candidate} {self.text[end:].rstrip(' ?')}".split())


_AUXILIARY = r"is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might"
_YES_NO = re.compile(rf"^(?:{_AUXILIARY})\b(?!.*,? \bor\b)", re.IGNORECASE)
_HEAD_ENDS = re.compile(rf"\b(?:{_AUXILIARY}|in|of|on|at|from|to|for|that|who|which|during|with)\b|[,?]", re.IGNORECASE)
_HOW = r"how\s+(?:many|much|long|tall|high|far|old|deep|big|large|wide|fast|heavy|often|hot|cold)"
_WH = re.compile(rf"\b(?:{_HOW}|when|where|whom?|whose|what|which)\b(?:'s)?", re.IGNORECASE)
_KIND_OF = {
    word: kind
    for kind, words in {
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
    }.items()
    for word in words.split()
}
_CAPITALS = r"[A-Z][\w.'-]*(?: (?:of |the |de |and )*[A-Z0-9][\w.'-]*)*"
_EITHER = re.compile(rf"({_CAPITALS})\"?,? or (?:the |a |an )?\"?({_CAPITALS})")
_BEFORE_NAME = re.compile(r"^(?:The|A|An|Is|Are|Was|Were|Did|Does|Do|Which|What|Who)\s+")


def analyse(question: str) -> Query:
    """Find the kind of answer that a question asks for."""
    text = " ".join(question.split())
    if either := _EITHER.search(text):
        return Query(text, "either", either=tuple(_BEFORE_NAME.sub("", name) for name in either.groups()))
    if _YES_NO.match(text):
        return Query(text, "yes_no")
    matches = list(_WH.finditer(text))
    if not matches:
        return Query(text, "thing")
    # A later word may begin a relative clause, but for "how" and "what".
    asking = next((each for each in reversed(matches) if each.group().lower().startswith(("how", "what"))), matches[0])
    word, after, wh = asking.group().lower(), text[asking.end() :], asking.span()
    if word.startswith("how"):
        return Query(text, "number", _head(after) or "a number", wh)
    if plain := {"who": "person", "where": "place", "when": "date"}.get(re.sub(r"m?(?:'s)?$", "", word)):
        return Query(text, plain, f"a {plain}", wh)
    focus = _head(after)
    for each in reversed(_WORD.findall(focus.lower())):
        if kind := _KIND_OF.get(each) or _KIND_OF.get(each.rstrip("s")):
            return Query(text, kind, focus, wh)
        if each.rstrip("s").endswith(("ist", "ician", "grapher", "sopher", "nomer")):
            return Query(text, "person", focus, wh)
    return Query(text, "thing", focus, wh)


def _head(after: str) -> str:
    """The noun phrase after a question word, up to the verb: "government position" in "... position was held by"."""
    return " ".join(_HEAD_ENDS.split(after, maxsplit=1)[0].split()[:5])


_COMPARED, _UNRELATED = 12, 0.25
"""Sentences that are compared with the query by their vectors, and the similarity that is assumed of the others."""


def stated(line: Line | None) -> str:
    """The sentence after its passage's title, which its pronouns refer to."""
    return f"{line.title}: {line.text}" if line else ""


class Line(NamedTuple):
    """One sentence of a passage, with its relevance to the question."""

    number: int
    title: str
    text: str
    score: float


def _overlap(query: str, text: str) -> float:
    """The share of the query's content words that are in the text."""
    words = set(content(query))
    return len(words & set(content(text))) / max(1, len(words))


def read_lines(query: str, passages: Sequence[ShownPassage], embed: Embed) -> list[Line]:
    """All sentences of the passages, best first, by cosine similarity with the query plus weighted word overlap.

    Vectors are slow: only the sentences that share most words with the query get one, the others an average similarity.
    """
    lines = [
        Line(each.number, each.title, text, 0.6 * _overlap(query, f"{each.title} {text}"))
        for each in passages
        for text in _SENTENCE_END.split(each.text)
        if text
    ]
    lines.sort(key=lambda line: -line.score)
    vectors = embed([query, *(stated(line) for line in lines[:_COMPARED])])
    near = [*(vectors[1:] @ vectors[0]).tolist(), *[_UNRELATED] * len(lines)]
    scored = [line._replace(score=line.score + each) for line, each in zip(lines, near, strict=False)]
    return sorted(scored, key=lambda line: -line.score)


def rank_passages(query: str, passages: Sequence[ShownPassage], embed: Embed) -> list[tuple[ShownPassage, float]]:
    """The passages, best first, with scores of about 0 (unrelated) to 2.

    A passage scores by its best sentence, the query words in it, and whether query or best passage name its title.
    """
    lines = read_lines(query, passages, embed)

    def named(text: str, passage: ShownPassage) -> bool:
        return bool(title := _plain_title(passage.title)) and title in _padded(text)

    own: dict[int, float] = {}
    for each in passages:
        best = max((line.score for line in lines if line.number == each.number), default=0.0)
        own[each.number] = 0.75 * best + 0.4 * _overlap(query, f"{each.title} {each.text}")
        own[each.number] += 0.15 * named(query, each)
    first = max(passages, key=lambda each: own[each.number], default=None)
    for each in passages:
        own[each.number] += 0.2 * (first is not None and each != first and named(first.text, each))
    return sorted(((each, own[each.number]) for each in passages), key=lambda scored: (-scored[1], scored[0].number))


class WordVectors:
    """Unit vectors without a model: their products are high for texts that share words, or parts of words."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, shape (n, d), float32."""
        import numpy as np

        vectors = np.zeros((len(texts), 4096), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            words = content(text)
            edged = [f"^{word}$" for word in words]
            parts = [word[start : start + 4] for word in edged for start in range(len(word) - 3)]
            # Forms of one word share most of their groups of letters.
            for counts, weight in ((Counter(words), 1.0), (Counter(parts), 0.3)):
                for part, times in counts.items():
                    row[crc32(part.encode()) % len(row)] += weight * times**0.5
            row /= np.linalg.norm(row) or 1.0
        return vectors


class Span(NamedTuple):
    """A span of a sentence that could be an answer; ``kind`` is ``name date year number quoted phrase``."""

    text: str
    kind: str
    start: int
    end: int


_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    rf"\b{_MONTH} {_DAY}(?:, \d{{4}})?\b|\b{_DAY} {_MONTH}(?:,? \d{{4}})?\b|\b{_MONTH},? \d{{4}}\b"
    r"|\b(?:early |late |mid-)?\d{3,4}s\b|\b\d{1,2}(?:st|nd|rd|th)[ -]century(?: BC)?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b"
)
_WORD_NUMBER = "|".join(sorted((word for word in _NUMBER_WORDS if word != "zero"), key=len, reverse=True))
_NUMBER = (
    r"(?:[$£€]?(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?: (?:million|billion|trillion|thousand|hundred))?"
    rf"(?:%| percent)?(?![\w-])|\b(?:{_WORD_NUMBER})(?:[- ](?:{_WORD_NUMBER}|hundred|thousand|million|billion))*\b)"
)
_FORMS = (
    ("date", re.compile(_DATE)),
    ("year", re.compile(r"\b(?:1[0-9]|20)\d{2}\b(?!,\d)|(?<=\b[Ii]n )[1-9]\d{2}\b(?![ ,][a-z\d])")),
    ("quoted", re.compile(r"[\"“]([^\"“”]{2,60}?)[,.]?[\"”]")),
    ("number", re.compile(_NUMBER, re.IGNORECASE)),
    ("number", re.compile(rf"{_NUMBER} (?:square |cubic )?[^\W\d_]+", re.IGNORECASE)),
)
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&/-]+[^\W_]+)*\.?|\S")  # noqa: RUF001
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W_]*(?:[.'’&/-]+[^\W_]+)*\.?"  # noqa: RUF001
_CONNECTED = r" (?:(?:of|the|de|la|le|del|da|di|du|van|von|der|den|and|&|al|el|bin) ){0,2}"
_NAME = re.compile(rf"\b{_CAPITAL}(?:{_CONNECTED}{_CAPITAL}| \d{{1,3}}\b)*")
_NO_NAME = re.compile(rf"(?!April|May|June){_MONTH}|(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day")


def _spans(sentence: str) -> list[Span]:
    """All spans of the sentence that could be an answer, each once."""
    shaped = []
    for kind, form in _FORMS:
        for match in form.finditer(sentence):
            group = match.lastindex or 0
            if kind != "number" or match.group().lower().split()[-1] not in _STOPWORDS:
                shaped.append(Span(match.group(group), kind, *match.span(group)))
    spans: dict[tuple[int, int], Span] = {}
    for span in (*shaped, *_names(sentence), *_phrases(sentence)):
        spans.setdefault((span.start, span.end), span)
    return [*spans.values()]


def _names(sentence: str) -> Iterator[Span]:
    for match in _NAME.finditer(sentence):
        if _NO_NAME.fullmatch(match.group().rstrip(".")) or match.group().lower() in _STOPWORDS:
            continue
        start, end = match.span()
        yield _span_of(sentence, start, end, "name")
        first, space, _ = match.group().partition(" ")
        if space and first.lower() in _STOPWORDS:
            yield _span_of(sentence, start + len(first) + 1, end, "name")


def _phrases(sentence: str) -> Iterator[Span]:
    """Runs of one to five content words, and their ends: "gas giant", "giant"."""
    run: list[re.Match[str]] = []
    for token in [*_TOKEN.finditer(sentence), None]:
        word = token.group().lower().rstrip(".") if token else ""
        if token and word[:1].isalnum() and word not in _STOPWORDS:
            run.append(token)
            if not token.group().endswith("."):
                continue
        if len(run) <= 5:
            for first in {0, *range(max(0, len(run) - 3), len(run))} if run else ():
                yield _span_of(sentence, run[first].start(), run[-1].end(), "phrase")
        run = []


def _span_of(sentence: str, start: int, end: int, kind: str) -> Span:
    text = sentence[start:end]
    ends_in_dot = re.search(r"\b[^\W\d_]\.$|\b(?:Jr|Sr|Inc|Co|Ltd)\.$", text)
    trimmed = re.sub(r"['’]s$", "", text if ends_in_dot else text.rstrip("."))  # noqa: RUF001
    return Span(trimmed, kind, start, start + len(trimmed))


class Candidate(NamedTuple):
    """A possible answer with its supporting sentence."""

    answer: str
    score: float
    line: Line | None = None


_LINES, _CLOZED = 8, 5
"""Number of sentences that provide candidates; number of best candidates tested as a statement of the question."""
_FIT = {
    "person": {"name": 1.0},
    "place": {"name": 0.8, "phrase": 0.0},
    "date": {"date": 1.0, "year": 0.8},
    "year": {"year": 1.0, "date": 0.2},
    "number": {"number": 1.0, "year": -0.2},
    "name": {"name": 0.8, "quoted": 0.9, "phrase": 0.0},
    "thing": {"name": 0.3, "quoted": 0.3, "phrase": 0.3, "date": -0.1, "number": -0.1},
}
"""How well the form of a span fits the kind of answer, -1 to 1; pairs that are not listed fit badly."""
_CUES = {
    "person": re.compile(r"\b(?:by|actor|actress|singer|author|writer|president|director|was|son|daughter)\s+$", re.I),
    "place": re.compile(r"\b(?:in|at|near|from|to|into|on)\s+(?:the\s+)?$", re.IGNORECASE),
}
_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|without|neither|none|cannot|unlike|instead of|rather than|failed to)\b|n't\b", re.IGNORECASE
)
_SUPPORTED, _REFUTED = 0.6, 0.55
"""Minimum mean of coverage and similarity to support or refute a claim; lower for refuting, which swaps a word."""
_EARLY = re.compile(r"\b(?:first|earlier|earliest|older|oldest|elder|before|sooner)\b", re.IGNORECASE)
_LATE = re.compile(r"\b(?:later|latest|younger|youngest|newer|recent|recently|after|last)\b", re.IGNORECASE)


def ranked_answers(prompt: Stage, embed: Embed) -> list[Candidate]:
    """Candidate answers from the passages, best first; empty if there are none."""
    query = analyse(prompt.question.question)
    lines = read_lines(query.text, prompt.passages, embed)
    if prompt.form == "claim":
        candidates = _claim_labels(query.text, lines, embed)
    elif prompt.form == "choice":
        candidates = _option_letters(query, with_letters(prompt.question.choices), lines, embed)
    elif query.kind == "either":
        candidates = _one_of_two(query, lines)
    elif query.kind == "yes_no":
        candidates = _yes_or_no(query, lines)
    else:
        candidates = _answer_spans(query, lines[:_LINES], embed)
    return sorted(candidates, key=lambda candidate: -candidate.score)


def _answer_spans(query: Query, lines: Sequence[Line], embed: Embed) -> list[Candidate]:
    """Candidate answers from the best sentences; one entry per answer in normal form."""
    pairs = [(line, span) for line in lines for span in _spans(line.text) if normal(span.text)]
    # A file name or a heading is the place of a sentence; the title of an article is a thing that it is about.
    titles = [(line, re.sub(r"\s*\(.*?\)", "", line.title)) for line in lines if not names_file(line.title)]
    pairs += [(line, Span(title, "name", 0, 0)) for line, title in titles if normal(title)]
    counts = Counter(form for form, _ in {(normal(span.text), line.number) for line, span in pairs})
    best: dict[str, Candidate] = {}
    for line, span in pairs:
        form = normal(span.text)
        score = _form_score(query, line, span) + 0.15 * math.log(counts[form])
        if form not in best or score > best[form].score:
            best[form] = Candidate(span.text, score, line)
    ranked = sorted(best.values(), key=lambda candidate: -candidate.score)
    if not (tested := ranked[:_CLOZED]):
        return []
    vectors = embed([text for each in tested for text in (query.hypothesis(each.answer), stated(each.line))])
    near = (vectors[::2] * vectors[1::2]).sum(axis=1).tolist()
    raised = [each._replace(score=each.score + 1.2 * gain) for each, gain in zip(tested, near, strict=True)]
    return [*raised, *ranked[_CLOZED:]]


def _form_score(query: Query, line: Line, span: Span) -> float:
    """Score of a span as an answer: by its sentence and its form."""
    own = set(content(span.text))
    fit = _FIT[query.kind].get(span.kind, -0.6)
    if query.kind == "person" and fit > 0 and " " not in span.text:
        fit *= 0.6
    score = line.score + fit - 1.2 * len(own & ({*content(query.text)} - {*content(query.focus)})) / max(1, len(own))
    before, after = (line.text[: span.start], line.text[span.end :]) if span.end else ("", "")
    counted = query.kind == "number" and set(content(query.focus)) & set(content(after)[:2])
    if counted or (query.kind in _CUES and _CUES[query.kind].search(before)):
        score += 0.4
    if span.kind == "phrase":
        return score - 0.35
    if query.kind == "person" and " of " in span.text:
        return score - 0.25
    at_start = span.kind == "name" and span.start == 0 < span.end and " " not in span.text
    return score - 0.3 if at_start else score  # its capital may be that of the sentence


def _claim_labels(claim: str, lines: Sequence[Line], embed: Embed) -> list[Candidate]:
    """The scored labels. The nearest sentence supports the claim, or refutes it: other name or number, or negation."""
    if not lines:
        return [Candidate("NOT ENOUGH INFO", 0.0)]
    line = lines[0]
    vectors = embed([claim, stated(line)])
    known = 0.5 * (_overlap(claim, stated(line)) + float(vectors[0] @ vectors[1]))
    passage = " ".join(stated(other) for other in lines if other.number == line.number)
    forms = (("date", "year", "number"), ("name",))
    swapped = any(_things(claim, form, without=passage) and _things(line.text, form, without=claim) for form in forms)
    mismatch = swapped or bool(_NEGATION.search(claim)) != bool(_NEGATION.search(line.text))
    return [
        Candidate("SUPPORTS", -0.25 if mismatch else known - _SUPPORTED, line),
        Candidate("REFUTES", known - _REFUTED if mismatch else -0.25, line),
        Candidate("NOT ENOUGH INFO", 0.0, line),
    ]


def _things(text: str, kinds: Sequence[str], *, without: str) -> list[str]:
    """Last words of the numbers or names in ``text`` that ``without`` lacks."""
    spans = (content(span.text) for span in _spans(text) if span.kind in kinds)
    return [own[-1] for own in spans if own and own[-1] not in content(without)]


def _option_letters(
    query: Query, options: Sequence[tuple[str, str]], lines: Sequence[Line], embed: Embed
) -> list[Candidate]:
    """The scored letters of the options, by the best supporting sentence; without knowledge, by question similarity."""
    vectors = embed([query.text, *(query.hypothesis(text) for _, text in options), *(stated(line) for line in lines)])
    candidates = []
    for (letter, text), hypothesis in zip(options, vectors[1 : len(options) + 1], strict=True):
        words = set(content(text))
        words = words - set(content(query.text)) or words
        support: list[tuple[float, Line | None]] = [] if lines else [(float(hypothesis @ vectors[0]), None)]
        for line, near in zip(lines, (vectors[len(options) + 1 :] @ hypothesis).tolist(), strict=True):
            covered = len(words & set(content(stated(line)))) / max(1, len(words))
            support.append((near + 0.9 * covered * line.score, line))
        candidates.append(Candidate(letter, *max(support, key=lambda each: each[0])))
    return candidates


def _one_of_two(query: Query, lines: Sequence[Line]) -> list[Candidate]:
    """The two things of a comparison, scored by their years if it compares those, else by their sentences."""
    about, years = [], []
    words = {*content(query.text), "born"}
    for thing in query.either:
        name = _padded(thing)
        titled = [line for line in lines if name in _padded(line.title) or _padded(line.title) in name]
        named = [*titled, *(line for line in lines if line not in titled and name in _padded(line.text))]
        about.append(named)
        spans = [(line.text, span) for line in named for span in _spans(line.text) if span.kind == "year"]
        # The year closest to words of the question or to "born"; 0 if there is none.
        near = [len(words & set(content(text[max(0, span.start - 40) : span.end + 30]))) for text, span in spans]
        years.append(int(spans[near.index(max(near))][1].text) if spans else 0)
    early, late = bool(_EARLY.search(query.text)), bool(_LATE.search(query.text))
    ahead = float(years[1] - years[0]) * (early - late) if all(years) else 0.0
    return [
        Candidate(thing, gain + (side[0].score if side else 0.0), side[0] if side else None)
        for thing, side, gain in zip(query.either, about, (ahead, -ahead), strict=True)
    ]


def _yes_or_no(query: Query, lines: Sequence[Line]) -> list[Candidate]:
    """Yes; or no, if the question asks about both of two things and one has lines with at most half of its words."""
    things: dict[str, str] = {}
    for line in lines:
        if (title := _plain_title(line.title)) and title in _padded(query.text):
            things[title] = f"{things.get(title, '')} {stated(line)}"
    predicate = set(content(query.text)) - set(content(" ".join(things)))
    lacking = any(2 * len(predicate & set(content(text))) <= len(predicate) for text in things.values())
    doubt = 0.4 if len(things) > 1 and lacking and re.search(r"\bboth\b", query.text, re.IGNORECASE) else 0.0
    best = lines[0] if lines else None
    return [Candidate("yes", 0.4 - doubt, best), Candidate("no", 0.2, best)]
