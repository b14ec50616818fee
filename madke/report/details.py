"""What the scores of a run hold and no table has room for, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from madke.report.score_tables import grades_missing
from madke.report.tables import ORACLE, in_percent, interval, percent
from madke.scoring.debate_rows import NO_SHARES
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate
from madke.terminal import printable


def _detail(name: str, found: Estimate) -> str:
    if in_percent(name):
        return f"{name} {interval(found)}, n = {found.n}"
    return f"{printable(name)} {found.value:.4g} ({found.low:.4g} to {found.high:.4g}), n = {found.n}"


def _repeated(scores: Scores) -> str:
    """The means over repeats, the questions fixed."""
    found = []
    for name, spread in scores.repeats.items():
        times, digits = (100, ".1f") if in_percent(name) else (1, ".4g")
        mean, low, high, sd = (
            f"{times * value:{digits}}" for value in (spread.mean, spread.low, spread.high, spread.sd)
        )
        found.append(f"{printable(name)} {mean} ({low} to {high}; sd {sd})")
    repeats = max(spread.repeats for spread in scores.repeats.values())
    return f"over {repeats} repeats, for these questions: {', '.join(found)}"


def _amount(name: str, found: Estimate | None) -> str:
    return f"{found.value:.2f}" if found and name in NO_SHARES else percent(found)


def _beside_metrics(scores: Scores) -> Iterator[str]:
    """What was measured of debates, rounds and the whole run, without intervals; each debater's changes left out."""

    def joined(values: Mapping[str, str]) -> str:
        return ", ".join(f"{printable(name.replace('_', ' '))} {value}" for name, value in values.items())

    if scores.corpus:
        yield f"as one corpus: {joined({name: f'{100 * value:.1f}' for name, value in scores.corpus.items()})}"
    if scores.debate:
        yield f"of the debates: {joined({name: _amount(name, found) for name, found in scores.debate.items()})}"
    by_round = {
        name: " > ".join(_amount(name, found) for found in values)
        for name, values in scores.by_round.items()
        if not name.startswith("changed_")
    }
    if len(next(iter(scores.by_round.values()), ())) > 1 or "cons" in by_round:
        yield f"round by round: {joined(by_round)}"


def score_details(scores: Scores) -> str:
    """Everything that one run's scores hold and the table leaves out, a line each."""
    lines = [
        *(_detail(name, found) for name, found in scores.metrics.items()),
        f"Cons by the judge {interval(scores.cons_judge)}, by the matcher {interval(scores.cons_matcher)}",
        f"Co2 (correct by the task's first metric) by the judge {interval(scores.co2_judge)}, "
        f"by the matcher {interval(scores.co2_matcher)}",
        *(
            [
                f"Co2 by the grader, consistent by the judge {interval(scores.co2_judge_grader)}, "
                f"by the matcher {interval(scores.co2_matcher_grader)}"
            ]
            if scores.co2_judge_grader or scores.co2_matcher_grader
            else []
        ),
        *([_repeated(scores)] if scores.repeats else []),
        f"ended by: {_counts(scores.stop_reasons)}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}, "
        f"with a prompt that had to be shortened {scores.shortened}",
        *_beside_metrics(scores),
    ]
    if scores.read_golds:
        lines.insert(0, f"{ORACLE} ({scores.read_golds} of {scores.transcripts} debates)")
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    if scores.mean_rounds is not None:
        found = scores.mean_rounds
        lines.append(f"rounds {found.value:.2f} ({found.low:.2f} to {found.high:.2f})")
    if "grade" in scores.parse_failures:
        missing = grades_missing(scores)
        lines.append(f"grade: missing {interval(scores.parse_failures['grade'])} %{f': {missing}' if missing else ''}")
    for stage, used in scores.usage.items():
        missed = scores.parse_failures.get(stage)
        lines.append(
            f"{stage}: {used.calls:,} calls ({used.paid:,} paid, {used.failed} failed, {used.retries} retries), "
            f"{used.prompt_tokens:,} prompt ({used.cached_tokens:,} cached) + {used.completion_tokens:,} completion "
            f"({used.reasoning_tokens:,} reasoning) tokens"
            + (" (estimated)" if used.estimated else "")
            + (f", unparsed {percent(missed)} %" if missed else "")
        )
    if scores.spending is not None and scores.spending.cost:
        cost = scores.spending.cost
        stages = ", ".join(f"{printable(stage)} {each:,.4f}" for stage, each in cost.items())
        lines.append(f"cost {sum(cost.values()):,.4f}: {stages}")
    if scores.spending is not None and scores.spending.unpriced:
        lines.append(f"without a price, and in no cost: {printable(', '.join(scores.spending.unpriced))}")
    return "\n".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
