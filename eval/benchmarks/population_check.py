"""What the simulated population says beside what was recorded and no parameter was fitted to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval.benchmarks.population import Population, play, questions
from eval.benchmarks.population_fit import changes, evouna, mirage_changes, unanimous
from madke.core.transcript import Transcript
from madke.scoring.debate_rows import correct
from madke.scoring.rounds import round_rows
from madke.scoring.statistics import wilson
from madke.variants import load_variant


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """One figure of the model, and of the record."""

    what: str
    model: str
    record: str

    def __str__(self) -> str:
        return f"{self.what}: model {self.model}; record {self.record}"


def check(population: Population, folder: Path, count: int) -> Iterator[Checked]:
    """Play so many simulated questions and compare.

    Args:
        population: Whose figures.
        folder: ``recorded/`` of the data that ``population.md`` names. Figures called stated are those of the data's
            own description, which does not hold the debates that they were counted in.
        count: Simulated questions.
    """
    asked = questions(population, count)
    three = asyncio.run(play(population, load_variant("mad"), asked))
    right = [row["accuracy"] for debate in three for row in round_rows(debate)[:1] if row["cons"]]
    hits, n = unanimous(folder)
    recorded = f"{_share(hits, n)} (Exchange-of-Thought, GPT-3.5); stated 0.78 to 0.94"
    yield Checked(what="three answers that agree are right", model=_of(right), record=recorded)

    debates = asyncio.run(play(population, load_variant("madke"), asked))
    differing = [debate for debate in debates if not round_rows(debate)[0]["cons"]]
    alone = sum(round_rows(debate)[0]["right"] for debate in differing) / len(differing)
    after = _corrects(differing)
    yield Checked(
        what="madke is right in the end where its two debaters differed", model=_of(after), record="stated 0.49 to 0.59"
    )
    gained = 100 * (sum(after) / len(after) - alone)
    yield Checked(
        what="points that the debate gains there over either alone", model=f"{gained:+.0f}", record="stated +9 to +15"
    )
    lost = [debate for debate in debates if not round_rows(debate)[0]["right"]]
    yield Checked(
        what="madke is right in the end where nobody was at first",
        model=_of(_corrects(lost)),
        record=f"stated {_share(202, 864)}",
    )
    yield from _under_retrieval(population, folder)


def _under_retrieval(population: Population, folder: Path) -> Iterator[Checked]:
    """Systems to whose changes ``helpful`` and ``misleading`` were not fitted."""
    asked = evouna(folder)
    bing = changes([entry["judge_gpt4"] for entry in asked], [entry["judge_newbing"] for entry in asked])
    recorded = {"MIRAGE, GPT-4": mirage_changes(folder, "gpt-4-32k"), "EVOUNA, GPT-4 and Bing over it": bing}
    for name, found in recorded.items():
        without = found.both + found.lost
        known = without / sum(found.counts)
        won, lost = expected_changes(replace(population, known=known))
        yield Checked(
            what=f"retrieval makes a wrong answer right ({name})",
            model=f"{won / (1 - known):.2f}",
            record=_share(found.won, found.won + found.neither),
        )
        yield Checked(
            what=f"retrieval makes a right answer wrong ({name})",
            model=f"{lost / known:.2f}",
            record=_share(found.lost, without),
        )


def expected_changes(population: Population) -> tuple[float, float]:
    """The shares of questions that one debater wins and loses with the whole pool, answering anew.

    :func:`eval.benchmarks.population_fit.taken_from_passages` the other way round.
    """
    known = population.known
    helped = population.helpful * population.use_helpful
    misled = population.misleading * population.use_misleading
    chance = (1 - helped - misled) * known * (1 - known) * (1 - population.alike)
    return helped * (1 - known) + chance, misled * known + chance


def _corrects(debates: Iterable[Transcript]) -> list[float]:
    return [value for debate in debates if (value := correct(debate)) is not None]


def _of(values: Sequence[float]) -> str:
    return _share(round(sum(values)), len(values))


def _share(hits: int, n: int) -> str:
    low, high = wilson(hits, n)
    return f"{hits / n:.2f} ({low:.2f} to {high:.2f}, n = {n})"
