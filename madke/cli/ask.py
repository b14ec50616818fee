"""``madke ask``: debate one question and show the debate."""

import asyncio
import json
import os
from dataclasses import replace
from typing import Annotated

import typer

from madke._util.terminal import say_json
from madke.cli import flags
from madke.runs.options import RunOptions
from madke.runs.request import RunRequest

_ONLY_FOR_RUNS = "prices max_cost token_budget deadline engine address replay retry_failed retry_degraded"

EPILOG = flags.epilog(
    *flags.NAMES,
    flags.SCORER,
    "Examples:",
    '  madke ask "Which lake is the deepest?"',
    '  madke ask "Which lake is the deepest?" --model openai/gpt-4o-mini',
)


@flags.request_options("ask", without=_ONLY_FOR_RUNS)
def command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question, or claim to check.")],
    request: RunRequest,
    options: RunOptions,
    context: typer.Context,
    choice: Annotated[list[str] | None, flags.option("Option of a multiple choice. Repeatable.", "TEXT")] = None,
    as_json: Annotated[bool, flags.switch("--json", "Print the transcript as one line of JSON.")] = False,
) -> None:
    """Debate one question over retrieved knowledge. Print the debate as text, while it goes on."""
    from madke.cli.live import LiveDebate
    from madke.cli.local_servers import show_local_servers
    from madke.cli.progress import show_spent, status_line
    from madke.core.transcript import to_json
    from madke.runs.job import resolved

    with status_line() as show:
        show("reading the protocol")
        job = resolved(replace(request, questions=[{"question": question, "choices": choice or []}]))
    if not as_json and not _chose_model(context, request, options):
        show_local_servers()
    with LiveDebate(job, debate=not as_json) as live:
        try:
            transcript = asyncio.run(live.transcript(options))
        except asyncio.CancelledError:  # a person who debates has left
            raise KeyboardInterrupt from None
    show_spent(job.opened)
    if as_json:
        say_json(json.loads(to_json(transcript)))
    if transcript.status == "failed":
        raise typer.Exit(1)


def _chose_model(context: typer.Context, request: RunRequest, options: RunOptions) -> bool:
    """Whether the user named a model, or a place where models are."""
    from madke.llm import read_models

    source = context.get_parameter_source("model")
    named = (source is not None and source.name != "DEFAULT") or bool(request.cast)
    address = options.base_url or os.environ.get("OPENAI_BASE_URL")
    return named or bool(address) or bool(read_models(options.models_file).entries)
