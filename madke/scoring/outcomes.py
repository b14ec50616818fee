"""What a debate did to the answer: corrected or collapsed, on whose side the judge was, who fell for a wrong answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from madke.core.transcript import Transcript
from madke.scoring.metrics import RIGHT_OR_WRONG, listed, question_of
from madke.tasks import get_task


def flips(transcript: Transcript, correct: float, rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How the final answer compares with the first round; nothing for a single turn, or a metric that has degrees.

    Each is 0 or 1: accuracy in round 1, plus ``corrected``, minus ``collapsed``, is the final accuracy.

    ``corrected``, ``collapsed``
        The majority of round 1 was wrong and the final answer is right; was right, and is wrong.
    ``oracle``
        Some debater was right in round 1: what a perfect choice among them would reach.
    ``repaired``
        No debater was right in round 1, and the final answer is right.

    Args:
        transcript: A finished debate with gold answers.
        correct: The task's first metric on its final answer.
        rounds: See :func:`madke.scoring.rounds.round_rows`.
    """
    if get_task(transcript.task).metrics[0] not in RIGHT_OR_WRONG or sum(len(r.turns) for r in transcript.rounds) < 2:
        return {}
    first = rounds[0]["accuracy"]
    oracle = rounds[0].get("right", 0.0) > 0
    return {
        "corrected": float(first == 0 and correct == 1),
        "collapsed": float(first == 1 and correct == 0),
        "oracle": float(oracle),
        "repaired": float(not oracle and correct == 1),
    }


def sides(transcript: Transcript) -> dict[str, float]:
    """Whom a judge who takes the answer sided with (Liang et al., Table 7): ``sided_with_<debater>`` or ``judge_tie``.

    Exactly one of them is 1. It is a tie where the judge took an answer and named no debater. A judge's reply that
    could not be read is neither.
    """
    final, verdict = transcript.final, transcript.rounds[-1].verdict
    if final.by != "judge":
        return {}
    side = final.agent
    if side is None and verdict is not None and verdict.consensus:
        side = verdict.side
    if side is None and final.answer is None:
        return {}
    names = dict.fromkeys(turn.agent for entry in transcript.rounds for turn in entry.turns)
    return {f"sided_with_{name}": float(name == side) for name in names} | {"judge_tie": float(side is None)}


def traps(transcript: Transcript) -> dict[str, float]:
    """Whether an answer that the dataset lists as wrong was given (``metadata["wrong_answers"]``); 0 or 1 each.

    ``trapped``
        The final answer is the same as one of them under the task's matcher, and not accepted as right: the trap rate
        of CIAR, the adoption of misinformation of RAMDocs.
    ``trapped_debater``
        So was the answer of some debater in some round.
    """
    wrong = listed(transcript.metadata, "wrong_answers")
    if not wrong:
        return {}
    task, question = get_task(transcript.task), question_of(transcript)

    def trapped(answer: str | None) -> bool:
        if answer is None or not any(task.same(answer, each, question) for each in wrong):
            return False
        return not task.accepts(answer, question)

    said = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns}
    fell = {answer for answer in said | {transcript.answer} if trapped(answer)}
    return {"trapped": float(transcript.answer in fell), "trapped_debater": float(bool(said & fell))}
