"""Plans, work and results of ``madke run``, ``ablate`` and ``pool build``, for the terminal.

Scores and reports are imported when the debates are over, so that the first call does not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from madke._util.terminal import say, say_json, say_table, say_wrapped
from madke.cli.progress import exit_status, listening, resumable, show_spent, why_stopped
from madke.core.errors import UserError, count_of
from madke.experiments.plan import Planned, planned_range
from madke.models.model_names import is_unpaid
from madke.models.prices import Prices
from madke.models.shipped_prices import shipped_note
from madke.runs.directory import read_transcripts, refuse_own_files
from madke.runs.meter import Meter, planned_prices, prices_of
from madke.runs.pools import RunPools
from madke.runs.record import read_run
from madke.runs.request import RunOptions, RunRequest
from madke.runs.spec import resolve

if TYPE_CHECKING:
    from madke.experiments.experiment import Experiment
    from madke.experiments.experiment_spec import ExperimentSpec

_SHOWN_REASONS = 3


def refuse_limits(options: RunOptions) -> None:
    """Refuse limits and replay together with ``--plan``."""
    if options.replay:
        raise UserError("--replay makes no calls, so there is nothing to plan; leave out --plan")
    if any(limit is not None for limit in (options.max_cost, options.token_budget, options.deadline)):
        raise UserError("--plan spends nothing; leave out --max-cost, --token-budget and --deadline")


def show_run_plan(request: RunRequest, out: Path, options: RunOptions) -> None:
    """Print the plan of a run."""
    from madke.api.batch import check_sources, inputs_of
    from madke.experiments.plan import Planner

    refuse_limits(options)
    spec = resolve(request)
    check_sources(spec, chosen=request.sources is not None)
    refuse_own_files(out, inputs_of(request, spec.record.source_specs, options))
    own = out / "pools.jsonl"
    file = spec.pools or (own if own.exists() else None)
    knowledge = spec.protocol.knowledge
    pool_of = RunPools(file, knowledge, spec.questions).of if file and knowledge else None
    prices = prices_of(options, spec.record.models.values())
    plan = Planner(prices=planned_prices(prices, options)).plan(spec.variant.name, spec, pool_of)
    show_plans([plan], prices, options)


def show_experiment_plan(experiment_spec: ExperimentSpec, options: RunOptions, *, as_json: bool) -> None:
    """Print the plan of an experiment and the published figures, or only the plan as JSON."""
    from madke.experiments.plan import Planner, planned
    from madke.report.reproduction import figures, published_table
    from madke.report.tables import plain_table

    for error in experiment_spec.unknown_sources():
        say(f"madke: a source is missing; add it or give --pools: {error}", err=True)
    prices = prices_of(options, experiment_spec.models)
    plans = planned(experiment_spec, Planner(prices=planned_prices(prices, options)))
    if as_json:
        say_json([asdict(plan) for plan in plans])
        return
    recipe = experiment_spec.recipe
    say(f"{recipe.title} ({recipe.source})")
    if recipe.about:
        say("\n\n".join(" ".join(part.split()) for part in recipe.about.strip().split("\n\n")))
    say(f"{count_of(len(experiment_spec.questions), 'question')} of {experiment_spec.data}")
    if sources := [f"{name} ({spec})" if spec else name for name, spec in experiment_spec.all_specs.items()]:
        say(f"sources: {', '.join(sources)}")
    show_plans(plans, prices, options)
    if (published := published_table(recipe, figures(recipe))) is not None:
        say(plain_table(published))


def show_run(request: RunRequest, out: Path, options: RunOptions) -> None:
    """Run a request into its directory, with its progress, and show the scores."""
    from madke.api.batch import run

    asked = [request.model, *request.cast.values()]
    # A person types where the line of progress would be.
    with listening(line="human" not in asked) as listen:
        try:
            done = run(request, out=out, options=options, listen=listen, signals=True)
        except KeyboardInterrupt as interrupt:
            say(f"madke: interrupted{_how_far(out)}; the same command resumes", err=True)
            raise typer.Exit(exit_status(interrupt)) from None
        assert done.spec is not None
        assert done.meter is not None
        show_spent(done.spec.opened)
    _show_scores(
        out, done.meter, prices_of(options, done.spec.record.models.values()), options, done.spec.protocol.max_tokens
    )


def _how_far(out: Path) -> str:
    if not (out / "run.json").is_file():
        return ""
    spec, finished = read_run(out), sum(1 for _ in read_transcripts(out))
    return f" after {finished} of {len(spec.questions) * spec.repeats} questions"


def _show_scores(out: Path, meter: Meter, prices: Prices, options: RunOptions, max_tokens: int) -> None:
    from madke.report.html import write_report
    from madke.report.scores import all_failed, cut_note, scores_on_terminal
    from madke.scoring.arms import open_runs
    from madke.scoring.scored import kept_scores, score_and_store

    page, metrics = out / "report.html", out / "metrics.json"
    current = page.exists() and metrics.exists() and page.stat().st_mtime_ns >= metrics.stat().st_mtime_ns
    scores = kept_scores(out) if current and not (meter.done or prices) else None
    if scores is None:
        arms = open_runs([out])
        scores, values = score_and_store(arms[0], prices)
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
    if (cut := cut_note(scores, max_tokens)) is not None:
        say(f"madke: {cut}", err=True)
    if meter.left_over:
        say(f"madke: stopped: {why_stopped(meter)}", err=True)
        say(f"unfinished questions: {out / 'unfinished.jsonl'}", err=True)
    if scores.failed or meter.left_over:
        raise typer.Exit(1)


def run_arms(experiment_spec: ExperimentSpec, out: Path, options: RunOptions) -> None:
    """Run all arms into an experiment's folder, with their progress, and show the results."""
    from madke.experiments.experiment import run_experiment

    prices = prices_of(options, experiment_spec.models)
    with resumable():
        with listening() as listen:
            done = run_experiment(
                experiment_spec,
                out,
                options,
                listen=listen,
                on_plans=lambda plans: show_plans(plans, prices, options),
                on_arm=lambda number, arm: say(f"arm {number} of {len(experiment_spec.arms)}: {arm.name}", err=True),
                signals=True,
            )
        show_spent(done.sources.values())
        _show_results(done)
    _show_unfinished(done, options)


def _show_results(done: Experiment) -> None:
    """The finding, the scores, the papers' figures and the spending. All tests are in the report."""
    from madke.experiments.recipe import read_claims
    from madke.report.html import write_report
    from madke.report.reproduction import claims_table, figures, published_table
    from madke.report.scores import scores_on_terminal
    from madke.report.tables import plain_table
    from madke.scoring.arms import open_results

    recipe, folders = done.experiment_spec.recipe, [*done.arms.values()]
    arms = open_results(folders)
    named, prices = done.scores, done.account.budget.prices
    published = figures(recipe, folders)
    measured = {(each.arm, each.dataset, each.metric) for each in published if each.ours}
    # A terminal has no room for the others.
    next_to_ours = [each for each in published if (each.arm, each.dataset, each.metric) in measured]
    claims = claims_table(read_claims(), published)
    on_page, on_terminal = (
        [*filter(None, [published_table(recipe, each), claims])] for each in (published, next_to_ours)
    )
    # Tests compare each arm with the first one, so the reference comes first.
    arms.sort(key=lambda arm: arm.name != recipe.reference)
    page = done.path / "report.html"
    scores = [named[arm.path.name] for arm in arms]
    *_, finding = write_report(arms, page, scores=scores, title=recipe.title, source=recipe.source, tables=on_page)
    say_wrapped(finding)
    say(scores_on_terminal(named))
    for table in on_terminal:
        say(plain_table(table))
    if (note := shipped_note(prices)) is not None:
        say_wrapped(note)
    say(f"arms: {done.path / 'arms'}\nreport: {page}")


def _show_unfinished(done: Experiment, options: RunOptions) -> None:
    for name, reason in done.unfinished.items():
        why = why_stopped(done.meters[name]) if name in done.meters else reason
        say(f"madke: arm {name!r} is not finished: {why}", err=True)
    if done.waiting:
        say(f"madke: not started after {[*done.meters][-1]!r}: {count_of(len(done.waiting), 'arm')}", err=True)
    failed = sum(scores.failed for scores in done.scores.values())
    if done.unfinished or failed:
        how = "the command without --replay" if options.replay else "the same command"
        reached = done.account.budget.reached
        how = f"the same command with a higher {reached}" if reached else how
        lost = f"{count_of(failed, 'debate')} failed; " if failed else ""
        say(f"madke: {lost}{how} resumes", err=True)
        raise typer.Exit(1)


def show_plans(plans: Sequence[Planned], prices: Prices, options: RunOptions) -> None:
    """Print planned calls, tokens and cost, from the shortest to the longest debates, and their assumptions."""
    from madke.experiments.plan import REPLY_TOKENS, Load

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
    if not prices and not all(map(is_unpaid, models)):
        notes.append("The cost is not known: give prices with --prices FILE, or `--prices shipped` for those of madke.")
    notes += filter(None, [shipped_note(prices)])
    say_wrapped("\n".join(notes))
