"""The services of a run: models behind store, retries and limiter; live sources; scorers of answers and passages.

Sources and scorers are :class:`madke.core.chat.ChatModel` objects here. The call store keeps their replies like
those of models, so resume and replay need neither a network nor a scorer's program.
"""

import asyncio
import json
import logging
import resource
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from madke._util.assets import require
from madke._util.command_scorer import CommandScorer, Item
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Hits, Source
from madke.core.question import Question
from madke.encoding.encoders import loading, revision_of
from madke.endpoints.endpoint import Models, probe, refuse_two_addresses
from madke.engine.protocol import Knowledge, Protocol, role_key
from madke.engine.scene import Retrieve, ScoreAnswers
from madke.llm import CallStore, Limited, Limits, Retrying, Stored, open_model
from madke.llm.batching import Batching
from madke.llm.models import MODEL_FORMS, WITH_ENDPOINT, kind_of, names_code
from madke.pools.building import pool_of, retrieve
from madke.pools.pool_file import PoolRecord, record_from_json, record_to_json
from madke.runs.meter import Meter, Metered

SERVICE_STAGES = ("search", "score")
"""Stages whose calls go to a service, not to a model, and cost nothing."""

_OTHER_FILES = 256
"""Upper bound on open files other than connections: indexes, the call store, libraries."""

_BATCH = 32
"""Pairs that a cross-encoder scores at once."""

_log = logging.getLogger(__name__)


def role_models(protocol: Protocol, model: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Role -> name of its model: from ``overrides``, else from the protocol, else ``model``.

    Roles match regardless of case, spaces, hyphens and underscores: ``debater-1`` is ``Debater 1``. A protocol that
    names code (``module:object``) is refused, since a prompt folder may come from an untrusted source.
    """
    for debater in protocol.cast:
        if debater.model and names_code(debater.model):
            raise UserError(
                f"the protocol names code as the model of {debater.name}, {debater.model!r}; if you trust it, remove "
                f"it from the protocol and pass --cast {role_key(debater.name)}={debater.model}"
            )
    own = {debater.name: debater.model for debater in protocol.cast if debater.model}
    names = {role: own.get(role, model) for role in protocol.roles}
    by_key = {role_key(role): role for role in protocol.roles}
    for role, name in overrides.items():
        if role_key(role) not in by_key:
            raise unknown("role", role, protocol.roles)
        names[by_key[role_key(role)]] = name
    return names


def has_endpoint(name: str) -> bool:
    """Whether the model may take a base URL; true also for models from ``models.yaml`` and plugins."""
    return kind_of(name) in WITH_ENDPOINT or kind_of(name) not in MODEL_FORMS


def open_models(
    names: Mapping[str, str],
    *,
    base_url: str | None = None,
    replay: bool = False,
    models: Models | None = None,
    probed: bool = True,
) -> dict[str, ChatModel]:
    """Role -> model; roles with the same model name share a model. Close each with :func:`madke.llm.close`.

    Under ``replay`` models are not called and need no endpoint and no key. Otherwise endpoints are probed, unless
    ``probed`` is False, so that an unreachable one is detected before any cost.
    """
    opened: dict[str, ChatModel] = {}
    remote = [name for name in names.values() if has_endpoint(name)]
    if base_url is not None and not remote:
        given = ", ".join(names.values())
        raise UserError(f"--base-url is for openai/NAME and azure/DEPLOYMENT, but the models are {given}")
    for name in names.values():
        if name not in opened:
            opened[name] = open_model(name, base_url=base_url if name in remote else None, replay=replay, models=models)
    refuse_two_addresses(opened.values())
    if probed and not replay:
        probe(opened.values())
    return {role: opened[name] for role, name in names.items()}


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Wraps the models and services of a run in limiter, retries, meter and call store, from the inside out.

    The meter is inside the store, so it counts only calls that reach a model.
    """

    limits: Limits
    meter: Meter | None = None
    store: CallStore | None = None
    replay: bool = False
    """Whether only the store answers."""
    payer: str = ""
    """Identifies the run among those that share the store."""
    innermost: Callable[[ChatModel], ChatModel] = lambda model: model
    """A further wrapper, inside the limiter."""

    def model(self, model: ChatModel) -> ChatModel:
        """A model behind the limiter of its endpoint; failed calls are retried."""
        limited = Limited(self.innermost(model), self.limits.of(model), self.limits.prefixes_of(model))
        return self.recorded(Retrying(limited, on_event=self.meter.count_retry if self.meter else None))

    def service(self, service: ChatModel) -> ChatModel:
        """A search or an answer scorer. Failed calls are not retried and do not stop the run."""
        return self.recorded(Limited(self.innermost(service), self.limits.services), service=True)

    def recorded(self, model: ChatModel, *, service: bool = False) -> ChatModel:
        """A model with only meter and call store."""
        metered = Metered(model, self.meter, service=service) if self.meter else model
        return Stored(metered, self.store, replay=self.replay, payer=self.payer) if self.store else metered


def allow_connections(concurrency: int) -> None:
    """Raise the soft limit of open files of this process if ``concurrency`` connections need it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        why = f"needs {needed} open files, but this system allows {hard} (ulimit -Hn)"
        raise UserError(f"--concurrency {concurrency} {why}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class LiveSearch(Batching):
    """Sources as a model: from a query to a line of a pool file with everything that the sources returned.

    One batch of searches runs at a time, in one thread, so sources need not be thread-safe. A search fails if every
    source fails. ``served_by``, source name -> description with fingerprint, is part of the model's name, and so of the
    key of every search. ``sources`` is empty for a replay; ``k`` passages are requested from each.
    """

    def __init__(self, served_by: Mapping[str, str], sources: Sequence[Source], k: int) -> None:
        super().__init__(f"search {json.dumps([k, dict(served_by)], ensure_ascii=False)}")
        self.served_by = served_by
        self._sources = sources
        self._k = k

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        queries = [Question(id=r.purpose.question, question=r.messages[0].content) for r in requests]
        try:
            records = await asyncio.to_thread(retrieve, queries, self._sources, self._k)
        except UserError as error:
            return [_failed(str(error)) for _ in requests]
        return [self._completion(record) for record in records]

    def _completion(self, record: PoolRecord) -> Completion:
        for source, reason in record.partial.items():
            _log.warning("a search of source %s for %r failed: %s", source, record.question, reason)
        if len(record.partial) == len(self._sources):
            return _failed(_reasons(record.partial))
        return Completion(text=record_to_json(record).decode())


class AnswerScorer(Batching):
    """An external command that scores candidate answers, as a model. Under ``replay`` it need not be installed."""

    def __init__(self, command: str, *, replay: bool = False) -> None:
        super().__init__(f"answer scorer {command}")
        self._scorer = CommandScorer(command)
        program = shlex.split(command)[0]
        if not replay and shutil.which(program) is None:
            raise UserError(f"--answer-scorer {command!r}: there is no program {program!r}")

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, candidate.content) for r in requests for candidate in r.messages[1:]]
        try:
            scores = iter(await self._scorer.ascores([Item(source=asked, candidate=text) for asked, text in pairs]))
        except UserError as error:
            return [_failed(str(error)) for _ in requests]
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]


class CrossEncoderReranker(Batching):
    """A cross-encoder of sentence-transformers: a question and passages in, a JSON list of their scores out.

    The pairs of all waiting questions are scored together, in one thread. Code that comes with a model is never run.
    UserError if the model cannot be loaded, or gives more than one score for a pair.
    """

    def __init__(self, model: str) -> None:
        self._model = _loaded(model)
        super().__init__(" ".join(filter(None, (f"hf/{model}", revision_of(model)))))

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, passage.content) for r in requests for passage in r.messages[1:]]
        found = await asyncio.to_thread(self._model.predict, pairs, batch_size=_BATCH, show_progress_bar=False)
        scores = map(float, found)
        return [Completion(text=json.dumps([next(scores) for _ in r.messages[1:]])) for r in requests]


def _loaded(model: str) -> Any:
    require(f"hf/{model} needs", "dense", "sentence_transformers")
    from sentence_transformers import CrossEncoder

    with loading(f"the reranker hf/{model}", "a cross-encoder, as a folder or a name on the Hub"):
        loaded = CrossEncoder(model, trust_remote_code=False)
    if loaded.num_labels != 1:
        raise UserError(f"hf/{model} gives {loaded.num_labels} scores for a pair; expected a reranker with one")
    return loaded


def debate_services(
    wrap: Callable[[ChatModel], ChatModel],
    live: LiveSearch | None,
    answer_scorer: AnswerScorer | None,
    knowledge: Knowledge | None,
) -> dict[str, Any]:
    """``retrieve`` and ``score_answers`` of a debate; ``wrap`` puts a service behind limiter and call store."""
    services: dict[str, Any] = {}
    if live is not None and knowledge is not None:
        services["retrieve"] = searching(wrap(live), knowledge)
    if answer_scorer is not None:
        services["score_answers"] = answer_scoring(wrap(answer_scorer))
    return services


def searching(model: ChatModel, knowledge: Knowledge) -> Retrieve:
    """The ``retrieve`` of a debate, from a :class:`LiveSearch`; results are filtered like the pool of the debater."""
    plain = knowledge.model_copy(update={"query": "none", "rerank": None})

    async def search(query: str, purpose: Purpose) -> Hits:
        completion = await model.complete(service_request(purpose, query))
        if completion.outcome != "ok":
            return Hits(error=completion.error)
        sources = (knowledge.per_debater_sources or {}).get(purpose.agent, knowledge.sources)
        pool = pool_of(record_from_json(completion.text), plain, sources=sources)
        failed = len(pool.partial) == len(sources)
        return Hits(error=_reasons(pool.partial)) if failed else Hits(passages=pool.passages)

    return search


def answer_scoring(model: ChatModel) -> ScoreAnswers:
    """The ``score_answers`` of a debate, from an :class:`AnswerScorer`; repeats share calls. UserError if one fails."""

    async def score_answers(question: Question, candidates: Sequence[str]) -> list[float]:
        purpose = Purpose(question=question.id, stage="score", agent="answer_scorer", round=1)
        completion = await model.complete(service_request(purpose, question.question, *candidates))
        if completion.outcome != "ok":
            raise UserError(completion.error or "it gave no reason")
        scores: list[float] = json.loads(completion.text)
        return scores

    return score_answers


def service_request(purpose: Purpose, *texts: str) -> ChatRequest:
    """A request to a service: a query, or texts to score."""
    messages = tuple(Message(role="user", content=text) for text in texts)
    return ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=0)


def _failed(reason: str) -> Completion:
    return Completion(outcome="failed", error=reason, finish_reason="error")


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{source}: {reason}" for source, reason in failures.items())
