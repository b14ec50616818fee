"""What tells arms apart: the tables of paired tests and of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from madke.report.tables import HEADINGS, MARK, NOTHING, Cell, Table, count_cell, in_percent, percent_cell, score_cell
from madke.scoring.paired import PairedTest
from madke.scoring.scores import Scores


def paired_table(tests: Sequence[PairedTest], title: str = "Paired tests") -> Table:
    """Paired tests, a row each. Differences are second minus first."""
    if not tests:
        return Table(title=title, columns=("first", "second", "value"), rows=())
    rows = [_test_cells(test) for test in tests]
    columns = tuple(dict.fromkeys(column for cells in rows for column in cells))
    filled = tuple(tuple(cells.get(column, NOTHING) for column in columns) for cells in rows)
    kinds: dict[str, dict[str, None]] = {}
    for test in tests:
        kinds.setdefault(test.test, {})[test.metric] = None
    notes = [
        "difference: second minus first, with its 95 % interval.",
        f"{MARK}: p < 0.05 after Holm's correction over the {len(tests)} tests of this table.",
        "could show: the smallest difference that n could show, given how much the two differ, with 80 % power at "
        "alpha 0.05.",
        "effect: g, the share of discordant pairs in favour of the second less a half, or d (both Cohen's).",
        *(f"{kind}: {', '.join(metrics)}." for kind, metrics in kinds.items()),
    ]
    for over, why in (
        ("questions", "they have the value in one arm only"),
        ("repeats", "an arm lacks one of the repeats"),
    ):
        if left_out := max((test.left_out for test in tests if test.over == over), default=0):
            notes.append(f"Up to {left_out} questions are in no test, because {why}.")
    notes += if_failed_notes(tests)
    return Table(title=title, columns=columns, rows=filled, notes=tuple(notes))


def if_failed_notes(tests: Sequence[PairedTest]) -> Iterator[str]:
    """For each two arms: what differences would be if all that failed in one of them only had gone one way."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        if test.if_failed is not None:
            low, high = (_unit(test)[1](value, "+") for value in test.if_failed)
            withheld = ", so it has no mark" if test.p_holm < 0.05 and not test.significant else ""
            name = HEADINGS.get(test.metric, test.metric)
            pairs.setdefault((test.left, test.right), []).append(f"{name} {low} and {high}{withheld}")
    for (left, right), found in pairs.items():
        yield (
            f"{left} and {right}: with what failed in one of the two counted against {right} and in its favour: "
            f"{'; '.join(found)}."
        )


def _test_cells(test: PairedTest) -> dict[str, Cell]:
    unit, scaled = _unit(test)
    times = 100.0 if unit else 1.0
    found, detectable, pairs = test.difference, test.detectable, test.discordant
    cells = {
        "first": Cell(text=test.left),
        "second": Cell(text=test.right),
        "value": Cell(text=f"{HEADINGS.get(test.metric, test.metric)}{unit}"),
        "n": count_cell(test.n),
        "of first": Cell(text=scaled(test.left_value), value=times * test.left_value),
        "of second": Cell(text=scaled(test.right_value), value=times * test.right_value),
        "difference": Cell(
            text=f"{scaled(found.value, '+')} ({scaled(found.low, '+')} to {scaled(found.high, '+')})",
            value=times * found.value,
            low=times * found.low,
            high=times * found.high,
        ),
    }
    if pairs is not None:
        cells |= {"only first": count_cell(pairs.only_left), "only second": count_cell(pairs.only_right)}
    cells |= {
        "p": Cell(text=p_value(test.p), value=test.p),
        "p (Holm)": Cell(text=p_value(test.p_holm), value=test.p_holm, mark=MARK if test.significant else ""),
        "effect": _effect(test),
        "could show": NOTHING if detectable is None else Cell(text=scaled(detectable), value=times * detectable),
    }
    return cells


def _unit(test: PairedTest) -> tuple[str, Callable[..., str]]:
    """What a value's figures are in, as its heading says; and how one of them is written, with a sign if asked."""
    unit = " %" if in_percent(test.metric) else ""

    def scaled(value: float, signed: str = "") -> str:
        # "z": what rounds to nothing has no minus.
        return f"{100 * value:{signed}z.1f}" if unit else f"{value:{signed}z.4g}"

    return unit, scaled


def _effect(test: PairedTest) -> Cell:
    effect = test.effect
    if effect is None:
        return NOTHING
    short = effect.name.removeprefix("Cohen's ")
    return Cell(text=f"{short} {effect.value:+z.2f}", value=effect.value, low=effect.low, high=effect.high)


def p_value(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def cost_table(scores: Mapping[str, Scores]) -> Table:
    """What arms got right beside what a question took: by name, in order."""
    columns = ("arm", "correct %", "rounds", "calls a question", "paid a question", "tokens a question")
    rows = []
    for name, found in scores.items():
        total, n = found.total, max(found.transcripts, 1)
        tokens = total.prompt_tokens + total.completion_tokens
        rounds = found.mean_rounds.value if found.mean_rounds else 0.0
        each = (rounds, total.calls / n, total.paid / n, tokens / n)
        figures = (score_cell(figure, digits=",.1f") if found.usage else NOTHING for figure in each)
        rows.append((Cell(text=name), percent_cell(found.correct), *figures))
    return Table(title="Cost", columns=columns, rows=tuple(rows))
