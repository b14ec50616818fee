"""What ``madke score --calibrate`` and ``--calibration`` do: learn when answers can be acted on, and test that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from madke._util.files import write_file
from madke._util.terminal import say, say_json
from madke.core.errors import UserError
from madke.engine.deferral import fewest
from madke.report.tables import percent_cell, plain_table, score_cell, table_of
from madke.runs.spec import read_calibration
from madke.scoring.calibration import evaluated, fitted, judged

if TYPE_CHECKING:
    from madke.engine.deferral import Calibration
    from madke.report.tables import Table, TableRow
    from madke.scoring.arms import Results
    from madke.scoring.calibration import Evaluated

_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Shares of wrong answers for which tables have thresholds."""


def learn_or_test(
    arms: Sequence[Results], out: Path | None, calibration: Path | None, signal: str, *, as_json: bool
) -> None:
    """Write a calibration to ``out``, or print how a given one does on these runs."""
    if out is not None and calibration is not None:
        raise UserError("--calibrate writes a calibration, --calibration tests one; give one or the other")
    debates = [each for arm in arms for each in judged(arm.transcripts())]
    if not debates:
        raise UserError("no debate has an answer and a gold answer", file=arms[0].path)
    if calibration is not None:
        known = read_calibration(calibration)
        tested = [evaluated(known, debates, level) for level in _LEVELS]
        if as_json:
            say_json(tested)
        else:
            say(plain_table(_test_table(tested), details=True))
    elif out is not None:
        made = fitted(debates, signal, _described(arms))
        write_file(out, made.model_dump_json(indent=1).encode() + b"\n")
        if as_json:
            say_json({"thresholds": {level: made.threshold(level) for level in _LEVELS}})
            return
        say(plain_table(_level_table(made), details=True))
        say(f"calibration: {out}: thresholds on {signal}, tested on {len(made.points)} questions")


def _described(arms: Sequence[Results]) -> dict[str, object]:
    specs = [arm.config for arm in arms if arm.config is not None]
    if len(specs) < len(arms):
        raise UserError("expected run directories: a calibration records protocol, tasks and models")
    if len({(spec.variant, *sorted(spec.models.items())) for spec in specs}) > 1:
        raise UserError("the runs have different protocols or models; calibrate each of them alone")
    tasks = {transcript.task for arm in arms for transcript in arm.transcripts()}
    return {
        "run": ", ".join(arm.name for arm in arms),
        "variant": specs[0].variant,
        "tasks": tuple(sorted(tasks)),
        "models": tuple(sorted(set(specs[0].models.values()))),
    }


def _level_table(made: Calibration) -> Table:
    """What could be acted on at each level, on the questions of the calibration."""
    rows: list[TableRow] = []
    for level in _LEVELS:
        least, needed = made.threshold(level), fewest(level, made.delta)
        few = f"too few questions: {len(made.points)} of at least {needed}" if len(made.points) < needed else ""
        acted = 0 if least is None else sum(score >= least for score, _ in made.points)
        rows.append(
            {
                "error at most %": percent_cell(level),
                "threshold": score_cell(least, digits=".3f"),
                "acted on %": percent_cell(acted / len(made.points)),
                "why none": "" if least is not None else few or "too many wrong answers",
            }
        )
    note = f"With probability {1 - made.delta:g}, at most this share of the answers acted on are wrong."
    return table_of("Thresholds", rows, [note])


def _test_table(found: Sequence[Evaluated]) -> Table:
    rows: list[TableRow] = [
        {
            "error at most %": percent_cell(each.level),
            "acted on %": percent_cell(each.coverage),
            "error %": percent_cell(each.error),
            "before %": percent_cell(each.error_before),
            "caught %": percent_cell(each.caught),
        }
        for each in found
    ]
    note = (
        "error: share of wrong answers among those acted on, before: among all. caught: share of wrong answers "
        "on which the debaters agreed that are deferred."
    )
    return table_of("Test", rows, [note])
