"""Read a calibration, and check that it fits the run and the level that is asked for."""

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from madke._util.yaml_file import read_json
from madke.core.errors import UserError
from madke.engine.deferral import CALIBRATION_FORMAT, Calibration, Deferring

_log = logging.getLogger(__name__)


def read_calibration(path: Path) -> Calibration:
    """The calibration in a file; UserError if it holds none, or one of another format."""
    found = read_json(path, Calibration, "is not a calibration that `madke calibrate` wrote")
    if found.format != CALIBRATION_FORMAT:
        raise UserError(
            f"has format {found.format}; this version of madke reads format {CALIBRATION_FORMAT}", file=path
        )
    return found


def level_of(text: str | float, option: str = "--error-at-most") -> float:
    """A level from ``5%`` or ``0.05``; UserError, which names the ``option``, if it is not between 0 and 1."""
    try:
        given = str(text).strip()
        level = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
    except ValueError:
        level = math.nan
    if not 0 < level < 1:
        raise UserError(f"{option} {text!r}: expected a share such as 5% or 0.05")
    return level


def deferring_of(path: str | Path | None, level: str | float | None) -> Deferring | None:
    """The calibration in a file with a level; None without both. UserError if no threshold passes at this level."""
    if path is None and level is None:
        return None
    if path is None or level is None:
        raise UserError("--error-at-most and --calibration need each other: expected a share and a file")
    found = Deferring(level=level_of(level), calibration=read_calibration(Path(path)))
    calibration = found.calibration
    if calibration.threshold(found.level) is None:
        shown = f"an error of at most {100 * found.level:g} %"
        n, least = len(calibration.points), calibration.fewest(found.level)
        why = f"{n} questions are too few, at least {least} are needed" if n < least else "too many answers were wrong"
        raise UserError(f"cannot show {shown}: {why}", file=Path(path))
    return found


def warn_of_shift(calibration: Calibration, variant: str, tasks: Iterable[str], models: Mapping[str, str]) -> None:
    """Warn where a run is not like the calibration's: then its bound says nothing."""
    pairs = {
        "protocol": (calibration.variant, variant),
        "tasks": (", ".join(calibration.tasks), ", ".join(sorted(set(tasks)))),
        "models": (", ".join(calibration.models), ", ".join(sorted(set(models.values())))),
    }
    for what, (then, now) in pairs.items():
        if then != now:
            _log.warning("the calibration is of other %s (%s, now %s): its bound does not hold here", what, then, now)
