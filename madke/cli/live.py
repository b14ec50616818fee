"""A debate shown as it happens: its turns on stdout, and on stderr what goes on meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from madke._util.terminal import say
from madke.api.one_question import events_of
from madke.cli.progress import PLAIN_SECONDS, Region, duration, show_source
from madke.core import events
from madke.core.chat import Purpose
from madke.core.transcript import PoolEntry, Round, Search, Selection, Transcript, Turn
from madke.engine.parse import without_reasoning
from madke.retrieval.named import is_sample
from madke.runs.request import RunOptions
from madke.runs.runner import execute
from madke.runs.spec import RunSpec

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

_WIDTH = 96
_STREAMED_LINES = 6
"""Lines of each reply that are shown while it is streamed."""
_DOING = {"select": "chooses passages", "speak": "speaks", "reply": "speaks", "judge": "compares the answers"}
_REAL_MODEL = (
    "For a language model: --model openai/gpt-4o-mini with OPENAI_API_KEY set, "
    "or --model openai/NAME --base-url http://localhost:8000/v1 for your own server."
)


def model_line(roles: Mapping[str, Sequence[str]]) -> str:
    """Which models answer. ``roles``: model -> the roles that it plays, named where models are several."""
    by_role = [f"{model} ({', '.join(played)})" if played else model for model, played in roles.items()]
    named = ", ".join(by_role if len(roles) > 1 else roles)
    if "offline" in roles:
        which = "; offline is" if len(roles) > 1 else ","
        named += f"{which} a built-in reader that quotes passages, not a language model"
    return f"Model: {named}"


def knowledge_line(sources: Iterable[str]) -> str:
    """Which sources are searched."""
    return f"Knowledge: {', '.join(sources) or 'none'}"


def sample_note(specs: Mapping[str, str | None]) -> str | None:
    """Which of the sources are the shipped sample; None if none is."""
    samples = [name for name, spec in specs.items() if is_sample(name, spec)]
    return f"{' and '.join(samples)}: the shipped sample, which covers only its own questions" if samples else None


def _header(spec: RunSpec) -> Iterator[str]:
    """Which model and which knowledge answer, and how to take others."""
    roles: dict[str, list[str]] = {}
    for role, model in spec.record.models.items():
        roles.setdefault(model, []).append(role)
    yield model_line(roles)
    if "offline" in roles:
        yield f"  {_REAL_MODEL}"
    specs = spec.record.source_specs
    yield knowledge_line(specs)
    if note := sample_note(specs):
        yield f"  {note}. For your own documents (PDF, Office, HTML, Markdown, text): --sources ./FOLDER."


class LiveDebate:
    """A listener that shows one debate. On a terminal, calls in flight and streamed replies are redrawn below it.

    Without ``debate``, only these are shown. ``passages``: the texts of the pool too.
    """

    def __init__(self, spec: RunSpec, *, debate: bool, passages: bool = False) -> None:
        self._spec = spec
        self._debate = debate
        self._passages = passages
        self._person = "human" in spec.record.models.values()
        """Whether a person debates, who needs a terminal that stands still, and reads the others in prompts."""
        self.redrawn = sys.stderr.isatty() and not self._person
        """Whether streamed replies are shown."""
        self._held: list[str] = []
        """Lines for the end of a debate with a person."""
        self._width = min(_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
        self._region: Region | None = None
        self._status, self._since = "opening models and sources", time.monotonic()
        self._calls: dict[Purpose, tuple[float, str]] = {}
        """Calls in flight -> when they started, and the text that has been streamed."""
        self._opened = 0
        self._headed = False
        self._chosen: dict[str, Selection] = {}
        self._searched: dict[str, Search] = {}
        self._before: Round | None = None
        self._finished: Transcript | None = None

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *error: object) -> None:
        self._erase()

    def hear(self, event: events.Event) -> None:
        """Show what an event tells."""
        opening = isinstance(event, events.SourceOpening) and not is_sample(event.name, event.spec)
        if self._debate and not self._headed and not opening:
            # Before anything that takes long, but after what can be wrong with the command.
            self._headed = True
            filled = (
                textwrap.fill(line, self._width, subsequent_indent="  ", break_on_hyphens=False)
                for line in _header(self._spec)
            )
            say("\n".join(filled), err=True)  # at once: sources are opened in another thread
        self._note(event)
        self._held += self._lines(event)
        if self._debate and self._held and (not self._person or isinstance(event, events.DebateFinished)):
            self._say(self._held)
            self._held = []

    def _note(self, event: events.Event) -> None:
        """Remember what later lines need."""
        match event:
            case events.SourceOpened(name=name, spec=spec, description=description):
                self._opened += 1
                if not self._debate or not is_sample(name, spec):
                    show_source(name, spec, description)
                if self._opened == len(self._spec.record.source_specs):
                    self._tell(f"searching {', '.join(self._spec.record.source_specs)}")
            case events.CallStarted(purpose=purpose):
                self._calls[purpose] = (time.monotonic(), "")
            case events.CallDelta(purpose=purpose, text=text):
                started, said = self._calls[purpose]
                self._calls[purpose] = (started, said + text)
            case events.CallFinished(purpose=purpose):
                del self._calls[purpose]
            case events.SelectionMade(agent=agent, selection=selection):
                self._chosen[agent] = selection
            case events.SearchMade(agent=agent, search=search):
                self._searched[agent] = search
            case events.DebateFinished(transcript=transcript):
                self._finished = transcript

    def _lines(self, event: events.Event) -> Iterator[str]:
        """The lines of the debate that an event completes."""
        from madke.report import debate_text  # slow to import: the header comes first
        from madke.report.debate_text import closing_lines

        protocol = self._spec.protocol
        match event:
            case events.DebateStarted(pool=pool):
                yield from debate_text.question_lines(self._spec.questions[0])
                found = enumerate(pool.passages)
                entries = [PoolEntry(n=n, source=p.source, key=p.key, title=p.title, before=p.before) for n, p in found]
                yield from debate_text.pool_lines(entries, pool.partial, pool.retrieval)
                if self._passages:
                    yield from debate_text.passage_lines(pool.passages)
            case events.RoundStarted(n=n):
                self._tell(f"round {n} of at most {protocol.trace.differ.rounds}")
                yield from ("", f"--- round {n} ---")
            case events.CallFinished(purpose=purpose, completion=completion):
                if purpose.stage in {stage for debater in protocol.cast for stage in debater.prepare}:
                    text = completion.error or without_reasoning(completion.text)
                    yield from debate_text.prepared_lines(purpose.agent, purpose.stage, text)
            case events.StanceGiven(agent=agent, stance=stance):
                chosen, searched = self._chosen.pop(agent, None), self._searched.pop(agent, None)
                turn = Turn(agent=agent, stance=stance, selection=chosen, search=searched)
                yield from debate_text.turn_lines(turn, before=self._before)
            case events.RoundEnded(round=entry):
                yield from debate_text.order_lines(entry)
                for turn in entry.turns:
                    yield from debate_text.reflection_lines(turn)
                yield from debate_text.verdict_lines(entry, self._before)
                self._before = entry
            case events.DebateFinished(transcript=transcript):
                yield from debate_text.final_lines(transcript)
                yield from closing_lines(transcript)

    def _say(self, lines: Iterable[str]) -> None:
        from madke.report.debate_text import wrap_lines

        same_screen = sys.stdout.isatty()
        if same_screen:
            self._erase()
        say("\n".join(wrap_lines(lines, self._width)))
        if same_screen:
            self._draw()

    def _tell(self, status: str) -> None:
        self._status, self._since = status, time.monotonic()
        if self._debate and not self.redrawn:
            say(f"madke: {status}", err=True)

    def _draw(self) -> None:
        if self.redrawn:
            self._region = Region(self)

    def _erase(self) -> None:
        if self._region is not None:
            self._region.stop()
            self._region = None

    async def transcript(self, options: RunOptions, run: Path | None = None) -> Transcript:
        """Debate and show it. ``run``: an empty folder that keeps it as a run; then no reply is streamed."""
        waiting = asyncio.create_task(self._tell_now_and_then())
        try:
            if run is not None:
                await execute(self._spec, run, options, listen=self.hear)
            else:
                async for event in events_of(self._spec, options, deltas=self.redrawn):
                    self.hear(event)
        finally:
            waiting.cancel()
        assert self._finished is not None, "a debate ends with its transcript"
        return self._finished

    async def _tell_now_and_then(self) -> None:
        """Without a terminal, print every 30 seconds what goes on."""
        while self._debate and not self.redrawn:
            await asyncio.sleep(PLAIN_SECONDS)
            if self._person and self._calls:
                continue  # the person may be typing
            say(f"madke: {'; '.join(doing for doing, _ in self._doing())}", err=True)

    def _doing(self) -> list[tuple[str, str]]:
        """What goes on, for how long, and the text that has been streamed."""
        now, calls = time.monotonic(), list(self._calls.items())
        if not calls:
            return [(f"{self._status}, {duration(now - self._since)}", "")]
        return [
            (f"{purpose.agent} {_DOING.get(purpose.stage, purpose.stage)}, {duration(now - started)}", said)
            for purpose, (started, said) in calls
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        doing, lines = self._doing(), []
        room = max(0, min(_STREAMED_LINES, (console.height - 2) // len(doing) - 1))
        for what, said in doing:
            tail = textwrap.wrap(said[-options.max_width * _STREAMED_LINES :], max(20, options.max_width - 4))
            lines += [what, *(f"    {line}" for line in tail[max(0, len(tail) - room) :])]
        yield Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis")
