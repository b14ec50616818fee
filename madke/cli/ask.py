"""``madke ask``: debate one question and show the debate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from madke.cli import flags
from madke.runs.options import RunOptions
from madke.terminal import say, say_json

if TYPE_CHECKING:
    from madke.core.transcript import Transcript
    from madke.runs.job import Job

_ONLY_FOR_RUNS = "prices max_cost token_budget deadline engine address replay retry_failed retry_degraded"

EPILOG = flags.epilog(
    flags.MODEL_NAMES,
    flags.SOURCE_NAMES,
    flags.TASK_NAMES,
    flags.SCORER,
    "Examples:",
    '  madke ask "Which lake is the deepest?"',
    '  madke ask "Which lake is the deepest?" --model openai/gpt-4o-mini',
)


@flags.shared_options("protocol model sources task cast answer_scorer settings prompts", without=_ONLY_FOR_RUNS)
def command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question, or claim to check.")],
    shared: dict[str, Any],
    options: RunOptions,
    choice: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Option of a multiple choice. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Sampling seed. Default: set by the server.", rich_help_panel=flags.PROTOCOL),
    ] = None,
    as_json: Annotated[bool, flags.switch("--json", "Print the transcript as one line of JSON.")] = False,
) -> None:
    """Debate one question over retrieved knowledge. Print the debate as text."""
    from madke.core.transcript import to_json
    from madke.report.debate_text import debate_text
    from madke.runs.job import prepared

    job = prepared([{"id": "ask", "question": question, "choices": choice or []}], seed=seed, **shared)
    transcript = asyncio.run(_transcript(job, options))
    for line in job.spent:
        say(line, err=True)
    if as_json:
        say_json(to_json(transcript).decode())
    else:
        say(debate_text(transcript))
    if transcript.status == "failed":
        raise typer.Exit(1)


async def _transcript(job: Job, options: RunOptions) -> Transcript:
    from madke.api.one_question import events_of
    from madke.cli.progress import show_source
    from madke.core.events import DebateFinished, SourceOpened

    async for event in events_of(job, options):
        if isinstance(event, SourceOpened):
            show_source(event.name, event.spec, event.description)
        if isinstance(event, DebateFinished):
            return event.transcript
    raise AssertionError("a debate ends with its transcript")
