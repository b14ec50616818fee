"""An experiment: its folder of run directories that share pools and calls, the rules for resuming, and its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from madke._util.concurrency import outside_loop
from madke._util.files import file_lock, short_hash, unexpected_files
from madke._util.yaml_file import validate
from madke.core.errors import UserError, count_of
from madke.core.events import Listener, PoolsReady, SourceOpened, never_raising, silent
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.data import FirstRounds, first_rounds
from madke.data.first_round import drawn_first_rounds
from madke.experiments.experiment_spec import ExperimentSpec, QuestionSets, debaters_at_cost, read_experiment_spec
from madke.experiments.plan import Planned, Planner, plan_arms
from madke.experiments.recipe import Arm, FirstRoundOf, Recipe
from madke.models.model_names import has_endpoint
from madke.retrieval.named import open_source
from madke.retrieval.pools import (
    MORE,
    asking_folder,
    depth,
    merged_pools,
    missing_pools,
    record_to_json,
    retrieve_pools,
    write_pools,
)
from madke.runs.directory import question_hashes, read_outcomes, read_record, read_run, read_transcripts, write_record
from madke.runs.meter import Budget, Meter, budget_of, planned_prices
from madke.runs.request import DEFAULTS, NOTHING, Model, RunOptions, RunRequest, takes_request
from madke.runs.runner import execute, pool_progress
from madke.runs.spec import RunSpec, with_first_rounds
from madke.scoring.scored import kept_scores, score_run
from madke.scoring.scores import Scores

FILE, FORMAT = "experiment.json", 2

CALLS = "calls.sqlite"

_POOLS, _PART_FILE = "pools.jsonl", "asked.jsonl"

_EARLY_FILES = {"arms", "lock", _POOLS, _PART_FILE, asking_folder(_PART_FILE), MORE}
_EARLY_FILES |= {CALLS, f"{CALLS}-wal", f"{CALLS}-shm"}
"""Files that an experiment may leave if it is stopped before its pools are frozen."""

_SHARED = ("data", "sample_seed", "repeats", "seed")
"""Settings that all arms share; they cannot change once an arm has started."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment's folder, and what a command did with it: :meth:`run_arms`."""

    path: Path
    experiment_spec: ExperimentSpec
    options: RunOptions
    budget: Budget
    """Several experiments can share one."""
    listen: Listener = silent
    signals: bool = False
    """Whether SIGINT, SIGTERM and SIGHUP end the work without losing a paid call."""
    sources: dict[str, Source] = field(default_factory=dict)
    """Name -> source, for those that are open; an earlier experiment may have opened some."""
    unfinished: dict[str, str] = field(default_factory=dict)
    """Arm -> why it is not finished. Excludes arms that did not start because a limit stopped an earlier one."""
    meters: dict[str, Meter] = field(default_factory=dict)
    """Arm -> counters, for arms that ran."""
    _read: dict[str, Sequence[Transcript]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def tell(self) -> Listener:
        """The listener; it cannot stop the work."""
        return never_raising(self.listen)

    @cached_property
    def arms(self) -> Mapping[str, Path]:
        """Name -> run directory of all arms that have started, in the recipe's order; read once all have run."""
        return {folder.name: folder for folder in read_experiment(self.path)[1]}

    @cached_property
    def scores(self) -> Mapping[str, Scores]:
        """Name -> scores of these arms; they are also written to the run directories."""
        prices = self.budget.prices
        kept = {} if prices else {name: kept_scores(folder) for name, folder in self.arms.items()}
        return {name: kept.get(name) or score_run(folder, prices)[0] for name, folder in self.arms.items()}

    @property
    def waiting(self) -> list[str]:
        """The arms that did not start because of a limit."""
        return [arm.name for arm in self.experiment_spec.arms if arm.name not in {*self.meters, *self.unfinished}]

    @property
    def pools(self) -> Path:
        """The pools of all arms, frozen by :meth:`open`."""
        return self.path / _POOLS

    @contextmanager
    def open(self) -> Iterator[None]:
        """Create or open the folder, lock it for this process, freeze the pools and write the experiment's record.

        Models, pool files and source names are checked before anything is written. If the experiment does not start,
        the folder is left unchanged. UserError if the folder is in use or holds something else, or a check fails.
        """
        path, replay, spec = self.path, self.options.replay, self.experiment_spec
        others = unexpected_files(path, _EARLY_FILES, {FILE, *_EARLY_FILES})
        exists = is_experiment(path)  # after them: another process may begin the experiment in between
        if replay and not exists:
            raise UserError("this folder holds no experiment to replay", file=path)
        if others and not exists:
            raise UserError(f"this folder holds no experiment, but {others[0]!r}; choose another --out", file=path)
        spec.check_models(self.options, [] if replay else [arm.name for arm in spec.arms if self._asks(arm)])
        if not exists and (wrong := spec.unknown_sources()):
            raise wrong[0]
        is_new = not path.exists()
        busy = UserError("another process is running this experiment; wait until it finishes", file=path)
        with file_lock(path / "lock", busy):
            try:
                (path / "arms").mkdir(exist_ok=True)
                self._begin()
                yield
            finally:
                _tidy(path, is_new=is_new)

    def _asks(self, arm: Arm) -> bool:
        done, failed = _outcomes(self.path, arm)
        return done - failed < self.debates(arm)

    def _begin(self) -> None:
        """Refuse another experiment, freeze the pools of all questions and arms, and write the experiment's record.

        Passages missing from the given pool files are retrieved once for all arms. Pools do not change; only new
        questions get pools.
        """
        spec, sources = self.experiment_spec, self.experiment_spec.all_specs
        pools = merged_pools(spec.pools, spec.questions) if spec.pools and sources else []
        hashes = {record.id: short_hash(record_to_json(record)) for record in pools}
        before = _read_record(self.path) if is_experiment(self.path) else None
        if before is not None:
            _refuse_other(self.path, before, spec)
        if before is None or not before["sources"]:
            # Pools without a record are from a stopped experiment; their inputs are unknown.
            self.pools.unlink(missing_ok=True)
        else:
            frozen: dict[str, str | None] = before["sources"]
            remedy = f"choose another --out (reuse the retrieved passages there with --pools {self.pools})"
            if before["pools"] != {id_: hashes[id_] for id_ in before["questions"] if id_ in hashes}:
                raise UserError(f"this folder holds another experiment: --pools differs; {remedy}", file=self.path)
            if lacking := [name for name, each in sources.items() if name not in frozen or frozen[name] != each]:
                why = f"arms have started with pools in which source {lacking[0]!r} is missing or different"
                raise UserError(f"{why}; {remedy}", file=self.path)
            if not self.pools.exists():
                raise UserError("the pool file is missing; restore it, or choose another --out", file=self.pools)
            sources = frozen
        if sources:
            self._add_pools(sources)
        record = {**_record_of(spec), "pools": hashes, "sources": sources}
        if before != record:
            write_record(self.path / FILE, record)

    def _add_pools(self, specs: Mapping[str, str | None]) -> None:
        spec, part_file = self.experiment_spec, self.path / _PART_FILE
        with missing_pools(self.pools, spec.questions) as (questions, more):
            if not questions:
                return
            files = list(spec.pools)
            if missing := {name: each for name, each in specs.items() if name not in spec.pool_sources}:
                k = max(depth(run.protocol.knowledge) for _, run in spec.specs if run.protocol.knowledge)
                sources, progress = self._open_sources(missing), pool_progress(self.tell)
                counts = retrieve_pools(questions, sources, k, part_file, progress=progress)
                self.tell(PoolsReady(found=counts))
                files.append(part_file)
            write_pools(more, merged_pools(files, questions, sources=specs))
        part_file.unlink(missing_ok=True)

    def _open_sources(self, specs: Mapping[str, str | None]) -> list[Source]:
        if self.options.replay:
            raise UserError(f"--replay makes no searches, and the pools lack {', '.join(specs)}")
        for name, spec in specs.items():
            if name not in self.sources:
                source = self.sources[name] = open_source(name, self.experiment_spec.own_sources.get(name, spec))
                self.tell(SourceOpened(name=name, spec=spec, description=source.description))
        return [self.sources[name] for name in specs]

    def run_arms(
        self,
        on_plans: Callable[[Sequence[Planned]], None] | None = None,
        on_arm: Callable[[int, Arm], None] = lambda number, arm: None,
    ) -> Self:
        """Run or resume every arm that can run; see :func:`ablate`.

        ``on_plans`` gets the plans of all arms before the first arm starts; without it nothing is planned. ``on_arm``
        gets each arm before it runs, with its number from 1.
        """
        spec = self.experiment_spec
        spec.check(self.options)
        self.budget.check(spec.models)
        with self.open():
            if on_plans is not None:
                pools = self.pools if self.pools.exists() else None
                planner = Planner(prices=planned_prices(self.budget.prices, self.options))
                on_plans(plan_arms(spec, planner, pools, debaters=self.debaters))
            wrong: list[UserError] = []
            for number, arm in enumerate(spec.arms, start=1):
                if reason := self.waits_for(arm):
                    self.unfinished[arm.name] = reason
                    continue
                on_arm(number, arm)
                try:
                    meter = self.meters[arm.name] = asyncio.run(self.run(arm))
                except UserError as error:  # must not stop the other arms
                    self.unfinished[arm.name] = str(error)
                    wrong.append(error)
                    continue
                if meter.left_over:
                    self.unfinished[arm.name] = meter.stopped or "the call store lacks calls"
                    if meter.stopped:
                        break
            if wrong and not self.arms:
                raise wrong[0]
            return self

    async def run(self, arm: Arm) -> Meter:
        """Run or resume an arm that waits for no other arm (:meth:`waits_for`)."""
        spec, options = self.experiment_spec.spec(arm, debaters=self.debaters(arm)), self.options
        if arm.first_round is not None:
            spec = with_first_rounds(spec, self._first_rounds(arm.first_round, spec), arm.first_round.draw)
        if not any(map(has_endpoint, spec.record.models.values())):
            options = replace(options, base_url=None)
        if spec.protocol.needs_search and not options.replay:
            self._open_sources(spec.record.source_specs)
            spec = replace(spec, own_sources=self.sources)
        spec = replace(spec, pools=self.pools if spec.protocol.knowledge else None)
        folder = arm_folder(self.path, arm.name)
        shared: dict[str, Any] = {"budget": self.budget, "calls": self.path / CALLS, "payer": arm.name}
        return await execute(spec, folder, options, **shared, listen=self.tell, signals=self.signals)

    def _first_rounds(self, of: FirstRoundOf, spec: RunSpec) -> FirstRounds:
        """The first rounds of another, finished arm, for the questions and repeats of a run."""
        folder, repeats = arm_folder(self.path, of.arm), spec.record.repeats
        if of.draw is None:
            return first_rounds(read_transcripts(folder), spec.questions, repeats, folder).reorder(of.order)
        if of.arm not in self._read:
            self._read[of.arm] = list(read_transcripts(folder))
        seed = spec.record.seed or 0
        return drawn_first_rounds(self._read[of.arm], spec.questions, of.draw, repeats=repeats, seed=seed)

    def questions(self, arm: Arm) -> Sequence[Question]:
        """The questions of an arm: all, or those that have enough stances to draw, once these are known."""
        questions = self.experiment_spec.questions
        if arm.first_round is None or arm.first_round.draw is None or self._unfinished_before(arm):
            return questions
        drawn = self._first_rounds(arm.first_round, self.experiment_spec.spec(arm)).rounds
        return [question for question in questions if question.id in drawn]

    def debates(self, arm: Arm) -> int:
        """The number of debates of an arm, as far as it is known."""
        return len(self.questions(arm)) * self.experiment_spec.spec(arm).record.repeats

    def waits_for(self, arm: Arm) -> str | None:
        """Why this arm cannot start: an arm that it needs is unfinished or has failures, or leaves it no question.

        None if it can start.
        """
        if reason := self._unfinished_before(arm):
            return reason
        if not self.questions(arm):
            return f"arm {arm.needs[-1]} leaves it no question"
        return None

    def _unfinished_before(self, arm: Arm) -> str | None:
        by_name = {other.name: other for other in self.experiment_spec.arms}
        for needed in (by_name[name] for name in arm.needs):
            done, failed = _outcomes(self.path, needed)
            if not done or done < self.debates(needed):
                return f"it needs arm {needed.name}, which is not finished"
            if failed and arm.first_round is not None:
                why = f"it needs arm {needed.name}, in which {count_of(failed, 'debate')} failed"
                return f"{why}; if they fail again, remove their questions from --data and choose another --out"
        return None

    def debaters(self, arm: Arm) -> int | None:
        """The number of debaters by the arm's ``match_cost``; None without it, or while the arm waits for others."""
        match, folder = arm.match_cost, arm_folder(self.path, arm.name)
        if match is not None and (folder / "run.json").is_file():
            return len(read_run(folder).protocol.cast)
        if match is None or self.waits_for(arm):
            return None
        return debaters_at_cost(*(_mean(arm_folder(self.path, name), match.by) for name in (match.arm, match.unit)))


def _mean(folder: Path, what: str) -> float:
    """Mean calls or tokens per debate of an arm."""
    finished = (transcript for transcript in read_transcripts(folder) if transcript.status != "failed")
    counts: list[float] = [getattr(transcript.total, what) for transcript in finished]
    if not sum(counts):
        raise UserError(f"arm {folder.name!r} has made no calls, so its cost cannot be matched")
    return sum(counts) / len(counts)


def _outcomes(path: Path, arm: Arm) -> tuple[int, int]:
    """The number of an arm's debates with an outcome, and how many of them failed."""
    file = arm_folder(path, arm.name) / "transcripts.jsonl"
    failed = [line.failed for line in read_outcomes(file) if line] if file.is_file() else []
    return len(failed), sum(failed)


def _tidy(path: Path, *, is_new: bool) -> None:
    """Remove the files of an experiment that did not start, unless partial results are kept for the next try."""
    arms = path / "arms"
    (path / MORE).unlink(missing_ok=True)
    if {entry.name for entry in path.iterdir()} != {"arms", "lock"} or any(arms.iterdir()):
        return
    arms.rmdir()
    (path / "lock").unlink()
    if is_new:
        path.rmdir()


def is_experiment(path: Path) -> bool:
    """Whether a folder holds an experiment."""
    return (path / FILE).is_file()


def recorded_questions(path: Path) -> list[str]:
    """The ids of an experiment's questions, in order."""
    return [*_read_record(path)["questions"]]


def arm_folder(path: Path, name: str) -> Path:
    """The run directory of an arm of the experiment at ``path``."""
    return path / "arms" / name


def read_experiment(path: Path) -> tuple[Recipe, list[Path]]:
    """The recipe of an experiment, and the folders of its started arms, in the recipe's order."""
    recipe = _recipe_in(_read_record(path), path)
    folders = [arm_folder(path, arm.name) for arm in recipe.all_arms()]
    return recipe, [folder for folder in folders if (folder / "transcripts.jsonl").is_file()]


def _record_of(experiment_spec: ExperimentSpec) -> dict[str, Any]:
    """The frozen settings except the pools."""
    return {
        "format": FORMAT,
        # exclude_unset: an unset value is not the same as the default.
        "recipe": experiment_spec.recipe.model_dump(mode="json", exclude_unset=True),
        "data": experiment_spec.data,
        "questions": question_hashes(experiment_spec.questions),
        "sample_seed": experiment_spec.request.sample_seed,
        "repeats": experiment_spec.request.repeats or 1,
        "seed": experiment_spec.request.seed,
    }


def _read_record(path: Path) -> dict[str, Any]:
    record = read_record(path / FILE, FORMAT, "an experiment")
    if not all(isinstance(record.get(name), dict) for name in ("recipe", "questions", "pools", "sources")):
        raise UserError("does not describe an experiment", file=path / FILE)
    return record


def _recipe_in(record: Mapping[str, Any], path: Path) -> Recipe:
    """The recipe in the record of the experiment at ``path``."""
    return validate(record["recipe"], Recipe, file=path / FILE, within=("recipe",))


def _refuse_other(path: Path, before: Mapping[str, Any], experiment_spec: ExperimentSpec) -> None:
    """UserError if the folder's results belong to a different experiment.

    Questions may be added, and arms that have not started may be added, removed or changed. An arm that has started
    also checks its own run directory, before any call.
    """
    now = _record_of(experiment_spec)
    old, new = before["questions"], now["questions"]
    kept = len(old.keys() & new.keys())
    different = [f"{count_of(len(old), 'question')}, not {kept} (--limit, or the data)"] if kept < len(old) else []
    different += [f"its {name} differs" for name in _SHARED if before.get(name) != now[name]]
    different += [f"its question {id_!r} differs" for id_ in old if id_ in new and old[id_] != new[id_]]
    if different:
        raise UserError(f"this folder holds another experiment: {different[0]}; choose another --out", file=path)
    recipe_before = _recipe_in(before, path)
    arms_before = {arm.name: arm for arm in recipe_before.all_arms()}
    for arm in experiment_spec.arms:
        old_arm = arms_before.get(arm.name, arm)
        differing = [name for name in Arm.model_fields if getattr(old_arm, name) != getattr(arm, name)]
        if (old_arm.model or recipe_before.model) != (arm.model or experiment_spec.recipe.model):
            differing.append("model")
        if differing and (arm_folder(path, arm.name) / "run.json").is_file():
            changed = f"arm {arm.name!r} has already started with another setting ({differing[0]})"
            raise UserError(f"{changed}; give the arm another name, or choose another --out", file=path)


@takes_request("experiment")
def ablate(
    recipe: str | Path | Recipe,
    data: str | Path | QuestionSets,
    *,
    out: str | Path,
    model: Model | None = None,
    models: Sequence[str] = (),
    sources: str | Mapping[str, Source] = NOTHING,
    pools: str | Path | Sequence[str | Path] = (),
    options: RunOptions = DEFAULTS,
    listen: Listener = silent,
    **fields: Any,
) -> Experiment:
    """Run every arm of a recipe over frozen pools and one call store.

    Arms share retrieval, and calls with the same prompt and purpose are made once. The same call again resumes, also
    with a larger ``limit``, and pays nothing twice. It works inside a running event loop.

    Args:
        recipe: A shipped recipe's name, the path of a YAML file, or a :class:`Recipe`.
        data: A file of questions, ``NAME=PATH`` for a published one, or a list of files or :class:`madke.Question`.
        out: The experiment's folder.
        model: The default model: a name, an object, or a function of messages. Default: the recipe's.
        models: Several models: every arm runs with each.
        sources: The sources instead of the recipe's, as for ``--sources``; or name -> source object.
        pools: A pool file, or several; other sources are queried.
        options: Concurrency, limits for all arms together, prices, endpoint, replay.
        listen: Called with every event of debates, sources, pools and runs (:mod:`madke.core.events`).
        fields: Fields of :class:`madke.RunRequest` for all arms, such as ``limit``, ``repeats`` and ``seed``; the
            signature that ``help(madke.ablate)`` shows has all of them.

    Raises:
        UserError: An input is missing or invalid, or the folder holds another experiment.
    """
    inputs: dict[str, Any] = {"model": model, "models": models, "sources": sources, "pools": pools}
    experiment_spec = read_experiment_spec(recipe, data, RunRequest(**fields), **inputs)
    experiment = Experiment(
        path=Path(out), experiment_spec=experiment_spec, options=options, budget=budget_of(options), listen=listen
    )
    return outside_loop(experiment.run_arms)
