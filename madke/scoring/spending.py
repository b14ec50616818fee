"""What a run's recorded calls say beside its transcripts: their cost, and what a prefix cache could save of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """Of the calls that a run made itself, repeated and failed ones too. Grades are kept elsewhere, and left out."""

    cost: Mapping[str, float] = field(default_factory=dict)
    """Stage -> cost of the tokens of models with a price, in the currency of the prices; empty without prices."""
    unpriced: tuple[str, ...] = ()
    """Models whose tokens are in no cost."""
    prompts: int = 0
    """Prompts of debates that were answered: those that the shares are about."""
    prompt_tokens: int = 0
    estimated: bool = True
    """Whether four characters are taken for a token, as a tokenizer is not at hand; else tokens are the models' own."""
    among_arms: bool = False
    """Whether the run is an arm of an experiment: what it took from earlier arms is not among its calls."""
    shared_within_question: float = 0.0
    """The share of ``prompt_tokens`` that is a prefix of an earlier prompt of the question to the same server, 0 .. 1,
    as :func:`madke.scoring.prefix.shared_prefix` counts."""
    shared_across_questions: float = 0.0
    """The share that is a prefix of any earlier prompt to the same server."""
