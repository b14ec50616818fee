"""Read the kept texts of a study anew, with today's reader and matcher. No prompt is rendered and no call is made.

Who spoke, what was shown, and when a debate stopped stay as they were. Final answers are computed again: votes from the
answers as they are read today, texts of a summarizer from their own words. A debate whose stop rests on answers, and
which would stop in another round today, is *off course*: it is counted, and its kept course is scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from madke.core.question import Question
from madke.core.transcript import Final, Round, Stance, Transcript, Turn, outcome
from madke.engine.agreement import all_agree, matcher
from madke.engine.parse.answer import answer_of
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import ParseContext, is_copied
from madke.engine.protocol import Protocol
from madke.engine.scene import Scene
from madke.engine.steps import Debate
from madke.engine.variant import Variant, load_variant
from madke.retrieval.pools import PoolRecord
from madke.tasks import get_task


@dataclass(frozen=True, kw_only=True)
class Reread:
    """The debates of an arm, read anew."""

    transcripts: Sequence[Transcript]
    changed: int
    """Debates whose final answer or whose stances are read in another way."""
    off_course: int
    """Debates that would go on or stop in another round today."""


def reread_arm(transcripts: Iterable[Transcript], protocol: Protocol, pools: Mapping[str, PoolRecord]) -> Reread:
    """Read all debates of an arm anew; ``pools`` by question id."""
    before = list(transcripts)
    after = [reread(each, protocol, pools.get(each.id)) for each in before]
    changed = sum(_readings(old) != _readings(new) for old, new in zip(before, after, strict=True))
    moved = sum(_off_course(each, protocol) for each in after)
    return Reread(transcripts=after, changed=changed, off_course=moved)


def reread(transcript: Transcript, protocol: Protocol, pool: PoolRecord | None) -> Transcript:
    """One debate with today's readings of its texts."""
    question = Question(
        id=transcript.id,
        question=transcript.question,
        task=transcript.task,
        choices=transcript.choices,
        answers=transcript.answers,
    )
    rounds: list[Round] = []
    for entry in transcript.rounds:
        earlier = {turn.agent: turn.stance.text for turn in rounds[-1].turns} if rounds else {}
        turns = [_turn(turn, question, protocol, pool, earlier) for turn in entry.turns]
        rounds.append(replace(entry, turns=tuple(turns)))
    final = _final(transcript, rounds, question, protocol, pool)
    return replace(transcript, rounds=tuple(rounds), final=final, answer=final.answer, status=outcome(final.status))


def _turn(
    turn: Turn, question: Question, protocol: Protocol, pool: PoolRecord | None, earlier: Mapping[str, str]
) -> Turn:
    stance = turn.stance
    if stance.status == "failed" or stance.bound:
        return turn
    numbers = turn.selection.ids if turn.selection else range(len(pool.passages)) if pool else ()
    passages = [f"{pool.passages[n].title}: {pool.passages[n].text}" for n in numbers] if pool else []
    others = tuple(text for agent, text in earlier.items() if agent != turn.agent and agent in turn.reads)
    context = ParseContext(
        request="\n\n".join((question.question, *passages, *others)),
        material=(question.question, *question.choices, *passages, *others),
        evidence=(question.question, *question.choices, *passages),
        others=others,
        own=earlier.get(turn.agent, ""),
        speaker=turn.agent,
        speakers=tuple(earlier),
        question=question.question,
    )
    parsed = _answer(stance.text, question, protocol, numbers, stance.cut, context)
    status = "cut" if stance.cut and parsed.status == "unmarked" else parsed.status
    copied = bool(others) and is_copied(stance.text, context)
    return replace(turn, stance=replace(stance, answer=parsed.value, status=status, rule=parsed.rule, copied=copied))


def _answer(
    text: str, question: Question, protocol: Protocol, numbers: Iterable[int], cut: bool, context: ParseContext
) -> Parsed[str | None]:
    task = get_task(question.task)
    return answer_of(text, task, question, protocol.marker, shown=set(numbers), cut=cut, context=context)


def _final(
    transcript: Transcript, rounds: Sequence[Round], question: Question, protocol: Protocol, pool: PoolRecord | None
) -> Final:
    final = transcript.final
    if final.status == "failed":
        return final
    if final.by == "only":
        stance = rounds[-1].turns[0].stance
        return Final(by="only", answer=stance.answer, status=stance.status, rule=stance.rule, text=stance.text)
    if final.by in ("majority", "agreement"):
        scene = Scene(question, protocol, {}, task=get_task(question.task), prompts=_no_prompts())
        debate = Debate(scene)
        debate.past, debate.samples = [*rounds], protocol.trace.samples
        return debate.vote()
    if final.bound or not final.text:
        return final
    context = ParseContext(question=question.question, request=question.question, material=(question.question,))
    numbers = range(len(pool.passages)) if pool else ()
    parsed = _answer(final.text, question, protocol, numbers, final.cut, context)
    return replace(final, answer=parsed.value, status=parsed.status, rule=parsed.rule)


@cache
def _no_prompts() -> Variant:
    """A scene needs templates; none is rendered."""
    return load_variant("standard")


def _off_course(transcript: Transcript, protocol: Protocol) -> bool:
    """Whether agreement, as it is read today, would end the debate in another round than it ended."""
    if protocol.trace.agree.stop_reason != "agreement":
        return False
    question = Question(id=transcript.id, question=transcript.question, task=transcript.task)
    same = matcher(get_task(transcript.task), question)
    share = getattr(protocol, "agreement_share", 1.0)
    found = [all_agree(entry.turns, same, share) for entry in transcript.rounds]
    stopped = transcript.stop_reason == "agreement"
    return any(found[:-1]) or found[-1] != stopped if len(found) < protocol.trace.differ.rounds else any(found[:-1])


def _readings(transcript: Transcript) -> tuple[object, ...]:
    stances: list[Stance] = [turn.stance for entry in transcript.rounds for turn in entry.turns]
    return transcript.answer, [(stance.answer, stance.status) for stance in stances]
