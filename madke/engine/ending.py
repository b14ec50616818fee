"""The stop rules (when a debate ends early) and the finish rules (where its answer comes from), one function each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import isfinite

from madke._util.concurrency import gather
from madke.core.errors import UserError
from madke.core.transcript import UNREAD_STATUSES, Final, Round, Turn, Verdict
from madke.engine import roles
from madke.engine.agreement import agreed, answer_groups
from madke.engine.evidence import last_turns
from madke.engine.order import by_cast
from madke.engine.prose import is_prose
from madke.engine.scene import Scene
from madke.engine.view import stances_of

Ending = tuple[Round, str | None]
"""The last round, with the calls made after its turns, and the stop reason; None if the debate goes on."""


async def never(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Never stop early."""
    return rounds[-1], None


async def judge(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop when the judge finds the debate settled. It is asked if at least two stances have text, parsed or not.

    A missing answer is no consensus, whatever the judge says; a judge that decides on the answer may still settle.
    """
    stances = sum(bool(spoken.text.strip()) for spoken in stances_of(rounds))
    verdict = Verdict(consensus=None, rule="too_few") if stances < 2 else _without_judge(scene, rounds)
    if verdict is None:
        verdict = await roles.ask_judge(scene, rounds)
    if verdict.consensus and not scene.protocol.judge_finishes and _lacks_answer(scene, rounds):
        verdict = replace(verdict, consensus=False, rule="no_answer")
    reason = "settled" if scene.protocol.finish == "judge_extract" else "consensus"
    return replace(rounds[-1], verdict=verdict), reason if verdict.consensus else None


def _without_judge(scene: Scene, rounds: Sequence[Round]) -> Verdict | None:
    """The verdict where no judge is needed: a missing answer, equal answers, values that differ; else None."""
    if scene.protocol.judge_asked == "always" or is_prose(scene.task):
        return None
    if _lacks_answer(scene, rounds):
        return Verdict(consensus=False, rule="no_answer")
    if _agreed(scene, rounds):
        return Verdict(consensus=True, rule="matcher")
    answers = [turn.stance.answer for turn in _last_turns(scene, rounds) if turn.stance.answer is not None]
    if any(scene.task.clearly_differ(one, other, scene.question) for one, other in combinations(answers, 2)):
        return Verdict(consensus=False, rule="values")
    return None


def _lacks_answer(scene: Scene, rounds: Sequence[Round]) -> bool:
    """Whether a debater who spoke gave no answer. A failed call is none: the debate goes on without that debater."""
    turns = (turn for turn in _last_turns(scene, rounds) if turn.stance.status != "failed")
    return any(turn.stance.answer is None for turn in turns)


async def agreement(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop when all answers, or enough of them, are the same under the task's matcher."""
    return rounds[-1], "agreement" if _agreed(scene, rounds) else None


async def agreement_then_judge(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop on agreement, else ask the judge; after the last round only if the finish rule needs the verdict."""
    entry, reason = await agreement(scene, rounds)
    asked = entry.n < scene.protocol.rounds or scene.protocol.judge_finishes
    return await judge(scene, rounds) if asked and not reason else (entry, reason)


async def satisfied(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop when every debater, asked to review its own stance, is satisfied. Skipped after the last round."""
    entry = rounds[-1]
    if entry.n == scene.protocol.rounds:
        return entry, None
    debaters = {debater.name: debater for debater in scene.protocol.cast}

    async def reviewed(turn: Turn) -> Turn:
        if turn.stance.status == "failed" or turn.agent not in debaters:
            return turn
        return replace(turn, reflection=await roles.reflect(scene, debaters[turn.agent], entry.n, turn.stance.text))

    turns = tuple(await gather(reviewed(turn) for turn in entry.turns))
    satisfaction = [turn.reflection.satisfied for turn in turns if turn.reflection is not None]
    return replace(entry, turns=turns), "satisfied" if satisfaction and all(satisfaction) else None


async def stability(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop when every debater repeats its answer of the previous round; a missing answer is not stable."""
    if len(rounds) < 2:
        return rounds[-1], None
    before = {turn.agent: turn.stance.answer for turn in rounds[-2].turns}
    answers = [(turn.stance.answer, before.get(turn.agent)) for turn in rounds[-1].turns]
    stable = all(new is not None and old is not None and scene.same(new, old) for new, old in answers)
    return rounds[-1], "stability" if stable else None


async def budget(scene: Scene, rounds: Sequence[Round]) -> Ending:
    """Stop when the question's token budget is used up."""
    limit, used = scene.protocol.token_budget, sum(stage.tokens for stage in scene.usage.values())
    return rounds[-1], "budget" if limit is not None and used >= limit else None


STOPS = {rule.__name__: rule for rule in (never, judge, agreement, agreement_then_judge, satisfied, stability, budget)}


async def summarizer(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The summarizer's answer from the last round (Wang et al., Eq. 6); a tie if the debate ended without agreement."""
    final = await roles.summarize(scene, rounds)
    verdict = rounds[-1].verdict
    settled = verdict is not None and verdict.consensus
    return replace(final, tie=not settled and len(answer_groups(_last_turns(scene, rounds), scene.same)) > 1)


async def majority(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer of the largest group; a tie goes to the group with the earliest debater and is recorded."""
    return replace(_voted(scene, rounds, "majority", lambda turn: 1), scores={})


async def agreed_or_summarizer(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer on which the debaters agree, in the words of the first who gives it; else the summarizer's."""
    if _agreed(scene, rounds):
        return replace(await majority(scene, rounds), by="agreement")
    return await summarizer(scene, rounds)


async def judge_extract(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer in the judge's verdict if it settled the debate; else the answer it extracts from the history."""
    last, verdict = rounds[-1], rounds[-1].verdict
    if last.extracted is not None:
        return last.extracted
    if scene.protocol.extract == "unsettled" and verdict and verdict.consensus and verdict.answer is not None:
        return Final(by="judge", answer=verdict.answer, text=verdict.text, rule=verdict.rule, agent=verdict.side)
    return await roles.extract(scene, rounds)


async def judge_pick(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer of the debater that the judge picks. An unreadable pick is an abstention."""
    final, agent = await roles.pick(scene, rounds)
    if agent is None:
        return final
    stance = next(turn.stance for turn in rounds[-1].turns if turn.agent == agent)
    return replace(final, agent=agent, answer=stance.answer, status=stance.status)


async def convergence(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer of the last stance whose words overlap most with the others'; in a tie, the earliest debater's."""
    turns = [turn for turn in _last_turns(scene, rounds) if turn.stance.answer is not None]
    if not turns:
        return _no_answer(scene, rounds, "convergence")
    scores = overlaps([turn.stance.text for turn in turns])
    return _best(turns, scores, by="convergence", rule="overlap")


def overlaps(texts: Sequence[str]) -> list[float]:
    """For each text, the sum of its overlaps with the others: Jaccard indexes of sets of lower-case words.

    Summed in the order of the texts, as the package lemmas does: with four texts or more, rounding can decide a tie.
    """
    words = [frozenset(text.lower().split()) for text in texts]
    return [sum((_jaccard(own, other) for m, other in enumerate(words) if m != n), 0.0) for n, own in enumerate(words)]


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, len(left | right))


async def rerank(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer with the highest score of the answer scorer (He et al., 2024; Liang et al., section 4.1)."""
    turns = [turn for turn in _last_turns(scene, rounds) if turn.stance.answer is not None]
    if not turns:
        return _no_answer(scene, rounds, "rerank")
    assert scene.score_answers is not None, "debate() checks that there is an answer scorer"
    try:
        scores = await scene.score_answers(scene.question, [turn.stance.answer or "" for turn in turns])
        if len(scores) != len(turns) or not all(map(isfinite, scores)):
            raise UserError(f"expected {len(turns)} finite scores, one per answer, found {list(scores)}")
    except UserError as error:
        return Final(by="rerank", status="failed", rule="none", error=f"the answer scorer failed: {error}")
    return _best(turns, scores, by="rerank", rule="answer_scorer")


async def weighted(scene: Scene, rounds: Sequence[Round]) -> Final:
    """The answer with the largest sum of recalibrated confidences (Chen et al., 2024, ReConcile)."""
    return _voted(scene, rounds, "weighted", lambda turn: vote_weight(turn.stance.confidence))


def vote_weight(confidence: float | None) -> float:
    """The vote weight of a confidence (0 .. 1), lowered since models overstate it (Chen et al., 2024, section 3.3)."""
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


_FINISHES = (summarizer, majority, agreed_or_summarizer, judge_extract, judge_pick, convergence, rerank, weighted, only)
FINISHES = {rule.__name__: rule for rule in _FINISHES}


def _agreed(scene: Scene, rounds: Sequence[Round]) -> bool:
    return agreed(_last_turns(scene, rounds), scene.same, scene.protocol.agreement_share)


def _last_turns(scene: Scene, rounds: Sequence[Round]) -> list[Turn]:
    """The turns on which the answer rests, in the order of the cast."""
    turns = last_turns(rounds, samples=scene.protocol.samples)
    return by_cast(turns, [debater.name for debater in scene.protocol.cast])


def _voted(scene: Scene, rounds: Sequence[Round], by: str, weight: Callable[[Turn], float]) -> Final:
    groups = answer_groups(_last_turns(scene, rounds), scene.same)
    if not groups:
        return _no_answer(scene, rounds, by)
    scores = {group[0].stance.answer or "": sum(map(weight, group)) for group in groups}
    answer = max(scores, key=scores.__getitem__)
    tie = sum(abs(score - scores[answer]) < 1e-9 for score in scores.values()) > 1
    return Final(by=by, answer=answer, rule="tie" if tie else "votes", tie=tie, scores=scores)


def _no_answer(scene: Scene, rounds: Sequence[Round], by: str) -> Final:
    """No debater has an answer. It is an abstention only if none of their replies was unreadable."""
    unread = (turn.stance for turn in _last_turns(scene, rounds) if turn.stance.status in UNREAD_STATUSES)
    if (stance := next(unread, None)) is not None:
        return Final(by=by, status=stance.status, rule=stance.rule)
    return Final(by=by, status="abstained", rule="declined")


def _best(turns: Sequence[Turn], scores: Sequence[float], *, by: str, rule: str) -> Final:
    score_of = {turn.agent: float(score) for turn, score in zip(turns, scores, strict=True)}
    best = max(turns, key=lambda turn: score_of[turn.agent])
    tie = list(score_of.values()).count(score_of[best.agent]) > 1
    return Final(by=by, answer=best.stance.answer, agent=best.agent, scores=score_of, rule=rule, tie=tie)
