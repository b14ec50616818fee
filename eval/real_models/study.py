"""Run the study: every cell that is not finished, with progress and the time that is left."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from eval.command_line import tell
from eval.real_models.arms import SWAPPED, Cell, Setup, cells, command, environment, limit_of, remaining
from eval.real_models.collect import finished, kept_cell
from eval.real_models.kept import KeptCell, place, read_kept, write_kept
from eval.real_models.models import StudyModel
from eval.real_models.swapped import write_swapped
from madke.data import read_dataset


def run_study(models: Sequence[StudyModel], setup: Setup) -> bool:
    """Run what is missing; returns whether everything is finished. Any kill loses at most the call in flight."""
    swapped = write_swapped(setup.split, setup.work)
    planned = cells(models, setup)
    asked = {cell: _asked(cell, setup, swapped[0]) for cell in planned}
    for n, cell in enumerate(planned, start=1):
        if not (missing := _missing(cell, setup, asked[cell])):
            continue
        tell(f"[{n}/{len(planned)}] {cell.model}, {cell.kind}, {cell.arm}: {missing} of {len(asked[cell])} to do")
        tell(_left(planned[n - 1 :], setup, asked))
        questions, first = swapped if cell.arm == SWAPPED else (setup.split.questions, None)
        done = subprocess.run(command(cell, setup, questions, first), env=environment(cell, setup), check=False)
        if done.returncode not in (0, 1):  # 1: finished, with failed questions
            tell(f"ended with status {done.returncode}; the same command resumes")
            return False
        if _missing(cell, setup, asked[cell]) == len(asked[cell]):
            tell("every question failed: is the endpoint still there? The same command goes on")
            return False
    return True


def _asked(cell: Cell, setup: Setup, swapped: Path) -> list[str]:
    questions = swapped if cell.arm == SWAPPED else setup.split.questions
    return [question.id for question in read_dataset(questions, limit=limit_of(cell, setup))]


def _missing(cell: Cell, setup: Setup, asked: Sequence[str]) -> int:
    done = finished(cell.folder(setup.work))
    return sum(each not in done or done[each].status == "failed" for each in asked)


def _left(planned: Sequence[Cell], setup: Setup, asked: dict[Cell, list[str]]) -> str:
    measured = {}
    for cell in asked:
        if done := finished(cell.folder(setup.work)):
            measured[cell] = sum(each.total.seconds for each in done.values()) / len(done)
    left = remaining({cell: _missing(cell, setup, asked[cell]) for cell in planned}, measured)
    if left is None:
        return "time left: unknown until something has been measured"
    end = time.strftime("%a %H:%M", time.localtime(time.time() + left))
    return f"time left: about {left / 3600:.1f} h, until {end}"


def keep(models: Sequence[StudyModel], setup: Setup, folder: Path) -> list[KeptCell]:
    """Write the results of the finished questions, one file per model; returns them.

    What was kept of other cells stays, so that a study may go on where its run directories are gone.
    """
    _, pools = setup.split.read()
    found = []
    for model in models:
        file = folder / f"{model.key}.jsonl.xz"
        kept = {(cell.kind, cell.arm): cell for cell in (read_kept(file) if file.exists() else ())}
        own = [cell for cell in cells([model], setup) if finished(cell.folder(setup.work))]
        kept |= {(cell.kind, cell.arm): kept_cell(cell, setup, pools) for cell in own}
        if own:
            write_kept(file, sorted(kept.values(), key=place))
        found += sorted(kept.values(), key=place)
    return found
