"""How many model calls a debate makes, computed from its protocol."""

from typing import NamedTuple

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import STAGES


class StageCalls(NamedTuple):
    """The calls of one stage in a debate."""

    stage: str
    formula: str
    """With n, the number of debaters, and r, the number of rounds."""
    fewest: int
    most: int


def possible_rounds(protocol: Protocol) -> range:
    """The numbers of rounds that a debate can have."""
    first = {"never": protocol.rounds, "stability": 2}.get(protocol.stop, 1)
    return range(min(first, protocol.rounds), protocol.rounds + 1)


def calls(protocol: Protocol, rounds: int) -> tuple[int, int]:
    """The fewest and the most model calls of ``rounds`` rounds, if all succeed and every debater has passages."""
    stages = stage_calls(protocol, rounds)
    return sum(stage.fewest for stage in stages), sum(stage.most for stage in stages)


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
        # Reflection after the last possible round is skipped; given stances may be by agents outside the cast.
        "reflect": ("n(r - 1 or r)", n * (r - is_last - given), n * (r - is_last)),
        "digest": ("(r - 1)", r - 1, r - 1),
        "judge": ("(r - 1 or r)", r - 1, r - 1 if is_last and not p.judge_finishes else r),
        **dict.fromkeys(("extract", "pick", "summarize"), ("1", 1, 1)),
    }
    if p.stop == "judge":
        counts["judge"] = ("r", r, r)
    if p.extract == "each_round":
        counts["extract"] = ("r", r, r)
    elif p.extract == "unsettled" and "judge" in p.stages:
        counts["extract"] = ("(0 or 1)", 0, 1)
    if p.finish != "summarizer":
        counts["summarize"] = ("(0 or 1)", 0, 0 if p.stop == "agreement" and r < p.rounds else 1)
    needed = {stage if stage in STAGES else "prepare" for stage in p.stages}
    return tuple(StageCalls(stage, *count) for stage, count in counts.items() if stage in needed)
