"""Tables of signals and calibrations."""

from collections.abc import Sequence

from madke.engine.deferral import Calibration
from madke.report.tables import Cell, Table, count_cell, percent_cell, score_cell
from madke.scoring.calibration import Evaluated
from madke.scoring.risk import SignalQuality


def signal_table(found: Sequence[SignalQuality]) -> Table:
    """How well each signal tells right answers from wrong ones, the best first."""
    rows = [
        (
            Cell(text=each.name), count_cell(each.n), percent_cell(each.wrong), _cell(each.aurc), _cell(each.best_aurc),
            _cell(each.at_80),
        )
        for each in sorted(found, key=lambda each: each.aurc)
    ]  # fmt: skip
    note = (
        "wrong: of all answers, with a 95 % interval. AURC: the mean share of wrong answers over all coverages, "
        "the most trusted first; a useless signal has that of all answers, the best possible one the next column. "
        "acc. at 80: accuracy if a fifth is deferred. Percent."
    )
    columns = ("signal", "n", "wrong %", "AURC", "best AURC", "acc. at 80")
    return Table(title="Signals", columns=columns, rows=tuple(rows), notes=(note,))


def reliability_table(found: Sequence[SignalQuality]) -> Table:
    """How often answers are right, by the value of each signal."""
    rows = [
        (
            Cell(text=each.name),
            Cell(text=f"{one.low:.2f}" if one.low == one.high else f"{one.low:.2f} to {one.high:.2f}"),
            count_cell(one.right.n),
            percent_cell(one.right),
        )
        for each in found
        for one in each.reliability
    ]
    columns = ("signal", "value", "n", "right %")
    return Table(title="Reliability", columns=columns, rows=tuple(rows), notes=("With 95 % intervals.",))


def level_table(made: Calibration, levels: Sequence[float]) -> Table:
    """What could be acted on at each level, on the questions that thresholds are tested on."""
    rows = []
    for level in levels:
        least = made.threshold(level)
        acted = 0 if least is None else sum(score >= least for score, _ in made.points)
        share = acted / len(made.points)
        why = "" if least is not None else _why_none(made, level)
        rows.append((_cell(level), score_cell(least, digits=".3f"), _cell(share), Cell(text=why)))
    note = f"With probability {1 - made.delta:g}, at most this share of the answers acted on are wrong."
    columns = ("error at most", "threshold", "acted on", "")
    return Table(title="Thresholds", columns=columns, rows=tuple(rows), notes=(note, "Percent."))


def _why_none(made: Calibration, level: float) -> str:
    least = made.fewest(level)
    few = len(made.points) < least
    return f"too few questions: {len(made.points)} of at least {least}" if few else "too many wrong answers"


def test_table(found: Sequence[Evaluated], known: Calibration) -> Table:
    """What a calibration does with debates that it has not seen."""
    rows = [
        (
            _cell(each.level), percent_cell(each.coverage), percent_cell(each.error), percent_cell(each.error_before),
            percent_cell(each.caught), score_cell(each.shift, digits=".3f"),
        )
        for each in found
    ]  # fmt: skip
    notes = [
        "error: share of wrong answers among those acted on, before: among all. caught: share of wrong answers "
        "on which the debaters agreed that are deferred. shift: p-value that the scores are distributed as in the "
        "calibration; a small one says that these questions are not like those, and the bound does not hold."
    ]
    if any(each.shift is not None and each.shift < 0.01 for each in found):
        notes.append(f"These debates are not like those of {known.run}: the bound does not hold for them.")
    columns = ("error at most", "acted on %", "error %", "before %", "caught %", "shift")
    return Table(title="Test", columns=columns, rows=tuple(rows), notes=tuple(notes))


def _cell(value: float) -> Cell:
    return score_cell(100 * value, digits=".1f")
