"""A simulated population: debaters of stated knowledge who play the real protocols over real prompts, offline.

    python -m eval.benchmarks.population --fit FOLDER      # parameters from recorded debates, with intervals
    python -m eval.benchmarks.population --check FOLDER    # the model beside what it was not fitted to

It is a model of debate. No figure from it is one of a language model; ``population.md`` lists what it assumes.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from pathlib import Path
from random import Random

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import debate
from madke.engine.protocol import Protocol
from madke.engine.scene import Cast, Scene
from madke.llm.offline.prompt_reader import Prompt, Remark, read_prompt
from madke.llm.prices import estimated_usage
from madke.tasks import get_task
from madke.variants import Variant

WRONG_ANSWERS = 4
"""Plausible wrong answers of a question. Assumed: a multiple choice has three or four."""
_RANKS = 5
"""Passages that matter stand among the first five of each source, so that they are in the pool of every variant."""
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstv" for vowel in "aeiou"]
_PADDING = "These words stand for reasoning of about the recorded length. "
_MARKED = re.compile(r"\[([A-Z][a-z]+)\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """Characters of a kind of reply: log-normal, which the recorded texts are near to."""

    median: int
    spread: float
    """Standard deviation of the logarithm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """What the debaters know, whom they follow, and what their pools hold. All parameters are shares of 0 to 1.

    Defaults are those of GPT-3.5 where it is on record: ``--fit`` prints them with intervals; the others are assumed.
    """

    known: float = 0.78
    """How probable it is that a debater knows the answer. Fitted: ChatGPT without retrieval in EVOUNA."""
    alike: float = 0.5
    """How much debaters are right on the same questions: the correlation of two of them on one question, each of which
    is as hard for all (its probability to be known is Beta distributed). Fitted: Exchange-of-Thought, GPT-3.5."""
    same_mistake: float = 0.54
    """How probable it is that two who are wrong give the same answer. Fitted: Exchange-of-Thought."""
    persuaded_by_right: float = 0.18
    """How probable it is that a debater takes over a right answer that it reads and does not hold, for each that it
    reads. Fitted: the debates of Liang et al. on CommonMT, by a proxy of right and wrong."""
    persuaded_by_wrong: float = 0.08
    """The same for a wrong answer. Fitted: as above."""
    rethinks: float = 0.0
    """How probable it is that a debater who reads another answer than its own first answers anew from what it knows.
    Assumed: nothing on record tells it from persuasion."""
    settles_right: float = 0.77
    """How probable it is that a summarizer takes the right answer of several that equally many hold. Fitted: the
    moderators and judges of those debates."""
    helpful: float = 0.15
    """The share of questions whose pool has a passage that gives the answer. Fitted: what retrieval changed in MIRAGE
    (GPT-3.5), given ``alike`` and ``use_helpful``."""
    use_helpful: float = 0.8
    """How probable it is that a debater who is shown that passage takes its answer. Fitted: R1-Searcher on HotpotQA."""
    misleading: float = 0.02
    """The share of questions whose pool has a passage that gives the favourite wrong answer. Fitted: as ``helpful``."""
    use_misleading: float = 0.5
    """How probable it is that a debater who is shown that passage takes its answer. Assumed."""
    picks_helpful: float = 0.9
    """How probable it is that a selection names the helpful passage. Assumed."""
    picks_misleading: float = 0.5
    """How probable it is that a selection names the misleading passage. Assumed."""
    chosen: int = 2
    """Passages that a selection names, at least; those beside the point fill it up. Assumed."""
    judge_errs: float = 0.02
    """How probable it is that a judge sees agreement where there is none, or none where there is. Assumed."""
    argument: Length = Length(median=758, spread=0.47)
    """Of what a debater says step by step. Fitted: MIRAGE, GPT-3.5, chain of thought."""
    choosing: Length = Length(median=578, spread=0.42)
    """Of a selection. Fitted: MIRAGE, GPT-3.5, over retrieved passages."""
    deciding: Length = Length(median=398, spread=0.45)
    """Of a verdict and of a summary. Fitted: the moderators of Liang et al."""
    wiki_characters: int = 600
    """Of a passage of Wikipedia. Assumed: 100 words (Karpukhin et al., 2020)."""
    google_characters: int = 160
    """Of a web snippet. Assumed: two lines."""
    seed: int = 0

    @property
    def sources(self) -> dict[str, int]:
        """Source -> characters of a passage."""
        return {"wiki": self.wiki_characters, "google": self.google_characters}

    @property
    def favourite(self) -> float:
        """The share of wrong answers that are a question's favourite one; the others are equally frequent."""
        others = WRONG_ANSWERS - 1
        return (1 + sqrt(max(0.0, 1 - WRONG_ANSWERS * (1 - others * self.same_mistake)))) / WRONG_ANSWERS

    def random(self, *key: object) -> Random:
        """Random numbers that hang on the seed and the key alone, whoever asks first."""
        return Random(repr((self.seed, *key)))

    def happens(self, probability: float, *key: object) -> bool:
        """Whether something of that probability happens."""
        return self.random(*key).random() < probability


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is true of one question, and hidden from the prompts."""

    right: str
    wrong: tuple[str, ...]
    """The favourite first."""
    known: float
    """How probable it is that a debater knows it."""
    helpful: tuple[str, int] | None
    """Source and rank of the helpful passage."""
    misleading: tuple[str, int] | None


@lru_cache(maxsize=4096)
def case_of(population: Population, question: str) -> Case:
    """What is true of the question of that id."""
    random = population.random("case", question)
    answers: list[str] = []
    while len(answers) <= WRONG_ANSWERS:
        word = "".join(random.choices(_SYLLABLES, k=4)).capitalize()
        if word not in answers:
            answers.append(word)
    spread = 1 / population.alike - 1
    known = random.betavariate(population.known * spread, (1 - population.known) * spread)
    slots = [(source, rank) for source in population.sources for rank in range(_RANKS)]
    helpful, misleading = random.sample(slots, 2)
    return Case(
        right=answers[0],
        wrong=tuple(answers[1:]),
        known=known,
        helpful=helpful if random.random() < population.helpful else None,
        misleading=misleading if random.random() < population.misleading else None,
    )


def questions(population: Population, count: int) -> list[Question]:
    """So many questions, with their answers."""
    ids = [f"q{n}" for n in range(count)]
    return [
        Question(id=id_, question=f"What is the name in entry {id_} of the register?", answers=(answer,))
        for id_ in ids
        for answer in [case_of(population, id_).right]
    ]


def pool_of(population: Population, question: Question, protocol: Protocol) -> KnowledgePool:
    """The pool that a protocol's debaters get: of each source as many passages as it asks for."""
    if protocol.knowledge is None:
        return EMPTY_POOL
    case, number = case_of(population, question.id), protocol.knowledge.per_source
    says = {case.misleading: case.wrong[0], case.helpful: case.right}
    return KnowledgePool(
        passages=tuple(
            Passage(
                source=source,
                key=f"{question.id}-{source}-{rank}",
                title=f"Register, part {rank}",
                text=_passage(says.get((source, rank)), population.sources[source]),
                score=1 / (rank + 1),
                rank=rank,
            )
            for source in protocol.knowledge.sources
            for rank in range(number[source] if isinstance(number, dict) else number)
        )
    )


def _passage(answer: str | None, characters: int) -> str:
    start = f"The name in the entry is {answer}. " if answer else ""
    return (start + "Nothing in this sentence bears on the entry. " * characters)[:characters]


@dataclass(kw_only=True, slots=True)
class SimulatedModel:
    """A chat model that plays every debater, judge and summarizer of a population, from rendered prompts."""

    population: Population
    name: str = "simulated"

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer as the population would. A stage that it has no parameters for fails."""
        prompt = read_prompt(request.messages)
        answer = self._stages.get(prompt.stage)
        if answer is None:
            return Completion(outcome="failed", error=f"the population has no parameters for {prompt.stage!r}")
        marked, length = answer(prompt, request.purpose)
        reasons = "step by step" in request.messages[-1].content
        text = f"{self._padding(length, request.purpose)}{marked}" if reasons else marked
        return Completion(text=text, usage=estimated_usage(request.messages, text))

    @property
    def _stages(self) -> dict[str, Callable[[Prompt, Purpose], tuple[str, Length]]]:
        return {"speak": self._speak, "select": self._select, "judge": self._judge, "summarize": self._summarize}

    def _padding(self, length: Length, purpose: Purpose) -> str:
        drawn = self.population.random("length", purpose).lognormvariate(log(length.median), length.spread)
        return (_PADDING * (int(drawn) // len(_PADDING) + 1))[: int(drawn)].rpartition(". ")[0] + ".\n"

    def _speak(self, prompt: Prompt, purpose: Purpose) -> tuple[str, Length]:
        """A passage that it believes, else its last answer, else what it knows; then whoever persuades it."""
        population, case = self.population, case_of(self.population, purpose.question)
        who = (purpose.question, purpose.agent, purpose.repeat)
        shown = {answer for passage in prompt.knowledge for answer in _named(passage.text, case)}
        helped = case.right in shown and population.happens(population.use_helpful, "helped", *who)
        misled = case.wrong[0] in shown and population.happens(population.use_misleading, "misled", *who)
        if helped != misled:
            held = case.right if helped else case.wrong[0]
        else:
            held = _answer(prompt.previous) or self._own(case, who)
        heard = [_answer(remark.text) for remark in prompt.remarks]
        if set(heard) - {None, held} and population.happens(population.rethinks, "rethinks", *who, purpose.round):
            held = self._own(case, (*who, purpose.round))
        for n, said in enumerate(heard):
            by = population.persuaded_by_right if said == case.right else population.persuaded_by_wrong
            if said not in (None, held) and population.happens(by, "persuaded", *who, purpose.round, n):
                return f"The answer is [{said}].", population.argument
        return f"The answer is [{held}].", population.argument

    def _own(self, case: Case, who: tuple[object, ...]) -> str:
        random = self.population.random("own", *who)
        if random.random() < case.known:
            return case.right
        return case.wrong[0] if random.random() < self.population.favourite else random.choice(case.wrong[1:])

    def _select(self, prompt: Prompt, purpose: Purpose) -> tuple[str, Length]:
        """The passages that matter, each with its probability and anew in every round; others fill it up."""
        population, case = self.population, case_of(self.population, purpose.question)
        picks = {case.right: population.picks_helpful, case.wrong[0]: population.picks_misleading}
        random = population.random("picks", purpose)
        wanted: list[int] = []
        others: list[int] = []
        for passage in prompt.knowledge:
            named = _named(passage.text, case)
            taken = any(random.random() < picks[answer] for answer in named)
            if taken or not named:
                (wanted if taken else others).append(passage.number)
        wanted += random.sample(others, max(0, min(population.chosen - len(wanted), len(others))))
        listed = " ".join(f"[{number}]" for number in sorted(wanted[: prompt.limit]))
        return f"What helps most is {listed}." if listed else "[No Found]", population.choosing

    def _judge(self, prompt: Prompt, purpose: Purpose) -> tuple[str, Length]:
        """Whether all give one answer; a judge who is also asked whether it is right goes by that alone."""
        given = {_answer(remark.text) for remark in prompt.remarks}
        same = len(given) == 1 and None not in given
        errs = self.population.happens(self.population.judge_errs, "errs", purpose)
        return "[Yes]" if same != errs else "[No]", self.population.deciding

    def _summarize(self, prompt: Prompt, purpose: Purpose) -> tuple[str, Length]:
        """The answer of most. Of several that equally many give, the right one with its probability."""
        case, tied = case_of(self.population, purpose.question), _most(prompt.remarks)
        others = [answer for answer in tied if answer != case.right]
        taken = tied[0]
        if case.right in tied and others:
            settles = self.population.happens(self.population.settles_right, "settles", purpose)
            taken = case.right if settles else others[0]
        return f"The final answer is [{taken}].", self.population.deciding


def _named(text: str, case: Case) -> list[str]:
    return [answer for answer in (case.right, case.wrong[0]) if answer in text]


def _answer(text: str) -> str | None:
    found = _MARKED.findall(text)
    return found[-1] if found else None


def _most(remarks: Sequence[Remark]) -> list[str]:
    """The answers that most of them give, in order of mention; every simulated reply has one."""
    votes = Counter(answer for remark in remarks if (answer := _answer(remark.text)))
    return [answer for answer, count in votes.items() if count == max(votes.values())]


async def play(population: Population, variant: Variant, asked: Sequence[Question]) -> list[Transcript]:
    """Debate the questions with the real engine."""
    cast: Cast = dict.fromkeys(variant.protocol.roles, SimulatedModel(population=population))
    return [
        await debate(
            Scene(
                question,
                variant.protocol,
                cast,
                pool_of(population, question, variant.protocol),
                task=get_task(question.task),
                prompts=variant,
            )
        )
        for question in asked
    ]


def main() -> None:
    """Print what was asked for."""
    from eval.benchmarks.population_check import check
    from eval.benchmarks.population_fit import fit

    parser = argparse.ArgumentParser(prog="python -m eval.benchmarks.population", description=main.__doc__)
    parser.add_argument("--fit", type=Path, metavar="FOLDER", help="estimate parameters; FOLDER holds recorded sets")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="the model beside what it was not fitted to")
    parser.add_argument("--questions", type=int, default=2000, help="simulated questions of --check (default 2000)")
    asked = parser.parse_args()
    if asked.fit is None and asked.check is None:
        parser.error("nothing to do; name --fit FOLDER or --check FOLDER")
    for found in fit(asked.fit) if asked.fit else ():
        print(found)
    for compared in check(Population(), asked.check, asked.questions) if asked.check else ():
        print(compared)


if __name__ == "__main__":
    main()
