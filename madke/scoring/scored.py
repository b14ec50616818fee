"""The scores of an arm: from its transcripts, external scorers, a grader, and the cost of its calls."""

import json
import logging
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from madke._util.child_process import CommandScorer
from madke._util.files import fingerprint, write_file
from madke._util.terminal import printable
from madke._version import __version__
from madke.core.errors import UserError
from madke.core.events import Watch, silent
from madke.models.prices import Prices, billed_as, cost, cost_saved, price_of
from madke.models.store import CallStore
from madke.runs.directory import is_being_written
from madke.runs.meter import Budget
from madke.runs.record import run_files, sessions_of
from madke.scoring.arms import ArmValues, Results, open_runs
from madke.scoring.outside import (
    EXTERNAL,
    Grader,
    external_values,
    grade_results,
    graders_of,
    known_grades,
    require_answers,
    score_outside,
)
from madke.scoring.scores import Scores, Spending, score_with_values, scores_from_json, scores_of, scores_to_json

_log = logging.getLogger(__name__)

_METRICS = "metrics.json"


def score_run(
    run: Path | str | Results,
    *,
    prices: Prices = MappingProxyType({}),
    grader: Grader | str | None = None,
    scorers: Mapping[str, CommandScorer | str] = MappingProxyType({}),
) -> Scores:
    """Score a run, including stored external scores and grades, and write its ``metrics.json``.

    In a read-only directory the scores are not stored, with a warning. For predictions from elsewhere and for corrected
    results, only external scores and grades are stored.

    Args:
        run: A run directory, or :class:`~madke.scoring.arms.Results`.
        prices: Model -> price, for the cost of the run's own calls; optional.
        grader: A model that grades each answer first: its name, or a :class:`Grader`. Its calls are stored.
        scorers: Name -> command that scores the answers first, such as COMET or BLEURT.

    Raises:
        UserError: The directory is no run or cannot be written, or a grader or scorer cannot be used.
    """
    (arm,) = open_runs([run])
    is_record = arm.path.is_dir() and not arm.corrected
    ask_outside([arm], grader, scorers)
    # Before the transcripts are read, because a run may be appending to them.
    state = _state(arm.path) if arm.path.is_dir() else ""
    scores, _ = scored_arm(arm, state)
    if not arm.path.is_dir():
        return scores
    if prices:
        scores = replace(scores, spending=run_spending(arm.path, prices))
    if not is_record:
        return scores
    scores = replace(scores, scored=state)
    try:
        write_file(arm.path / _METRICS, scores_to_json(scores))
    except UserError as error:
        if os.access(arm.path, os.W_OK):
            raise
        _log.warning("%s; the scores are not stored", error)
    return scores


def ask_outside(
    arms: Sequence[Results],
    grader: Grader | str | Sequence[Grader] | None = None,
    scorers: Mapping[str, CommandScorer | str] = MappingProxyType({}),
    *,
    budget: Budget | None = None,
    watch: Watch = lambda: nullcontext(silent),
) -> int:
    """Run external scorers and graders on the answers of arms, and store their scores next to the arms.

    A prompt that several arms share is graded once. ``budget`` pays for the grader's calls. ``watch`` opens a listener
    for the calls on an arm. Returns the number of answers whose grading call failed; grading again retries them.
    UserError if there is nothing to score, or a grader or scorer cannot be used.
    """
    commands = {name: CommandScorer(each) if isinstance(each, str) else each for name, each in scorers.items()}
    if commands:
        require_answers(arms)
    if grader is not None:
        require_answers(arms, references=True)
    for arm in arms if commands else ():
        score_outside(arm, commands)
    if grader is None:
        return 0
    graders = graders_of(grader) if isinstance(grader, str) else [grader] if isinstance(grader, Grader) else [*grader]
    known = known_grades(arms, budget)
    return sum(grade_results(arm, each, known=known, budget=budget, watch=watch) for each in graders for arm in arms)


def kept_scores(directory: Path, state: str = "") -> Scores | None:
    """The scores that :func:`score_run` stored, or None if they are missing or not of this (or the present) state."""
    try:
        scores = scores_from_json((directory / _METRICS).read_bytes())
    except (OSError, ValidationError):
        return None
    return scores if scores.scored == (state or _state(directory)) else None


def scored_arm(arm: Results, state: str = "") -> tuple[Scores, ArmValues]:
    """The scores of an arm, including stored external scores and costs, and the values behind them; writes nothing."""
    kept = kept_scores(arm.path, state) if arm.path.is_dir() and not arm.corrected else None
    scores, values = score_with_values(arm.name, arm.transcripts(), external_values(arm))
    spending = kept.spending if kept else None
    return replace(scores, spending=spending, incomplete=incomplete(arm, scores.transcripts)), values


def scores_by_dataset(arm: Results) -> dict[str | None, Scores]:
    """Dataset name -> the scores of its questions; the name is empty for questions without one."""
    external = external_values(arm)
    datasets = {transcript.id: transcript.dataset or "" for transcript in arm.transcripts()}
    scores = {
        name: scores_of((t for t in arm.transcripts() if datasets[t.id] == name), external)
        for name in sorted(set(datasets.values()))
    }
    done = incomplete(arm, sum(each.transcripts for each in scores.values()))
    return {name: replace(each, incomplete=done) for name, each in scores.items()}


_ENDS = {"": "killed", "interrupted": "interrupted", "an error": "stopped by an error"}
"""Ends of a session in ``run.json`` -> their names. Only a killed command leaves none."""


def incomplete(arm: Results, debates: int) -> str | None:
    """How many of a run's debates are done and why not all, or None for a complete run and for predictions.

    ``debates``: number of its transcripts, as in :attr:`madke.scoring.scores.Scores.transcripts`.
    """
    if arm.config is None:
        return None
    total = len(arm.config.questions) * arm.config.repeats
    if debates >= total:
        return None
    sessions = sessions_of(arm.path)
    ended = str(sessions[-1].get("ended", "")) if sessions else ""
    done = f"{debates:,} of {total:,}"
    if is_being_written(arm.path):
        return f"{done} (still running)"
    # The last possible reason is the error of a model whose calls all fail, which is long.
    why = f"stopped at {ended}" if ended.startswith("--") else _ENDS.get(ended, f"stopped: {ended.partition(': ')[0]}")
    how = " with a higher limit" if ended in ("--max-cost", "--token-budget") else ""
    # "finished": a later command had fewer questions.
    text = f"{done} ({'' if ended == 'finished' else f'{why}; '}the same command{how} goes on)"
    return " ".join(printable(text).split())


def _state(directory: Path) -> str:
    """A hash of the transcripts, their external scores, the sessions and the version of madke."""
    files = [directory / "transcripts.jsonl", directory / EXTERNAL]
    calls = json.dumps(list(sessions_of(directory))) if (directory / "run.json").is_file() else ""
    parts = [__version__, calls, *(fingerprint(file) if file.exists() else "" for file in files)]
    return sha256(" ".join(parts).encode()).hexdigest()


def run_spending(directory: Path, prices: Prices) -> Spending | None:
    """The cost of a run's own calls; None if no call is recorded."""
    if not (directory / "run.json").is_file() or not (calls := run_files(directory).calls).is_file():
        return None
    among_arms = calls.resolve().parent != directory.resolve()
    # In the shared store of an experiment, calls carry the name of their arm; a single run has no name.
    payer = directory.resolve().name if among_arms else ""
    costs: defaultdict[str, float] = defaultdict(float)
    unpriced: set[str] = set()
    made, cheaper = 0, 0.0
    with CallStore(calls) as store:
        for call in store.recorded(payer=payer):
            made += 1
            used = call.completion.usage
            if price := price_of(billed_as(call.model, call.completion.tier), prices):
                costs[call.purpose.stage] += cost(used, price)
                cheaper += cost_saved(used, price)
            elif used.prompt_tokens + used.completion_tokens:
                unpriced.add(call.model)
    return Spending(cost=dict(costs), unpriced=tuple(sorted(unpriced)), saved=cheaper) if made else None
