"""An experiment's folder: its arms as run directories over shared pools and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.transcript import Transcript
from madke.data import Given, first_rounds
from madke.experiments.recipe import Arm
from madke.experiments.record import (
    FILE,
    arm_folder,
    is_experiment,
    pool_sources,
    read_record,
    record_of,
    refuse_other,
    uses_pools,
    write_record,
)
from madke.experiments.setting import Setting, debaters_for
from madke.files import alone_with, foreign
from madke.knowledge.pool_file import merge_pools
from madke.knowledge.pools import SourceCounts, asking_folder, build_pools
from madke.runs.directory import RunDirectory
from madke.runs.job import Effort, Watch, play
from madke.runs.meter import Meter
from madke.runs.pools import depth
from madke.runs.transcripts import read_outcomes, read_transcripts

_POOLS, _ASKED = "pools.jsonl", "asked.jsonl"

_MADE_BEFORE = {"arms", "lock", _POOLS, asking_folder(_POOLS), _ASKED, asking_folder(_ASKED), "calls.sqlite"}
"""What an experiment that was stopped before its pools were frozen may have left."""

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
        """Freeze the pools of all arms, then what the experiment is.

        What the pool files of the setting do not hold is retrieved for all arms at once. Where an experiment goes on,
        its pools stay what they are once an arm has begun with them; if they are gone, they are made again from the
        same pool files.

        Returns:
            Source name -> what it found; empty where nothing had to be asked.

        Raises:
            UserError: A source cannot work, a pool file is wrong, the pools that arms have begun with hold nothing of a
                source or cannot be made again, or nothing can be written.
        """
        record, sources = record_of(self.setting), self.setting.all_specs()
        before = read_record(self.path) if is_experiment(self.path) else None
        found: dict[str, SourceCounts] = {}
        if before is None:
            # Pools without a record are left of an experiment that was stopped; nothing says what they were made from.
            self.pools.unlink(missing_ok=True)
            found = self._freeze_pools(open_sources, progress)
        else:
            frozen = pool_sources(before, self.setting)
            lacking = [name for name, spec in sources.items() if name not in frozen or frozen[name] != spec]
            other = lacking or before.get("pools") != record["pools"] or not self.pools.exists()
            if other and not uses_pools(self.path):
                found = self._freeze_pools(open_sources, progress)
            else:
                self._keep_pools(frozen, lacking)
                sources = frozen
        if before != {**record, "sources": sources}:
            write_record(self.path, record, sources)
        return found

    def _keep_pools(self, frozen: Mapping[str, str | None], lacking: Sequence[str]) -> None:
        """See that the pools that arms have begun with are there, and hold what is needed."""
        if lacking:
            raise UserError(
                f"its arms have begun with pools that hold nothing of source {lacking[0]!r}, or another; choose "
                f"another --out, with --pools {self.pools}, so that only that source is asked",
                file=self.path,
            )
        if self.pools.exists() or not frozen:
            return
        if asked := [name for name in frozen if name not in self.setting.held]:
            raise UserError(
                f"is gone, and source {asked[0]!r}, which was asked for it, may answer otherwise today; put the file "
                "back, or choose another --out",
                file=self.pools,
            )
        merge_pools(self.setting.pools, self.setting.questions, self.pools, sources=frozen)

    def _freeze_pools(self, open_sources: OpenSources, progress: Callable[[int, int], None]) -> dict[str, SourceCounts]:
        setting = self.setting
        specs = setting.all_specs()
        if not specs:
            return {}
        asked = {name: spec for name, spec in specs.items() if name not in setting.held}
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
        return arm_folder(self.path, name)

    def run(self, arm: Arm, effort: Effort, *, ask: OpenSources, watch: Watch) -> Meter:
        """Run an arm, or go on with it.

        Args:
            arm: One that waits for no other (:meth:`waits_for`).
            effort: With how much effort; the call store is the experiment's.
            ask: Opens the sources that debaters search, where they may.
            watch: See :data:`madke.runs.job.Watch`.
        """
        debaters = self.debaters(arm)
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

    def debaters(self, arm: Arm) -> int | None:
        """How many debaters cost what another arm has cost; None if it asks for none such, or still waits for it."""
        dear = arm.debaters_for
        if dear is None or self.waits_for(arm):
            return None
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
def opened(path: Path, setting: Setting, *, replay: bool = False) -> Iterator[Experiment]:
    """The experiment's folder, made or gone on with; one process at a time has it.

    Before anything is made, the models of all arms are opened and closed again, and pool files and names of sources are
    looked at. A folder in which the experiment did not begin is left as it was.

    Args:
        path: The folder.
        setting: The experiment.
        replay: It was run before, and nobody will be asked.

    Raises:
        UserError: It is in use, holds another experiment or something else, or cannot be written; a model, a pool file
            or a source cannot be used.
    """
    there = is_experiment(path)
    if replay and not there:
        raise UserError("holds no experiment to replay", file=path)
    if not there and (others := foreign(path, _MADE_BEFORE, {FILE, *_MADE_BEFORE})):
        raise UserError(f"holds no experiment, but {others[0]!r}; choose another --out", file=path)
    models = setting.open_all([] if replay else [arm.name for arm in setting.arms if _has_left(path, setting, arm)])
    record_of(setting)
    if not there and (wrong := setting.unknown_sources()):
        raise wrong[0]
    made = not path.exists()
    busy = UserError("another process runs this experiment; wait for it", file=path)
    with alone_with(path / "lock", busy):
        try:
            (path / "arms").mkdir(exist_ok=True)
            if is_experiment(path):
                refuse_other(path, setting, models)
            yield Experiment(path=path, setting=setting)
        finally:
            _tidy(path, made=made)


def _has_left(path: Path, setting: Setting, arm: Arm) -> bool:
    """Whether the arm will ask its models."""
    file = arm_folder(path, arm.name) / "transcripts.jsonl"
    done = [line.key for line in read_outcomes(file) if line and not line.failed] if file.is_file() else []
    return len(done) < len(setting.questions) * (arm.repeats or setting.repeats)


def _tidy(path: Path, *, made: bool) -> None:
    """Remove what was made for an experiment that did not begin, unless something waits there for the next try."""
    arms = path / "arms"
    if {entry.name for entry in path.iterdir()} != {"arms", "lock"} or any(arms.iterdir()):
        return
    arms.rmdir()
    (path / "lock").unlink()
    if made:
        path.rmdir()
