"""Transcripts made by hand."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from madke.core.transcript import Final, ParseStatus, Round, Selection, StageUsage, Stance, Transcript, Turn, Verdict
from madke.engine.agreement import Evidence, agreement_of, asked_question
from madke.report.comparison import Comparison, comparison_of
from madke.scoring.arms import Results
from madke.tasks import get_task


def stance(answer: str | None, status: Any = None) -> Stance:
    return Stance(text=f"It is [{answer}].", answer=answer, status=status or ("ok" if answer else "abstained"))


def transcript(
    id_: str,
    *,
    said: list[Any],
    consensus: bool | None,
    answer: str | None,
    golds: tuple[str, ...] = ("Lake Baikal",),
    status: ParseStatus | None = None,
    **changes: Any,
) -> Transcript:
    """One round in which the debaters ``said`` these answers (None: unreadable), and what came of it."""
    turns = tuple(
        Turn(agent=f"Debater {n}", stance=stance(text), selection=Selection(ids=(0,), text="[0]"))
        for n, text in enumerate(said, start=1)
    )
    verdict = Verdict(consensus=consensus, text="...")
    status = status or ("ok" if answer else "abstained")
    fields = {
        "id": id_,
        "question": "Which lake is the deepest?",
        "task": "short_answer",
        "answers": golds,
        "status": status,
        "answer": answer,
        "stop_reason": "consensus" if consensus else "rounds",
        "rounds": (Round(n=1, order=tuple(turn.agent for turn in turns), turns=turns, verdict=verdict),),
        "final": Final(by="summarizer", answer=answer, status=status, error="gone" if status == "failed" else None),
        "usage": {"speak": StageUsage(calls=2, paid=1, prompt_tokens=100, completion_tokens=10)},
    }
    return with_agreement(Transcript(**{**fields, **changes}))


def with_agreement(transcript: Transcript) -> Transcript:
    """With who agrees at its end, as debates record it, as far as no passages are needed."""
    known = {entry.n for entry in transcript.pool}
    evidence = Evidence(get_task(transcript.task), asked_question(transcript), None, lambda turn: known)
    return replace(transcript, agreement=agreement_of(transcript.rounds, transcript.final, evidence))


def arm(name: str, transcripts: Any, path: Path = Path("nowhere")) -> Results:
    return Results(name=name, path=path, config=None, transcripts=partial(iter, list(transcripts)))


def compared(runs: Any, external: Any = None) -> Comparison:
    """The comparison of arms: name -> transcripts."""
    return comparison_of([arm(name, transcripts) for name, transcripts in runs.items()], external)
