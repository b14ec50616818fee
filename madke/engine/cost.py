"""How many model calls a debate makes, computed from its protocol."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from madke.engine.protocol import STAGES, Protocol


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
    stages = {stage if stage in STAGES else "prepare" for stage in protocol.stages}
    return tuple(StageCalls(stage, *count(protocol, rounds)) for stage, count in _COUNTS.items() if stage in stages)


_Count = tuple[str, int, int]  # formula, fewest, most


def _prepare(p: Protocol, r: int) -> _Count:
    count = sum(len(debater.prepare) for debater in p.cast)
    return str(count), count, count


def _turns(p: Protocol, r: int) -> _Count:
    count = len(p.cast) * (r - p.first_round_given)
    return "n(r - 1)" if p.first_round_given else "n r", count, count


def _reflect(p: Protocol, r: int) -> _Count:
    # Reflection after the last possible round is skipped; given stances may be by agents outside the cast.
    n, last = len(p.cast), r == p.rounds
    return "n(r - 1 or r)", n * (r - last - p.first_round_given), n * (r - last)


def _judge(p: Protocol, r: int) -> _Count:
    if p.stop == "judge":
        return "r", r, r
    return "(r - 1 or r)", r - 1, r - 1 if r == p.rounds and not p.judge_finishes else r


def _extract(p: Protocol, r: int) -> _Count:
    if p.extract == "each_round":
        return "r", r, r
    return ("(0 or 1)", 0, 1) if p.extract == "unsettled" and "judge" in p.stages else ("1", 1, 1)


def _summarize(p: Protocol, r: int) -> _Count:
    if p.finish == "summarizer":
        return "1", 1, 1
    return "(0 or 1)", 0, 0 if p.stop == "agreement" and r < p.rounds else 1


_COUNTS: Mapping[str, Callable[[Protocol, int], _Count]] = {
    "prepare": _prepare,
    "select": _turns,
    "speak": _turns,
    "reflect": _reflect,
    "digest": lambda p, r: ("(r - 1)", r - 1, r - 1),
    "judge": _judge,
    "extract": _extract,
    "pick": lambda p, r: ("1", 1, 1),
    "summarize": _summarize,
}
