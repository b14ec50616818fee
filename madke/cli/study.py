"""``madke study``: does a debate pay on the user's questions and documents?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from madke._util.terminal import say, say_json, say_wrapped
from madke.cli import flags
from madke.core.errors import UserError, count_of
from madke.runs.request import NOTHING, RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.api.study import Study

EPILOG = flags.epilog(
    "Four arms answer the same questions over the same passages: one call without and one with documents, a debate, "
    "and a vote of as many calls. Yes: the debate is better than the vote and than one call with documents. No: it is "
    "worse than one of them, or gains less than --margin over it for sure. Questions come in blocks, in a random "
    "order, and the command ends as soon as it knows; its intervals hold however often it looks.",
    "The plan comes first. On a terminal the command then asks whether to start. eval/recipes/study.yaml has the arms; "
    "`madke ablate` runs a copy with others.",
    "Without DOCUMENTS, --sources or --pools, only the sample questions are accepted: the sample covers no others.",
    flags.EXIT_STATUS,
    flags.PRICES,
    flags.LIMITS,
)


@flags.request_options("experiment", without="engine retry_degraded answer_scorer")
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
    margin: Annotated[float, flags.option("The smallest gain that is worth a debate, in points.", "POINTS")] = 10,
    more_arms: Annotated[
        list[str] | None, flags.option("Add an arm: views or second-turn. Repeatable.", "ARM", names=("--with",))
    ] = None,
    whole: Annotated[bool, flags.switch("--all", "Ask all questions, whatever is known before.")] = False,
    sources: Annotated[
        str | None, flags.option("Sources instead of DOCUMENTS, as for madke run.", "NAME=SPEC,...", flags.KNOWLEDGE)
    ] = None,
    pools: flags.PoolFiles = None,
    grader: Annotated[
        str | None, flags.option("Let these models grade all answers; the first decides.", "MODEL,...", flags.GRADING)
    ] = None,
    plan: flags.Plan = False,
    yes: Annotated[bool, flags.switch("--yes", "Start without asking.")] = False,
    as_json: Annotated[bool, flags.switch("--json", "Print one JSON object.")] = False,
) -> None:
    """Compare one call, one call with passages, a debate and votes on your questions and documents.

    Examples:
      madke study questions.csv ./docs --model openai/gpt-4o-mini --plan
      madke study questions.csv ./docs --model openai/gpt-4o-mini --max-cost 5

    The verdict says whether the debate pays.
    """
    from madke.api.study import checked_margin, read_study, studies
    from madke.cli.ablate import refuse_overwritten, show_experiment_plan
    from madke.cli.progress import listening, resumable, run_progress, show_spent
    from madke.cli.run import refuse_limits
    from madke.runs.meter import budget_of
    from madke.scoring.scored import graders_of
    from madke.scoring.verdict import planned_questions

    share = checked_margin(margin / 100)
    if plan:
        refuse_limits(options)
    where: Any = NOTHING if sources is None else sources
    inputs: dict[str, Any] = {"model": model, "sources": where, "pools": pools or (), "more_arms": more_arms or ()}
    spec = read_study(questions, documents or (), request, **inputs)
    folder = out or Path("runs") / f"study-{Path(questions.rpartition('=')[2]).stem}"
    if not plan:
        refuse_overwritten(folder, [questions], spec, options)
    spec.check(options)
    if grader and options.replay:
        raise UserError("--replay makes no calls; leave out --grader (grades that are stored are shown)")
    graders = graders_of(grader, base_url=options.base_url) if grader else []
    begun = any(folder.glob("arms/*/run.json"))
    if plan or not (yes or begun or as_json):
        show_experiment_plan(spec, options, as_json=as_json)
        if not as_json:
            count = count_of(planned_questions(share), "question")
            say_wrapped(
                f"A gain of {margin:g} points takes about {count} to show, if the arms differ on three of ten "
                "questions. The study ends as soon as it knows."
            )
    if plan:
        return
    on_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not (yes or begun) and on_terminal and not typer.confirm("Start?", default=True, err=True):
        say("madke: not started", err=True)
        raise typer.Exit(1)
    budget_of(options).check([each.model for each in graders])
    with resumable(), listening() as listen:
        rules: dict[str, Any] = {"margin": share, "whole": whole, "graders": graders, "signals": True}
        watch = partial(run_progress, "graded answers")
        for study in studies(spec, folder, options, listen=listen, watch=watch, **rules):
            say(f"{study.asked:,} of {study.given:,} questions answered", err=True)
    show_spent(study.experiment.sources.values())
    if as_json:
        say_json(study.record())
    else:
        say_wrapped(str(study))
    say(f"report: {study.report()}", err=as_json)
    _end(study)


def _end(study: Study) -> None:
    """Say what failed; then the exit status is 1."""
    failed = sum(scores.failed for scores in study.scores.values())
    if failed:
        say(f"madke: {count_of(failed, 'debate')} failed; the same command retries them", err=True)
    if study.ungraded:
        lost = count_of(study.ungraded, "answer has", "answers have")
        say(f"madke: {lost} no grade; the same command retries them", err=True)
    if failed or study.ungraded or study.limit:
        raise typer.Exit(1)
