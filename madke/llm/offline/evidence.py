"""Which sentences and passages help with a question: nearness of meaning, and shared words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from madke.llm.offline.language import content, normal, sentences
from madke.llm.offline.prompt_reader import Knowledge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]
    """Texts in, unit vectors out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One sentence of a passage, and how near it is to what was asked."""

    number: int
    title: str
    text: str
    score: float


def stated(line: Line | None) -> str:
    """A sentence with the title that its pronouns need."""
    return f"{line.title}: {line.text}" if line else ""


def read_lines(query: str, knowledge: Sequence[Knowledge], embed: Embed) -> list[Line]:
    """All sentences of the passages, scored for the query: cosine similarity plus weighted overlap of words."""
    split = [(passage, sentence) for passage in knowledge for sentence in sentences(passage.text)]
    if not split:
        return []
    vectors = embed([query, *(f"{passage.title}: {sentence}" for passage, sentence in split)])
    weights = word_weights(query, knowledge)
    lines = []
    for (passage, sentence), near in zip(split, (vectors[1:] @ vectors[0]).tolist(), strict=True):
        score = near + 0.6 * overlap(weights, f"{passage.title} {sentence}")
        lines.append(Line(number=passage.number, title=passage.title, text=sentence, score=score))
    return _second_step(query, lines, weights)


def _second_step(query: str, lines: list[Line], weights: dict[str, float]) -> list[Line]:
    """Raises the sentences about something that the best sentence names and the question does not.

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


def word_weights(query: str, knowledge: Sequence[Knowledge]) -> dict[str, float]:
    """The query's content words, the rarer in the passages the heavier; weights sum to 1."""
    counts = Counter(word for passage in knowledge for word in set(content(f"{passage.title} {passage.text}")))
    raw = {word: 1 + math.log((len(knowledge) + 1) / (counts[word] + 0.5)) for word in dict.fromkeys(content(query))}
    total = sum(raw.values())
    return {word: weight / total for word, weight in raw.items()}


def overlap(weights: dict[str, float], text: str) -> float:
    """The weight of the query's words that the text holds, 0 to 1."""
    present = set(content(text))
    return sum(weight for word, weight in weights.items() if word in present)


def rank_passages(query: str, knowledge: Sequence[Knowledge], embed: Embed) -> list[tuple[Knowledge, float]]:
    """The passages, best first, with scores of about 0 (unrelated) to 2.

    A passage counts by its best sentence, by the words it covers, and by whether another good one mentions its title.
    """
    lines = read_lines(query, knowledge, embed)
    weights = word_weights(query, knowledge)
    own: dict[int, float] = {}
    for passage in knowledge:
        best = max((line.score for line in lines if line.number == passage.number), default=0.0)
        own[passage.number] = 0.75 * best + 0.4 * overlap(weights, f"{passage.title} {passage.text}")
        own[passage.number] += 0.15 * _names(query, passage)
    first = max(knowledge, key=lambda passage: own[passage.number], default=None)
    ranked = [
        (passage, own[passage.number] + 0.2 * (passage is not first and _names(first.text if first else "", passage)))
        for passage in knowledge
    ]
    return sorted(ranked, key=lambda scored: (-scored[1], scored[0].number))


def _names(text: str, passage: Knowledge) -> bool:
    title = plain_title(passage.title)
    return bool(title) and title in squeezed(text)


def plain_title(title: str) -> str:
    """A title without what stands in parentheses, squeezed; empty where too little is left to look for."""
    plain = squeezed(re.sub(r"\(.*?\)", "", title))
    return plain if len(plain) > 3 else ""


def squeezed(text: str) -> str:
    """The normal form between spaces, so that ``in`` finds whole words."""
    return f" {normal(text)} "
