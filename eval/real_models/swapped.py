"""Given first rounds in which one debater is right and the other wrong, and what the next replies make of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eval.real_models.questions import Split, holds_gold
from madke._util.files import atomic_write
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.data.questions import question_to_json
from madke.retrieval.pools.pool_file import PoolRecord
from madke.scoring.metrics import METRICS, question_of
from madke.scoring.statistics import Estimate, estimate
from madke.tasks import get_task
from madke.tasks.answer_text import squad_normalize

DEBATERS = ("Debater 1", "Debater 2")
_NUMBER = re.compile(r"\b\d[\d,]*\b")
_NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NAME = re.compile(r"(?<![.!?] )(?<!\A)\b[A-Z][\w'-]{2,}(?: [A-Z][\w'-]+)*")
"""A capitalised phrase that does not begin a sentence."""


def write_swapped(split: Split, folder: Path) -> tuple[Path, Path]:
    """Write the questions that can be swapped, and their first rounds; returns both files.

    Only questions whose pool holds a gold answer. Debater 1 is right in every second debate, Debater 2 in the others.
    """
    questions, pools = split.read()
    files = folder / "swapped.questions.jsonl", folder / "swapped.first-round.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(files[0]) as asked, atomic_write(files[1]) as rounds:
        count = 0
        for question in questions:
            pool = pools[question.id]
            wrong = wrong_answer(question, pool) if holds_gold(question, pool) else None
            if wrong is None:
                continue
            texts = [_stance(question.answers[0], pool), _stance(wrong, pool)]
            answers = [question.answers[0], wrong]
            order = (0, 1) if count % 2 == 0 else (1, 0)
            stances = [
                {"agent": debater, "text": texts[n], "answer": answers[n]}
                for debater, n in zip(DEBATERS, order, strict=True)
            ]
            asked.write(question_to_json(question) + b"\n")
            rounds.write(json.dumps({"id": question.id, "stances": stances}, ensure_ascii=False).encode() + b"\n")
            count += 1
    return files


def wrong_answer(question: Question, pool: PoolRecord) -> str | None:
    """A wrong answer of the gold's kind; None if none is found.

    The opposite of yes or no; a date or an amount with another number of the pool; the next number word; a name of the
    pool, best from the passage that holds the gold, and with as many words. Never one that the question names, that
    shares a word with a gold answer, or that the task accepts.
    """
    task, asked = get_task(question.task), f" {squad_normalize(question.question)} "

    def is_wrong(candidate: str) -> bool:
        words = squad_normalize(candidate)
        return bool(words) and f" {words} " not in asked and not task.accepts(candidate, question)

    return next(filter(is_wrong, _candidates(question, pool)), None)


def _candidates(question: Question, pool: PoolRecord) -> Iterator[str]:
    gold = question.answers[0]
    plain = squad_normalize(gold)
    if plain in ("yes", "no"):
        yield "no" if plain == "yes" else "yes"
    elif plain in _NUMBER_WORDS:
        yield _NUMBER_WORDS[(_NUMBER_WORDS.index(plain) + 1) % len(_NUMBER_WORDS)]
    elif numbers := _NUMBER.findall(gold):
        longest = max(numbers, key=len)
        others = [each for passage in pool.passages for each in _NUMBER.findall(passage.text)]
        yield from (gold.replace(longest, each) for each in others if len(each) == len(longest))
    elif gold[:1].isupper():
        yield from sorted(_names(question, pool), key=lambda name: abs(len(name.split()) - len(plain.split())))


def _names(question: Question, pool: PoolRecord) -> list[str]:
    """Names in the passages that share no word with question or gold; first those of passages that hold the gold."""
    known = {word for text in (question.question, *question.answers) for word in squad_normalize(text).split()}
    gold = squad_normalize(question.answers[0])
    ranked = sorted(pool.passages, key=lambda passage: gold not in squad_normalize(passage.text))
    found = [name.removesuffix("'s") for passage in ranked for name in _NAME.findall(passage.text)]
    return [name for name in found if known.isdisjoint(squad_normalize(name).split())]


def _stance(answer: str, pool: PoolRecord) -> str:
    """A short stance, the same for right and wrong answers."""
    wanted = squad_normalize(answer)
    texts = [(passage.title, squad_normalize(f"{passage.title} {passage.text}")) for passage in pool.passages]
    title = next((title for title, text in texts if f" {wanted} " in f" {text} "), pool.passages[0].title)
    return f'I read the passage "{title}". It supports this. My answer is {answer}.'


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What debaters with a given stance answered after they read the other's."""

    right_to_wrong: Estimate | None
    """Of debaters that were right: the share whose next answer is another, wrong one."""
    wrong_to_right: Estimate | None
    """Of debaters that were wrong: the share whose next answer is right."""
    right_to_none: Estimate | None
    """Of debaters that were right: the share whose next answer cannot be read."""


def changes(transcripts: Iterable[Transcript]) -> Changes:
    """The changes from the given first round to the second one; failed replies are left out."""
    was_right: list[float] = []
    lost: list[float] = []
    was_wrong: list[float] = []
    for transcript in transcripts:
        question = question_of(transcript)
        if len(transcript.rounds) < 2:
            continue
        given = {turn.agent: turn.stance.answer for turn in transcript.rounds[0].turns}
        for turn in transcript.rounds[1].turns:
            if turn.stance.status == "failed":
                continue
            right = _accepted(turn.stance.answer, question)
            if _accepted(given[turn.agent], question):
                was_right.append(float(turn.stance.answer is not None and not right))
                lost.append(float(turn.stance.answer is None))
            else:
                was_wrong.append(float(right))
    return Changes(right_to_wrong=estimate(was_right), wrong_to_right=estimate(was_wrong), right_to_none=estimate(lost))


def _accepted(answer: str | None, question: Question) -> bool:
    return answer is not None and METRICS["match"](answer, question) == 1.0
