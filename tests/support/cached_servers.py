"""Stand-ins of model servers that keep beginnings of prompts, in simulated time: hours take milliseconds.

They answer in this process, as models at an endpoint, in a :class:`JumpingLoop`. Tokens are four characters. What they
keep:

- ``hosted``: prompts of at least 1,024 tokens in steps of 128, readable after the first reply, for five minutes;
- ``blocks``: blocks of 16 tokens, readable when the prompt has been read (vLLM, SGLang);
- ``slots``: the last prompt of each slot, and those that left a slot (llama.cpp). The slots share one processor, and a
  call takes the free slot that has most of its prompt;
- ``none``: nothing.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

from madke.core.chat import ChatRequest, Completion, Message, Prefix, Usage, shared_length
from madke.models.dialect import Dialect
from madke.models.endpoint import Endpoint, ModelEntry

Kind = Literal["hosted", "blocks", "slots", "none"]

CHARACTERS = 4
"""Of a token."""
_SLOTS = 4
_READING, _WRITING = 100.0, 25.0
"""Tokens a second; they read for one call after the other, but hosted endpoints for all at once."""
_REPLY = "The answer is yes."
_SECONDS_KEPT = 300.0
_LEAST, _STEP, _BLOCK = 1024, 128, 16


def tokens_of(prompt: Sequence[Message]) -> int:
    """The tokens of a prompt."""
    return -(-sum(len(message.content) for message in prompt) // CHARACTERS)


@dataclass(kw_only=True, eq=False)
class CachedServer:
    """A server with one model, and what it did."""

    kind: Kind
    name: str = "stand-in"
    prefix: Prefix | None = None
    prompts: list[tuple[Message, ...]] = field(default_factory=list)
    computed: int = 0
    """Prompt tokens that were not in the cache."""
    dialect: Dialect = field(default_factory=Dialect)
    endpoint: Endpoint = field(init=False)
    _kept: dict[tuple[Message, ...], float] = field(default_factory=dict)
    _slots: list[tuple[Message, ...]] = field(init=False)
    """The prompts of free slots."""
    _free: asyncio.Semaphore = field(init=False)
    _processor: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        host = "https://api.example.com" if self.kind == "hosted" else "http://127.0.0.1:8000"
        entry = ModelEntry(prefix=self.prefix)
        self.endpoint = Endpoint(address=f"{host}/v1", limited_as=host, entry=entry)
        self._slots = [()] * _SLOTS
        self._free = asyncio.Semaphore(_SLOTS)

    @property
    def distinct(self) -> int:
        """The nodes of a trie over the tokens of all prompts: what a server computes that forgets nothing."""
        seen: dict[tuple[Message, ...], None] = {}
        distinct = 0
        for prompt in self.prompts:
            if prompt not in seen:
                known = max((shared_length(prompt, each) for each in seen), default=0)
                distinct += tokens_of(prompt) - known // CHARACTERS
                seen[prompt] = None
        return distinct

    async def complete(self, request: ChatRequest) -> Completion:
        """Read the prompt, tell the first token, write the reply."""
        self.prompts.append(request.messages)
        if self.kind == "slots":
            async with self._free:
                return await self._in_slot(request)
        cached = self._cached(request.messages)
        async with nullcontext() if self.kind == "hosted" else self._processor:
            await asyncio.sleep(self._missing(request, cached) / _READING)
        if self.kind == "blocks":
            self._keep(request)
        if request.on_token is not None:
            request.on_token()
        completion = _completion(request, cached)
        await asyncio.sleep(completion.usage.completion_tokens / _WRITING)
        if self.kind == "hosted":
            self._keep(request)
        return completion

    async def _in_slot(self, request: ChatRequest) -> Completion:
        prompt = request.messages
        slot = max(self._slots, key=lambda each: shared_length(prompt, each))
        self._slots.remove(slot)
        try:
            shared = shared_length(prompt, slot)
            if slot and shared // CHARACTERS < tokens_of(slot) / 2:  # it leaves the slot
                self._kept[slot] = _now()
            known = max([shared, *(shared_length(prompt, each) for each in self._kept)]) // CHARACTERS
            cached = min(known, tokens_of(prompt) - 1)
            async with self._processor:
                await asyncio.sleep(self._missing(request, cached) / _READING)
            if request.on_token is not None:
                request.on_token()
            completion = _completion(request, cached)
            async with self._processor:
                await asyncio.sleep(completion.usage.completion_tokens / _WRITING)
        finally:
            self._slots.append(prompt)
        self.dialect = Dialect(slots=True)  # its reply tells
        return completion

    def _cached(self, prompt: Sequence[Message]) -> int:
        since = _now() - _SECONDS_KEPT
        shared = max((shared_length(prompt, each) for each, at in self._kept.items() if at >= since), default=0)
        known = min(shared // CHARACTERS, tokens_of(prompt) - 1)
        if self.kind == "hosted":
            return known // _STEP * _STEP if known >= _LEAST else 0
        return known // _BLOCK * _BLOCK

    def _keep(self, request: ChatRequest) -> None:
        self._kept[request.messages] = _now()

    def _missing(self, request: ChatRequest, cached: int) -> int:
        missing = tokens_of(request.messages) - cached
        self.computed += missing
        return missing


def _completion(request: ChatRequest, cached: int) -> Completion:
    prompt_tokens, written = tokens_of(request.messages), len(_REPLY) // CHARACTERS
    usage = Usage(prompt_tokens=prompt_tokens, cached_tokens=cached, completion_tokens=written)
    return Completion(text=_REPLY, usage=usage)


def _now() -> float:
    return asyncio.get_running_loop().time()
