"""How many model calls a debate makes, computed from its protocol."""

from typing import NamedTuple

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import STAGES, STOP_RULES


class StageCalls(NamedTuple):
    """The calls of one stage in a debate."""

    stage: str
    formula: str
    """With n, the number of debaters, and r, the number of rounds."""
    fewest: int
    """In the debate with the fewest calls of all stages."""
    most: int
    """In the debate with the most."""


def possible_rounds(protocol: Protocol) -> range:
    """The numbers of rounds that a debate can have."""
    if protocol.knowledge is not None and protocol.knowledge.select == "one_each":
        protocol = protocol.with_one_each(len(protocol.cast))
    first = STOP_RULES[protocol.stop].earliest or protocol.rounds
    if protocol.stop == "budget" and protocol.first_round_given and not _spends_before(protocol):
        first = 2  # no call has used a token after a given round
    return range(min(first, protocol.rounds), protocol.rounds + 1)


def _spends_before(protocol: Protocol) -> bool:
    """Whether calls of models precede the first round."""
    return bool(pool_calls(protocol)) or any(debater.prepare for debater in protocol.cast)


def pool_calls(protocol: Protocol) -> tuple[StageCalls, ...]:
    """The calls for a question's pool before its debate, once for all repeats. Models in this process need none."""
    knowledge = protocol.knowledge
    if knowledge is None:
        return ()
    reranked = knowledge.rerank is not None and not knowledge.rerank.model.startswith("hf/")
    stages = ([knowledge.query] if knowledge.query != "none" else []) + (["rerank"] if reranked else [])
    return tuple(StageCalls(stage, "1", 1, 1) for stage in stages)


def calls(protocol: Protocol, rounds: int) -> tuple[int, int]:
    """The fewest and the most model calls of ``rounds`` rounds, if all succeed and every debater has passages."""
    stages = stage_calls(protocol, rounds)
    return sum(stage.fewest for stage in stages), sum(stage.most for stage in stages)


def calls_per_question(protocol: Protocol) -> tuple[int, int]:
    """The fewest calls of the shortest debate, and the most of the longest."""
    rounds = possible_rounds(protocol)
    return calls(protocol, rounds[0])[0], calls(protocol, rounds[-1])[1]


def equal_vote(protocol: Protocol) -> tuple[int, int] | None:
    """The smallest and largest vote with as many calls, in samples; None if there is no debate."""
    fewest, most = calls_per_question(protocol)
    alone = (protocol.sees.peers, protocol.sees.own) == ("none", "none")
    return None if most < 2 or alone else (max(1, fewest), most)


def stage_calls(protocol: Protocol, rounds: int) -> tuple[StageCalls, ...]:
    """The calls of each stage of the protocol, as counted by :func:`calls`; ``speak`` includes replies."""
    p, r, n = protocol, rounds, len(protocol.cast)
    groups = p.talk.groups and p.talk.groups[:r]
    given, is_last = p.first_round_given, rounds == p.rounds
    prepared = sum(len(debater.prepare) for debater in p.cast)
    turns = ("n(r - 1)" if given else "n r", n * (r - given), n * (r - given))
    if groups:
        turns = (f"({' + '.join(map(str, groups))})", sum(groups), sum(groups))
    counts = {
        "prepare": (str(prepared), prepared, prepared),
        "select": turns,
        "speak": turns,
        "reflect": ("n(r - 1 or r)", n * (r - is_last), n * (r - is_last)),
        "digest": ("(r - 1)", r - 1, r - 1),
        "judge": ("(r - 1 or r)", r - 1, r - 1 if is_last and not p.judge_finishes else r),
        **dict.fromkeys(("extract", "pick", "summarize"), ("1", 1, 1)),
    }
    if given:  # maybe by agents outside the cast, who review nothing; but a debate ends only after a review
        counts["reflect"] = ("up to n r", n * (r - is_last - 1) or int(not is_last), n * (r - is_last))
    if p.stop == "judge":
        counts["judge"] = ("r", r, r)
    if p.judge_asked == "in_doubt":
        counts["judge"] = ("(0 to r)", 0, counts["judge"][2])
    if p.extract == "each_round":
        counts["extract"] = ("r", r, r)
    elif p.extract == "unsettled" and "judge" in p.stages:
        # Where all agree at the end, the judge is not asked. So it has settled nothing, and given no answer.
        counts["extract"] = ("(0 or 1)", int(p.stop == "agreement_then_judge"), 1)
    if p.finish != "summarizer":
        counts["summarize"] = ("(0 or 1)", 0, 0 if p.stop == "agreement" and r < p.rounds else 1)
    needed = {stage if stage in STAGES else "prepare" for stage in p.stages}
    return tuple(StageCalls(stage, *count) for stage, count in counts.items() if stage in needed)
