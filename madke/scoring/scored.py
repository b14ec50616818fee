"""The scores of an arm: of its transcripts, with what scorers outside and a grader said, and what its calls cost."""

from __future__ import annotations

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

from madke.command_scorer import CommandScorer
from madke.core.errors import UserError
from madke.files import atomic_write, fingerprint
from madke.llm import CallStore
from madke.llm.prices import Prices, cost, price_of
from madke.runs.meter import MeterDisplay
from madke.runs.run_json import run_files, sessions_of
from madke.scoring.arms import Results, opened
from madke.scoring.grading import Grader, grade_results
from madke.scoring.outside import EXTERNAL, external_values, require_answers, score_outside
from madke.scoring.scores import Scores, Spending, score, scores_from_json, scores_to_json
from madke.versions import versions

_log = logging.getLogger(__name__)

_METRICS = "metrics.json"


def score_run(
    run: Path | str | Results,
    *,
    prices: Prices = MappingProxyType({}),
    grader: Grader | str | None = None,
    scorers: Mapping[str, CommandScorer | str] = MappingProxyType({}),
) -> Scores:
    """Score a run's transcripts, with what was kept from graders and scorers outside, and write its ``metrics.json``.

    The scores of a directory that is read-only are not kept; a warning says so. Of answers from elsewhere nothing is
    written but what graders and scorers say.

    Args:
        run: A run directory, or results from anywhere.
        prices: Model -> price, for the cost of the calls that the run made itself; none are needed.
        grader: A model that grades each answer first, by its name or with its endpoint. Its calls are kept.
        scorers: Name -> command that scores the answers first: COMET, BLEURT.

    Raises:
        UserError: The directory is no run, or cannot be written to; a grader or scorer cannot be used.
    """
    (arm,) = opened([run])
    ask_outside([arm], grader, scorers)
    # Before the transcripts are read: a run may be adding to them.
    state = _state(arm.path) if arm.path.is_dir() else ""
    scores = score(arm.transcripts(), external_values(arm))
    if not arm.path.is_dir():
        return scores
    kept = _kept(arm.path, state)
    spending = run_spending(arm.path, prices) if prices else kept.spending if kept else None
    scores = replace(scores, spending=spending, scored=state)
    try:
        with atomic_write(arm.path / _METRICS) as file:
            file.write(scores_to_json(scores))
    except UserError as error:
        if os.access(arm.path, os.W_OK):
            raise
        _log.warning("%s; the scores are not kept", error)
    return scores


def ask_outside(
    arms: Sequence[Results],
    grader: Grader | str | None = None,
    scorers: Mapping[str, CommandScorer | str] = MappingProxyType({}),
    *,
    watch: MeterDisplay = lambda meter: nullcontext(),
) -> int:
    """Have scorers outside and a grader judge the answers of arms, and keep what they say beside these.

    ``watch`` shows a meter while a grader's calls go on. Returns how many answers have no grade because their call
    failed: grading again asks for them again. UserError where there is nothing to score, or nobody who can.
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
    who = Grader(model=grader) if isinstance(grader, str) else grader
    return sum(grade_results(arm, who, watch=watch) for arm in arms)


def kept_scores(directory: Path) -> Scores | None:
    """What :func:`score_run` wrote, if it is of what the directory holds now; else None."""
    return _kept(directory, _state(directory))


def scores_of(run: Path | str | Results) -> Scores:
    """The scores of an arm, with what was kept from outside and of its cost; nothing is written."""
    (arm,) = opened([run])
    kept = kept_scores(arm.path) if arm.path.is_dir() else None
    return replace(score(arm.transcripts(), external_values(arm)), spending=kept.spending if kept else None)


def scores_by_dataset(arm: Results) -> dict[str, Scores]:
    """The same for each dataset that the arm's questions come from, by name; those of no name have the empty one."""
    outside = external_values(arm)
    datasets = {transcript.id: transcript.dataset or "" for transcript in arm.transcripts()}
    return {
        name: score((t for t in arm.transcripts() if datasets[t.id] == name), outside)
        for name in sorted(set(datasets.values()))
    }


def _kept(directory: Path, state: str) -> Scores | None:
    try:
        scores = scores_from_json((directory / _METRICS).read_bytes())
    except (OSError, ValidationError):
        return None
    return scores if scores.scored == state else None


def _state(directory: Path) -> str:
    """Changes with the transcripts, with what was said of them outside, with the calls made, and with this program."""
    files = [directory / "transcripts.jsonl", directory / EXTERNAL]
    calls = json.dumps(list(sessions_of(directory))) if (directory / "run.json").is_file() else ""
    parts = [versions()["madke"], calls, *(fingerprint(file) if file.exists() else "" for file in files)]
    return sha256(" ".join(parts).encode()).hexdigest()


def run_spending(directory: Path, prices: Prices) -> Spending | None:
    """Cost of the calls that a run made itself; None where no call is recorded."""
    if not (directory / "run.json").is_file() or not (calls := run_files(directory).calls).is_file():
        return None
    among_arms = calls.resolve().parent != directory.resolve()
    # Arms of an experiment pay under their folders' names; a run of its own has no name in its store.
    payer = directory.resolve().name if among_arms else ""
    costs: defaultdict[str, float] = defaultdict(float)
    unpriced: set[str] = set()
    made = 0
    with CallStore(calls) as store:
        for call in store.recorded(payer=payer):
            made += 1
            used = call.completion.usage
            if price := price_of(call.model, prices):
                costs[call.purpose.stage] += cost(used, price)
            elif used.prompt_tokens + used.completion_tokens:
                unpriced.add(call.model)
    return Spending(cost=dict(costs), unpriced=tuple(sorted(unpriced))) if made else None
