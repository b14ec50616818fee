"""A debate as text: its turns while it goes on, and the final answer with citations and the client's limits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from madke.core import events
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Search, Selection, Stance, Transcript, Verdict
from madke.report.agreement_text import header, summary
from madke.serve.chat_form import Annotation, ChatUsage, UrlCitation
from madke.serve.transcripts import Served
from madke.serve.wire import ChatBody

_CHARACTERS_PER_TOKEN = 4
"""The estimate by which ``max_tokens`` bounds the final text; see :func:`madke.endpoints.prices.estimated_usage`."""


_THINKING = "<think"
_THINK_TAG = re.compile(r"<(?=/?\s*think)", re.IGNORECASE)

VERDICTS = {True: "the debaters agree", False: "the debaters do not agree", None: "no verdict could be read"}


@dataclass(frozen=True, kw_only=True)
class FinalText:
    """What a client gets when the debate is over."""

    text: str
    finish_reason: Literal["stop", "length"]
    usage: ChatUsage
    annotations: Sequence[Annotation] = ()
    own: Mapping[str, Any] = field(default_factory=dict)
    """What madke adds to OpenAI's form."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What madke adds to the headers of a response that is not streamed."""


def final_text(served: Served, body: ChatBody, address: str, *, marks: bool = True) -> FinalText:
    """The answer with its citations, within the limit and stop strings of ``body``.

    An abstained debate gives the text in which no answer could be read. Passages without an address get the
    ``address`` of the transcript. With ``marks`` the text ends with ``[0][3]...``, the pool numbers of the citations.
    """
    done, annotations = served.transcript, []
    text, finish_reason = bounded(served.text, body)
    whole = done.answer is not None and text == served.text
    for number, title, url in citations(done, served.pool, address) if whole else ():
        mark, start = f"[{number}]", len(text) if marks else 0
        if marks and mark in served.text:
            # A text whose sentences cite.
            start = text.index(mark)
            annotations.append(_citation(start, start + len(mark), title, url))
            continue
        if marks:
            text += f"{'' if text != served.text else ' '}{mark}"
        annotations.append(_citation(start, len(text), title, url))
    own: dict[str, Any] = {"status": done.status, "rounds": len(done.rounds), "transcript": address}
    own |= {"agreement": to_jsonable_python(done.agreement)}
    own |= {"deferral": to_jsonable_python(done.deferral)} if done.deferral else {}
    headers = {"x-madke-agreement": header(done.agreement)} if done.agreement else {}
    return FinalText(
        text=text,
        finish_reason=finish_reason,
        usage=ChatUsage.of(served.usage),
        annotations=annotations,
        own={"madke": own},
        headers=headers,
    )


def _citation(start: int, end: int, title: str, url: str) -> Annotation:
    found = UrlCitation(start_index=start, end_index=end, title=title, url=url)
    return Annotation(url_citation=found)


def bounded(text: str, body: ChatBody) -> tuple[str, Literal["stop", "length"]]:
    """The text up to the first stop string, and at most as long as the limit."""
    ends = [at for stop in body.stops if (at := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    if body.limit is not None and len(text) > body.limit * _CHARACTERS_PER_TOKEN:
        return text[: body.limit * _CHARACTERS_PER_TOKEN], "length"
    return text, "stop"


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


@dataclass(frozen=True, kw_only=True)
class TurnPart:
    """A part of the turns."""

    text: str
    begins: bool
    """Whether it is the first of a turn, a verdict or a heading."""


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
    """Turns as they happen. Debaters speak at the same time: one of them is shown live, then what the others said.

    With ``tags`` the text is put between ``<think>`` tags; texts of models cannot close them.
    """

    def __init__(self, *, tags: bool = False) -> None:
        self._tags = tags
        self._blocks: list[_Block] = []
        self._turns: dict[tuple[int, str], _Block] = {}

    def hear(self, event: events.Event) -> str:
        """What the event adds to the text; empty if nothing can be shown yet."""
        text = "".join(piece.text for piece in self.pieces(event))
        return _THINK_TAG.sub("(", text) if self._tags else text

    def pieces(self, event: events.Event) -> Sequence[TurnPart]:
        """What the event adds to the text, by speakers."""
        match event:
            case events.PoolReady(pool=pool) if pool.passages:
                self._line(f"{len(pool.passages)} passages found.")
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
        return self._shown()

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

    def _shown(self) -> Sequence[TurnPart]:
        shown = []
        while self._blocks:
            block = self._blocks[0]
            if len(block.text) > block.sent:
                shown.append(TurnPart(text=block.text[block.sent :], begins=block.sent == 0))
            block.sent = len(block.text)
            if not block.done:
                break
            del self._blocks[0]
        return shown


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
