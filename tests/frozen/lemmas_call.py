"""The record of :func:`madke.debate`, the call of the package lemmas."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import madke
from tests.frozen.script import LAKES, short_hash

Messages = Sequence[Mapping[str, str]]


def recorded_call(texts: dict[str, str]) -> dict[str, list[str]]:
    """Call -> what every function was asked, and the result. ``texts`` is filled with the prompts by hash."""
    found: dict[str, list[str]] = {}
    for name, (labels, keywords) in _CALLS.items():
        found[f"lemmas-call {name}"] = _record(labels, keywords, texts)
        found[f"lemmas-call {name} awaited"] = _record(labels, keywords, texts, awaited=True)
    return found


def _record(
    labels: Sequence[str], keywords: Mapping[str, Any], texts: dict[str, str], awaited: bool = False
) -> list[str]:
    lines: list[str] = []

    def function(name: str, reply: Callable[[int], Any]) -> Any:
        calls = iter(range(100))

        def complete(messages: Messages) -> Any:
            text = "\n".join(f"--- {message['role']}\n{message['content']}" for message in messages)
            texts[short_hash(text)[:8]] = text
            lines.append(f"{name}: {short_hash(text)[:8]}")
            said = reply(next(calls))
            if isinstance(said, Exception):
                raise said
            return said

        return complete

    class Tracer:
        def start_span(self, name: str, **about: Any) -> str:
            lines.append(f"start {name} {about}")
            return name

        def end_span(self, span: str, **about: Any) -> None:
            lines.append(f"end {span} {sorted(about)}")

    given = dict(keywords)
    drafts = given.pop("drafts", _draft)
    verdict = given.pop("verdict", None)
    judge = None if verdict is None else function("judge", lambda n: verdict)
    agents: Any = [(label, function(label, partial(drafts, at))) for at, label in enumerate(labels)]
    if not labels:
        agents = function("one", lambda n: drafts(n % 3, n // 3))
    call = madke.adebate if awaited else madke.debate
    try:
        result: Any = call("Which lake is the deepest?", agents, judge=judge, tracer=Tracer(), **given)
        result = asyncio.run(result) if awaited else result
    except Exception as error:
        return [*lines, f"raised {type(error).__name__}: {error}"]
    lines += [f"round {entry.round_index}: {entry.drafts}" for entry in result.rounds]
    used = {stage: usage.calls for stage, usage in result.usage.items()}
    return [*lines, f"{result.winner_label}: {result.final!r}, {result.judgment!r}, used {used}"]


def _draft(at: int, n: int) -> str:
    return f" In round {n}, number {at} says {LAKES[at % 3]}. \n"


def _empty(at: int, n: int) -> Any:
    return None if at == 1 else _draft(at, n) if at else ""


def _alike(at: int, n: int) -> str:
    return "The same words." if at else "Some other words."


def _breaking(at: int, n: int) -> Any:
    return RuntimeError("gone") if (at, n) == (1, 1) else _draft(at, n)


_THREE = ("A", "B", "C")
_CALLS: Mapping[str, tuple[Sequence[str], Mapping[str, Any]]] = {
    "one-function": ((), {}),
    "three": (_THREE, {"rounds": 1}),
    "judged": (_THREE, {"verdict": "B: the second is right"}),
    "judged-inside-a-word": (("cat", "dog"), {"verdict": "I prefer concatenation to a dog", "rounds": 1}),
    "judged-badly": (_THREE, {"verdict": "none of them"}),
    "judged-silently": (_THREE, {"verdict": None, "rounds": 0}),
    "same-label": (("A", "A", "B"), {}),
    "reserved-label": (("judge", "B"), {"verdict": "judge: yes"}),
    "personas": (("A", "B"), {"personas": ["You are terse.", ""]}),
    "wrong-personas": (("A", "B"), {"personas": ["You are terse."]}),
    "nobody": ((), {"n_agents_if_single": 0}),
    "no-rounds": (_THREE, {"rounds": -1}),
    "alone": (("A",), {"verdict": "A"}),
    "empty-drafts": (_THREE, {"drafts": _empty}),
    "alike": (_THREE, {"drafts": _alike}),
    "breaking": (_THREE, {"drafts": _breaking}),
}
"""Name -> labels of the agents, and keywords of the call."""
