"""Debates as a solver of Inspect AI: its models, limits, cache and concurrency, madke's protocols and sources."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from madke._util.assets import require
from madke.api.debates import hold_single_debate
from madke.core.chat import ChatRequest, Completion, Message, Outcome, Usage, fields_of
from madke.core.errors import CallError, UserError
from madke.core.knowledge import Source
from madke.core.question import Question
from madke.core.transcript import to_json
from madke.models.prices import estimated_usage
from madke.runs.request import RunOptions, askable, request_of
from madke.runs.spec import RunSpec, resolve
from madke.tasks.base import with_letters

require("madke.inspect needs", "inspect", "inspect_ai")

from inspect_ai.model import (  # noqa: E402
    CachePolicy,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import solver  # noqa: E402
from inspect_ai.util import span  # noqa: E402

STORE_KEY = "madke"
"""Where a sample's store holds the transcript."""

_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_FINISH = {"max_tokens": "length"}
"""Inspect's stop reasons -> those of providers, where they differ."""
_OUTCOMES: Mapping[str, Outcome] = {"model_length": "too_long", "content_filter": "filtered"}
# Inspect bounds how many calls run at once (max_connections), repeats failed ones and caches replies.
_UNBOUNDED = RunOptions(concurrency=10_000)


@solver  # type: ignore[untyped-decorator]
def debate_solver(protocol: str = "madke", *, cache: bool | CachePolicy = False, **fields: Any) -> Any:
    """Answer each sample by a debate, every call of which is Inspect's ``get_model().generate``.

    The models are those of the evaluation: ``--model`` for all roles, ``--model-role judge=...`` for one of them
    (``debater-1``, ``judge``, ``summarizer``, ...). A provider's error is a failed call of the debate, after Inspect's
    own retries; a failed debate is an error of the sample. The completion is the final answer alone, empty if there is
    none; in a multiple-choice sample the answer is marked for the scorer ``choice()``. The sample's store holds the
    transcript under ``madke``.

    Args:
        protocol: A protocol's name or folder.
        cache: As for ``generate``. The purpose of a call is part of its key, so debaters with the same prompt do not
            share a reply.
        fields: Fields of :class:`madke.RunRequest` as for :func:`madke.ask`, such as ``sources`` and ``settings``,
            without ``model`` and ``cast``. Sources are opened once.

    Raises:
        UserError: An input is missing or invalid.
    """
    allowed = [name for name in askable("ask") if name not in ("protocol", "model", "cast")]
    if unfit := [name for name in fields if name not in allowed]:
        raise UserError(f"debate_solver takes no {unfit[0]!r}; models are Inspect's; expected {', '.join(allowed)}")
    opened: list[Source] = []
    opening = threading.Lock()

    def prepared(question: Question) -> RunSpec:
        spec = replace(resolve(request_of([question], {**fields, "protocol": protocol})), opened=opened)
        with opening:
            spec.sources()
        return spec

    async def solve(state: Any, generate: Any) -> Any:
        choices = tuple(choice.value for choice in state.choices)
        question = Question(id=str(state.sample_id), question=state.input_text, choices=choices)
        spec = await asyncio.to_thread(prepared, question)
        names = {role: role.lower().replace(" ", "-") for role in spec.record.models}
        models = {role: InspectModel(get_model(role=name), cache) for role, name in names.items()}
        transcript = await hold_single_debate(spec, models, _UNBOUNDED, repeat=state.epoch - 1)
        state.store.set(STORE_KEY, json.loads(to_json(transcript)))
        if transcript.status == "failed":
            raise RuntimeError(f"the debate failed: {transcript.final.error}")
        answer = transcript.answer or ""
        state.output = ModelOutput.from_content(model=str(state.model), content=answer)
        state.messages.append(state.output.message)
        for index, (letter, _) in enumerate(with_letters(transcript.choices)):
            state.choices.mark_choice(index, letter == answer)
        return state

    return solve


class InspectModel:
    """A model of Inspect as a :class:`madke.ChatModel`.

    Exceptions of Inspect itself, such as a limit that is reached, are not caught: they end the sample.
    """

    def __init__(self, model: Any, cache: bool | CachePolicy = False) -> None:
        self.name = str(model)
        self._model, self._cache = model, cache

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request; CallError if the provider failed."""
        config = GenerateConfig(temperature=request.temperature, max_tokens=request.max_tokens, seed=request.seed)
        if request.stop:
            config.stop_seqs = list(request.stop)
        messages = [_MESSAGES[each.role](content=each.content) for each in request.messages]
        purpose, started = request.purpose, time.monotonic()
        try:
            async with span(f"{purpose.agent}, round {purpose.round}: {purpose.stage}"):
                output = await self._model.generate(messages, config=config, cache=self._policy(request))
        except Exception as error:
            if type(error).__module__.partition(".")[0] == "inspect_ai":
                raise
            reason = " ".join(f"{self.name}: {type(error).__name__}: {error}".split())
            raise CallError(reason, retryable=False) from error
        return _completion(output, request.messages, time.monotonic() - started)

    def _policy(self, request: ChatRequest) -> bool | CachePolicy:
        if self._cache is False:
            return False
        policy = CachePolicy() if self._cache is True else self._cache
        purpose = {name: str(value) for name, value in fields_of(request.purpose).items() if name != "repeat"}
        return policy.model_copy(update={"scopes": {**policy.scopes, **purpose}})


def _completion(output: ModelOutput, messages: tuple[Message, ...], seconds: float) -> Completion:
    if output.empty:
        raise CallError(output.error or "the model sent no reply", retryable=False)
    text, reason, content = output.completion, output.stop_reason, output.message.content
    parts = [] if isinstance(content, str) else content
    outcome = _OUTCOMES.get(reason, "ok")
    return Completion(
        text=text if outcome != "too_long" else "",
        reasoning="".join(part.reasoning for part in parts if part.type == "reasoning"),
        outcome=outcome,
        error=None if outcome == "ok" else output.error or f"stopped: {reason}",
        finish_reason=_FINISH.get(reason, reason),
        usage=_usage(output.usage) if output.usage else estimated_usage(messages, text),
        seconds=seconds,
    )


def _usage(counted: Any) -> Usage:
    """Inspect counts tokens of a prefix cache apart from other input tokens."""
    cached = counted.input_tokens_cache_read or 0
    return Usage(
        prompt_tokens=counted.input_tokens + cached + (counted.input_tokens_cache_write or 0),
        cached_tokens=cached,
        completion_tokens=counted.output_tokens,
        reasoning_tokens=counted.reasoning_tokens or 0,
    )
