"""``madke ask``: debate one question and show the debate."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import Annotated

import typer

from madke._util.terminal import say, say_json
from madke.cli import flags
from madke.runs.request import RunOptions, RunRequest

_ONLY_FOR_RUNS = "prices batch max_cost token_budget deadline engine replay retry_degraded"

EPILOG = flags.epilog(
    *flags.NAMES,
    flags.SCORER,
)


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
    from madke.cli.live import LiveDebate
    from madke.cli.progress import show_spent, status_line
    from madke.core.transcript import to_json
    from madke.runs.spec import resolve

    with status_line() as show:
        show("reading the protocol")
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
