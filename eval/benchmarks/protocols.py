"""What protocols cost and how often they are right over one simulated population, and whether the lean one is cheap.

The figures are those of a model of debate (``population.md``), not of a language model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval.benchmarks.measure import Setting, report
from eval.benchmarks.population import Population, play, questions
from madke.core.question import Question
from madke.core.transcript import StageUsage
from madke.scoring.arms import ArmValues, read_arm
from madke.scoring.paired import PairedTest, paired_test
from madke.scoring.scores import Scores, score
from madke.scoring.statistics import Estimate
from madke.variants import load_variant

QUESTIONS = 1000
QUICK = 20
EACH_SET = 400
"""Questions of each other set of parameters."""
MARGIN = 0.02
"""A loss of accuracy below this counts as none."""
AIM = 0.5

SELECTING = {"knowledge.select": "adaptive", "knowledge.max_selected": 3}
"""Gives madke-lean the selections back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A protocol to play."""

    name: str
    variant: str
    against: str | None = None
    """What its cost is a share of: mad on the same footing, with the pool or without."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] | None = None
    """None leaves the variant's own."""


POOL = ("wiki", "google")
MAD, MAD_POOL = "mad", "mad, pool"
LEAN, LEAN_POOL = "madke-lean, no pool", "madke-lean"
LEAN_SELECTING, LEAN_THREE = "madke-lean, selecting", "madke-lean of three"
PLAYED = (
    Played(name="standard", variant="standard", against=MAD),
    Played(name="cot", variant="cot", against=MAD),
    Played(name="self-consistency", variant="self-consistency", against=MAD),
    Played(name=MAD, variant="mad", against=MAD),
    Played(name=LEAN, variant="madke-lean", against=MAD, sources=()),
    Played(name="rag", variant="rag", against=MAD_POOL),
    Played(name=MAD_POOL, variant="mad", against=MAD_POOL, sources=POOL),
    Played(name="madke", variant="madke", against=MAD_POOL),
    Played(name="madke-reference", variant="madke-reference", against=MAD_POOL),
    Played(name=LEAN_POOL, variant="madke-lean", against=MAD_POOL),
    Played(name=LEAN_SELECTING, variant="madke-lean", against=MAD_POOL, settings=SELECTING),
    Played(name=LEAN_THREE, variant="madke-lean", against=MAD_POOL, settings={"debaters": 3}),
)

COMPARED = (LEAN_POOL, LEAN)
"""Held against the aim."""

OTHERS: Mapping[str, Mapping[str, Any]] = {
    "debaters who know little (known 0.4)": {"known": 0.4},
    "debaters less alike (alike 0.2)": {"alike": 0.2},
    "debaters more alike (alike 0.8)": {"alike": 0.8},
    "wrong peers persuade (persuaded_by_wrong 0.3)": {"persuaded_by_wrong": 0.3},
    "debaters who think again (rethinks 0.5)": {"rethinks": 0.5},
    "misleading pools (misleading 0.4)": {"misleading": 0.4},
    "helpful pools (helpful 0.6)": {"helpful": 0.6},
    "a summarizer who guesses (settles_right 0.5)": {"settles_right": 0.5},
}
"""Other parameters: one set proves nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a protocol."""

    played: Played
    scores: Scores
    arm: ArmValues

    @property
    def usage(self) -> StageUsage:
        """Calls and tokens of all questions."""
        return self.scores.total

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of all questions."""
        return self.usage.prompt_tokens + self.usage.completion_tokens


def outcomes(population: Population, asked: Sequence[Question], names: Sequence[str] = ()) -> dict[str, Outcome]:
    """Name -> what came of the protocol over the questions; of all protocols where none is named."""
    found = {}
    for played in PLAYED:
        if names and played.name not in names:
            continue
        variant = load_variant(played.variant)
        if played.sources is not None:
            variant = variant.with_sources(played.sources)
        if played.settings:
            variant = variant.with_settings(played.settings)
        debates = asyncio.run(play(population, variant, asked))
        found[played.name] = Outcome(played=played, scores=score(debates), arm=read_arm(played.name, debates))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A protocol against mad on the same footing."""

    calls: float
    """Its calls as a share of mad's."""
    tokens: float
    test: PairedTest

    @property
    def no_worse(self) -> bool:
        """Whether the interval excludes a loss of accuracy beyond ``MARGIN``."""
        return self.test.difference.low > -MARGIN

    @property
    def share(self) -> float:
        """The larger share, of calls or of tokens."""
        return max(self.calls, self.tokens)

    @property
    def verdict(self) -> str:
        """Whether the aim is met, or what is missing."""
        if self.share > AIM:
            return "too dear"
        return "met" if self.no_worse else "a loss is not excluded"

    @property
    def difference(self) -> str:
        """Of accuracy, in points with its interval."""
        found = self.test.difference
        return f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def compared(ours: Outcome, mad: Outcome) -> Comparison:
    """Cost and accuracy of a protocol against those of mad, on the same questions."""
    test = paired_test(mad.arm, ours.arm, "correct")
    assert test is not None, "both answered the same questions"
    return Comparison(calls=ours.usage.calls / mad.usage.calls, tokens=ours.tokens / mad.tokens, test=test)


def table(found: Mapping[str, Outcome]) -> Iterator[str]:
    """A row a protocol; costs are a question's."""
    yield "  | protocol | right, % (95 %) | Cons, % | Co2, % | calls | prompt | completion | of mad's calls, tokens |"
    yield "  |---|---|---|---|---|---|---|---|"
    for name, outcome in found.items():
        scores, usage = outcome.scores, outcome.usage
        assert scores.correct is not None, "every question has an answer"
        n, against = scores.transcripts, found[outcome.played.against or name]
        right = scores.correct
        cells = (
            name,
            f"{100 * right.value:.1f} ({100 * right.low:.1f} to {100 * right.high:.1f})",
            _percent(scores.cons_matcher),
            _percent(scores.co2_matcher),
            f"{usage.calls / n:.2f}",
            f"{usage.prompt_tokens / n:,.0f}",
            f"{usage.completion_tokens / n:,.0f}",
            f"{usage.calls / against.usage.calls:.2f}, {outcome.tokens / against.tokens:.2f}",
        )
        yield f"  | {' | '.join(cells)} |"


def _percent(found: Estimate | None) -> str:
    return "" if found is None else f"{100 * found.value:.1f}"


def other_sets(population: Population, count: int) -> Iterator[str]:
    """A row a set of parameters and a protocol, each against mad with the pool."""
    yield "  | population | protocol | right, % | mad's | points (95 %) | of mad's calls, tokens | aim |"
    yield "  |---|---|---|---|---|---|---|"
    for name, changed in OTHERS.items():
        other = replace(population, **changed)
        found = outcomes(other, questions(other, count), (MAD_POOL, "madke", LEAN_POOL))
        mad = found.pop(MAD_POOL)
        for outcome in found.values():
            against = compared(outcome, mad)
            cells = (
                name,
                outcome.played.name,
                _percent(outcome.scores.correct),
                _percent(mad.scores.correct),
                against.difference,
                f"{against.calls:.2f}, {against.tokens:.2f}",
                against.verdict,
            )
            yield f"  | {' | '.join(cells)} |"


def main(setting: Setting) -> None:
    """Play every protocol over one population, the main ones over others, and print tables and ratios."""
    count = QUICK if setting.quick else QUESTIONS
    population = Population()
    found = outcomes(population, questions(population, count))
    print("  A model of debate, no language model. Cons and Co2 by the matcher; tokens estimated from characters.")
    for line in table(found):
        print(line, flush=True)
    for name in COMPARED:
        outcome = found[name]
        mad = found[outcome.played.against or MAD]
        against = compared(outcome, mad)
        report(
            f"protocols, {name}",
            f"{outcome.usage.calls / count:.2f} calls and {outcome.tokens / count:,.0f} tokens a question",
            f"{mad.played.name} {mad.usage.calls / count:.2f} and {mad.tokens / count:,.0f}: "
            f"shares {against.calls:.2f} and {against.tokens:.2f}, "
            f"accuracy {against.difference} points, {against.verdict}",
            against.share,
            f"calls and tokens at most {AIM} of mad's, no loss beyond {100 * MARGIN:.0f} points",
            against.verdict == "met",
        )
    for line in other_sets(population, QUICK // 2 if setting.quick else EACH_SET):
        print(line, flush=True)
