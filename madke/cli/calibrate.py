"""``madke calibrate``: learn from a finished run when its answers can be acted on, and test that on another run."""

from pathlib import Path
from typing import Annotated, Any

from madke._util.terminal import console, say, say_json
from madke.cli import flags
from madke.cli.flags import OUTPUT, option, switch
from madke.cli.paths import DataOption, Paths, open_arms, refuse_overwriting
from madke.core.errors import UserError

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
    signals: Annotated[str | None, option("Signals, e.g. agreement_last,judge. Default: all.", "NAMES")] = None,
    delta: Annotated[str, option("Probability that the bound does not hold.", "SHARE")] = "10%",
    calibration: Annotated[Path | None, option("Test this calibration on the runs.", "FILE")] = None,
    error_at_most: Annotated[str | None, option("Level of the test. Default: several.", "SHARE")] = None,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    task: flags.TaskOption = None,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.", OUTPUT)] = False,
) -> None:
    """Print how well the signals of debates tell right answers from wrong ones. Write or test a calibration."""
    from madke.report.calibration_tables import level_table, reliability_table, signal_table, test_table
    from madke.report.tables import rich_table
    from madke.runs.calibration_file import level_of, read_calibration
    from madke.scoring.calibration import evaluated, fitted, judged, present
    from madke.scoring.risk import quality

    refuse_overwriting({"--out": out}, [*paths, calibration])
    if calibration is not None and (out is not None or signals is not None):
        raise UserError("--calibration tests a calibration; --out and --signals make one: give one or the other")
    arms = open_arms(paths, data, dataset, task)
    debates = [each for arm in arms for each in judged(arm.transcripts())]
    if not debates:
        raise UserError("no debate has an answer and a gold answer", file=arms[0].path)
    names = present(debates) if signals is None else [name.strip() for name in signals.split(",")]
    if calibration is not None:
        known, levels = read_calibration(calibration), _LEVELS if error_at_most is None else (level_of(error_at_most),)
        found = [evaluated(known, debates, level) for level in levels]
        if as_json:
            say_json(found)
        else:
            console().print(rich_table(test_table(found, known), details=True))
        return
    made = fitted(debates, names, _described(arms), delta=level_of(delta, "--delta"))
    qualities = [quality(name, [(each.found[name], each.wrong) for each in debates]) for name in names]
    if out is not None:
        from madke._util.files import write_file

        write_file(out, made.model_dump_json(indent=1).encode() + b"\n")
    if as_json:
        say_json({"signals": qualities, "thresholds": {level: made.threshold(level) for level in _LEVELS}})
        return
    for table in (signal_table(qualities), reliability_table(qualities), level_table(made, _LEVELS)):
        console().print(rich_table(table, details=True))
    if out is not None:
        say(f"calibration: {out}: {len(made.weights)} signals, thresholds tested on {len(made.points)} questions")


def _described(arms: Any) -> dict[str, object]:
    specs = [arm.config for arm in arms]
    if None in specs:
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
