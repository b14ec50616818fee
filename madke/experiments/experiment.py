"""An experiment's folder, and its arms as runs over shared questions, pools and calls."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.data import Given, first_rounds
from madke.experiments.plan import Planned, Planner
from madke.experiments.recipe import Arm, Recipe
from madke.files import fingerprint, replacing, unfinished
from madke.knowledge.merging import merge_pools
from madke.knowledge.pools import Found, build_pools, read_pools, sources_in
from madke.runs.cast import has_endpoint, role_models
from madke.runs.config import questions_sha256
from madke.runs.directory import RunDirectory, read_transcripts
from madke.runs.job import Effort, Job, Watch, play
from madke.runs.meter import Meter
from madke.runs.pools import RunPools, depth
from madke.variants import Variant, load_variant

_FILE = "experiment.json"

_MADE_BEFORE = {
    *("arms", "lock", "pools.jsonl", "asked.jsonl", "calls.sqlite"),
    *(".pools.jsonl.building", ".asked.jsonl.building"),
}
"""What an experiment that was stopped before its pools were frozen may have left."""

_SAID_ABOUT = ("title", "source", "about", "datasets", "published", "reference")
"""What of a recipe changes no result."""

OpenSources = Callable[[Mapping[str, str | None]], Sequence[Source]]
"""Source name -> specification, opened."""

Sources = Callable[[str | None, Sequence[str]], dict[str, str | None]]
"""``--sources`` and the protocol's own names -> source name -> specification."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the arms of one experiment share."""

    recipe: Recipe
    data: str
    """The datasets' file names, for people."""
    datasets: Sequence[str] = ()
    """The published forms that they were read as."""
    sample_seed: int | None = None
    questions: Sequence[Question]
    base_url: str | None = None
    sources: Sources
    pools: Sequence[Path] = ()
    """Pool files that are there; sources that none of them holds are asked."""
    prompts: Path | None = None
    estimator: str | None = None
    repeats: int = 1
    seed: int = 0

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """In the order in which they run."""
        return tuple(self.recipe.all_arms())

    def specs(self, arm: Arm) -> dict[str, str | None]:
        """Source name -> specification, for one arm."""
        knowledge = self._variants[arm.protocol or "madke"].protocol.knowledge
        return self.sources(arm.sources, knowledge.sources if knowledge else ())

    def all_specs(self) -> dict[str, str | None]:
        """The same for all arms together.

        Raises:
            UserError: Two arms mean different things by one name.
        """
        found: dict[str, str | None] = {}
        for arm in self.arms:
            for name, spec in self.specs(arm).items():
                if found.setdefault(name, spec) != spec:
                    raise UserError(f"arm {arm.name!r}: source {name!r} is {spec!r}, and {found[name]!r} before")
        return found

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The run of each arm, as far as it is known before any has run."""
        return tuple(self.job(arm) for arm in self.arms)

    @cached_property
    def data_sha256(self) -> str:
        """Of the questions, see :func:`madke.runs.config.questions_sha256`."""
        return questions_sha256(self.questions)

    def job(self, arm: Arm, *, given: Given | None = None, debaters: int | None = None) -> Job:
        """The run of one arm.

        Args:
            arm: One of the recipe's.
            given: Its first round, where the arm has one of another's.
            debaters: Their number, where it follows from what another arm cost.
        """
        specs = self.specs(arm)
        try:
            variant = self._variant(arm, specs, debaters)
        except UserError as error:
            raise UserError(f"arm {arm.name!r}: {error}") from None
        seed = self.seed if arm.seed is None else arm.seed
        models = role_models(variant.protocol, arm.model or self.recipe.model, arm.cast)
        kept = variant.protocol.knowledge.sources if variant.protocol.knowledge else ()
        return Job(
            data=self.data,
            data_sha256=self.data_sha256,
            dataset=", ".join(self.datasets) or None,
            sample_seed=self.sample_seed,
            questions=self.questions,
            variant=variant,
            models=models,
            base_url=self.base_url if any(map(has_endpoint, models.values())) else None,
            source_specs={name: specs.get(name) for name in kept},
            given=given,
            estimator=self.estimator if variant.protocol.needs_estimator else None,
            seed=seed if seed >= 0 else None,
            repeats=arm.repeats or self.repeats,
        )

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        """Every protocol that an arm names, loaded once."""
        names = {arm.protocol or "madke" for arm in self.arms}
        return {name: load_variant(name, self.prompts) for name in sorted(names)}

    def _variant(self, arm: Arm, specs: Mapping[str, str | None], debaters: int | None) -> Variant:
        variant = self._variants[arm.protocol or "madke"].with_sources(list(specs))
        fields = dict(arm.set)
        if arm.given:
            fields["given"] = True
        if debaters is not None:
            fields["debaters"] = debaters
        return variant.with_settings(fields)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment's folder, open for writing. Make one with :func:`opened`."""

    path: Path
    setting: Setting

    @property
    def pools(self) -> Path:
        """The pools of all arms, frozen by :meth:`begin`."""
        return self.path / "pools.jsonl"

    @property
    def calls(self) -> Path:
        """The call store of all arms."""
        return self.path / "calls.sqlite"

    def begin(self, open_sources: OpenSources, progress: Callable[[int, int], None]) -> dict[str, Found]:
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

    def _freeze_pools(self, open_sources: OpenSources, progress: Callable[[int, int], None]) -> dict[str, Found]:
        setting = self.setting
        specs = setting.all_specs()
        if not specs:
            return {}
        held = {source for file in setting.pools for source in sources_in(read_pools(file).values())}
        asked = {name: spec for name, spec in specs.items() if name not in held}
        if not asked:
            merge_pools(setting.pools, setting.questions, self.pools, sources=specs)
            return {}
        built = self.path / "asked.jsonl" if setting.pools else self.pools
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
        """The arm that must be finished first, without a failed question, before this one can begin; None if none."""
        for name in arm.needs:
            (needed,) = (other for other in self.setting.arms if other.name == name)
            expected = len(self.setting.questions) * (needed.repeats or self.setting.repeats)
            folder = self.arm_folder(name)
            there = read_transcripts(folder) if (folder / "transcripts.jsonl").is_file() else ()
            if sum(transcript.status != "failed" for transcript in there) < expected:
                return name
        return None

    def _debaters(self, arm: Arm) -> int:
        dear = arm.debaters_for
        assert dear is not None
        target, unit = (self._mean(name, dear.by) for name in (dear.arm, dear.unit))
        return _debaters_for(target, unit)

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


def _debaters_for(target: float, unit: float) -> int:
    """How many debaters of one cost come nearest to another."""
    return max(1, round(target / unit))


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
    if not is_experiment(path) and path.is_dir() and (foreign := sorted(_foreign(path))):
        raise UserError(f"holds no experiment, but {foreign[0]!r}; choose another --out", file=path)
    try:
        (path / "arms").mkdir(parents=True, exist_ok=True)
        lock = (path / "lock").open("a")
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=path) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError("another process runs this experiment; wait for it", file=path) from None
        if is_experiment(path):
            _refuse_other(path, setting)
        yield Experiment(path=path, setting=setting)


def _foreign(path: Path) -> set[str]:
    """What a start of an experiment that was stopped before it had a record cannot have left."""
    left = {entry.name for entry in path.iterdir()} - _MADE_BEFORE
    return left - {part.name for part in unfinished(path, {_FILE, *_MADE_BEFORE})}


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


def planned(setting: Setting, planner: Planner, pools: Path | None) -> list[Planned]:
    """What each arm takes, calls that arms share counted for the first of them alone.

    Args:
        setting: The experiment.
        planner: Knows prices.
        pools: The pool file, if it is there.

    Raises:
        UserError: An arm cannot be run.
    """
    plans: dict[str, Planned] = {}
    debaters_of: dict[str, int] = {}
    for arm in setting.arms:
        debaters = None
        if arm.debaters_for is not None:
            target, unit = (plans[name] for name in (arm.debaters_for.arm, arm.debaters_for.unit))
            debaters = _debaters_for(_middle(target, arm.debaters_for.by), _middle(unit, arm.debaters_for.by))
        job = setting.job(arm, debaters=debaters)
        protocol = job.variant.protocol
        debaters_of[arm.name] = len(protocol.cast)
        pool_of = RunPools(pools, protocol.knowledge, setting.questions).of if pools and protocol.knowledge else None
        given = debaters_of[arm.given.arm] if arm.given else 0
        order = f"{protocol.order.by} {arm.given.arm} {arm.given.order}" if arm.given else protocol.order.by
        plans[arm.name] = planner.plan(arm.name, job, pool_of, given=given, order=order)
    return list(plans.values())


def _middle(plan: Planned, what: str) -> float:
    """Calls or tokens of a debate, half way between the shortest and the longest."""
    loads = (plan.least, plan.most)
    if what == "calls":
        return sum(load.calls for load in loads) / 2 / plan.debates
    return sum(load.all_tokens for load in loads) / 2 / plan.debates
