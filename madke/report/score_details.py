"""What `madke score --details` says below its table: a run's other measures, its calls, tokens and cost, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from madke._util.terminal import printable
from madke.core.chat import Prefix
from madke.core.errors import count_of
from madke.core.transcript import StageUsage
from madke.report.tables import (
    ORACLE,
    interval,
    percent_cell,
    score_cell,
    value_cell,
)
from madke.scoring.scores import Scores
from madke.scoring.shadow import changed_note, gate_lines
from madke.scoring.statistics import Estimate
from madke.scoring.value_units import is_share


def _repeated(scores: Scores) -> str:
    found = []
    for name, spread in scores.repeats.items():
        mean, sd = value_cell(name, spread.over_repeats()), value_cell(name, spread.sd)
        found.append(f"{printable(name)} {mean.text} ({mean.interval}; sd {sd.text})")
    repeats = max(spread.repeats for spread in scores.repeats.values())
    return f"over {repeats} repeats, for these questions: {', '.join(found)}"


def _amount(name: str, found: Estimate | None) -> str:
    return (percent_cell(found) if is_share(name) else score_cell(found, digits=".2f")).text


def _other_measures(scores: Scores) -> Iterator[str]:
    """Measures of debates, rounds and the whole run, without intervals and without changes by debater."""

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


def _by_judge_and_matcher(name: str, judge: Estimate | None, matcher: Estimate | None) -> str:
    return f"{name} by the judge {interval(judge)}, by the matcher {interval(matcher)}"


def score_details(scores: Scores) -> str:
    """The scores of a run that tables leave out, one line each."""
    lines = [
        *(f"{printable(name)} {value_cell(name, each).whole}, n = {each.n}" for name, each in scores.metrics.items()),
        _by_judge_and_matcher("Cons", scores.cons_judge, scores.cons_matcher),
        _by_judge_and_matcher("Co2 (correct by the task's first metric)", scores.co2_judge, scores.co2_matcher),
    ]
    if scores.co2_judge_grader or scores.co2_matcher_grader:
        by_grader = scores.co2_judge_grader, scores.co2_matcher_grader
        lines.append(_by_judge_and_matcher("Co2 by the grader, consistent", *by_grader))
    lines += [
        *([_repeated(scores)] if scores.repeats else []),
        f"ended by: {', '.join(f'{name} {count}' for name, count in scores.stop_reasons.items()) or 'nothing'}",
        f"degraded {scores.degraded}, with a partial pool {scores.partial_pools}, "
        f"with a shortened prompt {scores.shortened}",
        *_other_measures(scores),
    ]
    if scores.shadow is not None:
        lines += [scores.shadow.sentence, *filter(None, [scores.shadow.price]), *gate_lines(scores.shadow)]
        lines += filter(None, [changed_note([scores.shadow])])
    if scores.read_golds:
        lines.insert(0, f"{ORACLE} ({scores.read_golds} of {scores.transcripts} debates)")
    if scores.failed and scores.correct_if_failed:
        low, high = scores.correct_if_failed
        lines.append(f"correct if all failed questions were wrong {100 * low:.1f}, if all were right {100 * high:.1f}")
    if scores.mean_rounds is not None:
        lines.append(f"rounds {score_cell(scores.mean_rounds, digits='.2f').whole}")
    if "grade" in scores.parse_failures:
        missing = grades_missing(scores)
        lines.append(f"grade: missing {interval(scores.parse_failures['grade'])} %{f': {missing}' if missing else ''}")
    for stage, used in scores.usage.items():
        missed = scores.parse_failures.get(stage)
        lines.append(
            f"{stage}: {count_of(used.calls, 'call')} ({used.paid:,} paid, {used.failed} failed, {used.retries} "
            f"retried), {used.prompt_tokens:,} prompt ({used.cached_tokens:,} cached"
            + (f", {used.distinct_tokens:,} distinct" if used.distinct_tokens else "")
            + ") + "
            f"{used.completion_tokens:,} completion ({used.reasoning_tokens:,} reasoning) tokens"
            + (" (estimated)" if used.estimated else "")
            + (f", {count_of(used.server_cut, 'prompt')} cut by the server" if used.server_cut else "")
            + (
                f", {count_of(used.not_utf8, 'reply', 'replies')} with bytes that are not UTF-8"
                if used.not_utf8
                else ""
            )
            + (f", {used.bound:,} bound by a JSON schema" if used.bound else "")
            + (f", unparsed {percent_cell(missed).text} %" if missed else "")
            + by_status(scores.readings.get(stage, {}))
        )
    if (prompts := prompt_line(scores)) is not None:
        lines.append(prompts)
    if scores.spending is not None and scores.spending.cost:
        cost = scores.spending.cost
        stages = ", ".join(f"{printable(stage)} {each:,.4f}" for stage, each in cost.items())
        lines.append(f"cost {sum(cost.values()):,.4f}: {stages}")
    if scores.spending is not None and scores.spending.unpriced:
        lines.append(f"without a price, excluded from the cost: {printable(', '.join(scores.spending.unpriced))}")
    return "\n".join(lines)


_WASTE = 0.3
"""Share of the prompt tokens, neither distinct nor cached, from which advice pays."""


def prompt_line(scores: Scores) -> str | None:
    """Prompt tokens sent, distinct within each debate, and cached; None if no server counted any."""
    total = scores.total
    if not total.prompt_tokens or total.estimated >= total.calls:
        return None
    sent, distinct, cached = total.prompt_tokens, total.distinct_tokens, total.cached_tokens
    saved = scores.spending.saved if scores.spending is not None else 0.0
    parts = [
        f"{sent:,} sent",
        *([f"{distinct:,} distinct"] if distinct else []),
        f"{cached:,} reported as cached ({cached / sent:.0%})",
        *([f"which saved {saved:,.4f}"] if saved else []),
    ]
    return f"prompt tokens: {', '.join(parts)}"


def prefix_advice(total: StageUsage, prefix: Prefix, with_slots: Collection[str] = ()) -> str | None:
    """What would make a server read less again; None if that would be little, or if it is not known to cache.

    ``with_slots`` are the models whose servers keep prompts in slots.
    """
    again = total.prompt_tokens - total.distinct_tokens - total.cached_tokens
    if not total.distinct_tokens or not total.cached_tokens or again < _WASTE * total.prompt_tokens:
        return None
    waste = f"{again:,} prompt tokens were read again"
    if with_slots:
        return f"{waste}: serve {', '.join(sorted(with_slots))} with one slot, or set --concurrency to its slots"
    return None if prefix == "on" else f"{waste}: set --prefix on, so that calls that begin alike wait for the first"


_UNREAD_NOTE = "unread: the final text holds no marked answer, only gives back its prompt, or was cut off"


def unread_note(scores: Iterable[Scores]) -> str:
    """What ``unread`` counts; that these answers are wrong, if any run is scored."""
    return f"{_UNREAD_NOTE}; it is wrong." if any(each.correct for each in scores) else f"{_UNREAD_NOTE}."


def unread(scores: Scores) -> int:
    """Number of debates without an answer whose final text cannot be read."""
    return sum(scores.unread.values())


def cut_note(scores: Scores, max_tokens: int | None = None) -> str | None:
    """How many replies were cut off before they said anything that can be read, and what to do; None if none was."""
    if not scores.cut:
        return None
    limit = "max_tokens" if max_tokens is None else count_of(max_tokens, "token")
    stages = ", ".join(f"{printable(stage)} {count}" for stage, count in scores.cut.items())
    count = sum(scores.cut.values())
    were = "was" if count == 1 else "were"
    replies = "1 reply" if count == 1 else f"{count:,} replies"
    return f"{replies} {were} cut off at {limit} and cannot be read ({stages}); --set max_tokens=N"


def bound_note(scores: Scores) -> str | None:
    """How many calls of each stage were bound by a JSON schema; None if none was."""
    bound = {stage: used for stage, used in scores.usage.items() if used.bound}
    stages = ", ".join(f"{printable(stage)} {used.bound:,} of {used.calls:,}" for stage, used in bound.items())
    return f"bound by a JSON schema: {stages} calls" if bound else None


def by_status(shares: Mapping[str, Estimate]) -> str:
    """The shares of replies by their status, in words."""
    stated = ", ".join(f"{status} {percent_cell(share).text} %" for status, share in shares.items())
    return f" ({stated})" if stated else ""


def grades_missing(scores: Scores) -> str:
    """The number of answers without a grade and the bounds of the grader's mean; empty if all have one."""
    if not scores.ungraded or scores.grader_if_ungraded is None:
        return ""
    bounds = "{:.1f} % (all wrong) and {:.1f} % (all right)".format(*(100 * each for each in scores.grader_if_ungraded))
    what = count_of(scores.ungraded, "answer has no grade and is", "answers have no grade and are")
    return f"{what} excluded from the grader's mean; with them it is between {bounds}"
