"""Debates that a vote or the last speaker ends, without a judge."""

from madke.core.transcript import Final
from madke.engine.settings import Count, Order, Reads, Sizes, Talk
from madke.engine.steps import Debate


async def mad(
    debate: Debate,
    *,
    rounds: Count = 2,
    reads: Reads = Reads(anonymous=True),
    order: Order = Order(),
    talk: Talk = "simultaneous",
) -> Final:
    """Multi-agent debate: answer, read each other, answer again; a majority decides (Du et al., 2023).

    Args:
        rounds: The number of rounds, including the first answers.
        reads: What a debater reads from round 2 on.
        order: The order in which it reads the others (Zhang et al., 2025).
        talk: When debaters speak.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order, talk=talk)
    return debate.vote()


async def chateval(
    debate: Debate,
    *,
    rounds: Count = 2,
    reads: Reads = Reads(peers="history", own="history"),
    order: Order = Order(),
    talk: Talk = "sequential",
    summarized: bool = False,
) -> Final:
    """Debaters with personas who read the whole debate; a majority decides (Chan et al., 2024).

    Args:
        rounds: The number of rounds.
        reads: What a debater reads of those before it.
        order: ``random``: the order of the speakers changes in every round.
        talk: One by one or simultaneous talk.
        summarized: Simultaneous talk with a summarizer: debaters read a summary of the debate instead of each other.
    """
    async for _ in debate.rounds(rounds, digest=summarized):
        await debate.turns(reads, order=order, talk=talk)
    return debate.vote()


async def reconcile(
    debate: Debate,
    *,
    rounds: Count = 4,
    reads: Reads = Reads(anonymous=True, grouped=True),
    order: Order = Order(),
) -> Final:
    """A round table until all agree; votes weigh as much as debaters are sure (Chen et al., 2024).

    Args:
        rounds: The most rounds, including the first answers.
        reads: What a debater reads from round 2 on.
        order: The order in which it reads the others.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order)
        if debate.agreed():
            break
    return debate.weigh()


async def moa(
    debate: Debate,
    *,
    layers: Sizes = (3, 3, 1),
    reads: Reads = Reads(own="none", anonymous=True),
) -> Final:
    """Layers of agents, each of which reads the answers of the layer before (Wang et al., 2024).

    Args:
        layers: How many agents each layer has. The last is one, whose answer counts.
        reads: What an agent reads from layer 2 on.
    """
    async for _ in debate.layers(layers):
        await debate.turns(reads)
    return debate.only()


async def per_document(
    debate: Debate,
    *,
    rounds: Count = 3,
    reads: Reads = Reads(),
) -> Final:
    """A debater for each passage until no answer changes, then an aggregator (after Wang et al., 2025, MADAM-RAG).

    Args:
        rounds: The most rounds.
        reads: What a debater reads from round 2 on.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads)
        if debate.stable():
            break
    return await debate.summarize()
