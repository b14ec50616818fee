"""What a server computes of prompts that begin alike, and how long that takes, with ``prefix`` off and on.

Four protocols are debated on stand-ins of servers (:mod:`eval.benchmarks.cached_servers`) in simulated time, or, with
``--url``, on a real model: ``python -m eval.benchmarks prefixes --url URL --model NAME --slots 4``. A word in titles of
passages makes the prompts of each run new to that server.

*Distinct* are the nodes of a trie over all prompts, *computed* what the server did not report as cached.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.benchmarks.cached_servers import CachedServer, Kind, distinct_tokens, tokens_of
from eval.benchmarks.jumping_loop import at_once
from eval.benchmarks.measure import Setting, generated_corpus, report
from madke._util.assets import asset
from madke._util.files import read_jsonl
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Prefix
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.endpoints.dialect import Dialect
from madke.endpoints.limiter import Limited
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import Limits, OpenAIChat, Retrying, close
from madke.tasks import get_task
from madke.variants import Variant, load_variant

QUESTIONS, QUICK, REAL = 24, 6, 4
VOTES = "rag, 8 votes"
PROTOCOLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    VOTES: ("rag", {"debaters": 8, "finish": "majority"}),
    "madke": ("madke", {}),
    "mad": ("mad", {}),
    "per-document": ("per-document", {}),
}
_PASSAGES, _PER_SOURCE = 10, 5
_REAL_TOKENS = 256
_WORDS = tuple(
    [
        "The",
        "lake",
        "is",
        "deep",
        "and",
        "cold",
        "because",
        "its",
        "water",
        "comes",
        "from",
        "the",
        "ice",
        "of",
        "the",
        "last",
        "age,",
        "as",
        "two",
        "passages",
        "say.",
    ]
)
SERVERS: Mapping[Kind, Mapping[str, float]] = {
    "slots": {"reading": 100.0, "writing": 25.0},
    "blocks": {"reading": 5_000.0, "writing": 60.0, "latency": 0.02},
    "hosted": {"reading": 10_000.0, "writing": 80.0, "latency": 0.3},
    "none": {"reading": 5_000.0, "writing": 60.0, "latency": 0.02},
}
"""Tokens a second and latency: a model of 0.5B on two cores, one on an accelerator, a usual hosted one."""
_MODES: Mapping[Kind, Prefix] = {"hosted": "on"}
"""Where ``auto`` would first wait until cached tokens are reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a server did for one protocol."""

    sent: int
    distinct: int
    computed: int
    seconds: float
    most_cached: float | None = None
    """Share of the tokens that would be cached if the calls came one after the other."""

    @property
    def ratio(self) -> float:
        """Computed tokens for each distinct one."""
        return self.computed / self.distinct

    def __str__(self) -> str:
        return (
            f"{self.sent:,} sent, {self.distinct:,} distinct, {self.computed:,} computed ({self.ratio:.2f} x), "
            f"{self.seconds:,.0f} s"
        )


def main(setting: Setting) -> None:
    """Debate with ``prefix`` off and on, on every stand-in or on the real server."""
    if setting.url is not None:
        questions, pools = _sample(REAL)
        for name in PROTOCOLS:
            off, on = (asyncio.run(_real(setting, name, questions, pools, prefix)) for prefix in ("off", "auto"))
            _report(f"{setting.model}, {setting.slots} at once", "slots", name, off, on)
        return
    questions, pools = _generated(setting, QUICK if setting.quick else QUESTIONS)
    for kind in SERVERS:
        for name in PROTOCOLS:
            off, on = (
                at_once(_simulated(kind, name, questions, pools, prefix))
                for prefix in ("off", _MODES.get(kind, "auto"))
            )
            _report(kind, kind, name, off, on)


def _report(server: str, kind: Kind, protocol: str, off: Served, on: Served) -> None:
    """One line, with the aim for this kind of server, if there is one."""
    aim, met = "", None
    cached = 1 - on.computed / on.sent
    faster = off.seconds / on.seconds
    if kind == "slots" and protocol == VOTES:
        aim, met = "at most 1.1 x distinct, twice as fast", on.ratio <= 1.1 and faster >= 2
    elif kind == "slots" and protocol == "madke":
        aim, met = "at most 1.15 x distinct", on.ratio <= 1.15
    elif kind == "hosted" and protocol in (VOTES, "madke"):
        least = 0.8 if protocol == VOTES else 0.6
        aim, met = f"at least {least:.0%} cached", cached >= least
    elif kind == "none":
        aim, met = "at most 1.03 of the time", on.seconds <= 1.03 * off.seconds
    ratio = on.seconds / off.seconds if kind == "none" else on.computed / off.computed
    most = "" if on.most_cached is None else f" of at most {on.most_cached:.0%}"
    report(f"prefixes, {server}, {protocol}", f"on: {on}, {cached:.0%}{most} cached", f"off: {off}", ratio, aim, met)


# Debates


async def _debates(
    model: ChatModel,
    name: str,
    questions: Sequence[Question],
    pools: Sequence[KnowledgePool],
    *,
    prefix: Prefix,
    concurrency: int,
    max_tokens: int,
) -> None:
    """Debate all questions, ``concurrency`` of them and of their calls at a time."""
    variant = _variant(name, max_tokens)
    limits = Limits(concurrency, prefix=prefix)
    guarded = Retrying(Limited(model, limits.of(model), limits.prefixes_of(model)))
    cast = dict.fromkeys(variant.protocol.roles, guarded)
    left = iter(zip(questions, pools, strict=True))

    async def worker() -> None:
        for question, pool in left:
            task = get_task(question.task)
            await hold_debate(Scene(question, variant.protocol, cast, pool, task=task, prompts=variant))

    await asyncio.gather(*(worker() for _ in range(concurrency)))


def _variant(name: str, max_tokens: int) -> Variant:
    folder, settings = PROTOCOLS[name]
    settings = {**settings, "max_tokens": max_tokens}
    return load_variant(folder).with_settings(settings)


async def _simulated(
    kind: Kind, name: str, questions: Sequence[Question], pools: Sequence[KnowledgePool], prefix: Prefix
) -> Served:
    server = CachedServer(kind=kind, writes=written, **SERVERS[kind])  # type: ignore[arg-type]
    concurrency = 4 if kind == "slots" else 8
    await _debates(server, name, questions, pools, prefix=prefix, concurrency=concurrency, max_tokens=512)
    seconds = asyncio.get_running_loop().time()
    return Served(
        sent=server.sent,
        distinct=server.distinct,
        computed=server.computed,
        seconds=seconds,
        most_cached=server.most_cached if kind == "hosted" else None,
    )


def written(request: ChatRequest) -> str:
    """Some words, and a selection, a verdict or an answer of which no two agree."""
    purpose = request.purpose
    draw = random.Random(f"{purpose.question} {purpose.stage} {purpose.agent} {purpose.round}")
    text = " ".join(draw.choices(_WORDS, k=draw.randint(40, 100)))
    if purpose.stage == "select":
        chosen = draw.choices(range(_PASSAGES), [1 / (1 + n % _PER_SOURCE) for n in range(_PASSAGES)], k=3)
        return f"{text}\nSelected: {', '.join(map(str, sorted(set(chosen))))}"
    if purpose.stage == "judge":
        return f"{text}\nVerdict: DIFFERENT"
    return f"{text}. The answer is {purpose.agent} {purpose.round}."


@dataclass(kw_only=True)
class _Recorded:
    """A real model, and what it was asked."""

    model: OpenAIChat
    calls: list[tuple[tuple[Message, ...], Completion]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name, self.endpoint = self.model.name, self.model.endpoint

    @property
    def dialect(self) -> Dialect:
        return self.model.dialect

    async def complete(self, request: ChatRequest) -> Completion:
        completion = await self.model.complete(request)
        self.calls.append((request.messages, completion))
        return completion


async def _real(
    setting: Setting, name: str, questions: Sequence[Question], pools: Sequence[KnowledgePool], prefix: Prefix
) -> Served:
    # A word that makes the prompts of each run new to the server, however often it runs.
    salt = f"{time.time_ns():x}"
    questions = [Question(id=f"{salt} {each.id}", question=each.question) for each in questions]
    pools = [KnowledgePool(passages=tuple(_salted(passage, salt) for passage in pool.passages)) for pool in pools]
    recorded = _Recorded(model=OpenAIChat(setting.model, base_url=setting.url, needs_key=False))
    started = time.monotonic()
    try:
        await _debates(
            recorded, name, questions, pools, prefix=prefix, concurrency=setting.slots, max_tokens=_REAL_TOKENS
        )
    finally:
        await close(recorded.model)
    seconds = time.monotonic() - started
    prompts = [messages for messages, _ in recorded.calls]
    usage = [completion.usage for _, completion in recorded.calls]
    sent = sum(each.prompt_tokens for each in usage)
    distinct = round(distinct_tokens(prompts) * sent / sum(map(tokens_of, prompts)))
    computed = sum(each.prompt_tokens - each.cached_tokens for each in usage)
    return Served(sent=sent, distinct=distinct, computed=computed, seconds=seconds)


def _salted(passage: Passage, salt: str) -> Passage:
    title = f"{passage.title} {salt}"
    return Passage(source=passage.source, key=passage.key, title=title, text=passage.text, score=1.0, rank=passage.rank)


# Questions and pools


def _generated(setting: Setting, count: int) -> tuple[list[Question], list[KnowledgePool]]:
    """Ten passages of 100 words for each question."""
    passages = [item for _, item in read_jsonl(generated_corpus(setting.folder, count * _PASSAGES))]
    words = str(passages[0]["text"]).split()
    questions = [
        Question(id=str(n), question=f"What does {' '.join(random.Random(n).choices(words, k=9))} mean?")
        for n in range(count)
    ]
    return questions, [_pool(passages[n * _PASSAGES : (n + 1) * _PASSAGES]) for n in range(count)]


def _sample(count: int) -> tuple[list[Question], list[KnowledgePool]]:
    """The first questions of the shipped sample, each with the passages that share most words with it."""
    passages = [item for _, item in read_jsonl(asset("indexes", "sample", "passages.jsonl"))]
    records = [item for _, item in read_jsonl(asset("eval", "samples", "questions.jsonl"))][:count]
    questions = [Question(id=str(item["id"]), question=str(item["question"])) for item in records]
    pools = []
    for question in questions:
        words = set(question.question.casefold().split())
        shared = [len(words & set(f"{each['title']} {each['text']}".casefold().split())) for each in passages]
        best = sorted(range(len(passages)), key=lambda n: -shared[n])[:_PASSAGES]
        pools.append(_pool([passages[n] for n in best]))
    return questions, pools


def _pool(passages: Sequence[Mapping[str, Any]]) -> KnowledgePool:
    return KnowledgePool(
        passages=tuple(
            Passage(source="wiki", key=str(each["id"]), title=each["title"], text=each["text"], score=1.0, rank=rank)
            for rank, each in enumerate(passages)
        )
    )
