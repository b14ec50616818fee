"""Does a debate pay on your questions? :func:`study` compares four ways to spend calls, and stops when it knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from tempfile import mkdtemp
from typing import Any

from madke._util.concurrency import outside_loop
from madke.core.errors import UserError, unknown
from madke.core.events import Listener, Watch, silent
from madke.core.knowledge import Source
from madke.experiments.experiment import CALLS, Experiment, is_experiment, recorded_questions
from madke.experiments.experiment_spec import ExperimentSpec, QuestionSets, read_experiment_spec
from madke.experiments.recipe import Arm, Recipe, read_recipe
from madke.models.model_names import kind_of
from madke.models.prices import prices_paid
from madke.models.store import CallStore
from madke.report.tables import Table, plain_table
from madke.report.verdict import (
    ArmCost,
    additions,
    arm_cost,
    equal_cost_note,
    scope,
    study_table,
    verdict_sentence,
    votes_sentence,
)
from madke.retrieval.named import known_sources
from madke.runs.directory import read_run, read_transcripts
from madke.runs.meter import budget_of
from madke.runs.request import DEFAULTS, NOTHING, Model, RunOptions, RunRequest, takes_request
from madke.scoring.arms import open_results
from madke.scoring.debate_rows import correct
from madke.scoring.metrics import GRADER
from madke.scoring.scored import Grader, ask_outside, external_values, graders_of
from madke.scoring.scores import Scores
from madke.scoring.statistics import Estimate, estimate
from madke.scoring.verdict import MARGIN, Verdict, verdict_of


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study with its verdict. ``print(study)`` shows what ``madke study`` shows."""

    path: Path
    """The folder, with one run directory per arm under ``arms``."""
    experiment: Experiment
    verdict: Verdict
    """``outcome``: ``"yes"``, ``"no"`` or ``"open"``; ``more``: how many more questions would decide."""
    answers: Mapping[str, Mapping[str, float]]
    """Arm -> question -> its share of right answers over repeats; see :func:`right_answers`."""
    given: int
    """The number of questions that were given; the arms have answered the first ``asked`` of them."""
    ungraded: int = 0
    """Answers whose grading call failed."""

    @property
    def asked(self) -> int:
        """The number of questions that the verdict rests on."""
        return len(self.experiment.experiment_spec.questions)

    @property
    def scores(self) -> Mapping[str, Scores]:
        """Arm -> its scores."""
        return self.experiment.scores

    @cached_property
    def right(self) -> Mapping[str, Estimate]:
        """Arm -> its share of right answers: by the first grader, else by the first metric of the task."""
        shares = {name: estimate([*values.values()]) for name, values in self.answers.items()}
        return {name: share for name, share in shares.items() if share is not None}

    @cached_property
    def costs(self) -> Mapping[str, ArmCost]:
        """Arm -> the calls, tokens and money that its answers take, at the prices that were paid for its model."""
        prices = self.experiment.budget.prices
        if (calls := self.path / CALLS).is_file():
            with CallStore(calls) as store:
                prices = prices_paid(prices, ((model, paid.usage) for (_, model), paid in store.paid().items()))
        return {
            name: arm_cost(self.scores[name], read_run(folder).models, prices)
            for name, folder in self.experiment.arms.items()
        }

    def lines(self) -> Iterator[str]:
        """The verdict, what each part adds, and what the votes were worth: one paragraph each."""
        yield verdict_sentence(self.verdict, self.right, self.costs)
        yield from additions(self.verdict)
        if "votes" in self.scores:
            votes = [len(each.rounds[0].turns) for each in read_transcripts(self.experiment.arms["votes"])]
            yield votes_sentence(self.scores["votes"], fmean(votes)) if votes else ""
        yield from equal_cost_note(self.costs)
        if any(kind_of(model) == "offline" for model in self.experiment.experiment_spec.models):
            yield "The model is the offline reader, not a language model: this says nothing about language models."
        yield scope(self.asked, self.given, self.verdict, limit=self.limit)

    @property
    def limit(self) -> str:
        """The option at whose limit the study ended, or another reason; empty if all arms have answered."""
        return next(iter(self.experiment.unfinished.values()), "")

    @property
    def table(self) -> Table:
        """One row per arm: right answers, calls, tokens, cost, readable replies."""
        return study_table(self.scores, self.right, self.costs)

    def record(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "verdict": self.verdict.outcome,
            "lines": [*self.lines()],
            "asked": self.asked,
            "given": self.given,
            "details": asdict(self.verdict),
            "right": {name: asdict(each) for name, each in self.right.items()},
            "costs": {name: asdict(each) for name, each in self.costs.items()},
        }

    def __str__(self) -> str:
        first, *others = self.lines()
        return "\n".join([first, "", *others, "", plain_table(self.table)])

    def report(self, file: str | Path | None = None) -> Path:
        """Write the report page; returns the file. Default: ``report.html`` in the folder."""
        from madke.report.html import write_report

        recipe = self.experiment.experiment_spec.recipe
        arms = open_results([*self.experiment.arms.values()])
        arms.sort(key=lambda arm: arm.name != recipe.reference)
        page = Path(file) if file is not None else self.path / "report.html"
        write_report(
            arms,
            page,
            scores=[self.scores[arm.path.name] for arm in arms],
            title=recipe.title,
            source=recipe.source,
            verdict=[*self.lines()],
            tested=self.asked == self.given,
        )
        return page


MORE_ARMS = ("views", "second-turn")
"""Protocols that a study can have as further arms; the verdict does not rest on them."""


BLOCK = 20
"""Questions between two looks at the results."""


def studies(
    spec: ExperimentSpec,
    out: Path,
    options: RunOptions,
    *,
    margin: float = MARGIN,
    whole: bool = False,
    graders: Sequence[Grader] = (),
    listen: Listener = silent,
    watch: Watch = lambda: nullcontext(silent),
    signals: bool = False,
) -> Iterator[Study]:
    """Run or resume a study, and yield it after each block of questions.

    It ends with a verdict (unless ``whole``), at a limit of the options, or with the last question. The questions come
    in a random order that is the same in every run, so that a file which is sorted by topic or difficulty does not
    decide; those of an earlier command come first. ``graders`` grade the answers before a verdict; ``watch`` opens a
    listener for their calls.
    """
    begun = recorded_questions(out) if is_experiment(out) else []
    place = {id_: n for n, id_ in enumerate(begun)}
    order = {each.id: (place.get(each.id, len(place)), sha256(each.id.encode()).digest()) for each in spec.questions}
    spec = replace(spec, questions=sorted(spec.questions, key=lambda each: order[each.id]))
    shared: dict[str, Any] = {"path": out, "options": options, "listen": listen, "signals": signals}
    shared |= {"budget": budget_of(options), "sources": {}}
    done, total = 0, len(spec.questions)
    while done < total:
        done = min(total, max(done + BLOCK, len(begun)))
        if options.replay and begun:
            done = total = len(begun)
        experiment = Experiment(experiment_spec=replace(spec, questions=spec.questions[:done]), **shared).run_arms()
        ungraded = 0
        if graders:
            arms = open_results([*experiment.arms.values()])
            ungraded = ask_outside(arms, graders, budget=experiment.budget, watch=watch)
        answers = right_answers(experiment.arms)
        verdict = verdict_of(answers, margin=margin)
        yield Study(path=out, experiment=experiment, verdict=verdict, answers=answers, given=total, ungraded=ungraded)
        if experiment.unfinished or experiment.waiting or (verdict.outcome != "open" and not whole):
            return


def right_answers(arms: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Arm -> question -> its share of right answers over repeats: by the first grader, else by the task's first metric.

    Failed and deferred debates, and questions without gold answers, are missing.
    """
    shares: dict[str, dict[str, float]] = {}
    for name, results in zip(arms, open_results([*arms.values()]) if arms else (), strict=True):
        grades = external_values(results).get(GRADER, {})
        scores: dict[str, list[float]] = {}
        for each in results.transcripts():
            if (value := correct(each)) is not None:
                scores.setdefault(each.id, []).append(grades.get((each.id, each.repeat), value))
        shares[name] = {id_: fmean(values) for id_, values in scores.items()}
    return shares


@takes_request("experiment")
def study(
    questions: str | Path | QuestionSets,
    documents: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    model: Model | None = None,
    sources: str | Mapping[str, Source] = NOTHING,
    pools: str | Path | Sequence[str | Path] = (),
    margin: float = MARGIN,
    whole: bool = False,
    more_arms: Sequence[str] = (),
    grader: str | None = None,
    options: RunOptions = DEFAULTS,
    listen: Listener = silent,
    **fields: Any,
) -> Study:
    """Does a debate pay? Compare one call, one call with documents, a vote and a debate, and stop when it is known.

    Questions are asked in blocks. After each, a debate is compared with a vote of as many calls and with one call with
    the same passages. The study ends with a verdict, at a limit of ``options``, or with the last question. The same
    call again resumes, and pays nothing twice. It works inside a running event loop.

    Args:
        questions: A file of questions, ``NAME=PATH`` for a published one, or a list of files or of questions.
        documents: Folders or files of documents, or ``NAME=PATH``.
        out: The folder. None: a temporary one that stays.
        model: The model of all arms: a name, an object, or a function of messages. Default: ``offline``.
        sources: Sources instead of documents, as for ``--sources``; or name -> source object.
        pools: A pool file, or several, instead of documents.
        margin: The smallest gain that is worth a debate, from 0 to 1: 0.1 are 10 points.
        whole: Whether to ask all questions, whatever is known before.
        more_arms: Of :data:`MORE_ARMS`: ``views`` (six samples of ``rag``'s prompt, each over other passages, and a
            vote), ``second-turn`` (each debater reads only its own first answer, and answers again).
        grader: Models that grade all answers, by name, separated by commas; the grades of the first decide.
        options: Concurrency, limits, prices, endpoint, replay.
        listen: Called with every event (:mod:`madke.core.events`).
        fields: Fields of :class:`madke.RunRequest` for all arms, such as ``limit``, ``repeats`` and ``seed``.

    Raises:
        UserError: An input is missing or invalid, or the folder holds another study.
    """
    spec = read_study(
        questions, documents, RunRequest(**fields), model=model, sources=sources, pools=pools, more_arms=more_arms
    )
    folder = Path(mkdtemp(prefix="madke-study-") if out is None else out)
    graders = graders_of(grader, base_url=options.base_url) if grader else []
    rules: dict[str, Any] = {"margin": checked_margin(margin), "whole": whole, "graders": graders, "listen": listen}
    return outside_loop(lambda: [*studies(spec, folder, options, **rules)][-1])


def checked_margin(margin: float) -> float:
    """The margin; UserError unless it is between 0 and 1."""
    if not 0 < margin < 1:
        raise UserError(f"margin = {margin}; expected a share between 0 and 1, such as 0.1 for 10 points")
    return margin


def read_study(
    questions: str | Path | QuestionSets,
    documents: str | Path | Sequence[str | Path],
    request: RunRequest,
    *,
    model: Model | None = None,
    sources: str | Mapping[str, Source] = NOTHING,
    pools: str | Path | Sequence[str | Path] = (),
    more_arms: Sequence[str] = (),
) -> ExperimentSpec:
    """The arms of a study over questions and documents; UserError if an input is missing or invalid."""
    recipe: str | Recipe = "study"
    if more_arms:
        if strange := [name for name in more_arms if name not in MORE_ARMS]:
            raise unknown("arm", strange[0], MORE_ARMS)
        usual = read_recipe("study")
        more = [Arm(name=name, protocol=name, sources="wiki,google") for name in dict.fromkeys(more_arms)]
        recipe = usual.model_copy(update={"arms": (*usual.arms, *more)})
    folders = [str(each) for each in ([documents] if isinstance(documents, str | Path) else documents)]
    if folders and sources:
        raise UserError("--sources is given with DOCUMENTS; leave out one")
    for text in folders:
        if "=" not in text and not Path(text).expanduser().exists():
            named = f"; a source is given by its name as --sources {text}" if text in known_sources() else ""
            raise UserError(f"no such file or folder; expected documents{named}", file=Path(text))
    # A folder that is named like a source is a folder here.
    paths = [text if "=" in text or "/" in text else f"./{text}" for text in folders]
    sources = ",".join(paths) if paths else sources
    return read_experiment_spec(recipe, questions, request, model=model, sources=sources, pools=pools)
