"""The citations in a text, checked by code: whose they are, and whether the passage is about the sentence.

A number in square brackets after a sentence is a citation. One that fails a check is removed from the text.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from madke.core.transcript import CitationCheck
from madke.engine.parse import IDS, parse_citations
from madke.engine.quotes import normalised
from madke.tasks.base import Task
from madke.tasks.units import UNITS
from madke.tasks.words import SMALL_WORDS, stems, words

_MARKS = r"(?:\s*\[[\d,\s-]+\])+"
_SENTENCE = re.compile(
    rf"(?<=[.!?])(?:{_MARKS}[.]?)?\s+(?=[\"'(]*[A-Z\d\u00c0-\u00de\u0400-\u042f\u3040-\u9fff])|(?<=[\u3002\uff01\uff1f])(?:{_MARKS})?(?!\s*\[)|\n+"
)
# A run of spaces or stops is tried from its beginning only: a reply may have thousands of them.
_MARK = re.compile(rf"(?<![ \t])[ \t]*+\[\s*{IDS}\s*\]", re.IGNORECASE)
_END = re.compile("(?<![.!?\u3002\uff01\uff1f\\s])[.!?\u3002\uff01\uff1f\\s]*+\\Z")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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


def is_prose(task: Task) -> bool:
    """Whether answers of the task are texts that no matcher compares."""
    return task.is_prose


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
    related = _relation(question)
    return "".join(
        _citing(each, [n for n in each.citations if n in passages and related(each.bare, passages[n])])
        for each in cited_sentences(text)
    )


def merged(text: str, question: str, stances: Sequence[str]) -> tuple[str, CitationCheck]:
    """A summary with no other citations than those of the stances that it merges.

    A citation is kept if a stance has it in a sentence about the same thing, and removed otherwise. A sentence that
    repeats one of a stance gets back the citations that it lost.
    """
    related = _relation(question)
    cited = [each for stance in stances for each in cited_sentences(stance) if each.citations]
    said = [(each.bare, normalised(each.bare), each.citations) for each in cited]
    parts, removed, restored = list[str](), list[int](), list[int]()
    for each in cited_sentences(text):
        bare = each.bare
        sources = {n for other, _, numbers in said if related(bare, other) for n in numbers}
        kept = [n for n in each.citations if n in sources]
        plain = normalised(bare)
        repeated = (n for _, other, numbers in said if other == plain for n in numbers)
        back = [n for n in dict.fromkeys(repeated) if n not in kept]
        parts.append(_citing(each, [*kept, *back]))
        removed += [n for n in each.citations if n not in sources]
        restored += back
    found = "".join(parts)
    left = citations_in(found)
    lost = (n for other in cited for n in other.citations if n not in left)
    return found, CitationCheck(removed=_once(removed), restored=_once(restored), lost=_once(lost))


def _once(numbers: Iterator[int] | Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))


def _citing(sentence: Sentence, numbers: Sequence[int]) -> str:
    """The sentence with these citations; as it is if they are its own."""
    if tuple(numbers) == sentence.citations:
        return sentence.text
    text = _MARK.sub("", sentence.text)
    end = _END.search(text)
    at = end.start() if end else len(text)
    return text[:at] + "".join(f" [{n}]" for n in numbers) + text[at:]


def _relation(question: str) -> Callable[[str, str], bool]:
    """Whether a sentence shares a word with another text that is not a small word, a unit, or in the question.

    A sentence without such words passes. In Chinese, Japanese and Korean, characters stand for words.
    """
    content = cache(_content)  # each sentence is compared with many
    asked = content(question)

    def related(sentence: str, other: str) -> bool:
        mine = content(sentence) - asked
        return not mine or not mine.isdisjoint(content(other))

    return related


def _content(text: str) -> frozenset[str]:
    text = normalised(text)
    keys = {key for word in words(text) if len(key := word.key) > 1 or key.isdigit()} - _EMPTY
    return frozenset(_CJK.findall(text)) | keys | {stem for key in keys for stem in stems(key)}
