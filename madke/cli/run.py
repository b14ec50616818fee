"""``madke run``: debate a dataset into a run directory. The same command resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say, say_table, say_wrapped
from madke.cli import flags
from madke.cli.progress import listening, resumable, show_spent, why_stopped
from madke.core.errors import UserError, count_of
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.api.debates import Run
    from madke.experiments.plan import Planned
    from madke.models.prices import Prices

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
    names = [request.model, *request.cast.values()]
    # A person types where the line of progress would be.
    with resumable(), listening(line="human" not in names) as listen:
        done = run(request, out=out, options=options, listen=listen, signals=True)
        assert done.spec is not None
        show_spent(done.spec.opened)
    _show_results(done, options)


def _show_plan(request: RunRequest, out: Path, options: RunOptions) -> None:
    from madke.api.debates import checked_spec
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


def refuse_limits(options: RunOptions) -> None:
    """Refuse limits and replay together with ``--plan``."""
    if options.replay:
        raise UserError("--replay makes no calls, so there is nothing to plan; leave out --plan")
    if any(limit is not None for limit in (options.max_cost, options.token_budget, options.deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def show_plans(plans: Sequence[Planned], prices: Prices) -> None:
    """Print planned calls, tokens and cost, from the shortest to the longest debates, and their assumptions."""
    from madke.experiments.plan import REPLY_TOKENS, Load, planned_range
    from madke.models.model_names import model_kind
    from madke.models.prices import shipped_note

    least, most = (sum((getattr(p, bound) for p in plans), Load()) for bound in ("least", "most"))
    rows = [(plan.name, plan.debates, plan.least, plan.most, bool(plan.unpriced)) for plan in plans]
    if len(plans) > 1:
        rows.append(("total", sum(p.debates for p in plans), least, most, False))
    counts = {"calls": "calls", "new calls": "paid", "prompt tokens": "prompt_tokens"}
    counts["completion tokens"] = "completion_tokens"
    headings = ["run", "debates", *counts, *(["cost"] if prices else [])]
    say_table(
        headings,
        [
            (
                name,
                f"{debates:,}",
                *(planned_range(getattr(low, count), getattr(high, count)) for count in counts.values()),
                *(["-" if unpriced else planned_range(low.cost, high.cost, digits=4)] if prices else []),
            )
            for name, debates, low, high, unpriced in rows
        ],
        figures=headings[1:],
    )
    notes = [
        "Ranges go from debates that end as early as possible to debates that use all rounds, without failed calls. "
        f"Tokens are estimates for new calls: four characters per prompt token, {REPLY_TOKENS} tokens per reply.",
    ]
    if len(plans) > 1:
        notes.append("A call that several runs make with the same prompt and purpose is new only in the first of them.")
    if assumed := [plan.name for plan in plans if plan.assumed_passages]:
        which = "" if len(assumed) == len(plans) else f" of {', '.join(assumed)}"
        notes.append(f"Passages{which} are not retrieved yet; assumed: 100 words each.")
    notes += [
        f"Debaters of {plan.name}: {planned_range(*plan.debaters)}, to cost as much as the run it is compared with."
        for plan in plans
        if plan.debaters
    ]
    unpriced = sorted({model for plan in plans for model in plan.unpriced})
    if unpriced and prices:
        notes.append(f"No price for {', '.join(unpriced)}.")
    models = dict.fromkeys(model for plan in plans for model in plan.models)
    if not prices and not all(model_kind(name).is_unpaid for name in models):
        notes.append("The cost is not known: give prices with --prices FILE, or `--prices shipped` for those of madke.")
    notes += filter(None, [shipped_note(prices)])
    say_wrapped("\n".join(notes))


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
