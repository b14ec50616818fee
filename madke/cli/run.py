"""``madke run``: debate a dataset into a run directory. The same command resumes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say, say_wrapped
from madke.cli import flags
from madke.cli.progress import listening, resumable, show_spent, why_stopped
from madke.core.errors import count_of
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.api.debates import Run

_SHOWN_REASONS = 3

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
    from madke.api.debates import run

    request = replace(request, questions=data)
    if plan:
        _show_plan(request, out, options)
        return
    asked = [request.model, *request.cast.values()]
    # A person types where the line of progress would be.
    with resumable(), listening(line="human" not in asked) as listen:
        done = run(request, out=out, options=options, listen=listen, signals=True)
        assert done.spec is not None
        show_spent(done.spec.opened)
    _show_results(done, options)


def _show_plan(request: RunRequest, out: Path, options: RunOptions) -> None:
    from madke.api.debates import checked_spec
    from madke.cli.plans import refuse_limits, show_plans
    from madke.experiments.plan import Planner
    from madke.runs.meter import planned_prices, prices_of
    from madke.runs.runner import RunPools

    refuse_limits(options)
    spec = checked_spec(request, out, options)
    own = out / "pools.jsonl"
    file = spec.pools or (own if own.exists() else None)
    knowledge = spec.protocol.knowledge
    pool_of = RunPools(file, knowledge, spec.questions).of if file and knowledge else None
    prices = prices_of(options, spec.record.models.values())
    show_plans([Planner(prices=planned_prices(prices, options)).plan(spec.variant.name, spec, pool_of)], prices)


def _show_results(done: Run, options: RunOptions) -> None:
    """Write the scores and the page, unless they are there and nothing is new; show them, and what failed."""
    # Imported when the debates are over, so that the first call does not wait for them.
    from madke.models.prices import shipped_note
    from madke.report.html import write_report
    from madke.report.scores import all_failed, cut_note, scores_on_terminal
    from madke.runs.meter import prices_of
    from madke.scoring.arms import open_results
    from madke.scoring.scored import kept_scores, score_run

    assert done.spec is not None
    assert done.meter is not None
    out, meter, prices = done.path, done.meter, prices_of(options, done.spec.record.models.values())
    page, metrics = out / "report.html", out / "metrics.json"
    current = page.exists() and metrics.exists() and page.stat().st_mtime_ns >= metrics.stat().st_mtime_ns
    scores = kept_scores(out) if current and not (meter.done or prices) else None
    if scores is None:
        arms = open_results([out])
        scores, values = score_run(arms[0], prices)
        write_report(arms, page, scores=[scores], values=[values])
    say(scores_on_terminal({out.name or str(out): scores}, cut_notes=False))
    if (note := shipped_note(prices)) is not None:
        say_wrapped(note)
    say(f"transcripts: {out / 'transcripts.jsonl'}\nreport: {page}")
    if scores.failed:
        again = "the command without --replay" if options.replay else "the same command"
        say(f"madke: {count_of(scores.failed, 'question')} failed; {again} retries them", err=True)
        for reason, count in () if all_failed(scores) else list(scores.failures.items())[:_SHOWN_REASONS]:
            say(f"  {count} x {reason}", err=True)
    degraded = max(0, scores.degraded - scores.failed)
    if degraded and not options.retry_degraded:
        lost = f"{count_of(degraded, 'question')} lost a debater or a verdict"
        say(f"madke: {lost}; --retry-degraded retries them", err=True)
    if (cut := cut_note(scores, done.spec.protocol.max_tokens)) is not None:
        say(f"madke: {cut}", err=True)
    if meter.left_over:
        say(f"madke: stopped: {why_stopped(meter)}", err=True)
        say(f"unfinished questions: {out / 'unfinished.jsonl'}", err=True)
    if scores.failed or meter.left_over:
        raise typer.Exit(1)
