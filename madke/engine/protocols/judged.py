"""Debates with a judge: of consensus, of the answer, or of who is right."""

from typing import Literal

from madke.core.transcript import Final
from madke.engine.settings import AgreementShare, Count, JudgeAsked, Order, Reads, Talk
from madke.engine.steps import Debate


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
    settled = found = None
    async for _ in debate.rounds(rounds):
        await debate.turns(reads, order=order, talk=talk)
        verdict = await debate.judge(history=True, decides=True)
        if extract == "each_round":
            found = await debate.extract(each_round=True)
        if verdict.consensus:
            settled = debate.decided(verdict) if extract == "unsettled" else None
            break
    return settled or found or await debate.extract()


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
