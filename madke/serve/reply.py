"""A debate as text: its turns while it goes on, and the final answer with citations and the client's limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from madke.core import events
from madke.core.chat import Usage
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Search, Selection, Stance, Transcript, Verdict
from madke.report.debate_text import header, summary
from madke.serve.transcripts import Served

_CHARACTERS_PER_TOKEN = 4
"""The estimate by which ``max_tokens`` bounds the final text; see :func:`madke.models.prices.estimated_usage`."""


_THINKING = "<think"

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
    headers: Mapping[str, str] = field(default_factory=dict)
    """What madke adds to the headers of a response that is not streamed."""


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
    headers = {"x-madke-agreement": header(done.agreement)} if done.agreement else {}
    return FinalText(
        text=text,
        finish_reason=finish_reason,
        usage=served.usage,
        annotations=annotations,
        own={"madke": own},
        headers=headers,
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


@dataclass(slots=True, eq=False)
class _Block:
    """One speaker's text, or a line between speakers."""

    text: str
    done: bool
    sent: int = 0
    reply: str = ""
    """What has been streamed of the reply."""
    streamed: int = 0
    """How much of the reply is in the text."""


class Narration:
    """Turns as they happen. Debaters speak at the same time: one of them is shown live, then what the others said."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._turns: dict[tuple[int, str], _Block] = {}

    def hear(self, event: events.Event) -> str:
        """What the event adds to the text; empty if nothing can be shown yet."""
        match event:
            case events.PoolReady(pool=pool) if pool.passages or pool.partial:
                failed = (f"The source {name} failed: {why}." for name, why in pool.partial.items())
                self._line(" ".join((f"{len(pool.passages)} passages found.", *failed)))
            case events.RoundStarted(n=n):
                self._line(f"### Round {n}")
            case events.SelectionMade(n=n, agent=agent, selection=selection):
                self._turn(n, agent).text += _chosen(selection)
            case events.SearchMade(n=n, agent=agent, search=search):
                self._turn(n, agent).text += _searched(search)
            case events.CallDelta(purpose=purpose, text=text) if purpose.stage in ("speak", "reply"):
                _stream(self._turn(purpose.round, purpose.agent), text)
            case events.StanceGiven(n=n, agent=agent, stance=stance):
                _finish(self._turn(n, agent), stance)
            case events.VerdictGiven(verdict=verdict):
                self._line(_verdict(verdict))
            case events.DebateFinished(transcript=transcript):
                self._end(transcript)
        return "".join(self._shown())

    def _end(self, transcript: Transcript) -> None:
        """The reply that ends the debate, and whether the debaters agree: a client may show the bare answer only."""
        if last := _last_reply(transcript):
            self._line(f"**{transcript.final.by.capitalize()}**\n\n{last}")
        if transcript.agreement is not None and transcript.agreement.outcome != "single":
            self._line(f"**Agreement**: {summary(transcript.agreement)}.")

    def _line(self, text: str) -> None:
        self._blocks.append(_Block(f"{text}\n\n", done=True))

    def _turn(self, n: int, agent: str) -> _Block:
        if (n, agent) not in self._turns:
            block = self._turns[n, agent] = _Block(f"**{agent}**, round {n}\n\n", done=False)
            self._blocks.append(block)
        return self._turns[n, agent]

    def _shown(self) -> Iterator[str]:
        while self._blocks:
            block = self._blocks[0]
            yield block.text[block.sent :]
            block.sent = len(block.text)
            if not block.done:
                break
            del self._blocks[0]


def _stream(block: _Block, text: str) -> None:
    """Add a part of a reply, unless the reply begins with hidden reasoning."""
    block.reply = (block.reply + text).lstrip()
    if not _THINKING.startswith(block.reply[: len(_THINKING)]):
        block.text += block.reply[block.streamed :]
        block.streamed = len(block.reply)


def _finish(block: _Block, stance: Stance) -> None:
    """Add what was not streamed. A reply that was made again is shown again."""
    said = block.reply[: block.streamed]
    if stance.status == "failed":
        block.text += f"(no answer: {stance.error})"
    elif said and stance.text.startswith(said.rstrip()):
        block.text += stance.text[len(said) :]
    else:
        block.text += ("\n\n" if said else "") + stance.text
    block.text += "\n\n"
    block.done = True


def _numbers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _chosen(selection: Selection) -> str:
    if selection.error is not None:
        return f"(no selection: {selection.error})\n\n"
    return f"Chooses knowledge {_numbers(selection.ids)}.\n\n" if selection.ids else "Chooses no knowledge.\n\n"


def _searched(search: Search) -> str:
    found = f"failed: {search.error}" if search.error is not None else f"found knowledge {_numbers(search.ids)}"
    return f"Searches for {search.query!r}: {found}.\n\n"


def _last_reply(transcript: Transcript) -> str:
    """The reply that ends the debate; empty if it was told as a turn or as a verdict."""
    final, last = transcript.final, transcript.rounds[-1:]
    told = final.by == "only" or (final.by == "judge" and any(n.verdict and n.verdict.text == final.text for n in last))
    return "" if told else final.text


def _verdict(verdict: Verdict) -> str:
    words = f"{VERDICTS[verdict.consensus].capitalize()}." if not verdict.error else f"(no verdict: {verdict.error})"
    return f"**Judge**\n\n{verdict.text}\n\n{words}" if verdict.text else f"**Judge**: {words}"
