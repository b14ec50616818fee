"""One question: :func:`ask`, :func:`aask` and :func:`stream`."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from madke._util.concurrency import finished, told
from madke.core.chat import FLAGS, ChatModel, Usage, fields_of
from madke.core.events import DebateFinished, Event, Listener, PoolReady, silent
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.protocol import hold_debate
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer
from madke.retrieval.pools import depth, pool_of, retrieve
from madke.runs.request import DEFAULTS, RunOptions, requested, takes_request
from madke.runs.runner import debate_services, from_thread, live_search
from madke.runs.spec import RunSpec, resolve


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Debate:
    """The finished debate of one question."""

    transcript: Transcript

    def __repr__(self) -> str:
        why = f", error={self.error!r}" if self.error else ""
        return f"Debate({self.answer!r}, {self.transcript.status}, {len(self.transcript.rounds)} rounds{why})"

    @property
    def answer(self) -> str | None:
        """The final answer; None if the debate failed or abstained (``transcript.status``)."""
        return self.transcript.answer

    @property
    def error(self) -> str | None:
        """Why the debate failed; None if it did not."""
        return self.transcript.final.error

    @property
    def usage(self) -> Usage:
        """The tokens of all calls."""
        used = self.transcript.total
        counts = {name: getattr(used, name) for name in fields_of(Usage())}
        return Usage(**counts | {name: counts[name] > 0 for name in FLAGS})


AnyQuestion = str | Question | Mapping[str, Any]
"""A question: its text, or a record or mapping with choices or gold answers."""


@takes_request("ask")
def ask(question: AnyQuestion, *, choices: Sequence[str] = (), options: RunOptions = DEFAULTS, **asked: Any) -> Debate:
    """Debate one question; see :func:`stream` for the arguments. Also works inside a running event loop."""
    return finished(aask(question, choices=choices, options=options, **asked))


@takes_request("ask")
async def aask(
    question: AnyQuestion, *, choices: Sequence[str] = (), options: RunOptions = DEFAULTS, **asked: Any
) -> Debate:
    """Debate one question; see :func:`stream` for the arguments."""
    # To the end of the stream, where models and sources are closed.
    events = [event async for event in stream(question, choices=choices, options=options, **asked)]
    (transcript,) = (event.transcript for event in events if isinstance(event, DebateFinished))
    return Debate(transcript=transcript)


@takes_request("ask")
def stream(
    question: AnyQuestion,
    *,
    choices: Sequence[str] = (),
    deltas: bool = False,
    options: RunOptions = DEFAULTS,
    **asked: Any,
) -> AsyncGenerator[Event, None]:
    """Debate one question and yield its events.

    Nothing is written to disk. Leaving the loop early cancels the debate.

    Args:
        question: Its text, or a record or mapping with choices or gold answers.
        choices: The options of a multiple-choice question.
        deltas: Whether to yield :class:`madke.events.CallDelta` too, the parts of replies that a server streams.
        options: Only ``base_url`` and ``concurrency`` are used.
        asked: Fields of :class:`madke.RunRequest`, such as ``protocol``, ``model`` and ``sources``; the signature that
            ``help(madke.ask)`` shows has all of them.

    Yields:
        :class:`madke.events.PoolReady`, the debate's events, and last :class:`madke.events.DebateFinished`.

    Raises:
        UserError: An input is missing or invalid.
    """
    record: Question | Mapping[str, Any] = {"question": question} if isinstance(question, str) else question
    if choices:
        own = tuple(choices)
        record = replace(record, choices=own) if isinstance(record, Question) else {**record, "choices": own}
    return events_of(resolve(requested([record], asked)), options, deltas=deltas)


async def events_of(spec: RunSpec, options: RunOptions, *, deltas: bool = False) -> AsyncGenerator[Event, None]:
    """Yield the events of a spec with one question; with ``deltas``, the parts of streamed replies too."""
    async with aclosing(told(partial(_run_debate, spec, options, deltas))) as events:
        async for event in events:
            if event is not None:
                yield event


async def _run_debate(spec: RunSpec, options: RunOptions, deltas: bool, tell: Listener) -> None:
    models = spec.open_models(options)
    try:
        await debated(spec, models, options, tell, deltas=deltas)
    finally:
        await spec.close_models(models)
        await asyncio.to_thread(spec.close)


async def debated(
    spec: RunSpec,
    models: Mapping[str, ChatModel],
    options: RunOptions,
    tell: Listener = silent,
    *,
    deltas: bool = False,
    repeat: int = 0,
) -> Transcript:
    """Hold the debate of a spec with one question; ``models`` has one for each role. Closes nothing."""
    (question,) = spec.questions
    answer_scorer = AnswerScorer(spec.record.answer_scorer) if spec.record.answer_scorer is not None else None
    limits = Limits(options.concurrency, interactive=True)
    pipeline = CallPipeline(limits=limits)
    pool = await _pool(spec, from_thread(tell))
    live = live_search(spec)
    tell(PoolReady(question=question.id, pool=pool))
    cast = {role: pipeline.model(model) for role, model in models.items()}
    services = debate_services(lambda service: service, live, answer_scorer, spec.protocol.knowledge)
    scene = spec.scene(question, cast, pool, repeat=repeat, listen=tell, deltas=deltas, **services)
    return await hold_debate(scene)


async def _pool(spec: RunSpec, listen: Listener) -> KnowledgePool:
    knowledge = spec.protocol.knowledge
    if knowledge is None:
        return EMPTY_POOL
    k = depth(knowledge)
    (record,) = await asyncio.to_thread(lambda: retrieve(spec.questions, spec.sources(listen), k))
    return pool_of(record, knowledge)
