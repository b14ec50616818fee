"""One debate as a small text diagram, drawn from its protocol alone."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from operator import eq
from typing import Any

from pydantic import BaseModel

from madke.core.transcript import Round, Stance, Turn
from madke.engine.cost import calls, possible_rounds, stage_calls
from madke.engine.protocol import Debater, Protocol
from madke.engine.view import view
from madke.terminal import printable

WIDTH = 100
"""Columns that a diagram takes at most."""

_FRAME = "│  "
_LABEL = 12
_LONGEST_NAME = 20
_LARGEST_MATRIX = 20

FINISHES: Mapping[str, str] = {
    "summarizer": "the summarizer reads the stances of the last round and states the answer",
    "majority": "the answer that most debaters hold under the task's matcher; a tie goes to the earliest",
    "judge_extract": "the judge reads all stances and states the answer",
    "judge_pick": "the judge reads the stances of the last round and picks a debater, whose answer is taken",
    "convergence": "the answer of the debater whose words overlap most with the others'; a tie goes to the earliest",
    "rerank": "an answer scorer scores the candidates; the answer of the highest",
    "weighted": "the answer with the most confidence behind it, recalibrated; a tie goes to the earliest",
    "only": "the debater's own last answer",
    "agreed_or_summarizer": "the answer on which all agree under the task's matcher; if they do not, the summarizer "
    "reads the stances of the last round and states one",
}
"""What each value of ``Protocol.finish`` does."""

STOPS: Mapping[str, tuple[str, str]] = {
    "never": ("", ""),
    "judge": ("judge", "reads {read}: settled -> finish"),
    "agreement": ("matcher", "all answers agree -> finish"),
    "agreement_then_judge": ("matcher", "all answers agree -> finish; else the judge reads {read}: settled -> finish"),
    "satisfied": ("", "scrutinises its own stance: all are satisfied -> finish (not asked in the last round)"),
    "stability": ("matcher", "nobody's answer has changed since the round before -> finish"),
    "budget": ("tokens", "{budget:,} are used up -> finish"),
}
"""What ends a debate early under each value of ``Protocol.stop`` (empty: each debater), and when."""

_ORDERS = {
    "random": "shuffled anew in every round",
    "truth_first": "who is right stands first (reads the gold answers: for analysis only)",
    "truth_last": "who is right stands last (reads the gold answers: for analysis only)",
    "madc": "ascending path consistency: whom the most others agree with stands last",
}

_SIGNS = {
    "<": "its stance of the round before",
    "=": "its stance of this round",
    "*": "all of its stances so far",
    ".": "nothing",
}


def changed_settings(protocol: Protocol) -> str:
    """The settings in which a protocol differs from the defaults, in one line."""
    return ", ".join(_changed(protocol, Protocol(source=""))) or "all defaults"


def diagram(name: str, protocol: Protocol) -> str:
    """The debate of a variant: who speaks when, reads whom, when it ends, how the answer is taken, what it costs."""
    return printable("\n".join(_lines(name, protocol)))


def readings(protocol: Protocol, round_n: int) -> dict[str, dict[str, tuple[int, ...]]]:
    """Reader -> speaker, itself too -> the rounds of that speaker's stances that it is shown in round ``round_n``."""
    sees = protocol.sees.model_copy(update={"anonymous": False, "grouped": False})
    named = protocol.model_copy(update={"sees": sees})
    names = [debater.name for debater in protocol.cast]
    turns = [Turn(agent=name, stance=Stance(text="text")) for name in names]
    rounds = [Round(n=n, order=tuple(names), turns=tuple(turns)) for n in range(1, round_n)]
    sequential = (protocol.talk.first if round_n == 1 else protocol.talk.later) == "sequential"
    found = {}
    for place, name in enumerate(names):
        seen = view(named, name, rounds, turns[:place] if sequential else [], names, eq)
        shown = {(spoken.agent, spoken.round) for spoken in (*seen.peers, *seen.history)}
        shown |= {(name, round_n - 1)} if seen.own is not None else set()
        found[name] = {speaker: tuple(sorted(n for agent, n in shown if agent == speaker)) for speaker in names}
    return found


def _lines(name: str, protocol: Protocol) -> Iterator[str]:
    yield name
    yield from _wrapped("source", protocol.source)
    yield from _wrapped("settings", changed_settings(protocol))
    yield from _wrapped("cast", _cast(protocol))
    for debater in protocol.cast:
        yield from _wrapped("", _particulars(debater))
    yield from _wrapped("pool", _pool(protocol))
    yield ""
    timing = {"sequential": "in turn"}
    yield f"┌─ round 1, {timing.get(protocol.talk.first, 'all at once')} ".ljust(WIDTH, "─")
    yield from (f"{_FRAME}{line}" for line in _round(protocol, 1))
    if protocol.rounds > 1:
        rounds = f"rounds 2 to {protocol.rounds}" if protocol.rounds > 2 else "round 2"
        yield f"├─ {rounds}, {timing.get(protocol.talk.later, 'all at once')} ".ljust(WIDTH, "─")
        yield from (f"{_FRAME}{line}" for line in _round(protocol, min(protocol.rounds, 3)))
    yield "└─ finish ".ljust(WIDTH, "─")
    yield from (f"{'':<{len(_FRAME)}}{line}" for line in _wrapped("answer", _finish(protocol)))
    yield ""
    yield from _cost(protocol)


def _wrapped(label: str, text: str) -> Iterator[str]:
    """A labelled text, folded so that a frame fits before it; nothing for no text."""
    first, line = f"{label:<{_LABEL - 1}} ", " ".join(text.split())
    yield from textwrap.wrap(line, WIDTH - len(_FRAME), initial_indent=first, subsequent_indent=" " * _LABEL)


def _changed(model: BaseModel, usual: BaseModel, path: str = "") -> Iterator[str]:
    """Every field that has another value than usual, as ``--set`` takes it."""
    for name in type(model).model_fields:
        value, default = getattr(model, name), getattr(usual, name)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed(value, default, f"{path}{name}.")
        elif value != default and name != "source":
            yield f"{path}{name}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(one, Debater) for one in value):
        return f"[{', '.join(debater.name for debater in value)}]"
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)


def _cast(protocol: Protocol) -> str:
    names = [debater.name for debater in protocol.cast]
    count = isinstance(protocol.debaters, int) and len(names) > 3
    return "; ".join((f"{names[0]} to {names[-1]}" if count else ", ".join(names), *protocol.roles[len(names) :]))


def _particulars(debater: Debater) -> str:
    told = [
        debater.prepare and f"prepares {', then '.join(debater.prepare)} before round 1",
        debater.prompt and f"has templates of its own ({debater.prompt})",
        debater.model and f"is played by {debater.model}",
        debater.temperature is not None and f"has temperature {debater.temperature:g}",
        debater.persona and f"has a persona: {textwrap.shorten(debater.persona, 50, placeholder=' ...')}",
    ]
    return f"{debater.name} {'; '.join(part for part in told if part)}" if any(told) else ""


def _pool(protocol: Protocol) -> str:
    knowledge = protocol.knowledge
    if knowledge is None:
        return "none"
    kept = ", ".join(f"{source} {knowledge.count(source)}" for source in knowledge.sources)
    limits = (knowledge.per_debater_sources or {}).items()
    return "; ".join((f"passages of {kept}", *(f"{name} sees {', '.join(names)} only" for name, names in limits)))


def _round(protocol: Protocol, n: int) -> Iterator[str]:
    if protocol.first_round_given and n == 1:
        outside = "the stances come from outside; those of agents who are no debaters are read by all"
        yield from _wrapped("given", outside)
    else:
        yield from _wrapped(_each(protocol), _acts(protocol, n))
        yield from _reading(protocol, n)
        yield from _wrapped("order", _order(protocol, n))
    by, when = STOPS[protocol.stop]
    if protocol.stop != "stability" or n > 1:
        read = "the stances of the round" if protocol.judge_sees == "last_round" else "all stances so far"
        yield from _wrapped(by or _each(protocol), when.format(read=read, budget=protocol.token_budget or 0))
    if protocol.extract == "each_round":
        yield from _wrapped("judge", "reads all stances so far and states an answer, which is recorded")
    if protocol.talk.later == "simultaneous_with_summary":
        yield from _wrapped("summarizer", "sums up what was said, if another round follows")


def _each(protocol: Protocol) -> str:
    return "each" if len(protocol.cast) > 1 else "debater"


def _acts(protocol: Protocol, n: int) -> str:
    knowledge, sees = protocol.knowledge, protocol.sees
    digested = protocol.talk.later == "simultaneous_with_summary"
    says = "replies" if n > 1 and (digested or (sees.own, sees.peers) != ("none", "none")) else "speaks"
    if knowledge is None or knowledge.select == "none":
        return says
    if knowledge.select != "adaptive":
        return f"has {'the whole pool' if knowledge.select == 'all' else 'a passage of its own'} and {says}"
    minding = ", with its own last stance in view" if n > 1 and sees.own != "none" else ""
    search = "; may ask for a search, whose passages join the pool" if knowledge.allow_search else ""
    return f"selects up to {knowledge.max_selected} passages of the pool{minding}{search}; then {says}"


def _reading(protocol: Protocol, n: int) -> Iterator[str]:
    """Who reads whom: a matrix, or a sentence where it would be empty or too large."""
    signs = {
        reader: [{(): ".", (n,): "=", (n - 1,): "<"}.get(rounds, "*") for rounds in shown.values()]
        for reader, shown in readings(protocol, n).items()
    }
    own = {row[place] for place, row in enumerate(signs.values())}
    others = {sign for here, row in enumerate(signs.values()) for there, sign in enumerate(row) if here != there}
    critique = ["what it found when it scrutinised that"] if protocol.stop == "satisfied" and n > 1 else []
    if others <= {"."}:
        digested = n > 1 and protocol.talk.later == "simultaneous_with_summary"
        whom = ["the summarizer's account of what was said"] if digested else ["nobody else"] if len(signs) > 1 else []
        mine = [_SIGNS[sign].replace("its", "its own", 1) for sign in own - {"."}]
        yield from _wrapped("reads", "; ".join([*whom, *mine, *critique]))
        return
    if len(signs) <= _LARGEST_MATRIX:
        yield from _matrix(signs)
    else:
        counts = {len(row) - row.count(".") - (row[place] != ".") for place, row in enumerate(signs.values())}
        some = " to ".join(map(str, sorted({min(counts), max(counts)})))
        yield from _wrapped("reads", f"{some} of the {len(signs) - 1} others")
    legend = [f"{sign}  {meaning}" for sign, meaning in _SIGNS.items() if sign in own | others]
    yield from _wrapped("", "; ".join([*legend, *critique]))
    yield from _wrapped("", _manner(protocol))


def _matrix(signs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """One row a reader, one column a speaker, both in the order of the cast."""
    widest = min(_LONGEST_NAME, max(map(len, signs)))
    yield f"{'reads':<{_LABEL + widest + 3}}" + "".join(f"{number:>3}" for number in range(1, len(signs) + 1))
    for number, (name, row) in enumerate(signs.items(), start=1):
        cells = "".join(f"{sign:>3}" for sign in row)
        yield f"{'':<{_LABEL}}{number:>2} {' '.join(name.split())[:widest]:<{widest}}{cells}"


def _manner(protocol: Protocol) -> str:
    """How the others' stances are shown."""
    sees = protocol.sees
    told = [
        sees.peers == "answers" and "answers without the reasoning",
        sees.anonymous and "without names",
        sees.grouped and "also grouped by answer",
        sees.form == "chat" and "as a chat: its own turns as assistant, the others' as user",
    ]
    return "; ".join(part for part in told if part)


def _order(protocol: Protocol, n: int) -> str:
    order = protocol.order
    # Before the first round only a shuffle does something, and it shows only where debaters speak in turn.
    if n == 1 and (order.by != "random" or protocol.talk.first != "sequential"):
        return ""
    told = [
        _ORDERS.get(order.by),
        order.score == "per_reader" and "for each reader without its own answer",
        order.decay < 1 and f"times {order.decay:g} for each time that a debater stood last before",
        order.rotate_personas and "personas move on to the next debater",
    ]
    return "; ".join(part for part in told if part)


def _finish(protocol: Protocol) -> str:
    if protocol.extract == "each_round":
        return "the one that the judge stated after the last round"
    if protocol.finish == "judge_extract" and protocol.extract == "unsettled" and "judge" in protocol.stages:
        return f"the judge's, where it settled the debate and stated one; else {FINISHES['judge_extract']}"
    return FINISHES[protocol.finish]


def _cost(protocol: Protocol) -> Iterator[str]:
    formula = " + ".join(f"{stage.formula} {stage.stage}" for stage in stage_calls(protocol, protocol.rounds))
    yield from _wrapped("calls", formula)
    possible = possible_rounds(protocol)
    counts = []
    for rounds in sorted({possible[0], possible[-1]}):
        fewest, most = calls(protocol, rounds)
        counts.append(f"r = {rounds}: {fewest}" + (f" to {most}" if most > fewest else ""))
    yield from _wrapped("", f"n = {len(protocol.cast)}; {'; '.join(counts)}")
    knowledge = protocol.knowledge
    if knowledge is not None and knowledge.select == "adaptive":
        yield from _wrapped("", "searches not counted" if knowledge.allow_search else "no selection from an empty pool")
    if knowledge is not None and knowledge.select == "one_each":
        yield from _wrapped("", "fewer passages, fewer debaters")
