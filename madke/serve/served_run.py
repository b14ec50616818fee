"""One run directory of the server: a protocol with its cast and sources, and the questions that were asked so far.

It is an ordinary run, so ``madke score`` and ``madke report`` read it. Its questions come one by one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, call_seed
from madke.core.errors import UserError
from madke.core.events import Listener, PoolReady
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Source
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.protocol import RETRIEVER
from madke.knowledge.asking import served_by
from madke.knowledge.pool_file import record_from_json, record_to_json
from madke.knowledge.pools import pool_of
from madke.llm import CallStore, Limited, Limiter, Limits, Retrying, Stored, close
from madke.llm.endpoints import endpoints_of
from madke.runs.cast import AnswerScorer, LiveSearch, answer_scoring, searching
from madke.runs.directory import RunDirectory, read_transcripts
from madke.runs.job import Job
from madke.runs.meter import Budget, Meter, Metered
from madke.runs.options import RunOptions
from madke.runs.pool_stages import LLM, LOCAL, SEARCH, PoolStages, open_rerankers, staged
from madke.runs.run_json import RunFiles, read_spec
from madke.runs.run_pools import PoolLines, depth
from madke.runs.runner import live_search
from madke.runs.spec import RunSpec, question_hash, short_hash
from madke.serve.landing import Leavable, Sent

SAVE_SECONDS = 30.0
"""``run.json`` is rewritten with new questions at most this often; after a kill they are taken from the transcripts."""


_POOLS = "pools.jsonl"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all runs of a server share."""

    options: RunOptions
    budget: Budget
    limits: Limits
    """Of model calls."""
    services: Limiter
    """Of searches and answer scoring."""


def question_id(text: str, instructions: str) -> str:
    """The id of a served question. Without instructions it is the id that :func:`madke.run` gives the text."""
    whole = f"{text}\0{instructions}" if instructions else text
    return sha256(whole.encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(kw_only=True)
class ServedRun:
    """An open run. Make one with :meth:`opened`."""

    name: str
    job: Job
    shared: Shared
    models: Mapping[str, ChatModel]
    """Role -> model, as opened."""
    directory: RunDirectory
    store: CallStore
    spec: RunSpec
    meter: Meter = field(init=False)
    _searches: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Question id -> the search for its pool."""
    _hashes: dict[str, str] = field(default_factory=dict)
    """Question id -> hash, for the questions with a transcript."""
    _saving: asyncio.TimerHandle | None = None

    @classmethod
    async def opened(
        cls, out: Path, job: Job, models: Mapping[str, ChatModel], shared: Shared, sources: Sequence[Source]
    ) -> ServedRun:
        """Open or create the run below ``out``; ``sources`` are those of the job."""
        live = live_search(job)
        spec = job.spec.model_copy(
            update={
                "questions": {},
                "models": {role: model.name for role, model in models.items()},
                "sources": {source.name: served_by(source) for source in sources},
                "searched": live.served_by if live else {},
            }
        )
        name = f"{spec.variant}-{short_hash(json.dumps(spec.model_dump(mode='json'), sort_keys=True).encode())[:8]}"
        directory = RunDirectory(out / name)
        directory.__enter__()
        try:
            run = cls(
                name=name,
                job=job,
                shared=shared,
                models=models,
                directory=directory,
                store=CallStore(directory.path / "calls.sqlite"),
                spec=_grown(spec, directory.path) if directory.begun else spec,
            )
            run._begin(sources, live)
        except BaseException as error:
            directory.__exit__(type(error), error, None)
            raise
        return run

    def __post_init__(self) -> None:
        self.meter = Meter(total=0, budget=self.shared.budget, limiter=self.shared.limits)

    def _begin(self, sources: Sequence[Source], live: LiveSearch | None) -> None:
        path, knowledge = self.directory.path, self.job.protocol.knowledge
        files = RunFiles(calls=self.store.path, pools=path / _POOLS if knowledge else None)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.directory.begin(self.spec, endpoints_of(self.models.values()), files, started)
        self.directory.resume(self.shared.options)
        self._hashes = {
            **self.spec.questions,
            **{
                transcript.id: question_hash(asked_in(transcript))
                for transcript in (read_transcripts(path) if self.directory.done else ())
                if transcript.id not in self.spec.questions
            },
        }
        self._pools = _pool_lines(path / _POOLS)
        self._cast = {role: self._guarded(model) for role, model in self.models.items()}
        self._replayed = {role: Stored(model, self.store, replay=True) for role, model in self.models.items()}
        self._search: LiveSearch | None = None
        if knowledge is not None:
            served = {source.name: source.description for source in sources}
            self._search = LiveSearch(served, sources, depth(knowledge))
        self._open_stages()
        self._services: dict[str, Any] = {}
        if live is not None and knowledge is not None:
            self._services["retrieve"] = searching(self._service(live), knowledge)
        if self.job.spec.answer_scorer is not None:
            scorer = self._service(AnswerScorer(self.job.spec.answer_scorer))
            self._services["score_answers"] = answer_scoring(scorer)

    def _open_stages(self) -> None:
        wanted = staged(self.job.protocol.knowledge)
        self._rerankers = open_rerankers(wanted, self.shared.options)
        models = {
            name: self._service(model) if name.startswith(LOCAL) else self._guarded(model)
            for name, model in self._rerankers.items()
        }
        if self._search is not None:
            models[SEARCH] = self._service(self._search)
        if RETRIEVER in self._cast:
            models[LLM] = self._cast[RETRIEVER]
        self._stages = PoolStages(wanted=wanted, models=models, seed=self.spec.seed)

    def question(self, text: str, instructions: str) -> Question:
        """The question record of a served question."""
        asked = self.job.questions[0]
        return Question(id=question_id(text, instructions), question=text, task=asked.task, instructions=instructions)

    async def debate(
        self,
        question: Question,
        repeat: int,
        listen: Listener,
        *,
        deltas: bool = False,
        cast: Mapping[str, ChatModel] | None = None,
    ) -> tuple[Transcript, KnowledgePool]:
        """Debate a question, or go on with its debate; under :class:`madke.serve.landing.Landings`.

        Args:
            question: From :meth:`question`.
            repeat: 0-based.
            listen: Gets the events.
            deltas: Whether it also gets the parts of streamed replies.
            cast: Role -> model of this debate alone, such as a person at a page.

        Returns:
            The transcript, and the pool as it was before any debater searched.
        """
        self.directory.check_lock()
        pool = await self._pool(question)
        listen(PoolReady(question=question.id, repeat=repeat, pool=pool))
        done = (question.id, repeat) in self.directory.done
        models = self._replayed if done else self._cast
        own = {} if done else {role: Leavable(self._recorded(model)) for role, model in (cast or {}).items()}
        transcript = await self.job.debated(
            question, {**models, **own}, pool, repeat=repeat, listen=listen, deltas=deltas, **self._services
        )
        if transcript.status != "failed" and (question.id, repeat) not in self.directory.done:
            self.directory.write(transcript)
            self._hashes[question.id] = question_hash(question)
            self.meter.done += 1
            self._save_soon()
        self.meter.failed += transcript.status == "failed"
        return transcript, pool

    async def call(self, stage: str, messages: tuple[Message, ...], max_tokens: int | None = None) -> Completion:
        """One call outside a debate, to the model that states final answers; the same call again is not paid again."""
        role = next((role for role in ("summarizer", "judge") if role in self._cast), next(iter(self._cast)))
        asked = sha256(json.dumps([[m.role, m.content] for m in messages]).encode()).hexdigest()[:12]
        purpose = Purpose(question=asked, stage=stage, agent=role, round=1)
        limit = min(max_tokens or self.job.protocol.max_tokens, self.job.protocol.max_tokens)
        seed = call_seed(self.spec.seed, purpose)
        request = ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=limit, seed=seed)
        return await self._cast[role].complete(request)

    async def close(self) -> None:
        """Complete the session; no call may be under way."""
        for search in self._searches.values():
            search.cancel()
        if self._saving is not None:
            self._saving.cancel()
            self._save()
        for model in self._rerankers.values():
            await close(model)
        self.store.close()
        self.directory.end(self.meter.session(), [], endpoints_of(self.models.values()))
        self.directory.__exit__(None, None, None)

    async def _pool(self, question: Question) -> KnowledgePool:
        knowledge = self.job.protocol.knowledge
        if self._search is None or knowledge is None:
            return EMPTY_POOL
        if question.id not in self._pools.hashes:
            if question.id not in self._searches:
                # A search is not cancelled: its pool is kept for the client's next try.
                self._searches[question.id] = asyncio.create_task(self._searched(self._search, question))
            await asyncio.shield(self._searches[question.id])
        if (record := self._pools.record(question.id)) is None:
            raise UserError("was replaced or changed; restart the server", file=self.directory.path / _POOLS)
        return pool_of(record, knowledge)

    async def _searched(self, search: ChatModel, question: Question) -> None:
        purpose = Purpose(question=question.id, stage="pool", agent="", round=1)
        messages = (Message(role="user", content=question.question),)
        request = ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=0)
        try:
            completion = await search.complete(request)
            if completion.outcome != "ok":
                raise UserError(f"the search for knowledge failed: {completion.error}")
            line = record_to_json(await self._stages.add(record_from_json(completion.text)))
        finally:
            del self._searches[question.id]
        self._pools.append(question.id, line)

    def _guarded(self, model: ChatModel) -> ChatModel:
        """As :func:`madke.runs.cast.guarded`, but calls under way finish when their client has gone."""
        limited = Limited(Sent(model), self.shared.limits.of(model))
        return Leavable(self._recorded(Retrying(limited, on_event=self.meter.count_retry)))

    def _recorded(self, model: ChatModel) -> ChatModel:
        return Stored(Metered(model, self.meter), self.store)

    def _service(self, service: ChatModel) -> ChatModel:
        limited = Limited(Sent(service), self.shared.services)
        return Leavable(Stored(Metered(limited, self.meter, service=True), self.store))

    def _save_soon(self) -> None:
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_SECONDS, self._save)

    def _save(self) -> None:
        self._saving = None
        repeats = max((repeat + 1 for _, repeat in self.directory.done), default=1)
        pools = {id_: self._pools.hashes[id_] for id_ in self._hashes if id_ in self._pools.hashes}
        grown = {"questions": self._hashes, "pools": pools, "repeats": repeats}
        self.spec = self.spec.model_copy(update=grown)
        self.directory.extend(self.spec)


def _pool_lines(file: Path) -> PoolLines:
    """The pools of a run; an incomplete last line, of a killed server, is dropped."""
    with file.open("a+b") as opened:
        opened.seek(0)
        opened.truncate(opened.read().rfind(b"\n") + 1)
    return PoolLines(file)


def _grown(spec: RunSpec, path: Path) -> RunSpec:
    """The description with the questions that the directory holds."""
    before = read_spec(path)
    return spec.model_copy(update={name: getattr(before, name) for name in ("questions", "pools", "repeats")})


def asked_in(transcript: Transcript) -> Question:
    """The question of a transcript."""
    return Question(**{each.name: getattr(transcript, each.name) for each in fields(Question)})


def with_sources(job: Job, opened: Mapping[str, Source]) -> Job:
    """The job with sources that other runs have opened; the job does not close them."""
    return replace(job, own_sources={name: opened[name] for name in job.spec.source_specs})
