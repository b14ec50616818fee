"""Protocols in which nobody reads anybody: one answer, votes over several, the best of several, self-reflection."""

from madke.core.transcript import Final
from madke.engine.settings import AgreementShare, Count, Reads, Sizes
from madke.engine.steps import Debate

_NOTHING = Reads(peers="none", own="none")
_ITSELF = Reads(peers="none", own="last")


async def alone(debate: Debate) -> Final:
    """One call answers."""
    await debate.turns(_NOTHING)
    return debate.only()


async def vote(debate: Debate, *, layers: Sizes | None = None, agreement_share: AgreementShare = 1) -> Final:
    """Independent answers, and the most frequent one (Wang et al., 2022); in batches, until enough agree.

    Args:
        layers: How many answers each batch takes (Aggarwal et al., 2023). None: all at once.
        agreement_share: The share of the answers so far that must be the same to end the vote.
    """
    if layers is None:
        await debate.turns(_NOTHING)
        return debate.vote()
    async for _ in debate.layers(layers):
        await debate.turns(_NOTHING)
        if debate.agreed(agreement_share):
            break
    return debate.vote()


async def best_of(debate: Debate) -> Final:
    """Independent answers, and the one that an answer scorer likes best (He et al., 2023)."""
    await debate.turns(_NOTHING)
    return await debate.score()


async def self_reflect(debate: Debate, *, rounds: Count = 3) -> Final:
    """One agent answers, reviews its answer and improves it, until it is satisfied (Shinn et al., 2023).

    Args:
        rounds: The most attempts; the last is not reviewed.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(_ITSELF)
        if not debate.is_last_round and await debate.reflect():
            break
    return debate.only()
