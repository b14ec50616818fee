"""One run directory of the server: a protocol with its cast and sources, and the questions that were asked so far.

It is an ordinary run, so ``madke score`` and ``madke report`` read it. Its questions come one by one. Of a client that
has gone, the calls that wait are not made; those under way finish and are stored.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path

from madke._util.files import drop_torn_line, short_hash
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, Stage, call_seed, takes_schemas
from madke.core.errors import CallError, UserError
from madke.core.events import Listener, PoolReady
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.data.questions import id_of
from madke.engine.protocol import hold_debate
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.services import AnswerScorer, service_request
from madke.models.store import CallStore
from madke.retrieval.pools import LiveSearch, PoolLines, depth, pool_of
from madke.retrieval.source import served_by
from madke.runs.directory import RunDirectory, RunFiles, question_hash, read_run, read_transcripts
from madke.runs.meter import Budget, Meter
from madke.runs.request import RunOptions
from madke.runs.runner import debate_services
from madke.runs.spec import RunSpec
from madke.scoring.metrics import question_of
from madke.serve.gate import Refusal

SAVE_SECONDS = 30.0
"""``run.json`` is rewritten with new questions at most this often; after a kill they are taken from the transcripts."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all runs of a server share."""

    options: RunOptions
    budget: Budget
    limits: Limits
    landing: set[asyncio.Task[Completion]] = field(default_factory=set)
    """Calls under way whose clients have gone."""


class ServedRun:
    """An open run below ``out``, created or continued. The question of ``spec`` stands for all."""

    def __init__(self, out: Path, spec: RunSpec, models: Mapping[str, ChatModel], shared: Shared) -> None:
        self.spec, self._shared = spec, shared
        self._knowledge = knowledge = spec.protocol.knowledge
        sources = spec.sources()
        self._search = None
        if knowledge is not None:
            served = {source.name: source.description for source in sources}
            self._search = LiveSearch(served, sources, depth(knowledge))
        live = self._search if knowledge is not None and knowledge.allow_search else None
        record = spec.record.model_copy(
            update={
                "questions": {},
                "models": {role: model.name for role, model in models.items()},
                "sources": {source.name: served_by(source) for source in sources},
                "searched": live.served_by if live else {},
            }
        )
        content = json.dumps(record.model_dump(mode="json"), sort_keys=True).encode()
        self.name = f"{record.variant}-{short_hash(content)[:8]}"
        self._saving: asyncio.TimerHandle | None = None
        with ExitStack() as stack:
            self._directory = stack.enter_context(RunDirectory(out / self.name))
            path = self._directory.path
            if self._directory.has_run:
                before = read_run(path)
                record = record.extend(before).model_copy(update={"repeats": before.repeats})
            self.record = record
            store = stack.enter_context(CallStore(path / "calls.sqlite"))
            files = RunFiles(calls=store.path, pools=path / "pools.jsonl" if knowledge else None)
            self._directory.begin(record, models.values(), files)
            self._directory.resume(shared.options)
            self._hashes = {each.id: question_hash(question_of(each)) for each in read_transcripts(path)}
            drop_torn_line(path / "pools.jsonl")  # of a killed server
            self._pools = PoolLines(path / "pools.jsonl")
            self.meter = Meter(total=0, budget=shared.budget, limits=shared.limits)
            note = self._directory.note_model
            pipeline = CallPipeline(
                limits=shared.limits, meter=self.meter, store=store, note_model=note, sending=_sending
            )
            self._cast = {role: _Leavable(pipeline.model(model), shared.landing) for role, model in models.items()}
            scorer = AnswerScorer(record.answer_scorer) if record.answer_scorer else None
            self._services = debate_services(
                lambda service: _Leavable(pipeline.service(service), shared.landing), live, scorer, knowledge
            )
            self._held = stack.pop_all()

    def question(self, text: str, instructions: str) -> Question:
        """The record of a served question. Without instructions it has the id that :func:`madke.run` gives the text."""
        whole = f"{text}\0{instructions}" if instructions else text
        return Question(id=id_of(whole), question=text, task=self.spec.questions[0].task, instructions=instructions)

    async def debate(
        self, question: Question, repeat: int, listen: Listener, *, deltas: bool
    ) -> tuple[Transcript, KnowledgePool]:
        """Debate a question, or go on with its debate.

        The pool returned is as it was before any debater searched.
        """
        self._directory.check_lock()
        pool = await self._pool(question)
        listen(PoolReady(question=question.id, repeat=repeat, pool=pool))
        scene = self.spec.scene(
            question, self._cast, pool, repeat=repeat, listen=listen, deltas=deltas, **self._services
        )
        transcript = await hold_debate(scene)
        if transcript.status == "failed":
            self.meter.failed += 1
        elif (question.id, repeat) not in self._directory.done:
            self._directory.write(transcript)
            self._hashes[question.id] = question_hash(question)
            self.meter.done += 1
            if self._saving is None:
                self._saving = asyncio.get_running_loop().call_later(SAVE_SECONDS, self._save)
        return transcript, pool

    async def call(
        self,
        name: str,
        messages: tuple[Message, ...],
        max_tokens: int | None = None,
        *,
        question: str = "",
    ) -> Completion:
        """One call outside a debate, to the model that states final answers; Refusal if it fails.

        ``question`` is the user's question, for a stand-in of a language model. The same call again is not paid again.
        """
        role = next((role for role in ("summarizer", "judge") if role in self._cast), next(iter(self._cast)))
        key = id_of(json.dumps([[m.role, m.content] for m in messages]))
        purpose = Purpose(question=key, stage=name, agent=role, round=1)
        limit = min(max_tokens or self.spec.protocol.max_tokens, self.spec.protocol.max_tokens)
        seed = call_seed(self.record.seed, purpose)
        stage = Stage(name=name, question=Question(question=question)) if question else None
        request = ChatRequest(
            messages=messages, purpose=purpose, temperature=0.0, max_tokens=limit, seed=seed, stage=stage
        )
        completion = await self._cast[role].complete(request)
        if completion.outcome != "ok":
            raise Refusal(502, f"the model did not answer: {completion.error}", kind="server_error")
        return completion

    async def close(self) -> None:
        """Complete the session; no call may be under way."""
        with self._held:
            if self._saving is not None:
                self._saving.cancel()
                self._save()
            self._directory.end(self.meter.session(), [])

    async def _pool(self, question: Question) -> KnowledgePool:
        if self._search is None or self._knowledge is None:
            return EMPTY_POOL
        if question.id not in self._pools.hashes:
            request = service_request(Purpose(question=question.id, stage="pool", agent="", round=1), question.question)
            completion = await _Leavable(self._search, self._shared.landing, waits=False).complete(request)
            if completion.outcome != "ok":
                raise UserError(f"the search for knowledge failed: {completion.error}")
            line = completion.text.encode()
            if question.id not in self._pools.hashes:  # an equal question may have been faster
                self._pools.append(question.id, line)
        if (record := self._pools.record(question.id)) is None:
            raise UserError("was replaced or changed; restart the server", file=self._directory.path / "pools.jsonl")
        return pool_of(record, self._knowledge)

    def _save(self) -> None:
        self._saving = None
        repeats = max((repeat + 1 for _, repeat in self._directory.done), default=1)
        pools = {id_: self._pools.hashes[id_] for id_ in self._hashes if id_ in self._pools.hashes}
        grown = {"questions": self._hashes, "pools": pools, "repeats": repeats}
        self._directory.extend(self.record.model_copy(update=grown))


@dataclass(slots=True)
class _Call:
    sent: bool = False
    """Whether it is under way. Before that it waits: for the limiter, for the next attempt, or for an equal call."""
    left: bool = False
    """Whether its client has gone."""


_CALL: ContextVar[_Call] = ContextVar("call")


class _Leavable:
    """A model, as debates see it: outside of call store, retries and limiter. Its calls under way finish.

    ``landing`` gets those whose clients have gone. Without ``waits`` calls are sent at once.
    """

    def __init__(self, model: ChatModel, landing: set[asyncio.Task[Completion]], *, waits: bool = True) -> None:
        self.name = model.name
        self.takes_schemas = takes_schemas(model)
        self._model = model
        self._landing = landing
        self._waits = waits

    async def complete(self, request: ChatRequest) -> Completion:
        """Forward the request. If the debate is cancelled, a call that was sent still finishes."""
        call, context = _Call(sent=not self._waits), copy_context()
        context.run(_CALL.set, call)
        task = asyncio.get_running_loop().create_task(self._model.complete(request), context=context)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call.left = True
            self._landing.add(task)
            task.add_done_callback(self._on_done)
            if not call.sent:
                task.cancel()
            raise

    def _on_done(self, task: asyncio.Task[Completion]) -> None:
        self._landing.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it


@contextmanager
def _sending() -> Iterator[None]:
    """Around each attempt of a call: the request is sent, and from now on it finishes."""
    call = _CALL.get()
    call.sent = True
    try:
        yield
    except CallError:
        call.sent = False
        if call.left:  # there is no next attempt for a client that has gone
            raise asyncio.CancelledError from None
        raise
