"""One debate as a small text diagram, drawn from its protocol alone."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from operator import eq
from typing import Any

from pydantic import BaseModel

from madke._util.terminal import printable
from madke.core.transcript import Round, Stance, Turn
from madke.engine.cost import calls, equal_vote, pool_calls, possible_rounds, stage_calls
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import STOP_RULES, Debater
from madke.engine.view import view

MAX_COLUMNS = 80
"""Maximum width of a diagram, in columns: that of a terminal."""

_FRAME = "│  "
_LABEL = 12
_LONGEST_NAME = 20
_LARGEST_MATRIX = 20

FINISH_LINES: Mapping[str, str] = {
    "summarizer": "the summarizer reads the stances of the last round and states the answer",
    "majority": "the most common answer under the task's matcher; a tie goes to the earliest",
    "judge_extract": "the judge reads all stances and states the answer",
    "judge_pick": "the judge reads the stances of the last round and picks the answer of one debater",
    "convergence": "the answer of the debater whose words overlap most with the others'; a tie goes to the earliest",
    "rerank": "the candidate with the highest score of the answer scorer",
    "weighted": "the answer with the highest recalibrated confidence; a tie goes to the earliest",
    "only": "the debater's own last answer",
    "agreed_or_summarizer": "the answer on which all agree under the task's matcher; otherwise the summarizer reads "
    "the stances of the last round and states the answer",
}
"""What each value of ``Protocol.finish`` does."""

STOP_LINES: Mapping[str, tuple[str, str]] = {
    "never": ("", ""),
    "judge": ("judge", "reads {read}: settled -> finish"),
    "agreement": ("matcher", "{share} agree -> finish"),
    "agreement_then_judge": ("matcher", "{share} agree -> finish; else the judge reads {read}: settled -> finish"),
    "satisfied": ("", "reviews its own stance: all are satisfied -> finish (skipped in the last round)"),
    "stability": ("matcher", "no answer has changed since the previous round -> finish"),
    "budget": ("tokens", "{budget:,} are used -> finish"),
}
"""``Protocol.stop`` -> who ends a debate early (empty: each debater), and when."""

_ORDERS = {
    "random": "shuffled in every round",
    "truth_first": "correct debaters first (reads the gold answers: for analysis only)",
    "truth_last": "correct debaters last (reads the gold answers: for analysis only)",
    "madc": "ascending path consistency: the debater that most others agree with is last",
}

_SIGNS = {
    "<": "its stance of the previous round",
    "=": "its stance of this round",
    "*": "all of its stances so far",
    ".": "nothing",
}


def changed_settings(protocol: Protocol) -> str:
    """The settings in which a protocol differs from the defaults, in one line."""
    return ", ".join(_changed(protocol, Protocol(source=""))) or "all defaults"


def diagram(name: str, protocol: Protocol) -> str:
    """A diagram of a debate: order of turns, who reads whom, when it ends, how the answer is chosen, calls."""
    return printable("\n".join(_lines(name, protocol)))


def stances_read(protocol: Protocol, round_n: int) -> dict[str, dict[str, tuple[int, ...]]]:
    """Reader -> speaker (or itself) -> rounds of the speaker's stances that the reader sees in round ``round_n``."""
    sees = protocol.sees.model_copy(update={"anonymous": False, "grouped": False})
    named = protocol.model_copy(update={"sees": sees})
    names = [debater.name for debater in protocol.cast]

    def turns_of(n: int) -> list[Turn]:
        return [Turn(agent=debater.name, stance=Stance(text="text")) for debater in protocol.speakers(n)]

    turns = turns_of(round_n)
    rounds = [Round(n=n, order=tuple(names), turns=tuple(turns_of(n))) for n in range(1, round_n)]
    sequential = (protocol.talk.first if round_n == 1 else protocol.talk.later) == "sequential"
    found = {}
    for place, name in enumerate(debater.name for debater in protocol.speakers(round_n)):
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
        yield from _wrapped("", _details(debater))
    yield from _wrapped("pool", pool(protocol))
    yield from _wrapped("prompts", _prompts(protocol))
    yield from _wrapped("requests", _parameters(protocol))
    yield ""
    timing = {"sequential": "in turn"}
    yield f"┌─ round 1, {_group(protocol, 1)}{timing.get(protocol.talk.first, 'all at once')} ".ljust(MAX_COLUMNS, "─")
    yield from (f"{_FRAME}{line}" for line in _round(protocol, 1))
    for n in range(2, protocol.rounds + 1) if protocol.talk.groups else [min(protocol.rounds, 3)]:
        if protocol.rounds > 1:
            several = protocol.rounds > 2 and not protocol.talk.groups
            rounds = f"rounds 2 to {protocol.rounds}" if several else f"round {n}"
            how = timing.get(protocol.talk.later, "all at once")
            yield f"├─ {rounds}, {_group(protocol, n)}{how} ".ljust(MAX_COLUMNS, "─")
            yield from (f"{_FRAME}{line}" for line in _round(protocol, n))
    yield "└─ finish ".ljust(MAX_COLUMNS, "─")
    yield from (f"{'':<{len(_FRAME)}}{line}" for line in _wrapped("answer", _finish(protocol)))
    yield ""
    yield from _cost(protocol)


def _group(protocol: Protocol, n: int) -> str:
    """Who speaks in a round, if not all do."""
    names = [debater.name for debater in protocol.speakers(n)] if protocol.talk.groups else []
    return f"{' to '.join(dict.fromkeys((names[0], names[-1])))}, " if names else ""


def _wrapped(label: str, text: str) -> Iterator[str]:
    """A labelled text, wrapped to fit inside the frame; no lines for an empty text."""
    first, line = f"{label:<{_LABEL - 1}} ", " ".join(text.split())
    yield from textwrap.wrap(line, MAX_COLUMNS - len(_FRAME), initial_indent=first, subsequent_indent=" " * _LABEL)


def _changed(model: BaseModel, usual: BaseModel, path: str = "") -> Iterator[str]:
    """Fields that differ from the default, in the form of ``--set``."""
    for name in type(model).model_fields:
        value, default = getattr(model, name), getattr(usual, name)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed(value, default, f"{path}{name}.")
        elif value != default and name != "source":
            yield f"{path}{name}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(one, Debater) for one in value):
        return f"[{', '.join(debater.name for debater in value)}]"
    value = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)


def _cast(protocol: Protocol) -> str:
    names = [debater.name for debater in protocol.cast]
    count = isinstance(protocol.debaters, int) and len(names) > 3
    return "; ".join((f"{names[0]} to {names[-1]}" if count else ", ".join(names), *protocol.roles[len(names) :]))


def _details(debater: Debater) -> str:
    parts = [
        debater.prepare and f"prepares {', then '.join(debater.prepare)} before round 1",
        debater.prompt and f"uses its own templates ({debater.prompt})",
        debater.model and f"uses the model {debater.model}",
        debater.temperature is not None and f"has temperature {debater.temperature:g}",
        debater.persona and f"has a persona: {textwrap.shorten(debater.persona, 50, placeholder=' ...')}",
    ]
    return f"{debater.name} {'; '.join(part for part in parts if part)}" if any(parts) else ""


def pool(protocol: Protocol) -> str:
    """How many passages of which sources the pool holds, and who sees them, in one line."""
    knowledge = protocol.knowledge
    if knowledge is None:
        return "none"
    kept = ", ".join(f"{source} {knowledge.count(source)}" for source in knowledge.sources)
    if (rerank := knowledge.rerank) is not None:
        of_each = ", ".join(f"{source} {rerank.candidates}" for source in knowledge.sources)
        kept = f"{of_each}, of which {rerank.model} keeps the best {knowledge.pool_limit}"
    if knowledge.query != "none":
        kept += f"; found with the question and with queries ({knowledge.query})"
    if knowledge.fusion != "none":
        weights = ", ".join(f"{name} {weight:g}" for name, weight in (knowledge.weights or {}).items())
        kept += f"; merged into one ranking ({knowledge.fusion}{f', weights: {weights}' if weights else ''})"
        kept += f", the best {knowledge.max_passages} of it" if knowledge.max_passages is not None else ""
    limits = (knowledge.per_debater_sources or {}).items()
    return "; ".join((f"passages of {kept}", *(f"{name} sees {', '.join(names)} only" for name, names in limits)))


_MARKERS = {
    "plain": 'answers end with "The answer is X."',
    "brackets": "answers are marked [X]",
    "parentheses": "answers are marked (X)",
    "boxed": "answers are marked \\boxed{X}",
    "alone": "a reply is the answer and nothing else",
    "text": "the whole reply, free text, is the answer",
}
_SCHEMAS = {
    "auto": "JSON schemas where the endpoint takes them",
    "off": "no JSON schemas",
    "require": "JSON schemas always",
}
_TOO_LONG = {
    "fail": "a prompt that is too long fails",
    "drop": "a prompt that is too long loses old stances, then passages",
}


def _prompts(protocol: Protocol) -> str:
    """What prompts say in every round: marker, worked examples, level of disagreement."""
    examples = f"a first stance sees worked examples: {protocol.examples}" if protocol.examples else ""
    usual = Protocol.model_fields["level"].default
    level = f"tit-for-tat level {protocol.level}" if protocol.level != usual else ""
    quotes = "each passage that is used is quoted" if protocol.cite else ""
    return "; ".join(filter(None, (_MARKERS[protocol.marker], examples, quotes, level)))


def _parameters(protocol: Protocol) -> str:
    """How models are called."""
    stops = f"stop strings {json.dumps(protocol.stop_strings, ensure_ascii=False)}" if protocol.stop_strings else ""
    limits = f"temperature {protocol.temperature:g}; at most {protocol.max_tokens:,} tokens"
    parts = (limits, stops, _SCHEMAS[protocol.structured], _TOO_LONG[protocol.overflow])
    return "; ".join(filter(None, parts))


def _round(protocol: Protocol, n: int) -> Iterator[str]:
    if protocol.first_round_given and n == 1:
        outside = "stances come from a file; everyone reads those of agents that are not debaters"
        yield from _wrapped("given", outside)
    else:
        yield from _wrapped(_each(protocol), _acts(protocol, n))
        yield from _reading(protocol, n)
        yield from _wrapped("order", _order(protocol, n))
    by, when = STOP_LINES[protocol.stop]
    if n >= (STOP_RULES[protocol.stop].earliest or 1):
        read = "the stances of the round" if protocol.judge_sees == "last_round" else "all stances so far"
        share = "all answers" if protocol.agreement_share == 1 else f"{protocol.agreement_share:.0%} of the answers"
        told = {"read": read, "budget": protocol.token_budget or 0, "share": share + " so far" * protocol.samples}
        if n < protocol.rounds or not protocol.samples:
            yield from _wrapped(by or _each(protocol), when.format(**told))
    if protocol.extract == "each_round":
        yield from _wrapped("judge", "reads all stances so far and states an answer, which is recorded")
    if protocol.talk.later == "simultaneous_with_summary":
        yield from _wrapped("summarizer", "summarizes the round, if another round follows")


def _each(protocol: Protocol) -> str:
    return "each" if len(protocol.cast) > 1 else "debater"


def _acts(protocol: Protocol, n: int) -> str:
    knowledge, sees = protocol.knowledge, protocol.sees
    digested = protocol.talk.later == "simultaneous_with_summary"
    says = "replies" if n > 1 and (digested or (sees.own, sees.peers) != ("none", "none")) else "speaks"
    if knowledge is None or knowledge.select == "none":
        return says
    if knowledge.select != "adaptive":
        return f"has {'the whole pool' if knowledge.select == 'all' else 'its own passage'} and {says}"
    seen = ", seeing its own last stance" if n > 1 and sees.own != "none" else ""
    search = "; may request a search, which adds passages to the pool" if knowledge.allow_search else ""
    return f"selects up to {knowledge.max_selected} passages of the pool{seen}{search}; then {says}"


def _reading(protocol: Protocol, n: int) -> Iterator[str]:
    """Who reads whom: a matrix, or a sentence if the matrix would be empty or too large."""
    signs = {
        reader: [{(): ".", (n,): "=", (n - 1,): "<"}.get(rounds, "*") for rounds in shown.values()]
        for reader, shown in stances_read(protocol, n).items()
    }
    names = [debater.name for debater in protocol.cast]
    own = {row[names.index(reader)] for reader, row in signs.items()}
    others = {sign for reader, row in signs.items() for name, sign in zip(names, row, strict=True) if name != reader}
    critique = ["its own review of that stance"] if protocol.stop == "satisfied" and n > 1 else []
    if others <= {"."}:
        digested = n > 1 and protocol.talk.later == "simultaneous_with_summary"
        alone = ["nobody else"] if len(names) > 1 else []
        strangers = (
            ["the given stances of agents that are not debaters"] if protocol.first_round_given and n > 1 else alone
        )
        others_read = ["the summary of the previous round"] if digested else strangers
        own_read = [_SIGNS[sign].replace("its", "its own", 1) for sign in own - {"."}]
        yield from _wrapped("reads", "; ".join([*others_read, *own_read, *critique]))
        return
    if protocol.talk.groups:
        yield from _wrapped("reads", "the stances of the group before")
        yield from _wrapped("", _how_shown(protocol))
        return
    if len(signs) <= _LARGEST_MATRIX:
        yield from _matrix(signs)
    else:
        counts = {len(row) - row.count(".") - (row[place] != ".") for place, row in enumerate(signs.values())}
        some = " to ".join(map(str, sorted({min(counts), max(counts)})))
        yield from _wrapped("reads", f"{some} of the {len(signs) - 1} others")
    legend = [f"{sign}  {meaning}" for sign, meaning in _SIGNS.items() if sign in own | others]
    yield from _wrapped("", "; ".join([*legend, *critique]))
    yield from _wrapped("", _how_shown(protocol))


def _matrix(signs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    widest = min(_LONGEST_NAME, max(map(len, signs)))
    yield f"{'reads':<{_LABEL + widest + 3}}" + "".join(f"{number:>3}" for number in range(1, len(signs) + 1))
    for number, (name, row) in enumerate(signs.items(), start=1):
        cells = "".join(f"{sign:>3}" for sign in row)
        yield f"{'':<{_LABEL}}{number:>2} {' '.join(name.split())[:widest]:<{widest}}{cells}"


def _how_shown(protocol: Protocol) -> str:
    sees = protocol.sees
    parts = [
        sees.peers == "answers" and "answers without the reasoning",
        sees.anonymous and "without names",
        sees.grouped and "also grouped by answer",
        sees.form == "chat" and "as a chat: its own turns as assistant, the others' as user",
    ]
    return "; ".join(part for part in parts if part)


def _order(protocol: Protocol, n: int) -> str:
    order = protocol.order
    # In round 1 only a shuffle has an effect, and only if debaters speak in turn.
    if n == 1 and (order.by != "random" or protocol.talk.first != "sequential"):
        return ""
    parts = [
        _ORDERS.get(order.by),
        order.score == "per_reader" and "for each reader, ignoring its own answer",
        order.decay < 1 and f"times {order.decay:g} for each earlier round in which the debater was last",
        order.rotate_personas and "personas rotate to the next debater",
    ]
    return "; ".join(part for part in parts if part)


def _finish(protocol: Protocol) -> str:
    if protocol.extract == "each_round":
        return "the judge's answer after the last round"
    if protocol.talk.groups and protocol.finish == "only":
        return "the answer of the last debater"
    if protocol.finish == "judge_extract" and protocol.extract == "unsettled" and "judge" in protocol.stages:
        return f"the judge's answer if it settled the debate; otherwise {FINISH_LINES['judge_extract']}"
    return FINISH_LINES[protocol.finish]


def _cost(protocol: Protocol) -> Iterator[str]:
    formula = " + ".join(f"{stage.formula} {stage.stage}" for stage in stage_calls(protocol, protocol.rounds))
    yield from _wrapped("calls", formula)
    possible = possible_rounds(protocol)
    counts = []
    for rounds in sorted({possible[0], possible[-1]}):
        fewest, most = calls(protocol, rounds)
        counts.append(f"r = {rounds}: {fewest}" + (f" to {most}" if most > fewest else ""))
    yield from _wrapped("", f"n = {len(protocol.cast)}; {'; '.join(counts)}")
    if (vote := equal_vote(protocol)) is not None:
        fewest, most = vote
        several = str(most) if fewest == most else f"{fewest} to {most}"
        yield from _wrapped("", f"as many calls as a vote of {several} samples (self-consistency, debaters={most})")
    knowledge = protocol.knowledge
    if before := pool_calls(protocol):
        formula = " + ".join(f"{stage.formula} {stage.stage}" for stage in before)
        yield from _wrapped("", f"before the debate, for its pool: {formula}")
    if knowledge is not None and knowledge.allow_search:
        yield from _wrapped("", f"and up to {'n(r - 1)' if protocol.first_round_given else 'n r'} searches")
    elif knowledge is not None and knowledge.select == "adaptive":
        yield from _wrapped("", "no selection from an empty pool")
    if protocol.needs_answer_scorer:
        yield from _wrapped("", "and 1 run of the answer scorer")
    if knowledge is not None and knowledge.select == "one_each":
        yield from _wrapped("", "with fewer passages there are fewer debaters")
