"""``madke study``: one call, retrieval, votes and a debate, compared on the user's questions and documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say
from madke.cli import flags
from madke.cli.ablate import plan_or_run, refuse_unplanned
from madke.core.errors import UserError
from madke.runs.request import RunOptions, RunRequest

EPILOG = flags.epilog(
    "It is the shipped recipe `study`, run as `madke ablate` runs it: all arms have the same questions, pools and call "
    "store, and votes make as many calls as the debate. eval/recipes/study.yaml is to be copied for other arms.",
    "The plan comes first, with the cost if there are --prices. On a terminal the command then asks whether to start.",
    "Without DOCUMENTS, --sources or --pools, only the sample questions are accepted: the sample covers no others.",
    flags.EXIT_STATUS,
    flags.PRICES,
    flags.LIMITS,
    "Examples:",
    "  madke study questions.csv ./docs --model openai/gpt-4o-mini --plan",
    "  madke study questions.csv ./docs --model openai/gpt-4o-mini --prices prices.yaml",
)


@flags.request_options("experiment", without="engine address retry_failed retry_degraded")
def command(
    request: RunRequest,
    options: RunOptions,
    questions: Annotated[
        str, typer.Argument(metavar="QUESTIONS", help="Questions, or NAME=PATH for a published dataset.")
    ],
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOCUMENTS]...", help="Folders or files of documents, or NAME=PATH.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None, flags.option("Model of all arms. Default: offline.", "MODEL", names=("--model", "-m"))
    ] = None,
    out: Annotated[
        Path | None, flags.option("Folder. The same command resumes it. Default: runs/study-QUESTIONS.", "DIR")
    ] = None,
    sources: Annotated[
        str | None, flags.option("Sources instead of DOCUMENTS, as for madke run.", "NAME=SPEC,...", flags.KNOWLEDGE)
    ] = None,
    pools: flags.PoolFiles = None,
    grader: flags.GraderOption = None,
    plan: flags.Plan = False,
    reply_tokens: flags.ReplyTokens = 150,
    call_seconds: flags.CallSeconds = None,
    yes: Annotated[bool, flags.switch("--yes", "Start without asking.")] = False,
) -> None:
    """Compare one call, one call with passages, a debate and votes on your questions and documents.

    All read the same pools. A report says whether the debate pays.
    """
    from madke.experiments.experiment_spec import read_experiment_spec
    from madke.retrieval.named import known_sources

    if documents and sources is not None:
        raise UserError("--sources is given with DOCUMENTS; leave out one")
    for text in documents or ():
        if "=" not in text and not Path(text).expanduser().exists():
            named = f"; a source is given by its name as --sources {text}" if text in known_sources() else ""
            raise UserError(f"no such file or folder; expected documents{named}", file=Path(text))
    if plan:
        refuse_unplanned(options)
    chosen = sources if documents is None else ",".join(map(_as_path, documents))
    experiment_spec = read_experiment_spec(
        "study", [questions], request, model=model, pools=pools or (), sources={} if chosen is None else chosen
    )
    folder = out or Path("runs") / f"study-{Path(questions.rpartition('=')[2]).stem}"
    begun = any(folder.glob("arms/*/run.json"))

    def start() -> None:
        asks = not (yes or begun) and sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not typer.confirm("Start?", default=True, err=True):
            say("madke: not started", err=True)
            raise typer.Exit(1)

    plan_or_run(
        experiment_spec, [questions], folder, options, grader, reply_tokens, call_seconds, plan=plan, start=start
    )


def _as_path(document: str) -> str:
    """A folder that is named like a source is a folder here."""
    return document if "=" in document or "/" in document else f"./{document}"
