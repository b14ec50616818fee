"""The judge and the summarizer, judged: how often their word differs from what the task's matcher finds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from madke.core.transcript import Transcript
from madke.engine.agreement import agreed, matcher
from madke.scoring.metrics import question_of
from madke.tasks import get_task


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCounts:
    """Numbers of verdicts and summaries, over all debates of an arm."""

    same: int = 0
    """Verdicts SAME."""
    same_of_different: int = 0
    """Verdicts SAME about answers that the matcher takes for different ones."""
    same_of_missing: int = 0
    """Verdicts SAME where a debater has no answer."""
    different: int = 0
    """Verdicts DIFFERENT."""
    different_of_same: int = 0
    """Verdicts DIFFERENT about answers that the matcher takes for the same."""
    summaries: int = 0
    """Final answers of a summarizer."""
    new_summaries: int = 0
    """Those that the matcher finds in no debater's answers."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def judge_counts(transcript: Transcript) -> JudgeCounts:
    """The counts of one debate. Verdicts without a call, and texts, which no matcher compares, are left out."""
    task = get_task(transcript.task)
    if task.is_prose:
        return JudgeCounts()
    verdicts = list(_verdicts(transcript))
    summary = transcript.final.answer if transcript.final.by == "summarizer" else None
    same = matcher(task, question_of(transcript))
    answers = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns} - {None}
    return JudgeCounts(
        same=sum(said for said, _ in verdicts),
        same_of_different=verdicts.count((True, "different")),
        same_of_missing=verdicts.count((True, "missing")),
        different=sum(not said for said, _ in verdicts),
        different_of_same=verdicts.count((False, "same")),
        summaries=int(summary is not None),
        new_summaries=int(summary is not None and not any(same(summary, answer) for answer in answers if answer)),
    )


def _verdicts(transcript: Transcript) -> Iterator[tuple[bool, str]]:
    """Each verdict of a judge that was asked for consensus: whether it said SAME, and what the matcher finds."""
    same = matcher(get_task(transcript.task), question_of(transcript))
    for entry in transcript.rounds if transcript.final.by != "judge" else ():
        verdict = entry.verdict
        if verdict is None or verdict.consensus is None or not verdict.text:
            continue
        spoke = [turn for turn in entry.turns if turn.stance.status != "failed"]
        missing = any(turn.stance.answer is None for turn in spoke)
        said = verdict.consensus or verdict.rule == "no_answer"
        yield said, "missing" if missing else "same" if agreed(spoke, same) else "different"


def judge_values(transcript: Transcript) -> dict[str, float]:
    """The same as shares of one debate; values that do not apply are missing.

    ``false_same``: of the judge's verdicts SAME, the share where the matcher finds different or missing answers.
    ``false_different``: of its verdicts DIFFERENT, the share where the matcher finds the same answer.
    ``new_summary``: whether the summarizer's answer is none of the debaters'.
    """
    counts = judge_counts(transcript)
    shares = {
        "false_same": (counts.same_of_different + counts.same_of_missing, counts.same),
        "false_different": (counts.different_of_same, counts.different),
        "new_summary": (counts.new_summaries, counts.summaries),
    }
    return {name: part / whole for name, (part, whole) in shares.items() if whole}
