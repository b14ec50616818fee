"""What runs show, as one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from madke.report.scores import all_failed, readable_difference
from madke.report.tables import one_line, p_value, value_cell
from madke.scoring.arms import ArmValues, shared_questions
from madke.scoring.metrics import METRICS, common_metric, correct_by, heading_of, is_binary, is_grader, is_share
from madke.scoring.paired import PairedTest
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate

_ALPHA = 0.05
_UNDONE = ", but questions that failed in only one run could undo this"
_NAMED = 3
"""Runs or reasons that a sentence lists."""


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
    shown = _Shown(metric, first)
    if len(arms) == 2:
        rival, sentence = family[0], shown.compared(family[0])
        found = sentence.startswith(shown.NONE)
        sentence = f"{sentence[0].upper() if found else sentence[0]}{sentence[1:]}"
    else:
        rival, sentence = _best_of(arms, family, shown)
    unequal = readable_difference({arm.name: scores[arm.name] for arm in arms if arm.name in scores})
    return one_line(f"{sentence}{_by_others(rival, tests)}. {unequal}")


def _by_others(rival: PairedTest, tests: Sequence[PairedTest]) -> str:
    """The same difference by the other metrics of the final answer, in the direction of the sentence."""
    sign = -1 if rival.difference.value < 0 else 1
    pair = [test for test in tests if (test.left, test.right) == (rival.left, rival.right)]
    others = [
        f"{heading_of(test.metric)} {value_cell(test.metric, sign * test.difference.value, sign='+').text} "
        f"(p {_equal(test.p_holm)})"
        for test in pair
        if test.metric not in (rival.metric, "correct") and (test.metric in METRICS or is_grader(test.metric))
    ]
    return f"; by {', '.join(others)}" if others else ""


def _equal(p: float) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"


def _score(arm: ArmValues, scores: Scores) -> str:
    found = scores.correct
    if found is None:
        failed = f"all {scores.failed:,} debates failed"
        why = failed if all_failed(scores) else "no question has a gold answer and a result"
        return f"{arm.name}: no score, because {why}."
    shown = _Shown(arm.first_metric, arm.first_metric)
    return f"{arm.name}: {shown.value(found.value)}, {shown.interval(found)}, n = {found.n}."


def _best_of(arms: Sequence[ArmValues], family: Sequence[PairedTest], shown: _Shown) -> tuple[PairedTest, str]:
    """The best of three or more runs against the next one, or against all from which no test tells it apart.

    Runs with the same highest mean are named together.
    """
    shared = shared_questions(arms)
    tested = {name for test in family for name in (test.left, test.right)}
    means = {
        arm.name: fmean(fmean(values[key].values()) for key in shared if key in values)
        for arm in arms
        if arm.name in tested and (values := arm.values[shown.metric])
    }
    best, *others = sorted(means, key=means.__getitem__, reverse=True)
    against = {test.right: test for test in family if test.left == best}
    against |= {test.left: test for test in family if test.right == best}
    tied = [name for name in others if name in against and not against[name].significant]
    rival = against[next(name for name in [*tied, *others] if name in against)]
    figures = {name: f"{name} ({shown.value(means[name])})" for name in means}
    if set(against) != set(others):  # each run is only tested against the first
        return rival, f"{figures[best]} is highest of {len(arms)} runs; {shown.compared(rival, family=True)}"
    if not tied:
        return rival, f"{figures[best]} is best of {len(arms)} runs; {shown.compared(rival, family=True)}"
    if level := [name for name in tied if means[name] == means[best]]:
        together = _listed([best, *level])
        return rival, f"{together} are level ({shown.value(means[best])}), the highest of {len(arms)} runs"
    together = _listed([figures[name] for name in tied])
    over = "" if len(tied) == 1 else f"over {tied[0]} "
    size = shown.figures(rival, family=True)
    highest = f"{figures[best]} is highest of {len(arms)} runs"
    return rival, f"{highest}, but not significantly above {together}: {over}{size}"


def _listed(names: Sequence[str]) -> str:
    listed = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


class _Shown:
    """Figures of one metric in words."""

    NONE = "no difference found between "

    def __init__(self, metric: str, first: str) -> None:
        self.metric = metric
        correct = metric == "correct" or (metric == first and is_binary(metric))
        self._name = correct_by(metric) if correct else heading_of(metric)
        self._share = is_share(metric)
        self._of = "" if metric == "correct" else f" of {heading_of(metric)}"

    def value(self, found: float) -> str:
        return f"{self._figure(found)} % {self._name}" if self._share else f"{self._name} {self._figure(found)}"

    def interval(self, found: Estimate) -> str:
        return f"95 % {value_cell(self.metric, found).interval}"

    def compared(self, test: PairedTest, *, family: bool = False) -> str:
        """Which of two runs is better and by how much, or that no difference was found."""
        better, worse = (test.left, test.right) if test.difference.value < 0 else (test.right, test.left)
        if test.significant:
            return f"{better} beats {worse} by {self.figures(test, family=family)}"
        ahead = f"{better} is ahead by " if test.difference.value else ""
        return f"{self.NONE}{better} and {worse}: {ahead}{self.figures(test, family=family)}"

    def figures(self, test: PairedTest, *, family: bool) -> str:
        """The size of a difference, its interval and p, and whether failed questions could undo it."""
        found = test.difference
        if found.value < 0:
            found = replace(found, value=-found.value, low=-found.high, high=-found.low)
        size = f"{self._figure(found.value)} {'points' if self._share else ''}".strip() + self._of
        shown = f"{'Holm-corrected p' if family else 'p'} {_equal(test.p_holm)}"
        undone = "" if test.significant or test.p_holm >= _ALPHA else _UNDONE
        return f"{size}, {self.interval(found)}, {shown}, n = {test.n}{undone}"

    def _figure(self, value: float) -> str:
        return value_cell(self.metric, value).text
