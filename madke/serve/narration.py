"""A debate as text that grows while the debate goes on, for clients that show a model's reasoning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from madke.core import events
from madke.core.transcript import Final, Search, Selection, Stance, Verdict

_THINKING = "<think"
_THINK_TAG = re.compile(r"<(?=/?\s*think)", re.IGNORECASE)

_VERDICTS = {
    True: "The debaters agree.",
    False: "The debaters do not agree.",
    None: "No verdict could be read.",
}


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

    Args:
        tags: Whether the text is put between ``<think>`` tags. Texts of models cannot close them.
    """

    def __init__(self, *, tags: bool = False) -> None:
        self._tags = tags
        self._blocks: list[_Block] = []
        self._turns: dict[tuple[int, str], _Block] = {}

    def hear(self, event: events.Event) -> str:
        """What the event adds to the text; empty if nothing can be shown yet."""
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
            case events.DebateFinished(transcript=transcript) if transcript.final.text:
                self._line(_final(transcript.final))
        text = "".join(self._shown())
        return _THINK_TAG.sub("(", text) if self._tags else text

    def _line(self, text: str) -> None:
        self._blocks.append(_Block(f"{text}\n\n", done=True))

    def _turn(self, n: int, agent: str) -> _Block:
        if (n, agent) not in self._turns:
            block = self._turns[n, agent] = _Block(f"**{agent}**, round {n}\n\n", done=False)
            self._blocks.append(block)
        return self._turns[n, agent]

    def _shown(self) -> Sequence[str]:
        shown = []
        while self._blocks:
            block = self._blocks[0]
            shown.append(block.text[block.sent :])
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


def _verdict(verdict: Verdict) -> str:
    words = _VERDICTS[verdict.consensus] if verdict.error is None else f"(no verdict: {verdict.error})"
    return f"**Judge**\n\n{verdict.text}\n\n{words}" if verdict.text else f"**Judge**: {words}"


def _final(final: Final) -> str:
    return f"**{final.by.capitalize()}**\n\n{final.text}"
