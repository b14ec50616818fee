"""Completion functions with a script, and what a debate over them came to, in ours and in the published package."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Script:
    """Completions by call number, whoever calls: texts, None, or exceptions to raise; "..." when they run out."""

    replies: Sequence[Any]
    calls: list[tuple[str, list[dict[str, str]]]] = field(default_factory=list)
    """(Who was asked, the messages), in the order of the calls."""

    def role(self, name: str) -> Any:
        """A completion function for one role."""

        def complete(messages: list[dict[str, str]]) -> Any:
            self.calls.append((name, messages))
            n = len(self.calls)
            reply = self.replies[n - 1] if n <= len(self.replies) else "..."
            if isinstance(reply, BaseException):
                raise reply
            return reply

        return complete

    @property
    def asked(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def prompts(self) -> list[str]:
        return ["\n".join(message["content"] for message in messages) for _, messages in self.calls]


class Spans:
    """A tracer that writes everything down."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Any, dict[str, Any]]] = []

    def start_span(self, name: str, **attrs: Any) -> str:
        self.lines.append(("start", name, attrs))
        return name

    def end_span(self, span: str, **attrs: Any) -> None:
        self.lines.append(("end", span, attrs))

    def emit_event(self, name: str, **attrs: Any) -> None:
        self.lines.append(("event", name, attrs))


@dataclass(frozen=True)
class Outcome:
    """What can be compared: the result's fields of the published package, or the error; who was asked; the spans."""

    result: Any
    asked: list[str]
    roles: list[list[str]]
    spans: list[Any]


def run(
    debate: Any, replies: Sequence[Any], labels: Sequence[str] | None, *, judged: bool, **arguments: Any
) -> tuple[Outcome, Script]:
    """Debate over a script.

    Args:
        debate: ``madke.debate`` or ``lemmas.debate``.
        replies: The script.
        labels: The agents' labels; None for a single function.
        judged: Whether a judge picks.
        **arguments: The call's other arguments.
    """
    script, spans = Script(replies), Spans()
    agents = script.role("only") if labels is None else [(x, script.role(f"{n} {x}")) for n, x in enumerate(labels)]
    judge = script.role("judge") if judged else None
    try:
        found = debate("Why?", agents, judge=judge, tracer=spans, **arguments)
        rounds = [(entry.round_index, list(entry.drafts.items())) for entry in found.rounds]
        result: Any = (found.final, found.winner_label, rounds, found.judgment)
    except Exception as raised:
        result = (type(raised), str(raised))
    roles = [[message["role"] for message in messages] for _, messages in script.calls]
    return Outcome(result=result, asked=script.asked, roles=roles, spans=spans.lines), script
