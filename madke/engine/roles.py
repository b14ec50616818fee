"""The roles: a template in, a parsed reply out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Protocol as TypingProtocol

from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Final, Selection, StageUsage, Stance, Verdict
from madke.engine.parse import parse_answer, parse_selection, parse_verdict, without_reasoning
from madke.engine.protocol import Debater, Protocol
from madke.engine.seeds import call_seed
from madke.engine.view import Spoken, View
from madke.tasks.base import Task


class Prompts(TypingProtocol):
    """The templates of a variant. :class:`madke.variants.Variant` is one."""

    def render(self, stage: str, task: str, values: Mapping[str, Any]) -> tuple[Message, ...]:
        """The messages of a stage, for a task, with the stage's values filled in."""
        ...


STAGE_VALUES: Mapping[str, frozenset[str]] = {
    stage: frozenset({"question", "options", "task", "round", "rounds"}) | values
    for stage, values in {
        "select": {"persona", "knowledge", "max_selected", "own"},
        "speak": {"persona", "knowledge", "own", "peers"},
        "reply": {"persona", "knowledge", "own", "peers"},
        "judge": {"stances"},
        "summarize": {"stances"},
    }.items()
}
"""What the template of each stage may use; a template that names anything else is refused."""

Cast = Mapping[str, ChatModel]
"""Which model plays each of :attr:`Protocol.roles`."""


@dataclass(kw_only=True, slots=True)
class Scene:
    """What every call of one debate shares, and the running account of what the calls used."""

    question: Question
    task: Task
    protocol: Protocol
    prompts: Prompts
    cast: Cast
    pool: KnowledgePool
    repeat: int = 0
    seed: int | None = None
    usage: dict[str, StageUsage] = field(default_factory=dict)

    async def select(self, debater: Debater, round_n: int, view: View) -> Selection:
        """Ask a debater which knowledge it wants. Eq. 2: question, pool, its own stance; never the peers'."""
        knowledge = self.protocol.knowledge
        limit = knowledge.max_selected if knowledge else 0
        size = len(self.pool.passages)
        values = {"knowledge": self.numbered(range(size)), "max_selected": limit, "own": view.own}
        completion = await self._ask_debater("select", debater, round_n, values)
        if completion.error is not None:
            return Selection(status="failed", text=completion.text, error=completion.error)
        parsed = parse_selection(completion.text, size=size, limit=limit)
        chosen = parsed.value
        return Selection(
            ids=chosen.ids,
            dropped=chosen.dropped,
            status=parsed.status,
            rule=parsed.rule,
            text=completion.text,
        )

    async def speak(self, debater: Debater, round_n: int, ids: Sequence[int], view: View) -> Stance:
        """Let a debater speak, with the knowledge it chose. Eq. 3 in round 1; Eq. 4 as a reply to what it sees."""
        stage = "reply" if view.peers or view.own is not None else "speak"
        values = {"knowledge": self.numbered(ids), "own": view.own, "peers": view.peers}
        completion = await self._ask_debater(stage, debater, round_n, values)
        if completion.error is not None:
            return Stance(stage=stage, status="failed", text=completion.text, error=completion.error)
        parsed = parse_answer(completion.text, self._read)
        return Stance(stage=stage, text=completion.text, answer=parsed.value, status=parsed.status, rule=parsed.rule)

    async def judge(self, round_n: int, stances: tuple[Spoken, ...]) -> Verdict:
        """Ask the judge whether the stances agree (Eq. 5). It sees no pool."""
        completion = await self._call("judge", "judge", round_n, {"stances": stances})
        if completion.error is not None:
            return Verdict(consensus=None, text=completion.text, error=completion.error)
        parsed = parse_verdict(completion.text)
        return Verdict(consensus=parsed.value, text=completion.text, rule=parsed.rule)

    async def summarize(self, round_n: int, stances: tuple[Spoken, ...]) -> Final:
        """Ask the summarizer for the final answer of the stances (Eq. 6). It sees no pool."""
        completion = await self._call("summarize", "summarizer", round_n, {"stances": stances})
        if completion.error is not None:
            return Final(by="summarizer", status="failed", text=completion.text, error=completion.error)
        parsed = parse_answer(completion.text, self._read)
        return Final(by="summarizer", text=completion.text, answer=parsed.value, status=parsed.status, rule=parsed.rule)

    def numbered(self, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
        """(number, title, text) of pool passages. White space is folded: a passage is one line of a prompt."""
        passages = self.pool.passages
        return [(n, " ".join(passages[n].title.split()), " ".join(passages[n].text.split())) for n in numbers]

    def _read(self, raw: str) -> str | None:
        return self.task.read(raw, self.question)

    async def _ask_debater(self, stage: str, debater: Debater, round_n: int, values: Mapping[str, Any]) -> Completion:
        values = {**values, "persona": debater.persona}
        return await self._call(stage, debater.name, round_n, values, temperature=debater.temperature)

    async def _call(
        self, stage: str, agent: str, round_n: int, values: Mapping[str, Any], *, temperature: float | None = None
    ) -> Completion:
        shared = {"question": self.question, "round": round_n, "rounds": self.protocol.rounds}
        purpose = Purpose(question=self.question.id, stage=stage, agent=agent, round=round_n, repeat=self.repeat)
        request = ChatRequest(
            messages=self.prompts.render(stage, self.task.name, {**shared, **values}),
            purpose=purpose,
            temperature=self.protocol.temperature if temperature is None else temperature,
            max_tokens=self.protocol.max_tokens,
            stop=self.protocol.stop_strings,
            seed=call_seed(self.seed, purpose),
        )
        completion = await self.cast[agent].complete(request)
        self.usage[stage] = _added(self.usage.get(stage, StageUsage()), completion)
        # What a role makes of it is what was said: no hidden reasoning, no characters that cannot be written.
        error = completion.error or (None if completion.outcome == "ok" else completion.outcome)
        said = _writable(without_reasoning(completion.text))
        return replace(completion, text=said, error=error and _writable(error))


def _writable(text: str) -> str:
    """The text with ``?`` for half surrogate pairs, which models emit and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _added(total: StageUsage, completion: Completion) -> StageUsage:
    used = completion.usage
    return StageUsage(
        calls=total.calls + 1,
        paid=total.paid + completion.paid,
        failed=total.failed + (completion.outcome != "ok"),
        retries=total.retries + max(0, completion.attempts - 1),
        prompt_tokens=total.prompt_tokens + used.prompt_tokens,
        cached_tokens=total.cached_tokens + used.cached_tokens,
        completion_tokens=total.completion_tokens + used.completion_tokens,
        reasoning_tokens=total.reasoning_tokens + used.reasoning_tokens,
        estimated=total.estimated + used.estimated,
        seconds=total.seconds + completion.seconds,
    )
