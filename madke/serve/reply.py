"""A debate as text: its turns while it goes on, and the final answer with citations and the client's limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from madke.core import events
from madke.core.chat import Usage
from madke.core.errors import count_of
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.report.debate_text import INDENT, DebateLines, summary
from madke.serve.transcripts import Served

_CHARACTERS_PER_TOKEN = 4
"""The estimate by which ``max_tokens`` bounds the final text; see :func:`madke.models.prices.estimated_usage`."""


VERDICTS = {True: "the debaters agree", False: "the debaters do not agree", None: "no verdict could be read"}


@dataclass(frozen=True, kw_only=True)
class FinalText:
    """What a client gets when the debate is over."""

    text: str
    finish_reason: Literal["stop", "length"]
    usage: Usage
    annotations: Sequence[Mapping[str, Any]] = ()
    """Citations in OpenAI's form."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What madke adds to OpenAI's form."""


def final_text(served: Served, address: str, *, stops: Sequence[str], limit: int | None) -> FinalText:
    """The answer with its citations, up to the first of ``stops`` and at most ``limit`` tokens long.

    An abstained debate gives the text in which no answer could be read. Passages without an address get the
    ``address`` of the transcript. The text ends with ``[0][3]...``, the pool numbers of the citations.
    """
    done, annotations = served.transcript, []
    text, finish_reason = bounded(served.text, stops=stops, limit=limit)
    whole = done.answer is not None and text == served.text
    for number, title, url in citations(done, served.pool, address) if whole else ():
        mark = f"[{number}]"
        if mark in served.text:  # a text whose sentences cite
            start = text.index(mark)
        else:
            start = len(text)
            text += f"{'' if text != served.text else ' '}{mark}"
        end = text.index(mark, start) + len(mark)
        cited = {"title": title, "url": url, "start_index": start, "end_index": end}
        annotations.append({"type": "url_citation", "url_citation": cited})
    own: dict[str, Any] = {
        "status": done.status,
        "answer": done.answer,
        "rounds": len(done.rounds),
        "transcript": address,
    }
    own |= {"agreement": to_jsonable_python(done.agreement), "failed": failures(done)}
    own |= {"deferral": to_jsonable_python(done.deferral)} if done.deferral else {}
    return FinalText(
        text=text,
        finish_reason=finish_reason,
        usage=served.usage,
        annotations=annotations,
        own={"madke": own},
    )


def bounded(text: str, *, stops: Sequence[str], limit: int | None) -> tuple[str, Literal["stop", "length"]]:
    """The text up to the first stop string, and at most as long as the limit in tokens."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    if limit is not None and len(text) > limit * _CHARACTERS_PER_TOKEN:
        return text[: limit * _CHARACTERS_PER_TOKEN], "length"
    return text, "stop"


def failures(done: Transcript) -> list[str]:
    """What failed in a debate: sources, selections, turns and verdicts."""
    failed = [f"source {name}: {why}" for name, why in done.pool_partial.items()]
    for each in done.rounds:
        for turn in each.turns:
            parts = (turn.selection, turn.search, turn.stance)
            failed += [f"round {each.n}, {turn.agent}: {part.error}" for part in parts if part and part.error]
        if each.verdict and each.verdict.error:
            failed.append(f"round {each.n}, judge: {each.verdict.error}")
    return [*failed, *([f"{done.final.by}: {done.final.error}"] if done.final.error else [])]


def citations(transcript: Transcript, pool: KnowledgePool, address: str) -> Iterator[tuple[int, str, str]]:
    """Pool number, title and address of the passages that contain the answer or a quote of its supporters."""
    entries = {entry.n: entry for entry in transcript.pool}
    passages = dict(enumerate(pool.passages))
    for n in transcript.agreement.cited if transcript.agreement else ():
        passage, entry = passages.get(n), entries[n]
        url = passage.url if passage is not None else None
        if url is None and entry.key.startswith(("https://", "http://")):
            url = entry.key
        yield n, entry.title or f"{entry.source} {entry.key}", url or f"{address}#{n}"


class Narration:
    """A debate's turns as Markdown, as they happen."""

    def __init__(self) -> None:
        self._lines = DebateLines(Question(question=""))

    def hear(self, event: events.Event) -> str:
        """What the event adds to the text."""
        match event:
            case events.PoolReady(pool=pool) if pool.passages or pool.partial:
                failed = (f"{INDENT}The source {name} failed: {why}." for name, why in pool.partial.items())
                lines = [f"{INDENT}{count_of(len(pool.passages), 'passage')} found.", *failed]
            case events.DebateStarted():
                lines = []
            case events.DebateFinished(transcript=transcript):
                lines = [*_last_lines(transcript)]
            case _:
                lines = [*self._lines.hear(event)]
        return "".join(map(_marked_up, filter(None, lines)))


def _marked_up(line: str) -> str:
    if line.startswith(INDENT):
        return line.removeprefix(INDENT) + "\n"
    heading = f"### {line.strip('- ').capitalize()}" if line.startswith("---") else f"**{line.strip()}**"
    return f"\n{heading}\n\n"


def _last_lines(transcript: Transcript) -> Iterator[str]:
    """The reply that ends the debate, unless it was told, and who agrees: a client may show the bare answer only."""
    final, last = transcript.final, transcript.rounds[-1:]
    of_judge = final.by == "judge" and any(each.verdict and each.verdict.text == final.text for each in last)
    if final.text and final.by != "only" and not of_judge:
        yield from (final.by.capitalize(), *(INDENT + line for line in final.text.splitlines()))
    if transcript.agreement is not None and transcript.agreement.outcome != "single":
        yield f"Agreement: {summary(transcript.agreement)}."
