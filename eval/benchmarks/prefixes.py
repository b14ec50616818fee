"""Prompt tokens that a server computes where prompts begin alike, with ``prefix`` off and on, in simulated time.

Votes and debates are played on stand-ins of servers (:mod:`eval.benchmarks.cached_servers`). *Distinct* are the nodes
of a trie over all prompts, *computed* those that the server did not report as cached.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.benchmarks.cached_servers import CachedServer, Kind
from eval.benchmarks.jumping_loop import at_once
from eval.benchmarks.measure import Setting, generated_corpus, report
from madke._util.files import read_jsonl
from madke.core.chat import ChatRequest, Prefix
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.tasks import get_task

VOTES = "rag, 8 votes"
PROTOCOLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    VOTES: ("rag", {"function": "vote", "debaters": 8}),
    "madke": ("madke", {}),
}
_PASSAGES, _PER_SOURCE = 10, 5
_TEXT = "The lake is deep and cold because its water comes from the ice of the last age, as two passages say."
SERVERS: Mapping[Kind, Mapping[str, float]] = {
    "slots": {"reading": 100.0, "writing": 25.0},
    "hosted": {"reading": 10_000.0, "writing": 80.0, "latency": 0.3},
}
"""Tokens a second and latency: a model of 0.5B on two cores, and a usual hosted one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a server did for one protocol."""

    sent: int
    distinct: int
    computed: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.sent:,} sent, {self.distinct:,} distinct, {self.computed:,} computed "
            f"({self.computed / self.distinct:.2f} x), {self.seconds:,.0f} s"
        )


def prefixes(setting: Setting) -> None:
    """Debate with ``prefix`` off and on, on every stand-in."""
    questions, pools = _generated(setting, 6 if setting.quick else 24)
    for kind in SERVERS:
        # A hosted endpoint must report cached tokens before ``auto`` waits for them.
        modes: tuple[Prefix, Prefix] = ("off", "on" if kind == "hosted" else "auto")
        for name in PROTOCOLS:
            off, on = (at_once(_simulated(kind, name, questions, pools, mode)) for mode in modes)
            aim, met = _AIMS[kind, name], on.computed <= _MOST[kind, name] * on.distinct
            report(f"prefixes, {kind}, {name}", f"on: {on}", f"off: {off}", on.computed / off.computed, aim, met)


_MOST: Mapping[tuple[str, str], float] = {
    ("slots", VOTES): 1.1,
    ("slots", "madke"): 1.15,
    ("hosted", VOTES): 1.6,
    ("hosted", "madke"): 1.4,
}
"""Most computed tokens for each distinct one. A hosted endpoint keeps only prompts of 1,024 tokens, in steps of 128."""
_AIMS = {place: f"at most {most:g} x distinct" for place, most in _MOST.items()}


async def _simulated(
    kind: Kind, name: str, questions: Sequence[Question], pools: Sequence[KnowledgePool], prefix: Prefix
) -> Served:
    """Debate all questions, as many of them and of their calls at a time as the server takes."""
    server = CachedServer(kind=kind, writes=written, prefix=prefix, **SERVERS[kind])  # type: ignore[arg-type]
    concurrency = 4 if kind == "slots" else 8
    folder, settings = PROTOCOLS[name]
    variant = load_variant(folder).with_settings({**settings, "max_tokens": 512})
    piped = CallPipeline(limits=Limits(concurrency)).model(server)
    cast = dict.fromkeys(variant.protocol.roles, piped)
    left = iter(zip(questions, pools, strict=True))

    async def worker() -> None:
        for question, pool in left:
            task = get_task(question.task)
            await hold_debate(Scene(question, variant.protocol, cast, pool, task=task, prompts=variant))

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    seconds = asyncio.get_running_loop().time()
    return Served(sent=server.sent, distinct=server.distinct, computed=server.computed, seconds=seconds)


def written(request: ChatRequest) -> str:
    """Some words, and a selection, a verdict or an answer of which no two agree."""
    purpose = request.purpose
    draw = random.Random(f"{purpose.question} {purpose.stage} {purpose.agent} {purpose.round}")
    text = " ".join(draw.choices(_TEXT.split(), k=draw.randint(40, 100)))
    if purpose.stage == "select":
        chosen = draw.choices(range(_PASSAGES), [1 / (1 + n % _PER_SOURCE) for n in range(_PASSAGES)], k=3)
        return f"{text}\nSelected: {', '.join(map(str, sorted(set(chosen))))}"
    if purpose.stage == "judge":
        return f"{text}\nVerdict: DIFFERENT"
    return f"{text}. The answer is {purpose.agent} {purpose.round}."


def _generated(setting: Setting, count: int) -> tuple[list[Question], list[KnowledgePool]]:
    """Ten passages of 100 words for each question."""
    passages = [item for _, item in read_jsonl(generated_corpus(setting.folder, count * _PASSAGES))]
    words = str(passages[0]["text"]).split()
    questions = [
        Question(id=str(n), question=f"What does {' '.join(random.Random(n).choices(words, k=9))} mean?")
        for n in range(count)
    ]
    return questions, [_pool(passages[n * _PASSAGES : (n + 1) * _PASSAGES]) for n in range(count)]


def _pool(passages: Sequence[Mapping[str, Any]]) -> KnowledgePool:
    return KnowledgePool(
        passages=tuple(
            Passage(source="wiki", key=str(each["id"]), title=each["title"], text=each["text"], score=1.0, rank=rank)
            for rank, each in enumerate(passages)
        )
    )
