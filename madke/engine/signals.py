"""Signals of a debate: figures from its transcript that may tell whether its answer is right. No golds are read."""

from collections.abc import Callable, Mapping
from statistics import fmean

from madke.core.agreement import Agreement
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.agreement import answer_groups, matcher
from madke.engine.evidence import recorded_agreement
from madke.tasks.base import Task

SIGNALS: Mapping[str, str] = {
    "agreement_first": "share of debaters in the largest group of equal answers after round 1",
    "agreement_last": "share of debaters whose last answer is the final one",
    "judge": "1 if the judge found consensus, 0 if not",
    "quick": "1 divided by the number of rounds",
    "steady": "share of debaters who never changed their answer",
    "margin": "votes or weights of the answer minus those of the second, as a share of all",
    "confidence": "mean confidence that supporters of the answer stated",
    "support": "share of the passages read for the answer that contain it",
    "rank": "1 divided by the place in the pool of the first passage that contains the answer",
    "quotes": "share of quotes for the answer that were found",
}
"""Signal -> what it is. Each is from 0 to 1; more speaks for the answer."""


def signals(transcript: Transcript, task: Task) -> dict[str, float]:
    """The signals of a debate with an answer; those that do not apply are missing, and all without an answer."""
    agreement = recorded_agreement(transcript, task)
    if stated_answer(transcript) is None or agreement is None:
        return {}
    same = matcher(task, _asked(transcript))
    agents = {turn.agent for entry in transcript.rounds for turn in entry.turns}
    first = transcript.rounds[0].turns
    supporters = {agent for each in agreement.positions for agent in each.supporters}
    # With samples of one vote, the agreement is that of all rounds. The last one may have failed calls too.
    asked = supporters | {*agreement.silent, *(turn.agent for turn in transcript.rounds[-1].turns)}
    found = {
        "agreement_first": max((len(group) for group in answer_groups(first, same)), default=0) / max(1, len(first)),
        "agreement_last": len(supporters - {*agreement.dissent}) / max(1, len(asked)),
        "quick": 1 / len(transcript.rounds),
        "steady": 1 - len({change.agent for change in agreement.changes}) / max(1, len(agents)),
    }
    verdict = transcript.rounds[-1].verdict
    if verdict is not None and verdict.consensus is not None:
        found["judge"] = float(verdict.consensus)
    weights = sorted(transcript.final.scores.values(), reverse=True)
    if weights and sum(weights) > 0 and min(weights) >= 0:
        found["margin"] = (weights[0] - (weights[1] if len(weights) > 1 else 0.0)) / sum(weights)
    return found | _stated(transcript, agreement) | _looked_up(agreement)


def stated_answer(transcript: Transcript) -> str | None:
    """The final answer, also a deferred one."""
    return transcript.answer if transcript.deferral is None else transcript.deferral.answer


def _asked(transcript: Transcript) -> Question:
    return Question(id=transcript.id, question=transcript.question, task=transcript.task, choices=transcript.choices)


def _stated(transcript: Transcript, agreement: Agreement) -> dict[str, float]:
    turns = [turn for turn in transcript.rounds[-1].turns if turn.agent not in agreement.dissent]
    stated = [turn.stance.confidence for turn in turns if turn.stance.confidence is not None]
    return {"confidence": fmean(stated)} if stated else {}


def _looked_up(agreement: Agreement) -> dict[str, float]:
    right = [each for each in agreement.positions if not set(each.supporters) & set(agreement.dissent)]
    read = {n for each in right for n in each.passages}
    containing = {n for each in right for n in each.containing or ()}
    quotes = [quote for each in right for quote in each.quotes]
    found: dict[str, float] = {}
    if read and any(each.containing is not None for each in right):
        found |= {"support": len(containing) / len(read), "rank": 1 / (1 + min(containing)) if containing else 0.0}
    if quotes:
        found["quotes"] = fmean(quote.status in ("found", "approximate") for quote in quotes)
    return found


Settle = Callable[[Transcript], Transcript]
"""What becomes of a finished debate before anybody hears of its end."""
