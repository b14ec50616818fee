"""Which answers are the same, who agrees at the end of a debate, and what the passages say of each answer.

A vague answer can match several that contradict each other ("July 1969" matches "July 20" and "July 11"). Agreement is
therefore checked for every pair, and groups do not depend on the order of the answers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from madke.core.question import Question
from madke.core.transcript import Agreement, Change, Final, Position, Quote, Round, Transcript, Turn
from madke.engine.citations import citations_in, look_up
from madke.engine.parse import parse_citations, parse_quotes
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


def agreed(turns: Sequence[Turn], same: Same, share: float = 1) -> bool:
    """Whether at least two debaters spoke, every stance was parsed, and each pair of answers is the same.

    With a smaller ``share``: whether that share of the debaters who spoke is in one group of answers.
    """
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


VOTES = ("majority", "weighted")
"""Finish rules that count or weigh answers."""

Texts = Mapping[int, str]
"""Pool number -> the text of the passage."""

Shown = Callable[[Turn], Collection[int]]
"""The pool numbers that a debater could read in a turn."""


def agreement_of(
    rounds: Sequence[Round],
    final: Final,
    *,
    task: BaseTask,
    question: Question,
    texts: Texts | None,
    shown: Shown,
    samples: bool = False,
) -> Agreement | None:
    """How a debate ended; None if no debater spoke in its last round. ``texts`` None: the passages are not at hand.

    ``samples``: the rounds are samples of one vote, so all of them count.
    """
    turns = [turn for turn in last_turns(rounds, samples=samples) if turn.stance.status != "failed"]
    if not turns:
        return None
    if task.is_prose:
        return _agreement_of_texts(rounds, final, turns, _Lookup(rounds, task, question, texts, shown))
    same = matcher(task, question)
    answer = final.answer
    groups = sorted(answer_groups(turns, same), key=lambda group: (not _holds(group, answer, same), -len(group)))
    look = _Lookup(rounds, task, question, texts, shown)
    positions = tuple(look.position(group) for group in groups)
    right = [position for position, group in zip(positions, groups, strict=True) if _holds(group, answer, same)]
    matched = agreed(turns, same)
    # A judge that takes the answer itself was not asked whether all answers are the same.
    verdict = rounds[-1].verdict if final.by != "judge" else None
    judged = verdict is not None and verdict.consensus is not None
    settled = bool(verdict and verdict.consensus) if judged else matched
    voted = not judged and not matched and final.by in VOTES
    return Agreement(
        outcome="single" if len(turns) < 2 else "consensus" if settled else "split",
        by="judge" if judged else "vote" if voted else "matcher",
        same=matched,
        positions=positions,
        silent=tuple(turn.agent for turn in turns if turn.stance.answer is None),
        dissent=tuple(turn.agent for group in groups if not _holds(group, answer, same) for turn in group),
        changes=tuple(_changes(rounds, same)),
        cited=_cited(right),
        checked=any(position.containing is not None or position.quotes for position in right),
    )


def last_turns(rounds: Sequence[Round], *, samples: bool) -> list[Turn]:
    """The turns of the last round; of all rounds if these are samples of one vote."""
    return [turn for entry in (rounds if samples else rounds[-1:]) for turn in entry.turns]


def _agreement_of_texts(rounds: Sequence[Round], final: Final, turns: Sequence[Turn], look: "_Lookup") -> Agreement:
    """Texts are not compared: the judge alone finds a consensus, and without one each text is a position.

    A text that the summarizer merged is nobody's, so nobody dissents from it.
    """
    spoke = [turn for turn in turns if turn.stance.answer is not None]
    verdict = rounds[-1].verdict if final.by != "judge" else None
    settled = bool(verdict and verdict.consensus)
    positions = [look.text(group) for group in ([spoke] if settled and spoke else [[turn] for turn in spoke])]
    picked = [turn.agent for turn in spoke if turn.stance.answer == final.answer]
    positions.sort(key=lambda position: position.supporters[0] not in picked)
    quoted = _cited(positions)
    return Agreement(
        outcome="single" if len(turns) < 2 else "consensus" if settled else "split",
        by="judge" if verdict is not None and verdict.consensus is not None else "matcher",
        same=settled,
        positions=tuple(positions),
        silent=tuple(turn.agent for turn in turns if turn.stance.answer is None),
        dissent=tuple(turn.agent for turn in spoke if picked and turn.agent not in picked and not settled),
        cited=tuple(sorted({*citations_in(final.answer or ""), *(quoted if final.answer else ())})),
        checked=bool(look.has_texts),
    )


def recorded_agreement(transcript: Transcript, task: BaseTask) -> Agreement | None:
    """The agreement of a transcript; of one that an older version wrote, without what only passages can tell."""
    if transcript.agreement is not None:
        return transcript.agreement
    question = Question(
        id=transcript.id, question=transcript.question, task=transcript.task, choices=transcript.choices
    )
    known = {entry.n for entry in transcript.pool}
    return agreement_of(
        transcript.rounds, transcript.final, task=task, question=question, texts=None, shown=lambda turn: known
    )


def _holds(group: Sequence[Turn], answer: str | None, same: Callable[[str, str], bool]) -> bool:
    return answer is not None and any(same(turn.stance.answer or "", answer) for turn in group)


def _cited(right: Sequence[Position]) -> tuple[int, ...]:
    found = {n for position in right for n in position.containing or ()}
    found |= {
        n for position in right for quote in position.quotes for n in quote.found_in if quote.status != "stitched"
    }
    return tuple(sorted(found))


def _changes(rounds: Sequence[Round], same: Callable[[str, str], bool]) -> list[Change]:
    changes, last = [], dict[str, str]()
    for entry in rounds:
        for turn in entry.turns:
            answer, before = turn.stance.answer, last.get(turn.agent)
            if answer is None:
                continue
            if before is not None and not same(before, answer):
                changes.append(Change(agent=turn.agent, round=entry.n, before=before, after=answer))
            last[turn.agent] = answer
    return changes


class _Lookup:
    """The evidence of answers, in the turns of the debaters who gave them."""

    def __init__(
        self, rounds: Sequence[Round], task: BaseTask, question: Question, texts: Texts | None, shown: Shown
    ) -> None:
        self._rounds, self._task, self._question, self._shown = rounds, task, question, shown
        self._texts = texts
        self._same = matcher(task, question)

    @property
    def has_texts(self) -> bool:
        """Whether there are passages to look up."""
        return bool(self._texts)

    def text(self, group: Sequence[Turn]) -> Position:
        """Texts that say the same, with what they cite and quote."""
        last = [(entry.n, turn) for entry in self._rounds for turn in entry.turns if any(turn is one for one in group)]
        cited = {n for _, turn in last for n in citations_in(turn.stance.answer or "")}
        return replace(self._position(group, last), passages=tuple(sorted(cited)))

    def position(self, group: Sequence[Turn]) -> Position:
        """An answer with its supporters, and the passages and quotes of all their turns that gave it."""
        answer = group[0].stance.answer or ""
        supporters = {turn.agent for turn in group}
        turns = [
            (entry.n, turn)
            for entry in self._rounds
            for turn in entry.turns
            if turn.agent in supporters and turn.stance.answer is not None and self._same(turn.stance.answer, answer)
        ]
        return self._position(group, turns)

    def _position(self, group: Sequence[Turn], turns: Sequence[tuple[int, Turn]]) -> Position:
        answer = group[0].stance.answer or ""
        numbers = tuple(sorted({n for _, turn in turns for n in self._passages(turn)}))
        quotes = [quote for n, turn in turns for quote in quotes_in(turn, n, self._texts, self._question)]
        return Position(
            answer=answer,
            supporters=tuple(turn.agent for turn in group),
            passages=numbers,
            containing=containing(answer, numbers, self._texts, self._task, self._question),
            quotes=tuple(without_repeats(quotes)),
        )

    def _passages(self, turn: Turn) -> Collection[int]:
        """What a debater chose or found; without a choice, what it names of the passages shown, or else all of them."""
        shown = self._shown(turn)
        if turn.selection is not None:
            return shown
        return parse_citations(turn.stance.text, shown) or shown


def containing(
    answer: str, numbers: Iterable[int], texts: Texts | None, task: BaseTask, question: Question
) -> tuple[int, ...] | None:
    """The passages that contain an answer by the task's matcher; None if it cannot be looked up."""
    if texts is None or task.contained(answer, "", question) is None:
        return None
    return tuple(n for n in numbers if task.contained(answer, texts.get(n, ""), question))


def quotes_in(turn: Turn, round_n: int, texts: Texts | None, question: Question) -> list[Quote]:
    """The quotes in a stance.

    A text in quotation marks that names no passage is one only if a passage has it, and the question does not: titles
    stand in quotation marks too.
    """
    if not texts:
        return []
    quotes = []
    for text, passage in parse_quotes(turn.stance.text):
        status, found = look_up(text, passage, texts)
        asked = look_up(text, None, {0: question.question}).status == "found"
        if passage is not None or (status in ("found", "approximate") and not asked):
            quotes.append(
                Quote(text=text, agent=turn.agent, round=round_n, passage=passage, status=status, found_in=found)
            )
    return quotes


def without_repeats(quotes: Sequence[Quote]) -> list[Quote]:
    """Each quote once: debaters repeat themselves from round to round."""
    first: dict[Quote, Quote] = {}
    for quote in quotes:
        first.setdefault(replace(quote, round=0), quote)
    return list(first.values())
