"""How often the verdict of a study is wrong, and how many questions it takes: ``python -m eval.stopping``.

Simulates studies of 200 questions by the rule of :mod:`madke.scoring.verdict`, with a look at the results after every
20 questions, as ``madke study`` looks, and after every question. It writes the table of ``eval/stopping.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from madke.api.study import BLOCK
from madke.scoring.verdict import ALPHA, BETS, MARGIN, WEIGHTS

STUDIES, QUESTIONS, SEED = 10_000, 200, 20261128
_AT_ONCE = 500
"""Studies in memory at a time."""
PAGE = Path(__file__).with_name("stopping.md")


class World(NamedTuple):
    """The true shares of right answers, and how alike the answers of the arms are."""

    name: str
    call: float
    vote: float
    debate: float
    alike: float
    """The probability that a question's difficulty alone decides an answer, for each arm."""


WORLDS = (
    World("no difference", 0.6, 0.6, 0.6, 0.5),
    World("no difference, answers mostly alike", 0.8, 0.8, 0.8, 0.9),
    World("no difference, answers unrelated", 0.5, 0.5, 0.5, 0.0),
    World("true gain 10 = the margin", 0.6, 0.6, 0.7, 0.5),
    World("true gain 10, answers mostly alike", 0.6, 0.6, 0.7, 0.9),
    World("true gain 10, answers unrelated", 0.6, 0.6, 0.7, 0.0),
    World("true gain 20", 0.55, 0.55, 0.75, 0.5),
    World("true gain 20, answers mostly alike", 0.55, 0.55, 0.75, 0.8),
    World("true gain 20, answers unrelated", 0.55, 0.55, 0.75, 0.0),
    World("true gain 20 over a call, 0 over a vote", 0.5, 0.7, 0.7, 0.5),
    World("true loss 10", 0.7, 0.7, 0.6, 0.5),
)


class Ends(NamedTuple):
    """How the simulated studies of one world end: shares of yes and no, and the mean number of questions."""

    yes: float
    no: float
    questions: float


def simulate(world: World, *, studies: int = STUDIES, questions: int = QUESTIONS, block: int = BLOCK) -> Ends:
    """Run studies in a world, which look after each ``block`` of questions; the same call gives the same figures."""
    random = np.random.default_rng(SEED)
    parts = [_ends(world, random, min(_AT_ONCE, studies - n), questions, block) for n in range(0, studies, _AT_ONCE)]
    yes, no, asked = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Ends(float(yes.mean()), float(no.mean()), float(asked.mean()))


def _ends(world: World, random: Any, studies: int, questions: int, block: int) -> tuple[Any, Any, Any]:
    """For each study whether it ends with yes, whether with no, and its number of questions."""
    difficulty = random.random((studies, questions))

    def right(share: float) -> Any:
        alike = random.random((studies, questions)) < world.alike
        return np.where(alike, difficulty, random.random((studies, questions))) < share

    call, vote, debate = (right(each).astype(int) for each in (world.call, world.vote, world.debate))
    looks = questions // block
    n = block * np.arange(1, looks + 1)
    won, excluded = np.ones((studies, looks), bool), np.zeros((studies, looks), bool)
    for other in (vote, call):
        difference = (debate - other).reshape(studies, looks, block)
        better, worse = ((difference == sign).sum(-1).cumsum(1) for sign in (1, -1))
        won &= exceeds(better, worse, n, 0.0)
        excluded |= exceeds(worse, better, n, -MARGIN)
    yes, no = (np.where(each.any(1), each.argmax(1), looks) for each in (won, excluded))
    last = np.minimum(np.minimum(yes, no), looks - 1)
    return (yes < looks) & (yes <= no), no < yes, block * (last + 1)


def exceeds(better: Any, worse: Any, n: Any, than: float) -> Any:
    """Whether the gambler against a mean difference of at most ``than`` has won, at each look of each study."""
    mean, bets = (1 + than) / 2, np.array(BETS)
    counts = {1.0: better, 0.5: n - better - worse, 0.0: worse}
    logs = np.log(WEIGHTS) + sum(
        count[..., None] * np.log(1 - bets + bets * value / mean) for value, count in counts.items()
    )
    most = logs.max(-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(logs - most).sum(-1)) >= np.log(2 / ALPHA)


def table() -> str:
    """The rows of ``eval/stopping.md``."""
    head = "| world | right: call, vote, debate | yes | no | not decided | questions, mean | yes, looks always | no |"
    lines = [head, f"|{'---|' * 8}"]
    for world in WORLDS:
        ends, always = simulate(world), simulate(world, block=1)
        shares = ", ".join(f"{100 * each:.0f} %" for each in (world.call, world.vote, world.debate))
        figures = [ends.yes, ends.no, 1 - ends.yes - ends.no, always.yes, always.no]
        cells = [f"{100 * each:.1f} %" for each in figures]
        lines.append(f"| {' | '.join([world.name, shares, *cells[:3], f'{ends.questions:.0f}', *cells[3:]])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(f"{text.partition('| world')[0]}{table()}\n", encoding="utf-8")
