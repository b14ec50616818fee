"""The functions of the protocols. The variants in ``prompts/`` are these, with values for their parameters.

A parameter of a function is a setting: its type, its default and its line in the docstring are all there is to it.
"""

from typing import Literal

from madke.core.transcript import Final
from madke.engine.settings import AgreementShare, Count, JudgeAsked, Order, Reads, Sizes, Talk
from madke.engine.steps import Debate

__all__ = [
    "alone", "best_of", "chateval", "gated", "lemmas", "liang", "mad", "madke", "moa", "per_document", "reconcile",
    "self_reflect", "vote",
]  # fmt: skip

# Debates with a judge: of consensus, of the answer, or of who is right.


async def madke(
    debate: Debate,
    *,
    rounds: Count = 3,
    reads: Reads = Reads(),
    order: Order = Order(),
    talk: Talk = "simultaneous",
    judge_asked: JudgeAsked = "always",
) -> Final:
    """MADKE: select, speak, judge; until consensus or the last round; then a summary (Wang et al., 2023, Algorithm 1).

    Args:
        rounds: The most rounds (section 4.4: 3).
        reads: What a debater reads from round 2 on (Eq. 4).
        order: The order in which it reads the others.
        talk: When debaters speak: the equations have simultaneous rounds, the released code sequential later ones.
        judge_asked: ``always``: after every round (Eq. 5). ``in_doubt``: only where the task's matcher leaves doubt.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order, talk=talk)
        verdict = await debate.judge(asked=judge_asked)
        if verdict.consensus:
            break
    return await debate.summarize()


async def gated(
    debate: Debate,
    *,
    rounds: Count = 2,
    reads: Reads = Reads(topology="sparse(1)"),
    order: Order = Order(),
    agreement_share: AgreementShare = 1,
    judge_asked: JudgeAsked = "in_doubt",
) -> Final:
    """A debate that only disagreement opens: equal answers end it, without a judge and without a summary.

    Args:
        rounds: The most rounds.
        reads: What a debater reads from round 2 on.
        order: The order in which it reads the others.
        agreement_share: The share of the debaters that must give the same answer.
        judge_asked: Whether the judge is asked wherever the answers are not the same, or only ``in_doubt``.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order)
        if debate.agreed(agreement_share):
            break
        if not debate.is_last_round and (await debate.judge(asked=judge_asked)).consensus:
            break
    return debate.vote(by="agreement") if debate.agreed(agreement_share) else await debate.summarize()


async def liang(
    debate: Debate,
    *,
    rounds: Count = 3,
    reads: Reads = Reads(peers="history", own="history", chat=True),
    order: Order = Order(),
    talk: Talk = "sequential",
    level: Literal[0, 1, 2, 3] = 2,
    extract: Literal["unsettled", "always", "each_round"] = "unsettled",
) -> Final:
    """Tit for tat before a judge, who settles the debate or extracts an answer at its end (Liang et al., Algorithm 1).

    Args:
        rounds: The most iterations.
        reads: What a debater reads of those before it.
        order: ``random``: the order of the speakers changes in every iteration.
        talk: When debaters speak.
        level: How strongly debaters are told to disagree, from 0 (not at all) to 3 (always) (Table 12).
        extract: When the judge extracts an answer: at the end if it never settled the debate, always, or after every
            iteration.
    """
    debate.show(level=level)
    verdict_answer = extract_answer = None
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order, talk=talk)
        verdict = await debate.judge(history=True, decides=True)
        if extract == "each_round":
            extract_answer = await debate.extract(each_round=True)
        if verdict.consensus:
            verdict_answer = debate.decided(verdict) if extract == "unsettled" else None
            break
    return verdict_answer or extract_answer or await debate.extract()


async def lemmas(
    debate: Debate,
    *,
    rounds: Count = 3,
    reads: Reads = Reads(own="none"),
    end: Literal["overlap", "pick"] = "overlap",
) -> Final:
    """Drafts that are written anew after reading the others' (the package lemmas, after Du et al., 2023).

    Args:
        rounds: The number of rounds, including the first drafts.
        reads: What a debater reads from round 2 on.
        end: ``overlap``: the draft whose words overlap most with the others'. ``pick``: the one that a judge picks.
    """
    async for _ in debate.rounds(rounds):
        await debate.turns(reads)
    return await debate.pick() if end == "pick" else debate.overlap()


# Debates that a vote or the last speaker ends, without a judge.


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


# Nobody reads anybody: one answer, votes over several, the best of several, self-reflection.

_NOTHING = Reads(peers="none", own="none")


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
        await debate.turns(Reads(peers="none"))
        if not debate.is_last_round and await debate.reflect():
            break
    return debate.only()
