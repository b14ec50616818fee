"""Which answers are the same, who agrees at the end of a debate, what the passages say, and the map of a disagreement.

No model is called, and no gold answer is read.

A vague answer can match several that contradict each other ("July 1969" matches "July 20" and "July 11"). Agreement is
therefore checked for every pair, and groups do not depend on the order of the answers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from madke.core.question import Question
from madke.core.transcript import Agreement, Change, Final, Position, Quote, Round, Transcript, Turn
from madke.engine.citations import citations_in, look_up
from madke.engine.parse.answer import parse_citations
from madke.engine.parse.decisions import parse_quotes
from madke.tasks.base import BaseTask

Same = Callable[[str, str], bool]
"""Whether two answers to a question are the same."""

_ROUNDING = 1e-9


def matcher(task: BaseTask, question: Question) -> Same:
    """The task's matcher for answers to one question."""
    return lambda a, b: task.same(a, b, question)


def answer_groups(turns: Sequence[Turn], same: Same) -> list[list[Turn]]:
    """The turns with a parsed answer, grouped by the task's matcher; groups and members keep the order of the turns.

    An answer is vague if it matches two answers that contradict each other. It joins a group if it matches exactly one;
    otherwise it is grouped with the vague answers that match the same ones.
    """
    parsed = [turn for turn in turns if turn.stance.answer is not None]
    matches = _matches([turn.stance.answer or "" for turn in parsed], same)
    vague = {answer for answer, near in matches.items() if any(b not in matches[a] for a, b in combinations(near, 2))}
    clear = {answer: near - vague for answer, near in matches.items() if answer not in vague}
    keys: dict[str, tuple[str, ...]] = {answer: ("", min(near)) for answer, near in clear.items()}
    for answer in vague:
        fits = {keys[other] for other in matches[answer] - vague}
        keys[answer] = fits.pop() if len(fits) == 1 else ("vague", *sorted(matches[answer]))
    groups: dict[tuple[str, ...], list[Turn]] = {}
    for turn in parsed:
        groups.setdefault(keys[turn.stance.answer or ""], []).append(turn)
    return list(groups.values())


def all_agree(turns: Sequence[Turn], same: Same, share: float = 1) -> bool:
    """Whether at least two debaters spoke and all their answers are parsed and the same, or that ``share`` of them."""
    answers = [turn.stance.answer for turn in turns if turn.stance.status != "failed"]
    if len(answers) < 2:
        return False
    if share < 1:
        largest = max(map(len, answer_groups(turns, same)), default=0)
        return largest >= max(2, share * len(answers) - _ROUNDING)
    if None in answers:
        return False
    matches = _matches([answer for answer in answers if answer is not None], same)
    return all(len(near) == len(matches) for near in matches.values())


def same_answers(turns: Sequence[Turn], same: Same) -> dict[str, float]:
    """Agent -> how many others give the same answer (Zhang et al., Eq. 2); 0 if its own was not parsed."""
    answers = {turn.agent: turn.stance.answer for turn in turns}
    matches = _matches([answer for answer in answers.values() if answer is not None], same)
    return {
        agent: 0.0 if answer is None else sum(other in matches[answer] for other in answers.values()) - 1.0
        for agent, answer in answers.items()
    }


def _matches(answers: Sequence[str], same: Same) -> dict[str, frozenset[str]]:
    """Each distinct answer -> the answers that are the same, including itself."""
    matches = {answer: {answer} for answer in answers}
    for one, other in combinations(matches, 2):
        if same(one, other):
            matches[one].add(other)
            matches[other].add(one)
    return {answer: frozenset(near) for answer, near in matches.items()}


Texts = Mapping[int, str]
"""Pool number -> the text of the passage."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The passages of a debate, in which answers and quotes are looked up."""

    task: BaseTask
    question: Question
    texts: Texts | None
    """None: they are not at hand."""
    shown: Callable[[Turn], Collection[int]]
    """The pool numbers that a debater could read in a turn."""

    def containing(self, answer: str, numbers: Iterable[int]) -> tuple[int, ...] | None:
        """The passages that contain an answer by the task's matcher; None if it cannot be looked up."""
        if self.texts is None or self.task.contained(answer, "", self.question) is None:
            return None
        return tuple(n for n in numbers if self.task.contained(answer, self.texts.get(n, ""), self.question))

    def quotes(self, turns: Sequence[tuple[int, Turn]]) -> tuple[Quote, ...]:
        """The quotes in the stances of some turns (round, turn), each once: debaters repeat themselves."""
        first: dict[tuple[object, ...], Quote] = {}
        for n, turn in turns if self.texts else ():
            for text, passage in parse_quotes(turn.stance.text):
                status, where = look_up(text, passage, self.texts or {})
                in_question = look_up(text, None, {0: self.question.question}).status == "found"
                if passage is not None or (status in ("found", "approximate") and not in_question):
                    quote = Quote(text=text, agent=turn.agent, round=n, passage=passage, status=status, found_in=where)
                    first.setdefault((text, turn.agent, passage), quote)
        return tuple(first.values())

    def position(self, group: Sequence[Turn], turns: Sequence[tuple[int, Turn]]) -> Position:
        """An answer with its supporters (``group``), and the passages and quotes of their turns that gave it."""
        answer, numbers = group[0].stance.answer or "", set[int]()
        for _, turn in turns:
            shown = self.shown(turn)
            # What it chose or found; without a choice, what it names of the passages shown, or else all of them.
            numbers |= {*(shown if turn.selection is not None else parse_citations(turn.stance.text, shown) or shown)}
        return Position(
            answer=answer,
            supporters=tuple(turn.agent for turn in group),
            passages=tuple(sorted(numbers)),
            containing=self.containing(answer, sorted(numbers)),
            quotes=self.quotes(turns),
        )


def agreement_of(
    rounds: Sequence[Round], final: Final, evidence: Evidence, *, samples: bool = False
) -> Agreement | None:
    """How a debate ended; None if no debater spoke in its last round.

    ``samples``: the rounds are samples of one vote, so all of them count. Texts are not compared: the judge alone finds
    a consensus of them, without one each text is a position, and a text that the summarizer merged has no dissent.
    """
    task, question = evidence.task, evidence.question
    last = rounds if samples else rounds[-1:]
    turns = [turn for entry in last for turn in entry.turns if turn.stance.status != "failed"]
    if not turns:
        return None
    same: Same = matcher(task, question) if not task.is_prose else str.__eq__
    every = [(entry.n, turn) for entry in rounds for turn in entry.turns]
    # A judge that takes the answer itself was not asked whether all answers are the same.
    verdict = rounds[-1].verdict if final.by != "judge" else None
    judged = verdict is not None and verdict.consensus is not None
    consensus = bool(verdict and verdict.consensus)

    def holds(group: Sequence[Turn]) -> bool:
        return final.answer is not None and any(same(turn.stance.answer or "", final.answer) for turn in group)

    spoke = [turn for turn in turns if turn.stance.answer is not None]
    apart = [spoke] if consensus and spoke else [[turn] for turn in spoke]
    groups = apart if task.is_prose else answer_groups(turns, same)
    groups = sorted(groups, key=lambda group: (not holds(group), -len(group)))
    positions = []
    for group in groups:
        answer, supporters = group[0].stance.answer or "", {turn.agent for turn in group}
        if task.is_prose:
            supporting = [(n, turn) for n, turn in every if any(turn is one for one in group)]
            cited = {n for turn in group for n in citations_in(turn.stance.answer or "")}
            positions.append(replace(evidence.position(group, supporting), passages=tuple(sorted(cited))))
        else:
            supporting = [(n, turn) for n, turn in every if turn.agent in supporters and _says(turn, answer, same)]
            positions.append(evidence.position(group, supporting))
    right = [position for position, group in zip(positions, groups, strict=True) if holds(group)]
    matched = consensus if task.is_prose else all_agree(turns, same)
    voted = not judged and not matched and final.by in ("majority", "weighted")
    nobody_dissents = task.is_prose and (consensus or not right)
    passages = (
        {*_cited_in(positions), *citations_in(final.answer)} if task.is_prose and final.answer else {*_cited_in(right)}
    )
    looked_up = any(position.containing is not None or position.quotes for position in right)
    return Agreement(
        outcome="single" if len(turns) < 2 else "consensus" if (consensus if judged else matched) else "split",
        by="judge" if judged else "vote" if voted else "matcher",
        same=matched,
        positions=tuple(positions),
        silent=tuple(turn.agent for turn in turns if turn.stance.answer is None),
        dissent=tuple(turn.agent for group in groups if not (nobody_dissents or holds(group)) for turn in group),
        changes=() if task.is_prose else tuple(_changes(rounds, same)),
        cited=tuple(sorted(passages)),
        checked=bool(evidence.texts) if task.is_prose else looked_up,
    )


def asked_question(transcript: Transcript) -> Question:
    """The question of a transcript, without golds."""
    return Question(id=transcript.id, question=transcript.question, task=transcript.task, choices=transcript.choices)


def _cited_in(right: Sequence[Position]) -> tuple[int, ...]:
    numbers = {n for position in right for n in position.containing or ()}
    quotes = [quote for position in right for quote in position.quotes if quote.status != "stitched"]
    return tuple(sorted(numbers.union(*(quote.found_in for quote in quotes))))


def _says(turn: Turn, answer: str, same: Same) -> bool:
    return turn.stance.answer is not None and same(turn.stance.answer, answer)


def _changes(rounds: Sequence[Round], same: Same) -> Iterator[Change]:
    last: dict[str, str] = {}
    for entry in rounds:
        for turn in entry.turns:
            answer, before = turn.stance.answer, last.get(turn.agent)
            if answer is None:
                continue
            if before is not None and not same(before, answer):
                yield Change(agent=turn.agent, round=entry.n, before=before, after=answer)
            last[turn.agent] = answer


# The map of a disagreement.


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldPosition:
    """One answer of a debate: all replies of all rounds that are the same under the task's matcher."""

    answer: str
    """In the words of the first who gave it."""
    held: Mapping[str, tuple[int, ...]]
    """Debater -> the rounds in which it gave the answer."""
    final: bool
    """Whether it is the answer of the debate."""
    containing: tuple[int, ...] | None
    """Pool numbers of all passages that contain it, read or not. None: it cannot be looked up."""
    quotes: tuple[Quote, ...]
    """What the debaters quoted for it, looked up."""


class Turnaround(NamedTuple):
    """A debater that changed its answer, and what it had before it that says the new one."""

    change: Change
    read: tuple[str, ...]
    """The debaters whose stance of the round before it read, if that has the new answer."""
    passages: tuple[int, ...]
    """Passages with the new answer that it named in this round and not before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConflictMap:
    """All answers of a debate, who held them when, what stands behind each, and what changed minds."""

    id: str
    question: str
    repeat: int
    positions: tuple[HeldPosition, ...]
    """The final answer first, then by the number of replies. More than one is a conflict."""
    contradictions: tuple[tuple[HeldPosition, HeldPosition], ...]
    """Two answers that differ under the task's matcher, each in a passage."""
    changes: tuple[Turnaround, ...]


def conflicts_of(transcript: Transcript, task: BaseTask, texts: Texts | None) -> ConflictMap | None:
    """The map of a debate; None if nobody gave an answer, and for prose, whose texts no matcher compares."""
    question = asked_question(transcript)
    evidence, same = Evidence(task, question, texts, lambda turn: ()), matcher(task, question)
    turns = [(entry.n, turn) for entry in transcript.rounds for turn in entry.turns]
    round_of = {id(turn): n for n, turn in turns}
    positions = []
    for group in [] if task.is_prose else answer_groups([turn for _, turn in turns], same):
        answer, supporters = group[0].stance.answer or "", dict[str, tuple[int, ...]]()
        for turn in group:
            supporters[turn.agent] = (*supporters.get(turn.agent, ()), round_of[id(turn)])
        positions.append(
            HeldPosition(
                answer=answer,
                held=supporters,
                final=transcript.answer is not None and same(answer, transcript.answer),
                containing=evidence.containing(answer, texts or ()),
                quotes=evidence.quotes([(round_of[id(turn)], turn) for turn in group]),
            )
        )
    if not positions:
        return None
    positions.sort(key=lambda each: (not each.final, -sum(map(len, each.held.values()))))
    pool, changes = {entry.n for entry in transcript.pool}, []

    def named(turn: Turn) -> set[int]:
        chosen = {*(turn.selection.ids if turn.selection else ()), *(turn.search.ids if turn.search else ())}
        return chosen | {*parse_citations(turn.stance.text, pool)}

    for change in _changes(transcript.rounds, same):
        own = {n: turn for n, turn in turns if turn.agent == change.agent and n <= change.round}
        now = own.pop(change.round)
        fresh = named(now).difference(*map(named, own.values()))
        gave = {turn.agent for n, turn in turns if n == change.round - 1 and _says(turn, change.after, same)}
        read = tuple(agent for agent in dict.fromkeys(now.reads) if agent in gave)
        holds = next((each.containing for each in positions if same(each.answer, change.after)), None)
        changes.append(Turnaround(change, read, tuple(n for n in holds or () if n in fresh)))
    return ConflictMap(
        id=transcript.id,
        question=transcript.question,
        repeat=transcript.repeat,
        positions=tuple(positions),
        contradictions=tuple(
            (one, other)
            for one, other in combinations(positions, 2)
            if one.containing and other.containing and not same(one.answer, other.answer)
        ),
        changes=tuple(changes),
    )
