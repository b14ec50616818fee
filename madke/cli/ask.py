"""``madke ask``: debate one question and show the debate while it goes on.

Its turns are on stdout, and on stderr is what goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from madke._util.terminal import say, say_json, show_status
from madke.cli import flags
from madke.cli.progress import show_source, show_spent, status_line
from madke.core import events
from madke.core.chat import Purpose
from madke.core.transcript import Transcript, to_json
from madke.retrieval.named import is_sample
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.report.debate_text import DebateLines
    from madke.runs.spec import RunSpec

_ONLY_FOR_RUNS = "prices batch max_cost token_budget deadline engine replay retry_degraded"

EPILOG = flags.epilog(*flags.NAMES, flags.SCORER)


@flags.request_options("ask", without=_ONLY_FOR_RUNS)
def command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question, or claim to check.")],
    request: RunRequest,
    options: RunOptions,
    context: typer.Context,
    choice: Annotated[list[str] | None, flags.option("Option of a multiple choice. Repeatable.", "TEXT")] = None,
    passages: Annotated[bool, flags.switch("--passages", "Print the passages of the pool too.")] = False,
    as_json: Annotated[bool, flags.switch("--json", "Print the transcript as one line of JSON.")] = False,
) -> None:
    """Debate one question over retrieved knowledge. Print the debate as text, while it goes on.

    Examples:
      madke ask "How many hearts does an octopus have?"
      madke ask "How many hearts does an octopus have?" --model openai/gpt-4o-mini
      madke ask "How many hearts does an octopus have?" --passages
    """
    with status_line() as show:
        show("reading the protocol")
        from madke.runs.spec import resolve  # slow to import

        spec = resolve(replace(request, questions=[{"question": question, "choices": choice or []}]))
    if not as_json and not _chose_model(context, request, options):
        from madke.models.endpoint import local_servers

        for line in local_servers():
            say(f"madke: {line}", err=True)
    live = LiveDebate(spec, debate=not as_json, passages=passages)
    try:
        transcript = asyncio.run(live.transcript(options))
    except asyncio.CancelledError:  # a person who debates has left
        raise KeyboardInterrupt from None
    show_spent(spec.opened)
    if as_json:
        say_json(json.loads(to_json(transcript)))
    if transcript.status == "failed":
        raise typer.Exit(1)


def _chose_model(context: typer.Context, request: RunRequest, options: RunOptions) -> bool:
    """Whether the user named a model, or a place where models are."""
    from madke.models.endpoint import read_models

    source = context.get_parameter_source("model")
    named = (source is not None and source.name != "DEFAULT") or bool(request.cast)
    return named or bool(options.base_url or os.environ.get("OPENAI_BASE_URL") or read_models().entries)


_WIDTH = 96
_DOING = {"select": "chooses passages", "speak": "speaks", "reply": "speaks", "judge": "compares the answers"}
_REAL_MODEL = (
    "For a language model: --model openai/gpt-4o-mini with OPENAI_API_KEY set, "
    "or --model openai/NAME --base-url http://localhost:8000/v1 for your own server."
)


def model_line(models: Mapping[str, Any]) -> str:
    """Which models answer. ``models``: role -> its model; "" stands for the other roles."""
    roles: dict[str, list[str]] = {}
    for role, model in models.items():
        roles.setdefault(str(model), []).extend([role] if role else [])
    named = ", ".join(
        f"{model} ({', '.join(played)})" if played and len(roles) > 1 else model for model, played in roles.items()
    )
    if "offline" in roles:
        which = "; offline is" if len(roles) > 1 else ","
        named += f"{which} a built-in reader that quotes passages, not a language model"
    return f"Model: {named}"


def knowledge_lines(specs: Mapping[str, object]) -> Iterator[str]:
    """Which sources are searched, and which of them are the shipped sample."""
    yield f"Knowledge: {', '.join(specs) or 'none'}"
    samples = [
        name for name, spec in specs.items() if (spec is None or isinstance(spec, str)) and is_sample(name, spec)
    ]
    if samples:
        yield f"  {' and '.join(samples)}: the shipped sample, which covers only its own questions"


def _header(spec: RunSpec) -> Iterator[str]:
    """Which model and which knowledge answer, and how to take others."""
    yield model_line(spec.record.models)
    if "offline" in spec.record.models.values():
        yield f"  {_REAL_MODEL}"
    lines = [*knowledge_lines(spec.record.source_specs)]
    yield from lines
    if len(lines) > 1:
        yield "  For your own documents (PDF, Office, HTML, Markdown, text): --sources ./FOLDER."


class LiveDebate:
    """A listener that shows one debate, with what goes on as the status of a terminal.

    Without ``debate``, only that status is shown. ``passages``: the texts of the pool too.
    """

    def __init__(self, spec: RunSpec, *, debate: bool, passages: bool = False) -> None:
        self._spec = spec
        self._debate = debate
        self._passages = passages
        self._person = "human" in spec.record.models.values()
        """Whether a person debates, who types where the status would be, and reads the others in prompts."""
        self._held: list[str] = []
        """Lines for the end of a debate with a person."""
        self._width = min(_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
        self._calls: list[Purpose] = []
        """In flight."""
        self._headed = False
        self._shown: DebateLines | None = None

    def hear(self, event: events.Event) -> None:
        """Show what an event tells."""
        if self._debate and not self._headed:  # after what can be wrong with the command
            self._headed = True
            for line in _header(self._spec):
                say(textwrap.fill(line, self._width, subsequent_indent="  ", break_on_hyphens=False), err=True)
        match event:
            case events.SourceOpened(name=name, spec=spec, description=description):
                if not self._debate or not is_sample(name, spec):
                    show_source(name, spec, description)
            case events.CallStarted(purpose=purpose):
                self._calls.append(purpose)
            case events.CallFinished(purpose=purpose):
                self._calls.remove(purpose)
        if not self._person:
            doing = (f"{each.agent} {_DOING.get(each.stage, each.stage)}" for each in self._calls)
            show_status("" if isinstance(event, events.DebateFinished) else ", ".join(doing) or "searching")
        if self._debate:
            self._held += self._lines(event)
            if self._held and (not self._person or isinstance(event, events.DebateFinished)):
                from madke.report.debate_text import wrap_lines

                say("\n".join(wrap_lines(self._held, self._width)))
                self._held = []

    def _lines(self, event: events.Event) -> Iterator[str]:
        """The lines of the debate that an event completes."""
        from madke.report.debate_text import DebateLines, closing_lines  # slow to import: the header comes first

        protocol = self._spec.protocol
        if self._shown is None:
            prepared = {stage for debater in protocol.cast for stage in debater.prepare}
            self._shown = DebateLines(self._spec.questions[0], prepared, passages=self._passages)
        if isinstance(event, events.RoundStarted) and not sys.stderr.isatty():
            say(f"madke: round {event.n} of at most {protocol.trace.differ.rounds}", err=True)
        yield from self._shown.hear(event)
        if isinstance(event, events.DebateFinished):
            yield from closing_lines(event.transcript)

    async def transcript(self, options: RunOptions) -> Transcript:
        """Debate and show it."""
        from madke.api.debates import events_of

        try:
            async for event in events_of(self._spec, options):
                self.hear(event)
        finally:
            show_status("")
        assert isinstance(event, events.DebateFinished), "a debate ends with its transcript"
        return event.transcript
