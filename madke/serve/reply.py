"""The final text of an answer: the answer, its citations, and the client's limits on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from openai.types import CompletionUsage
from openai.types.chat.chat_completion_message import Annotation, AnnotationURLCitation
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails

from madke.core.chat import Usage
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript, Turn
from madke.serve.wire import ChatBody

CHARACTERS_PER_TOKEN = 4
"""The estimate by which ``max_tokens`` bounds the final text; see :func:`madke.llm.prices.estimated_usage`."""


@dataclass(frozen=True, kw_only=True)
class FinalText:
    """The text that a client gets as the answer."""

    text: str
    finish_reason: Literal["stop", "length"]
    annotations: list[Annotation]


def final_text(
    transcript: Transcript, pool: KnowledgePool, body: ChatBody, address: str, *, marks: bool = True
) -> FinalText:
    """The answer with its citations.

    Args:
        transcript: An abstained debate gives the text in which no answer could be read.
        pool: The passages that may be cited.
        body: Its limit and stop strings bound the text.
        address: Of the transcript, for passages without an address.
        marks: Whether the text ends with ``[1][2]...``, one for each citation.
    """
    answer = transcript.answer or transcript.final.text or "The debate ended without an answer."
    text, finish_reason = bounded(answer, body)
    if transcript.answer is None or text != answer:
        return FinalText(text=text, finish_reason=finish_reason, annotations=[])
    annotations = []
    for number, (title, url) in enumerate(citations(transcript, pool, address), start=1):
        start, mark = len(text), f"{'' if number > 1 else ' '}[{number}]"
        if marks:
            text += mark
        span = (start, len(text)) if marks else (0, len(text))
        citation = AnnotationURLCitation(start_index=span[0], end_index=span[1], title=title, url=url)
        annotations.append(Annotation(type="url_citation", url_citation=citation))
    return FinalText(text=text, finish_reason=finish_reason, annotations=annotations)


def bounded(text: str, body: ChatBody) -> tuple[str, Literal["stop", "length"]]:
    """The text up to the first stop string, and at most as long as the limit."""
    ends = [at for stop in body.stops if (at := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    if body.limit is not None and len(text) > body.limit * CHARACTERS_PER_TOKEN:
        return text[: body.limit * CHARACTERS_PER_TOKEN], "length"
    return text, "stop"


def tokens(usage: Usage) -> CompletionUsage:
    """Usage in OpenAI's form."""
    return CompletionUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_tokens),
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )


def citations(transcript: Transcript, pool: KnowledgePool, address: str) -> Iterator[tuple[str, str]]:
    """Title and address of the passages that the answer rests on."""
    entries = {entry.n: entry for entry in transcript.pool}
    passages = dict(enumerate(pool.passages))
    for n in cited(transcript):
        passage, entry = passages.get(n), entries[n]
        url = passage.url if passage is not None else None
        if url is None and entry.key.startswith(("https://", "http://")):
            url = entry.key
        yield entry.title or f"{entry.source} {entry.key}", url or f"{address}#{n}"


def cited(transcript: Transcript) -> Sequence[int]:
    """Pool numbers that debaters chose in the last round: those who gave the final answer, else all of them."""
    turns = transcript.rounds[-1].turns if transcript.rounds else ()
    right = [turn for turn in turns if turn.stance.answer is not None and turn.stance.answer == transcript.answer]
    known = {entry.n for entry in transcript.pool}
    return sorted({n for turn in right or turns for n in _chosen(turn)} & known)


def _chosen(turn: Turn) -> Iterator[int]:
    yield from turn.selection.ids if turn.selection else ()
    yield from turn.search.ids if turn.search else ()
