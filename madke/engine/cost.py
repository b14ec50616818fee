"""How many model calls a debate takes, from its protocol alone."""

from __future__ import annotations

from dataclasses import dataclass

from madke.engine.protocol import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCalls:
    """The calls of one stage in a debate of so many rounds."""

    stage: str
    formula: str
    """In n, the number of debaters, and r, the number of rounds."""
    fewest: int
    most: int
    """More than ``fewest`` where it depends on what is said."""


def possible_rounds(protocol: Protocol) -> range:
    """The numbers of rounds that a debate can take."""
    first = {"never": protocol.rounds, "stability": 2}.get(protocol.stop, 1)
    return range(min(first, protocol.rounds), protocol.rounds + 1)


def calls(protocol: Protocol, rounds: int) -> tuple[int, int]:
    """The fewest and the most model calls of a debate that takes ``rounds`` rounds.

    Every call succeeds, the pool is not empty, and with ``knowledge.select = one_each`` it holds a passage for each
    debater. Searches and quality estimates are no model calls.
    """
    stages = stage_calls(protocol, rounds)
    return sum(stage.fewest for stage in stages), sum(stage.most for stage in stages)


def stage_calls(protocol: Protocol, rounds: int) -> tuple[StageCalls, ...]:
    """The calls of each stage that the protocol has, under the conditions of :func:`calls`; ``speak`` with replies."""
    p, n, r, stages = protocol, len(protocol.cast), rounds, protocol.stages
    last = r == p.rounds
    spoken, turns = (r - 1, "n(r - 1)") if p.given else (r, "n r")
    found = []

    def add(stage: str, formula: str, fewest: int, most: int | None = None) -> None:
        found.append(StageCalls(stage=stage, formula=formula, fewest=fewest, most=fewest if most is None else most))

    if prepared := sum(len(debater.prepare) for debater in p.cast):
        add("prepare", str(prepared), prepared)
    if "select" in stages:
        add("select", turns, n * spoken)
    add("speak", turns, n * spoken)
    if p.stop == "satisfied":
        # Nothing hangs on it in the last round that there can be; given stances may be those of nobody in the cast.
        add("reflect", "n(r - 1 or r)", n * (r - last - p.given), n * (r - last))
    if "digest" in stages:
        add("digest", "(r - 1)", r - 1)
    if p.stop == "judge":
        add("judge", "r", r)
    elif p.stop == "agreement_then_judge":
        add("judge", "(r - 1 or r)", r - 1, r - 1 if last and not p.judge_finishes else r)
    if p.finish == "judge_extract":
        if p.extract == "each_round":
            add("extract", "r", r)
        elif p.extract == "unsettled" and "judge" in stages:
            add("extract", "(0 or 1)", 0, 1)
        else:
            add("extract", "1", 1)
    if p.finish == "judge_pick":
        add("pick", "1", 1)
    if p.finish == "summarizer":
        add("summarize", "1", 1)
    elif p.finish == "agreed_or_summarizer":
        add("summarize", "(0 or 1)", 0, 0 if p.stop == "agreement" and not last else 1)
    return tuple(found)
