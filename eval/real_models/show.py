"""Print the stage measures and sample replies of any run directory: for writing prompts."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from eval.real_models.collect import collected, example_answers
from eval.real_models.kept import Call, KeptCell
from eval.real_models.measures import ECHOED, SCORED, by_stage
from eval.real_models.swapped import changes
from madke.core.transcript import Transcript
from madke.retrieval.pools.pool_file import PoolRecord
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate

_PLACE = tuple[str, str, str, int]


def shown(folder: Path, pools: Mapping[str, PoolRecord], *, samples: int, prompts: Path, with_prompt: bool) -> str:
    """The text to print."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONSAFEPATH": "1"}
    examples = example_answers(prompts)
    head = {"model": "", "kind": "", "arm": folder.name, "max_tokens": 0}
    cell = collected(folder, pools, examples, env=env, own=True, **head)
    return "\n".join([*_scores(cell), *_stages(cell), *_samples(cell, samples, with_prompt)])


def _scores(cell: KeptCell) -> Iterator[str]:
    scores = scores_of(cell.transcripts)
    unanswered = sum(transcript.status == "abstained" for transcript in cell.transcripts)
    metrics = ", ".join(f"{name} {_percent(scores.metrics.get(name))}" for name in SCORED)
    yield f"{scores.questions} questions: {metrics}; {unanswered} without an answer, {scores.failed} failed"
    yield f"stop reasons: {dict(scores.stop_reasons)}; pools with a gold answer: {len(cell.holds_gold)}"
    if any(transcript.first_round_given for transcript in cell.transcripts):
        found = changes(cell.transcripts)
        yield (
            f"right to wrong {_percent(found.right_to_wrong)}, right to unreadable {_percent(found.right_to_none)}, "
            f"wrong to right {_percent(found.wrong_to_right)}"
        )


def _stages(cell: KeptCell) -> Iterator[str]:
    yield f"{'stage':<10} {'replies':>7} {'readable':>9} {'repeats':>8} {'example':>8} {'cut':>6} {'failed':>6}"
    for stage, found in by_stage(cell).items():
        shares = [_percent(each) for each in (found.readable, found.echoed, found.example, found.cut)]
        widths = (9, 8, 8, 6)
        cells = " ".join(f"{text:>{width}}" for text, width in zip(shares, widths, strict=True))
        yield f"{stage:<10} {found.replies:>7} {cells} {found.failed:>6}"


def _percent(share: Estimate | None) -> str:
    return "-" if share is None else f"{100 * share.value:.1f} %"


def _samples(cell: KeptCell, samples: int, with_prompt: bool) -> Iterator[str]:
    transcripts = {transcript.id: transcript for transcript in cell.transcripts}
    for stage in by_stage(cell):
        calls = [call for call in cell.calls if call.stage == stage and call.question in transcripts]
        random.Random(0).shuffle(calls)
        for call in calls[:samples]:
            transcript = transcripts[call.question]
            marks = [name for name, on in _marks(call).items() if on]
            yield ""
            yield f"--- {stage}, {call.agent}, round {call.round}, {transcript.question!r}, gold {transcript.answers}"
            if with_prompt:
                yield from (f"<<{role}>> {text}" for role, text in call.messages or ())
                yield "<<reply>>"
            yield call.text or f"(failed: {call.error})"
            yield f"--> {_reading(call, transcript)}{' ' if marks else ''}{', '.join(marks)}"


def _marks(call: Call) -> dict[str, bool]:
    return {f"REPEATS {call.echo:.0%}": call.echo > ECHOED, "EXAMPLE": call.example, "CUT": call.finish == "length"}


def _reading(call: Call, transcript: Transcript) -> str:
    """What was read from a reply."""
    entry = next((each for each in transcript.rounds if each.n == call.round), None)
    if call.stage == "judge" and entry and entry.verdict:
        return f"consensus: {entry.verdict.consensus} ({entry.verdict.rule})"
    if call.stage in ("select", "speak", "reply") and entry:
        for turn in entry.turns:
            if turn.agent == call.agent and call.stage == "select" and turn.selection:
                return f"{list(turn.selection.ids)} ({turn.selection.status}, {turn.selection.rule})"
            if turn.agent == call.agent and call.stage != "select":
                return f"{turn.stance.answer!r} ({turn.stance.status}, {turn.stance.rule})"
    return f"{transcript.answer!r} ({transcript.status}, {transcript.final.rule})"
