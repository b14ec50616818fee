"""``madke run``: debate a dataset into a run directory. The same command resumes it."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from madke.cli import flags
from madke.runs.request import RunOptions, RunRequest

EPILOG = flags.epilog(
    *flags.NAMES,
    "First-round stances: a run directory, or JSON lines of id and stances (agent, text, answer).",
    flags.SCORER,
    flags.PRICES,
    flags.LIMITS,
    flags.EXIT_STATUS,
)


@flags.request_options("run")
def command(
    data: flags.Questions,
    out: Annotated[Path, flags.option("Run directory. The same command resumes it.", "DIR")],
    request: RunRequest,
    options: RunOptions,
    plan: flags.Plan = False,
) -> None:
    """Debate every question of a dataset. Write transcripts, calls, scores and a report to OUT.

    Examples:
      madke run questions.jsonl --sources ./docs --out runs/first --limit 20
      madke run questions.jsonl --sources none -m openai/gpt-4o-mini --plan --out runs/mini
    """
    from madke.cli.plans_and_results import show_run, show_run_plan

    request = replace(request, questions=data)
    if plan:
        show_run_plan(request, out, options)
    else:
        show_run(request, out, options)
