"""What runs and studies show, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from madke.core.chat import Usage
from madke.core.errors import count_of
from madke.models.prices import Prices, ShippedPrice, cost, price_of
from madke.report.scores import all_failed, readable_difference
from madke.report.tables import (
    NO_FIGURE,
    Cell,
    Table,
    TableRow,
    count_cell,
    equals,
    one_line,
    percent_cell,
    table_of,
    value_cell,
)
from madke.scoring.arms import ArmValues, shared_questions
from madke.scoring.metrics import METRICS, common_metric, correct_by, heading_of, is_binary, is_grader, is_share
from madke.scoring.paired import PairedTest, equal_within, further_questions
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate
from madke.scoring.verdict import MAX_QUESTIONS, Contrast, Verdict

CALL, VOTE = "one call with your documents", "a vote of equal cost"
_NAMES = {"rag": CALL, "votes": VOTE}

_WHAT = {
    "alone": "one call without documents",
    "rag": "one call with them",
    "votes": "as many calls, most frequent answer",
    "debate": "MADKE over the same passages",
    "views": "samples over other passages each, vote",
    "second-turn": "each reads only its own first answer",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmCost:
    """Calls, tokens and money of one arm's answers, including calls that another arm paid for."""

    calls: int
    tokens: int
    money: float | None
    """None if a model has no price."""
    unit: str
    """``$`` for shipped prices; empty: the currency of the price file."""

    def price(self) -> str:
        """The money with its unit; empty without a price."""
        if self.money is None:
            return ""
        return f"{self.unit}{self.money:,.2f}" if self.money >= 0.995 else f"{self.unit}{self.money:.2g}"


def arm_cost(scores: Scores, models: Mapping[str, str], prices: Prices) -> ArmCost:
    """The cost of an arm. ``models``: role -> model; arms with several models have no price."""
    used, names = scores.total, {*models.values()}
    price = price_of(next(iter(names)), prices) if len(names) == 1 else None
    usage = Usage(
        prompt_tokens=used.prompt_tokens, cached_tokens=used.cached_tokens, completion_tokens=used.completion_tokens
    )
    return ArmCost(
        calls=used.calls,
        tokens=used.tokens,
        money=None if price is None else cost(usage, price),
        unit="$" if isinstance(price, ShippedPrice) else "",
    )


def verdict_sentence(verdict: Verdict, right: Mapping[str, Estimate], costs: Mapping[str, ArmCost]) -> str:
    """The verdict in one or two sentences. ``right``: arm -> its share of right answers; ``costs``: arm -> its cost."""
    both = verdict.vote, verdict.call
    if verdict.outcome == "yes":
        gains = " and ".join(f"{_points(x.gain.value)} better than {_name(x)} ({_interval(x.gain)})" for x in both)
        arms = ("debate", "votes", "rag")
        return f"Yes. The debate is {gains}: {_shares(right, *arms)}, with {_calls(costs, *arms)}."
    if verdict.outcome == "no":
        against = verdict.deciding
        name, how = _name(against), "better" if against.is_worse else "as good"
        over = "it" if against is verdict.call else "the vote"
        size = (
            f"the debate is {_points(-against.gain.value)} worse, {_interval(against.gain)}"
            if against.is_worse
            else f"over {over} a debate gains at most {_points(max(0.0, against.gain.high))}, your margin was "
            f"{100 * verdict.margin:g}"
        )
        return (
            f"No. {name[0].upper()}{name[1:]} is {how}: {_calls(costs, against.over, 'debate')}"
            f" ({_shares(right, against.over, 'debate')}; {size})."
        )
    if missing := " and ".join(_name(each) for each in both if not each.gain.n):
        return f"Not decided: no question has an answer of both the debate and {missing}."
    ahead = " and ".join(f"{_ahead(each.gain.value)} {_name(each)} ({_interval(each.gain)})" for each in verdict.open)
    more = f"{MAX_QUESTIONS:,} questions like these would not decide"
    if verdict.more is not None:  # an estimate, to two digits
        more = f"about {count_of(int(float(f'{verdict.more:.2g}')), 'more question')} would decide"
    return f"Not decided: the debate is {ahead}; {more}."


def _name(contrast: Contrast) -> str:
    return _NAMES.get(contrast.over, contrast.over)


def _points(difference: float) -> str:
    return count_of(round(100 * difference), "point")


def _ahead(difference: float) -> str:
    points = round(100 * difference)
    if not points:
        return "level with"
    return f"{_points(abs(difference))} {'ahead of' if points > 0 else 'behind'}"


def _interval(estimate: Estimate) -> str:
    """Whole points; tenths where they tell the side of 0."""
    ends = (100 * bound for bound in (estimate.low, estimate.high))
    return " to ".join(f"{end:+.0f}" if round(end) else f"{end:+.1f}" for end in ends)


def _shares(right: Mapping[str, Estimate], *arms: str) -> str:
    each = [f"{100 * right[arm].value:.0f} %" for arm in arms if arm in right]
    return " and ".join(each) if len(each) < 3 else f"{each[0]} against {each[1]} and {each[2]}"


def _calls(costs: Mapping[str, ArmCost], first: str, *others: str) -> str:
    """``25 calls instead of 150, $0.01 instead of $0.07``."""
    known = [costs[arm] for arm in others if arm in costs]
    if first not in costs or not known:
        return "the same questions"
    calls = f"{costs[first].calls:,} calls instead of {' and '.join(f'{each.calls:,}' for each in known)}"
    money = [each.price() for each in (costs[first], *known)]
    return calls if not all(money) else f"{calls}, {money[0]} instead of {' and '.join(money[1:])}"


def additions(verdict: Verdict) -> Iterator[str]:
    """What documents, a vote and talking add, in three lines."""
    lines = {
        "documents": ("What the documents add", "one call without them"),
        "vote": ("What a vote adds", CALL),
        "talking": ("What talking adds", VOTE),
    }
    for name, (what, over) in lines.items():
        gain = verdict.adds[name]
        if gain.n:
            points = f"{100 * gain.value:+.0f} {'point' if abs(round(100 * gain.value)) == 1 else 'points'}"
            yield f"{what}: {points} ({_interval(gain)}) over {over}."


def votes_sentence(scores: Scores, votes: float) -> str:
    """How many independent opinions the votes were worth. ``votes``: the mean number of votes on a question."""
    effective = scores.votes
    if effective is None:
        return "The number of independent opinions is unknown: the votes are equally often right on all questions."
    return (
        f"You paid for {votes:.3g} opinions and got {effective.value:.1f} "
        f"({effective.low:.1f} to {effective.high:.1f}), difficulty included. They are samples of one prompt "
        "and one model; another prompt, other passages or another model buys more independent ones."
    )


def study_table(scores: Mapping[str, Scores], right: Mapping[str, Estimate], costs: Mapping[str, ArmCost]) -> Table:
    """One row per arm: right answers, calls, tokens, money, and the share of replies that could be read."""
    rows: list[TableRow] = []
    for name in _WHAT:
        if name not in scores:
            continue
        spent, readable = costs[name], [each.value for each in scores[name].readable.values()]
        row: TableRow = {
            "arm": name,
            "": _WHAT[name],
            "right %": percent_cell(right[name]) if name in right else NO_FIGURE,
            "calls": count_cell(spent.calls),
            "tokens": count_cell(spent.tokens),
        }
        if any(each.money is not None for each in costs.values()):
            row["cost"] = NO_FIGURE if spent.money is None else Cell(text=spent.price(), value=spent.money)
        row["readable %"] = percent_cell(fmean(readable)) if readable else NO_FIGURE
        rows.append(row)
    return table_of("", rows)


def scope(done: int, total: int, verdict: Verdict, *, limit: str = "") -> str:
    """The number of questions behind the verdict, and why it is not all of them."""
    if limit:
        return f"Ended at {limit} after {done:,} of {count_of(total, 'question')}; the same command continues."
    if done < total:
        return (
            f"Decided after {done:,} of {count_of(total, 'question')}; --all asks the rest. Intervals hold at every "
            "look (95 %)."
        )
    return f"{count_of(total, 'question')}; intervals hold at every look (95 %)."


def equal_cost_note(costs: Mapping[str, ArmCost]) -> Sequence[str]:
    """A warning if the vote and the debate did not make about the same number of calls."""
    if not {"votes", "debate"} <= costs.keys() or not costs["debate"].calls:
        return []
    ratio = costs["votes"].calls / costs["debate"].calls
    if 0.9 <= ratio <= 1.1:
        return []
    return [f"The vote made {100 * ratio:.0f} % of the debate's calls: its size was set on the first questions."]


# The finding of runs

_UNDONE = ", but questions that failed in only one run could undo this"


def finding(arms: Sequence[ArmValues], scores: Mapping[str, Scores], tests: Sequence[PairedTest]) -> str:
    """The score of one run, or which of several runs is best, if their tests find that, in one plain sentence.

    It is about the main metric: the first metric of the tasks, or of the ``tests`` if they lack it. These are of all
    pairs of runs, or of each run against the first. The difference by the other metrics stands next to it, and so does
    a difference in how well replies could be read.
    """
    if len(arms) == 1:
        return one_line(_score(arms[0], scores[arms[0].name]))
    if not tests:
        return "Nothing to compare: no shared question has a score in both of two runs."
    first = common_metric(arm.first_metric for arm in arms)
    metric = first if any(test.metric == first for test in tests) else tests[0].metric
    family = [test for test in tests if test.metric == metric]
    if len(arms) == 2:
        rival, highest = family[0], ""
    else:
        rival, best, mean = _best_of(arms, family, metric)
        highest = f"{best} ({_figure(metric, mean, first)}) is highest of {len(arms)} runs; "
    sentence = _sentence(highest + _comparison_sentence(rival, "Holm-corrected " if highest else ""))
    sign = -1 if rival.difference.value < 0 else 1
    others = [
        f"{heading_of(test.metric)} {value_cell(test.metric, sign * test.difference.value, sign='+').text} "
        f"(p {equals(test.p_holm)})"
        for test in tests
        if (test.left, test.right) == (rival.left, rival.right)
        and test.metric not in (metric, "correct")
        and (test.metric in METRICS or is_grader(test.metric))
    ]
    by_others = f"; by {', '.join(others)}" if others else ""
    unequal = readable_difference({arm.name: scores[arm.name] for arm in arms if arm.name in scores})
    return one_line(f"{sentence}{by_others}. {unequal}")


def log_finding(test: PairedTest, margin: float) -> str:
    """The result for two logs in one plain sentence. ``margin``: a smaller difference is none that matters."""
    parts, more = [_comparison_sentence(test)], further_questions(test)
    if equal_within(test.difference, margin):
        parts.append(f"equal within {100 * margin:g} points")
    elif not test.significant and more is not None:
        parts.append(f"to show a difference of this size needs n = {more:,} more")
    return one_line(f"{_sentence('; '.join(parts))}.")


def _sentence(text: str) -> str:
    """Begins with a capital letter, unless it begins with a name."""
    return f"N{text[1:]}" if text.startswith("no ") else text


def _score(arm: ArmValues, scores: Scores) -> str:
    estimate, metric = scores.correct, arm.first_metric
    if estimate is None:
        failed = f"all {scores.failed:,} debates failed"
        why = failed if all_failed(scores) else "no question has a gold answer and a result"
        return f"{arm.name}: no score, because {why}."
    within = value_cell(metric, estimate).interval
    return f"{arm.name}: {_figure(metric, estimate.value, metric)}, 95 % {within}, n = {estimate.n}."


def _figure(metric: str, value: float, first: str) -> str:
    """A figure with its name: ``70.8 % correct by match``. ``first``: the first metric of the tasks."""
    is_correct = metric == "correct" or (metric == first and is_binary(metric))
    name, text = correct_by(metric) if is_correct else heading_of(metric), value_cell(metric, value).text
    return f"{text} % {name}" if is_share(metric) else f"{name} {text}"


def _best_of(arms: Sequence[ArmValues], family: Sequence[PairedTest], metric: str) -> tuple[PairedTest, str, float]:
    """The highest of three or more runs, its mean, and its test against the next one from which no test tells it apart.

    If there is none, the next one. If each run is only tested against the first, the highest is compared with that.
    """
    shared = shared_questions(arms)
    tested = {name for test in family for name in (test.left, test.right)}
    means = {
        arm.name: fmean(fmean(values[key].values()) for key in shared if key in values)
        for arm in arms
        if arm.name in tested and (values := arm.values[metric])
    }
    best, *others = sorted(means, key=means.__getitem__, reverse=True)
    against = {
        test.right if test.left == best else test.left: test for test in family if best in (test.left, test.right)
    }
    known = [against[name] for name in others if name in against]
    return next((test for test in known if not test.significant), known[0]), best, means[best]


def _comparison_sentence(test: PairedTest, holm: str = "") -> str:
    """Which of two runs is better and by how much, or that no difference was found; and if failures could undo it."""
    better, worse, difference = test.left, test.right, test.difference
    if difference.value < 0:
        difference = -difference
    else:
        better, worse = worse, better
    size = f"{value_cell(test.metric, difference.value).text}{' points' if is_share(test.metric) else ''}"
    size += "" if test.metric == "correct" else f" of {heading_of(test.metric)}"
    within = value_cell(test.metric, difference).interval
    undone = "" if test.significant or test.p_holm >= 0.05 else _UNDONE
    figures = f"{size}, 95 % {within}, {holm}p {equals(test.p_holm)}, n = {test.n}{undone}"
    if test.significant:
        return f"{better} beats {worse} by {figures}"
    ahead = f"{better} is ahead by " if test.difference.value else ""
    return f"no difference found between {better} and {worse}: {ahead}{figures}"
