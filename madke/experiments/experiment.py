"""An experiment's folder: its arms as run directories over shared pools and calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.transcript import Transcript
from madke.data import Given, first_rounds
from madke.experiments.recipe import Arm, Recipe
from madke.experiments.setting import Setting, debaters_for
from madke.files import alone_with, fingerprint, foreign, replacing
from madke.knowledge.merging import merge_pools
from madke.knowledge.pool_file import read_pools, sources_in
from madke.knowledge.pools import SourceCounts, asking_folder, build_pools
from madke.runs.directory import RunDirectory
from madke.runs.job import Effort, Watch, play
from madke.runs.meter import Meter
from madke.runs.pools import depth
from madke.runs.transcripts import read_transcripts

_FILE = "experiment.json"

_POOLS, _ASKED = "pools.jsonl", "asked.jsonl"

_MADE_BEFORE = {"arms", "lock", _POOLS, asking_folder(_POOLS), _ASKED, asking_folder(_ASKED), "calls.sqlite"}
"""What an experiment that was stopped before its pools were frozen may have left."""

_SAID_ABOUT = ("title", "source", "about", "datasets", "published", "reference")
"""What of a recipe changes no result."""

OpenSources = Callable[[Mapping[str, str | None]], Sequence[Source]]
"""Source name -> specification, opened."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment's folder, open for writing. Make one with :func:`opened`."""

    path: Path
    setting: Setting

    @property
    def pools(self) -> Path:
        """The pools of all arms, frozen by :meth:`begin`."""
        return self.path / _POOLS

    @property
    def calls(self) -> Path:
        """The call store of all arms."""
        return self.path / "calls.sqlite"

    def begin(self, open_sources: OpenSources, progress: Callable[[int, int], None]) -> dict[str, SourceCounts]:
        """Freeze the pools of all arms, then what the experiment is; an experiment that has begun is left as it is.

        What the pool files of the setting do not hold is retrieved for all arms at once.

        Returns:
            Source name -> what it found; empty where nothing had to be asked.

        Raises:
            UserError: A source cannot work, a pool file is wrong, or nothing can be written.
        """
        if is_experiment(self.path):
            return {}
        # Pools without a record are left of an experiment that was stopped; nothing says what they were made from.
        self.pools.unlink(missing_ok=True)
        found = self._freeze_pools(open_sources, progress)
        with replacing(self.path / _FILE) as file:
            file.write(json.dumps(_record(self.setting), ensure_ascii=False, indent=2).encode() + b"\n")
        return found

    def _freeze_pools(self, open_sources: OpenSources, progress: Callable[[int, int], None]) -> dict[str, SourceCounts]:
        setting = self.setting
        specs = setting.all_specs()
        if not specs:
            return {}
        held = {source for file in setting.pools for source in sources_in(read_pools(file).values())}
        asked = {name: spec for name, spec in specs.items() if name not in held}
        if not asked:
            merge_pools(setting.pools, setting.questions, self.pools, sources=specs)
            return {}
        built = self.path / _ASKED if setting.pools else self.pools
        depths = [depth(job.variant.protocol.knowledge) for job in setting.jobs if job.variant.protocol.knowledge]
        found = build_pools(setting.questions, open_sources(asked), max(depths), built, progress=progress)
        if setting.pools:
            merge_pools([*setting.pools, built], setting.questions, self.pools, sources=specs)
            built.unlink()
        return found

    def arm_folder(self, name: str) -> Path:
        """The run directory of an arm."""
        return self.path / "arms" / name

    def run(self, arm: Arm, effort: Effort, *, ask: OpenSources, watch: Watch) -> Meter:
        """Run an arm, or go on with it.

        Args:
            arm: One that waits for no other (:meth:`waits_for`).
            effort: With how much effort; the call store is the experiment's.
            ask: Opens the sources that debaters search, where they may.
            watch: See :data:`madke.runs.job.Watch`.
        """
        debaters = None if arm.debaters_for is None else self._debaters(arm)
        given = None if arm.given is None else self._given(arm)
        job = self.setting.job(arm, given=given, debaters=debaters)
        pools = self.pools if job.variant.protocol.knowledge else None
        effort = replace(effort, calls=self.calls, payer=arm.name)
        with RunDirectory(self.arm_folder(arm.name), replay=effort.replay) as directory:
            return play(job, directory, lambda: pools, effort, sources=lambda: ask(job.source_specs), watch=watch)

    def waits_for(self, arm: Arm) -> str | None:
        """Why this arm cannot begin yet; None if it can.

        An arm that it needs must have an outcome for every question: where a debate failed, nobody knows its first
        round, or what it would have cost.
        """
        for name in arm.needs:
            (needed,) = (other for other in self.setting.arms if other.name == name)
            expected = len(self.setting.questions) * (needed.repeats or self.setting.repeats)
            folder = self.arm_folder(name)
            there = read_transcripts(folder) if (folder / "transcripts.jsonl").is_file() else ()
            failed = [transcript.status == "failed" for transcript in there]
            if len(failed) < expected:
                return f"it needs {name}, which is not finished"
            if any(failed):
                return (
                    f"it needs {name}, of which {sum(failed)} debates failed; questions that fail whenever they are "
                    "tried must be left out of --data, in another --out"
                )
        return None

    def _debaters(self, arm: Arm) -> int:
        dear = arm.debaters_for
        assert dear is not None
        target, unit = (self._mean(name, dear.by) for name in (dear.arm, dear.unit))
        return debaters_for(target, unit)

    def _mean(self, arm: str, what: str) -> float:
        """Calls or tokens of a debate."""
        found = [_spent(transcript, what) for transcript in read_transcripts(self.arm_folder(arm))]
        if not sum(found):
            raise UserError(f"arm {arm!r} has made no call, so nothing can cost as much")
        return sum(found) / len(found)

    def _given(self, arm: Arm) -> Given:
        assert arm.given is not None
        folder = self.arm_folder(arm.given.arm)
        repeats = arm.repeats or self.setting.repeats
        found = first_rounds(read_transcripts(folder), self.setting.questions, repeats, folder)
        return found.reordered(arm.given.order)


def _spent(transcript: Transcript, what: str) -> int:
    return sum(
        used.calls if what == "calls" else used.prompt_tokens + used.completion_tokens
        for used in transcript.usage.values()
    )


@contextmanager
def opened(path: Path, setting: Setting) -> Iterator[Experiment]:
    """The experiment's folder, made or gone on with; one process at a time has it.

    Raises:
        UserError: It is in use, holds another experiment or something else, or cannot be written.
    """
    if not is_experiment(path) and (others := foreign(path, _MADE_BEFORE, {_FILE, *_MADE_BEFORE})):
        raise UserError(f"holds no experiment, but {others[0]!r}; choose another --out", file=path)
    busy = UserError("another process runs this experiment; wait for it", file=path)
    with alone_with(path / "lock", busy):
        (path / "arms").mkdir(exist_ok=True)
        if is_experiment(path):
            _refuse_other(path, setting)
        yield Experiment(path=path, setting=setting)


def _record(setting: Setting) -> dict[str, Any]:
    return {
        # What is unset stays so: an arm's silence is not the same as a default.
        "recipe": setting.recipe.model_dump(mode="json", exclude_unset=True),
        "data": setting.data,
        "pools": [fingerprint(file) for file in setting.pools],
        "questions": len(setting.questions),
        "data_sha256": setting.data_sha256,
        "sample_seed": setting.sample_seed,
        "repeats": setting.repeats,
        "seed": setting.seed,
    }


def _refuse_other(path: Path, setting: Setting) -> None:
    """Refuse an experiment whose results would be others; what a recipe only says about itself may change."""
    before, now = _read(path), _record(setting)
    for record in (before, now):
        record["recipe"] = {name: value for name, value in record["recipe"].items() if name not in _SAID_ABOUT}
    if before.get("questions") != now["questions"]:
        counts = f"{before.get('questions')} questions, not {now['questions']} (--limit, or the data)"
        raise UserError(f"holds another experiment: {counts}; choose another --out", file=path)
    if changed := [name for name, value in now.items() if before.get(name) != value]:
        raise UserError(f"holds another experiment: its {changed[0]} differs; choose another --out", file=path)


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads((path / _FILE).read_bytes())
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict):
        raise UserError("is not an experiment's record", file=path / _FILE)
    return record


def is_experiment(path: Path) -> bool:
    """Whether a folder is an experiment's."""
    return (path / _FILE).is_file()


def read_experiment(path: Path) -> tuple[Recipe, list[Path]]:
    """The recipe of an experiment, and the folders of its arms that have begun, in the recipe's order.

    Raises:
        UserError: It is none.
    """
    recipe = Recipe.model_validate(_read(path)["recipe"])
    folders = [path / "arms" / arm.name for arm in recipe.all_arms()]
    return recipe, [folder for folder in folders if (folder / "transcripts.jsonl").is_file()]
