"""Quotes and citations in a reply, checked against the passages. No model decides: texts are compared.

Compared are characters after NFKC, without case, invisible characters, kinds of quotation marks and dashes, line-break
hyphens and runs of white space. White space between Chinese, Japanese and Korean characters does not count.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from madke.core.transcript import CitationCheck, QuoteStatus
from madke.engine.parse.answer import IDS, parse_citations
from madke.tasks.words import SMALL_WORDS, UNITS, stems, vocabulary, words

MIN_QUOTE = 12
"""Characters, after normalisation, of the shortest quote that is looked up."""
_MAX_QUOTE = 4_000
_MIN_SIMILARITY = 0.75
"""Similarity of two spellings of one word."""
_MAX_PARTS = 4
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u3000-\u303f\uff00-\uffef"
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_MARKS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032`\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u300c\u300d", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\s*(?=[^\W\d_])")
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:\.{2,}|\u2026)\s*\]|\(\s*(?:\.{2,}|\u2026)\s*\)|\.{3,}|\u2026)\s*")
_AROUND = " \t\n\"'.,;:!?-([)]"
_WORD = re.compile(rf"[{_CJK}]|[^\W_](?:[^\W_]|'(?=[^\W_]))*")
_EDGE = rf"(?:(?<![^\W_])|(?![^\W_])|(?<=[{_CJK}])|(?=[{_CJK}]))"
"""Where a word may begin or end; Chinese, Japanese and Korean characters are words."""
# Letters of other scripts that look like Latin ones.
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131",
    "abekmhopctyxijsdqwaeikvoptuxi",
)
_SMALL = vocabulary("a an the of in on at to by for from with as and is are was were that which it its")
"""Words that an approximate quote may leave out or add."""


class LookedUp(NamedTuple):
    """What looking a quote up gave."""

    status: QuoteStatus
    found_in: tuple[int, ...] = ()


def look_up(quote: str, passage: int | None, texts: Mapping[int, str]) -> LookedUp:
    """Look a quote up in numbered passages. ``passage``: the number that the stance names; None if it names none."""
    parts = [
        part for part in (normalize_quote(part).strip(_AROUND) for part in _ELLIPSIS.split(quote[:_MAX_QUOTE])) if part
    ]
    quote_text = " ".join(parts)
    if len(quote_text) < MIN_QUOTE:
        return LookedUp("too_short")
    named = [passage] if passage is not None and passage in texts else []
    others = [n for n in texts if n not in named]
    ways: tuple[tuple[QuoteStatus, Callable[[str, str], bool]], ...] = (("found", _has), ("approximate", _nearly_has))
    for status, has in ways if len(parts) == 1 else ():
        # A quote that names no passage cannot be misattributed.
        elsewhere: QuoteStatus = status if passage is None else "misattributed"
        for numbers, means in ((named, status), (others, elsewhere)):
            if matches := tuple(n for n in numbers if has(normalize_quote(texts[n]), quote_text)):
                return LookedUp(means, matches)
    pieces = _pieces(parts, [*named, *others], texts)
    return LookedUp("stitched", pieces) if pieces else LookedUp("not_found")


@lru_cache(maxsize=4096)
def normalize_quote(text: str) -> str:
    """The text in the form in which quotes are compared."""
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_MARKS)
    text = unicodedata.normalize("NFKC", text.casefold())
    return _CJK_SPACE.sub("", " ".join(_HYPHEN.sub("", text).split()))


def _has(text: str, part: str) -> bool:
    return part in text and re.search(_EDGE + re.escape(part) + _EDGE, text) is not None


def _nearly_has(text: str, quote: str) -> bool:
    """Whether the text has the words of the quote in other spellings.

    Small words may be missing or added, but are no others: not "to" for "from". No number may differ.
    """
    (own, own_gaps), (there, gaps) = _large_words(quote), _large_words(text)
    size, most = len(own), max(1, len(own) // 4)

    def is_near(at: int) -> bool:
        near = there[at : at + size]
        # Equal words first: two spellings take long to compare, and these are texts of anybody.
        is_spelled = sum(map(str.__ne__, own, near)) <= most and all(map(_one_word, own, near))
        return is_spelled and all(map(_fits, own_gaps[1:], gaps[at + 1 : at + size]))

    return size > 1 and any(map(is_near, range(len(there) - size + 1)))


@lru_cache(maxsize=256)
def _large_words(text: str) -> tuple[list[str], list[list[str]]]:
    """The large words, without accents and with Latin letters for look-alikes; and the small ones before each."""
    plain = unicodedata.normalize("NFD", text.translate(_LOOK_ALIKES))
    plain = unicodedata.normalize("NFC", "".join(c for c in plain if not unicodedata.combining(c)))
    large, gaps = list[str](), [list[str]()]
    for word in _WORD.findall(plain):
        if word in _SMALL:
            gaps[-1].append(word)
        else:
            large.append(word)
            gaps.append([])
    return large, gaps


def _fits(small: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the small words between two large ones are the same, articles apart, or some are missing."""
    same = (one == other or {one, other} <= {"a", "an", "the"} for one, other in zip(small, others, strict=False))
    return len(small) != len(others) or all(same)


def _one_word(one: str, other: str) -> bool:
    """Whether two words are spellings of one: a slip of the pen, not another number or name."""
    if one == other:
        return True
    if one[0] != other[0] or any(c.isdigit() for c in one + other) or min(len(one), len(other)) < 4:
        return False
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _MIN_SIMILARITY


def _pieces(parts: Sequence[str], numbers: Sequence[int], texts: Mapping[int, str]) -> tuple[int, ...]:
    """The passages that have the parts of a quote, or its two halves; empty if a part is in none."""
    ways: list[Sequence[str]] = [parts] if 1 < len(parts) <= _MAX_PARTS else []
    if len(parts) == 1:
        ends = [word.end() for word in _WORD.finditer(parts[0])]
        halves = ((parts[0][:end], parts[0][end:].strip(_AROUND)) for end in ends)
        ways += [each for each in halves if min(map(len, each)) >= MIN_QUOTE]
    for way in ways:
        places = [next((n for n in numbers if _has(normalize_quote(texts[n]), part)), None) for part in way]
        if None not in places:
            return tuple(n for n in dict.fromkeys(places) if n is not None)
    return ()


# Citations: a number in square brackets after a sentence. One that fails a check is removed from the text.

_CITATIONS = r"(?:\s*\[[\d,\s-]+\])+"
_SENTENCE = re.compile(
    rf"(?<=[.!?])(?:{_CITATIONS}[.]?)?\s+(?=[\"'(]*[A-Z\d\u00c0-\u00de\u0400-\u042f\u3040-\u9fff])|(?<=[\u3002\uff01\uff1f])(?:{_CITATIONS})?(?!\s*\[)|\n+"
)
# A run of spaces or stops is tried from its beginning only: a reply may have thousands of them.
_MARK = re.compile(rf"(?<![ \t])[ \t]*+\[\s*{IDS}\s*\]", re.IGNORECASE)
_END = re.compile("(?<![.!?\u3002\uff01\uff1f\\s])[.!?\u3002\uff01\uff1f\\s]*+\\Z")
_CJK_CHARACTER = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_EMPTY = SMALL_WORDS | {*UNITS.values()}
"""Words that do not tell what a sentence is about."""
_ANY = range(10_000)
"""Numbers that may be citations."""


class Sentence(NamedTuple):
    """A sentence of a text."""

    text: str
    """With its citations and the white space after it: the sentences of a text, joined, are the text."""
    citations: tuple[int, ...]
    """Numbers as written, whether or not a passage has them."""

    @property
    def bare(self) -> str:
        """Without its citations."""
        return _MARK.sub("", self.text).strip()


def cited_sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a text, each with the citations that follow it."""
    start = 0
    for end in [*(match.end() for match in _SENTENCE.finditer(text)), len(text)]:
        if text[start:end]:
            yield Sentence(text[start:end], parse_citations(text[start:end], _ANY))
        start = end


def citations_in(text: str) -> tuple[int, ...]:
    """The numbers that a text cites, each once."""
    return tuple(dict.fromkeys(n for sentence in cited_sentences(text) for n in sentence.citations))


def looked_up(text: str, question: str, passages: Mapping[int, str]) -> str:
    """The text without citations of passages that the writer was not shown, or that are not about the sentence."""
    return "".join(
        _citing(each, [n for n in each.citations if n in passages and _is_related(each.bare, passages[n], question)])
        for each in cited_sentences(text)
    )


def merge_citations(text: str, question: str, stances: Sequence[str]) -> tuple[str, CitationCheck]:
    """A summary with no other citations than those of the stances that it merges."""
    cited = [each for stance in stances for each in cited_sentences(stance) if each.citations]
    sentences = [(each.bare, normalize_quote(each.bare), each.citations) for each in cited]
    parts, removed, restored = list[str](), list[int](), list[int]()
    for each in cited_sentences(text):
        bare = each.bare
        sources = {n for other, _, numbers in sentences if _is_related(bare, other, question) for n in numbers}
        kept = [n for n in each.citations if n in sources]
        plain = normalize_quote(bare)
        repeated = (n for _, other, numbers in sentences if other == plain for n in numbers)
        back = [n for n in dict.fromkeys(repeated) if n not in kept]
        parts.append(_citing(each, [*kept, *back]))
        removed += [n for n in each.citations if n not in sources]
        restored += back
    result = "".join(parts)
    lost = {n for other in cited for n in other.citations} - {*citations_in(result)}
    once = [tuple(sorted({*numbers})) for numbers in (removed, restored, lost)]
    return result, CitationCheck(removed=once[0], restored=once[1], lost=once[2])


def _citing(sentence: Sentence, numbers: Sequence[int]) -> str:
    """The sentence with these citations; as it is if they are its own."""
    if tuple(numbers) == sentence.citations:
        return sentence.text
    text = _MARK.sub("", sentence.text)
    end = _END.search(text)
    at = end.start() if end else len(text)
    return text[:at] + "".join(f" [{n}]" for n in numbers) + text[at:]


def _is_related(sentence: str, other: str, question: str) -> bool:
    """Whether a sentence shares a word with another text that is not small, a unit or in the question; or has none."""
    mine = _content(sentence) - _content(question)
    return not mine or not mine.isdisjoint(_content(other))


@lru_cache(maxsize=1024)
def _content(text: str) -> frozenset[str]:
    text = normalize_quote(text)
    keys = {key for word in words(text) if len(key := word.key) > 1 or key.isdigit()} - _EMPTY
    return frozenset(_CJK_CHARACTER.findall(text)) | keys | {stem for key in keys for stem in stems(key)}
