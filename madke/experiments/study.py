"""A study that stops when it knows: the recipe ``study`` over blocks of questions, and after each block the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean

from madke.core.events import Listener, silent
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.experiments.experiment import Experiment, is_experiment, recorded_questions, run_experiment
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.recipe import Arm
from madke.runs.meter import account
from madke.runs.request import RunOptions
from madke.scoring.arms import Results, open_results
from madke.scoring.debate_rows import correct
from madke.scoring.metrics import GRADER
from madke.scoring.outside import external_values
from madke.scoring.verdict import MARGIN, Verdict, verdict_of

BLOCK = 20
"""Questions between two looks at the results."""


def run_study(
    spec: ExperimentSpec,
    out: Path,
    options: RunOptions,
    *,
    margin: float = MARGIN,
    whole: bool = False,
    block: int = BLOCK,
    listen: Listener = silent,
    on_block: Callable[[int, int], None] = lambda done, given: None,
    on_arm: Callable[[int, Arm], None] = lambda number, arm: None,
    grade: Callable[[Experiment], None] = lambda experiment: None,
    signals: bool = False,
) -> Iterator[tuple[Experiment, Verdict]]:
    """Run or resume a study, and yield it with its verdict after each block of questions.

    It ends with a verdict (unless ``whole``), at a limit of the options, or with the last question. The questions come
    in a random order that is the same in every run, so that a file which is sorted by topic or difficulty does not
    decide; those of an earlier command come first. ``on_block`` gets the numbers of questions up to the end of a block
    and in all; ``grade`` grades the answers before a verdict.
    """
    begun = recorded_questions(out) if is_experiment(out) else []
    spec = replace(spec, questions=_shuffled(spec.questions, begun))
    own = account(options)
    sources: dict[str, Source] = {}
    done, given = 0, len(spec.questions)
    while done < given:
        done = min(given, max(done + block, len(begun)))
        if options.replay and begun:
            done = given = len(begun)
        on_block(done, given)
        experiment = run_experiment(
            replace(spec, questions=spec.questions[:done]),
            out,
            options,
            own=own,
            sources=sources,
            listen=listen,
            on_arm=on_arm,
            signals=signals,
        )
        grade(experiment)
        verdict = verdict_of(right_answers(experiment.arms), margin=margin)
        yield experiment, verdict
        if experiment.unfinished or experiment.waiting or (verdict.outcome != "open" and not whole):
            return


def _shuffled(questions: Sequence[Question], begun: Sequence[str]) -> list[Question]:
    place = {id_: n for n, id_ in enumerate(begun)}
    last = len(place)
    return sorted(questions, key=lambda each: (place.get(each.id, last), sha256(each.id.encode()).digest()))


def right_answers(arms: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Arm -> question -> its share of right answers over repeats: by the first grader, else by the task's first metric.

    Failed and deferred debates, and questions without gold answers, are missing.
    """
    if not arms:
        return {}
    opened = dict(zip(arms, open_results([*arms.values()]), strict=True))
    return {name: _right(results) for name, results in opened.items()}


def _right(results: Results) -> dict[str, float]:
    grades = external_values(results).get(GRADER, {})
    found: dict[str, list[float]] = {}
    for transcript in results.transcripts():
        value = correct(transcript)
        if value is not None:
            found.setdefault(transcript.id, []).append(grades.get((transcript.id, transcript.repeat), value))
    return {id_: fmean(values) for id_, values in found.items()}
