"""How the answer is taken when the debate is over. One small function a rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from madke.core.errors import UserError
from madke.core.transcript import Final, Round, Turn
from madke.engine import roles
from madke.engine.groups import agreed, answer_groups, by_cast
from madke.engine.scene import Scene

Finish = Callable[[Scene, Sequence[Round]], Awaitable[Final]]


async def summarizer(scene: Scene, rounds: Sequence[Round]) -> Final:
    """What the summarizer makes of the last round (Wang et al., Eq. 6).

    It is marked as a tie where the debate ended split: no verdict found consensus, and the debaters' last answers
    differ under the task's matcher.
    """
    final = await roles.summarize(scene, rounds)
    verdict = rounds[-1].verdict
    settled = verdict is not None and verdict.consensus
    return replace(final, tie=not settled and len(answer_groups(_last(scene, rounds), scene.same)) > 1)


async def majority(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer of the largest group; a tie goes to the group with the earliest debater and is marked."""
    groups = answer_groups(_last(scene, rounds), scene.same)
    if not groups:
        return Final(by="majority", status="abstained", rule="none")
    largest = max(groups, key=len)
    tie = sum(len(group) == len(largest) for group in groups) > 1
    return Final(by="majority", answer=largest[0].stance.answer, rule="tie" if tie else "votes", tie=tie)


async def agreed_or_summarizer(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer that all hold under the task's matcher, in the first debater's words; else the summarizer's."""
    if agreed(rounds[-1].turns, scene.same):
        return replace(await majority(scene, rounds), by="agreement")
    return await summarizer(scene, rounds)


async def judge_extract(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The judge's own answer where it settled the debate and stated one; else what it extracts from the history."""
    last, rule = rounds[-1], scene.protocol.extract
    if last.extracted is not None:
        return last.extracted
    verdict = last.verdict
    if rule == "unsettled" and verdict is not None and verdict.consensus and verdict.answer is not None:
        return Final(by="judge", answer=verdict.answer, text=verdict.text, rule=verdict.rule, agent=verdict.side)
    return await roles.extract(scene, rounds)


async def judge_pick(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The last stance of the debater whom the judge picks. An unreadable pick is an abstention."""
    final, agent = await roles.pick(scene, rounds)
    if agent is None:
        return final
    stance = next(turn.stance for turn in rounds[-1].turns if turn.agent == agent)
    return replace(final, agent=agent, answer=stance.answer, status=stance.status)


async def convergence(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The last stance whose words overlap most with the others'; ties go to the earliest debater.

    Only stances with a parsed answer take part: a missing parse is no convergence.
    """
    turns = [turn for turn in _last(scene, rounds) if turn.stance.answer is not None]
    if not turns:
        return Final(by="convergence", status="abstained", rule="none")
    scores = overlaps([turn.stance.text for turn in turns])
    return _best(
        turns, dict(zip((turn.agent for turn in turns), scores, strict=True)), by="convergence", rule="overlap"
    )


def overlaps(texts: Sequence[str]) -> list[float]:
    """Of each text the overlap with the others, summed: the Jaccard index of their sets of lower-case words.

    The order of the sum is that of the texts, as in the package lemmas: from four texts on, its ties hang on the last
    bit.
    """
    bags = [frozenset(text.lower().split()) for text in texts]
    return [sum((_jaccard(bag, other) for m, other in enumerate(bags) if m != n), 0.0) for n, bag in enumerate(bags)]


async def rerank(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The candidate that the estimator scores highest (He et al., 2024; Liang et al., section 4.1)."""
    turns = [turn for turn in _last(scene, rounds) if turn.stance.answer is not None]
    if not turns:
        return Final(by="rerank", status="abstained", rule="none")
    assert scene.estimate is not None, "debate() checks that there is an estimator"
    try:
        scores = await scene.estimate(scene.question, [turn.stance.answer or "" for turn in turns])
    except UserError as error:
        return Final(by="rerank", status="failed", rule="none", error=f"the estimator failed: {error}")
    if len(scores) != len(turns) or not all(map(isfinite, scores)):
        found = f"for {len(turns)} candidates it gave {list(scores)}"
        return Final(by="rerank", status="failed", rule="none", error=f"the estimator failed: {found}")
    by_agent = {turn.agent: float(score) for turn, score in zip(turns, scores, strict=True)}
    return _best(turns, by_agent, by="rerank", rule="estimator")


async def weighted(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer with the most recalibrated confidence behind it (Chen et al., 2024, ReConcile).

    A stance without a readable confidence counts with the least weight.
    """
    groups = answer_groups(_last(scene, rounds), scene.same)
    if not groups:
        return Final(by="weighted", status="abstained", rule="none")
    weights = [sum(vote_weight(turn.stance.confidence) for turn in group) for group in groups]
    best = max(range(len(groups)), key=weights.__getitem__)
    tie = sum(abs(weight - weights[best]) < 1e-9 for weight in weights) > 1
    scores = {group[0].stance.answer or "": weight for group, weight in zip(groups, weights, strict=True)}
    answer = groups[best][0].stance.answer
    return Final(by="weighted", answer=answer, rule="tie" if tie else "votes", tie=tie, scores=scores)


def vote_weight(confidence: float | None) -> float:
    """The weight of a vote with a stated confidence of 0 .. 1; models overstate it (Chen et al., 2024, section 3.3)."""
    if confidence is None or confidence <= 0.6:
        return 0.1
    if confidence < 0.8:
        return 0.3
    if confidence < 0.9:
        return 0.5
    return 0.8 if confidence < 1 else 1.0


async def only(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The single debater's own answer."""
    stance = rounds[-1].turns[0].stance
    return Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text)


FINISHES: Mapping[str, Finish] = {
    "summarizer": summarizer,
    "majority": majority,
    "judge_extract": judge_extract,
    "judge_pick": judge_pick,
    "convergence": convergence,
    "rerank": rerank,
    "weighted": weighted,
    "only": only,
    "agreed_or_summarizer": agreed_or_summarizer,
}
"""Every value of ``Protocol.finish``."""


def _last(scene: Scene, rounds: Sequence[Round]) -> list[Turn]:
    """The last round's turns in the order of the cast."""
    return by_cast(rounds[-1].turns, [debater.name for debater in scene.protocol.cast])


def _best(turns: Sequence[Turn], scores: Mapping[str, float], *, by: str, rule: str) -> Final:
    best = max(turns, key=lambda turn: scores[turn.agent])
    tie = sum(score == scores[best.agent] for score in scores.values()) > 1
    return Final(by=by, answer=best.stance.answer, agent=best.agent, scores=scores, rule=rule, tie=tie)


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, len(left | right))
