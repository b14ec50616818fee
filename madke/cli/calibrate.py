"""``madke calibrate``: learn from a finished run when its answers can be acted on, and test that on another run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from madke._util.terminal import console, say, say_json
from madke.cli import flags
from madke.cli.flags import OUTPUT, option, switch
from madke.cli.paths import DataOption, Paths, open_arms, refuse_overwriting
from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.engine.deferral import Calibration
    from madke.report.tables import Table, TableRow
    from madke.scoring.arms import Results
    from madke.scoring.calibration import Evaluated, SignalQuality

_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)

EPILOG = flags.epilog(
    """The bound: with probability 1 - DELTA over the calibration questions, at most SHARE of the answers that are acted
    on are wrong, for questions like those of the calibration: the same dataset, protocol and models.""",
    "Examples:",
    "  madke calibrate runs/dev --out calibration.json",
    "  madke calibrate runs/test --calibration calibration.json --error-at-most 10%",
    "  madke run questions.jsonl --error-at-most 10% --calibration calibration.json --out runs/new",
)


def command(
    paths: Paths,
    out: Annotated[Path | None, option("Write the calibration.", "FILE", OUTPUT)] = None,
    signal: Annotated[str, option("Signal on which thresholds are set.", "NAME")] = "agreement_last",
    delta: Annotated[str, option("Probability that the bound does not hold.", "SHARE")] = "10%",
    calibration: Annotated[Path | None, option("Test this calibration on the runs.", "FILE")] = None,
    error_at_most: Annotated[str | None, option("Level of the test. Default: several.", "SHARE")] = None,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.", OUTPUT)] = False,
) -> None:
    """Print how well the signals of debates tell right answers from wrong ones. Write or test a calibration."""
    from madke._util.files import write_file
    from madke.engine.deferral import SIGNALS
    from madke.report.tables import rich_table
    from madke.runs.spec import level_of, read_calibration
    from madke.scoring.calibration import evaluated, fitted, judged, quality

    refuse_overwriting({"--out": out}, [*paths, calibration])
    if calibration is not None and out is not None:
        raise UserError("--calibration tests a calibration, --out writes one; give one or the other")
    arms = open_arms(paths, data, dataset, task, columns=columns)
    debates = [each for arm in arms for each in judged(arm.transcripts())]
    if not debates:
        raise UserError("no debate has an answer and a gold answer", file=arms[0].path)
    if calibration is not None:
        known, levels = read_calibration(calibration), _LEVELS if error_at_most is None else (level_of(error_at_most),)
        tested = [evaluated(known, debates, level) for level in levels]
        if as_json:
            say_json(tested)
        else:
            console().print(rich_table(_test_table(tested), details=True))
        return
    made = fitted(debates, signal, _described(arms), delta=level_of(delta, "--delta"))
    qualities = [found for name in SIGNALS if (found := quality(name, debates))]
    if out is not None:
        write_file(out, made.model_dump_json(indent=1).encode() + b"\n")
    if as_json:
        say_json({"signals": qualities, "thresholds": {level: made.threshold(level) for level in _LEVELS}})
        return
    for table in (_signal_table(qualities), _level_table(made)):
        console().print(rich_table(table, details=True))
    if out is not None:
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


def _signal_table(found: Sequence[SignalQuality]) -> Table:
    """The best signal first."""
    from madke.report.tables import count_cell, percent_cell, table_of

    rows: list[TableRow] = [
        {
            "signal": each.name,
            "n": count_cell(each.n),
            "wrong %": percent_cell(each.wrong),
            "AURC %": percent_cell(each.aurc),
            "best AURC %": percent_cell(each.best_aurc),
        }
        for each in sorted(found, key=lambda each: each.aurc)
    ]
    note = (
        "AURC: the mean share of wrong answers over all coverages, the most trusted first; a useless signal has that "
        "of all answers, the best possible one the next column."
    )
    return table_of("Signals", rows, [note])


def _level_table(made: Calibration) -> Table:
    """What could be acted on at each level, on the questions of the calibration."""
    from madke.engine.deferral import fewest
    from madke.report.tables import percent_cell, score_cell, table_of

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
    from madke.report.tables import percent_cell, table_of

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
