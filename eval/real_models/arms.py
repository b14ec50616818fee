"""What the study runs: every prompts kind with every protocol, each as one ``madke run`` in a folder of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from eval.real_models.models import StudyModel
from eval.real_models.questions import SOURCE, Split
from madke.core.errors import UserError, unknown
from madke.engine.protocol import Protocol

Kind = Literal["before", "paper", "few-words", "named-passage", "free", "bound"]
"""Which prompts: 0.3.0, the paper's wording, two plain baselines, and today's without and with schemas."""

KINDS: Mapping[Kind, str] = {
    "before": "0.3.0",
    "paper": "the paper's wording",
    "few-words": "plain: a few words only",
    "named-passage": "plain: one sentence, then `Answer:`",
    "free": "now, no schemas",
    "bound": "now, schemas",
}
PROTOCOLS = ("standard", "rag", "cot", "mad", "madke")
"""From the cheapest to the dearest."""
SWAPPED = "swapped"
"""One reply of ``madke`` to a given first round, in which one debater is right and the other wrong."""
ARMS = ("standard", "rag", "cot", "mad", SWAPPED, "madke")
BASELINES: tuple[Kind, ...] = ("few-words", "named-passage")
_WITH_POOL = ("rag", "madke", SWAPPED)
_CALLS = {"standard": 1.0, "rag": 1.0, "cot": 1.0, "mad": 6.0, SWAPPED: 4.0, "madke": 10.0}
"""About how many calls a question takes: for estimates before anything was measured."""
SEED = 0
MAX_TOKENS = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One run of the study."""

    model: str
    kind: Kind
    arm: str

    @property
    def protocol(self) -> str:
        """The protocol that runs."""
        if self.kind in BASELINES:
            return self.kind
        return "madke" if self.arm == SWAPPED else self.arm

    def folder(self, work: Path) -> Path:
        """Its run directory."""
        return work / self.model / self.kind / self.arm


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """Where things are, and how many questions are asked."""

    work: Path
    split: Split
    limit: int
    swapped: int = 40
    """Questions of the swapped arm."""
    url: str = ""
    before: Path | None = None
    """A checkout of 0.3.0."""
    paper: Path | None = None
    """A folder of protocols in the paper's wording."""
    concurrency: int = 1
    max_tokens: int = MAX_TOKENS
    only: Sequence[Sequence[str]] = field(default=())
    """Lists of names of models, kinds and arms; a cell runs if it has all names of one list."""


def cells(models: Sequence[StudyModel], setup: Setup) -> list[Cell]:
    """The cells to run: per model, the cheapest arms first."""
    return [cell for model in models for arm in ARMS for cell in _of_arm(model.key, arm, setup)]


def _of_arm(model: str, arm: str, setup: Setup) -> Iterator[Cell]:
    for kind in KINDS:
        cell = Cell(model=model, kind=kind, arm=arm)
        names = {cell.model, cell.kind, cell.arm}
        wanted = not setup.only or any(names.issuperset(each) for each in setup.only)
        if wanted and _is_there(cell, setup):
            yield cell


def _is_there(cell: Cell, setup: Setup) -> bool:
    match cell.kind:
        case "before":
            return setup.before is not None
        case "paper":
            return setup.paper is not None and (setup.paper / cell.protocol / "protocol.yaml").is_file()
        case "few-words" | "named-passage":
            return cell.arm == "rag"
        case "free":
            return True
        case "bound":
            return "structured" in Protocol.model_fields


def check_only(only: Sequence[Sequence[str]], models: Sequence[str]) -> None:
    """UserError for a name that is no model, kind or arm."""
    known = (*models, *KINDS, *ARMS)
    for name in (name for names in only for name in names):
        if name not in known:
            raise unknown("model, prompts or arm", name, known)


def limit_of(cell: Cell, setup: Setup) -> int:
    """How many questions the cell answers."""
    return min(setup.limit, setup.swapped) if cell.arm == SWAPPED else setup.limit


def command(cell: Cell, setup: Setup, questions: Path, first_round: Path | None) -> list[str]:
    """The ``madke run`` of a cell; the same command resumes it."""
    asked = [str(questions), "--protocol", cell.protocol, "--limit", str(limit_of(cell, setup))]
    asked += ["--model", f"openai/{cell.model}", "--base-url", setup.url, "--concurrency", str(setup.concurrency)]
    asked += ["--seed", str(SEED), "--set", f"max_tokens={setup.max_tokens}", "--out", str(cell.folder(setup.work))]
    if cell.arm in _WITH_POOL:
        asked += ["--sources", SOURCE, "--pools", str(setup.split.pools)]
    if cell.arm == SWAPPED:
        asked += ["--first-round", str(first_round), "--set", "rounds=2", "--set", "stop=never"]
        asked += ["--set", "finish=majority"]
    if cell.kind == "paper":
        asked += ["--prompts", str(setup.paper)]
    if cell.kind in BASELINES:
        asked += ["--prompts", str(Path(__file__).parent / "baselines")]
    if cell.kind != "before" and "structured" in Protocol.model_fields:
        asked += ["--set", f"structured={'auto' if cell.kind == 'bound' else 'off'}"]
    return [sys.executable, "-m", "madke", "run", *asked]


def environment(cell: Cell, setup: Setup) -> dict[str, str]:
    """The environment of a cell's command: 0.3.0 runs from its checkout, everything else from this one."""
    if cell.kind == "before" and setup.before is None:
        raise UserError("the prompts of 0.3.0 need a checkout: --before FOLDER")
    source = setup.before if cell.kind == "before" and setup.before else Path(__file__).parents[2]
    own = {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
    return {"OPENAI_API_KEY": "none-needed", **os.environ, **own}


def remaining(todo: Mapping[Cell, int], measured: Mapping[Cell, float]) -> float | None:
    """Seconds that are left: questions to do times the seconds of one, as measured on the nearest cells.

    ``measured``: cell -> seconds per question. The same arm with other prompts counts for a cell without a measurement,
    else the seconds per call of the same model; None if the model has no measurement.
    """
    total = 0.0
    for cell, questions in todo.items():
        alike = [(each, seconds) for each, seconds in measured.items() if each.model == cell.model]
        same = [seconds for each, seconds in alike if each.arm == cell.arm]
        if cell in measured:
            seconds = measured[cell]
        elif same:
            seconds = sum(same) / len(same)
        elif alike:
            seconds = _CALLS[cell.arm] * sum(seconds / _CALLS[each.arm] for each, seconds in alike) / len(alike)
        else:
            return None
        total += questions * seconds
    return total
