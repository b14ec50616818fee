"""Models behind an OpenAI-compatible endpoint (OpenAI, vLLM, Ollama, ...) or on Azure, by the ``openai`` package."""

from __future__ import annotations

import asyncio
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from madke.core.addresses import SECRET, public_url, without_path_secrets
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError, UserError
from madke.llm.limiter import LONGEST_PAUSE
from madke.llm.openai_wire import rates_wait, read_broken, read_completion, read_refusal
from madke.llm.server_error import ServerError, refused_parameter
from madke.llm.transport import Transport, chosen_timeout, chosen_transport, open_transport

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"

_KEY_SHAPES = re.compile(r"\b(sk-|Bearer\s+)[\w*.-]{4,}")
"""Keys that a server may quote in its errors, its own or another's, whole or starred."""

_HEADERS = {"Accept-Encoding": "identity"}
"""Small replies gain nothing from compression, and a compressed one can hide its length."""

_REASON = 300
"""Characters of a reason; servers send whole pages."""


class _Chat(ABC):
    """What both endpoints share: one request, its parameters, its failures.

    A model that refuses ``max_tokens`` gets ``max_completion_tokens`` instead, and one that refuses ``temperature``
    (OpenAI's reasoning models) or ``seed`` (Azure's older API versions) gets none: the first 400 that says so switches
    this client over, and the request is repeated at once. ``seed`` and ``stop`` are sent only where the request has
    them.

    Requests go by the package's ``post``, and replies come as bytes: its typed way, which we do not need, copies and
    rebuilds both.
    """

    def __init__(
        self, model: str, *, name: str, url: str, key: str | None, timeout: float | None, transport: Transport | None
    ) -> None:
        self.name = name
        self._model = model
        self._url = url
        self._key = key
        self._secret = key if key is not None and len(key) >= SECRET else None
        self._timeout = chosen_timeout() if timeout is None else timeout
        self._transport = transport or chosen_transport()
        self._free_at = 0.0
        self._refused: set[str] = set()
        self._client: AsyncOpenAI | None = None

    @abstractmethod
    def _connect(self, http_client: httpx2.AsyncClient) -> AsyncOpenAI:
        """The package's client."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one attempt.

        What the model said is returned as it is. A reply that holds the API key is a failed attempt, since replies are
        stored; a key of less than eight characters is a placeholder, and may be a word of the reply.

        Raises:
            CallError: It failed; :class:`madke.llm.Retrying` turns that into a value.
        """
        try:
            completion = await self._attempt(request)
            if self._secret is not None and self._secret in completion.text + completion.reasoning:
                raise CallError("the reply holds the API key, and is not kept", retryable=False)
        except CallError as error:
            raise CallError(**{**vars(error), "reason": self._fit(error.reason)}) from None
        return completion if completion.error is None else replace(completion, error=self._fit(completion.error))

    @property
    def hold(self) -> float:
        """Seconds for which no call should begin: rate headers of a response said that nothing is left till then."""
        return max(0.0, self._free_at - time.monotonic())

    async def aclose(self) -> None:
        """Close the connections, in the event loop that used them."""
        if self._client is not None:
            await self._client.close()

    async def _attempt(self, request: ChatRequest) -> Completion:
        import openai

        if self._client is None:
            self._client = self._connect(open_transport(self._transport, self._timeout, self._note_rates))
        started = time.monotonic()
        requests = 0
        while True:
            parameters = self._parameters(request)
            requests += 1
            try:
                # The package's own timeout is between two reads: a slow drip would outlive it.
                async with asyncio.timeout(self._timeout):
                    body = await self._client.post(
                        "/chat/completions",
                        cast_to=bytes,
                        body=parameters,
                        options={"headers": _HEADERS, "security": {"bearer_auth": True}},
                    )
            except openai.APIStatusError as error:
                told = ServerError.read(error.status_code, error.body)
                if told.status == 400 and (named := refused_parameter(told)) in parameters:
                    self._refused.add(named)
                    continue
                return read_refusal(told, error.response, attempts=requests)
            except Exception as error:
                failure = read_broken(error)
                if failure is None:
                    raise
                raise failure from None
            return read_completion(body, request, seconds=time.monotonic() - started, attempts=requests)

    def _note_rates(self, headers: Mapping[str, str]) -> None:
        wait = rates_wait(headers)
        if 0 < wait <= LONGEST_PAUSE:
            self._free_at = max(self._free_at, time.monotonic() + wait)

    def _parameters(self, request: ChatRequest) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens": request.max_tokens,
        }
        if "temperature" not in self._refused:
            parameters["temperature"] = request.temperature
        if request.stop:
            parameters["stop"] = list(request.stop)
        if request.seed is not None and "seed" not in self._refused:
            parameters["seed"] = request.seed
        return parameters

    def _fit(self, reason: str) -> str:
        """The reason, fit for a transcript: without secrets, on one line, not too long."""
        if self._secret is not None:
            reason = reason.replace(self._secret, "[key]")
        reason = without_path_secrets(reason, self._url)
        reason = " ".join(_KEY_SHAPES.sub("[key]", reason).split())
        return reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."


class OpenAIChat(_Chat):
    """A chat model at OpenAI or at any server that speaks its protocol.

    The key is ``OPENAI_API_KEY``, from the environment only; a server other than OpenAI's needs none. One client
    belongs to one event loop.

    Args:
        model: The model's name at the endpoint.
        base_url: The endpoint, up to and with ``/v1``. Default: ``OPENAI_BASE_URL``, else OpenAI's own.
        timeout: Seconds that one attempt may take. Default: ``MADKE_TIMEOUT``, else 300. What is not there by then is
            asked for once more at most, see :class:`madke.llm.RetryPolicy`.
        needs_key: False for a model that will not be called.
        transport: Default: :func:`madke.llm.transport.chosen_transport`.

    Raises:
        UserError: The URL is none, ``MADKE_TIMEOUT`` is no number of seconds, or OpenAI's endpoint is asked for without
            a key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        timeout: float | None = None,
        needs_key: bool = True,
        transport: Transport | None = None,
    ) -> None:
        base = _endpoint(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, model=f"openai/{model}")
        at_openai = urlsplit(base).hostname == urlsplit(OPENAI_URL).hostname
        key = _key("OPENAI_API_KEY")
        if key is None and at_openai and needs_key:
            raise UserError(
                f"OPENAI_API_KEY is not set, and openai/{model} needs it; for a server without keys give its base URL"
            )
        where = "" if at_openai else f"@{public_url(base)}"
        super().__init__(model, name=f"openai/{model}{where}", url=base, key=key, timeout=timeout, transport=transport)

    def _connect(self, http_client: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        # The package refuses to start without a key; local servers ignore it.
        return AsyncOpenAI(api_key=self._key or "no-key", base_url=self._url, max_retries=0, http_client=http_client)


class AzureChat(_Chat):
    """A chat model deployed on Azure OpenAI.

    The key is ``AZURE_OPENAI_API_KEY``, from the environment only. One client belongs to one event loop.

    Args:
        deployment: The deployment's name.
        endpoint: The resource's URL. Default: ``AZURE_OPENAI_ENDPOINT``.
        api_version: The API version to ask for. Default: ``AZURE_OPENAI_API_VERSION``, else ``2024-10-21``.
        timeout: Seconds that one attempt may take. Default: ``MADKE_TIMEOUT``, else 300. What is not there by then is
            asked for once more at most, see :class:`madke.llm.RetryPolicy`.
        needs_key: False for a model that will not be called.
        transport: Default: :func:`madke.llm.transport.chosen_transport`.

    Raises:
        UserError: There is no endpoint, it is no URL, ``MADKE_TIMEOUT`` is no number of seconds, or there is no key.
    """

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_version: str | None = None,
        timeout: float | None = None,
        needs_key: bool = True,
        transport: Transport | None = None,
    ) -> None:
        url = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not url:
            raise UserError(f"AZURE_OPENAI_ENDPOINT is not set, and azure/{deployment} needs it (or a base URL)")
        base = _endpoint(url, model=f"azure/{deployment}")
        self._api_version = api_version or os.environ.get("AZURE_OPENAI_API_VERSION") or "2024-10-21"
        key = _key("AZURE_OPENAI_API_KEY")
        if key is None and needs_key:
            raise UserError(f"AZURE_OPENAI_API_KEY is not set, and azure/{deployment} needs it")
        super().__init__(
            deployment,
            name=f"azure/{deployment}@{public_url(base)} {self._api_version}",
            url=base,
            key=key,
            timeout=timeout,
            transport=transport,
        )

    def _connect(self, http_client: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncAzureOpenAI

        return AsyncAzureOpenAI(
            api_key=self._key,
            azure_endpoint=self._url,
            api_version=self._api_version,
            max_retries=0,
            http_client=http_client,
        )


def _key(variable: str) -> str | None:
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise UserError(f"{variable} holds characters that no key has; set it again")
    return key or None


def _endpoint(url: str, *, model: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        valid = False
    if not valid:
        raise UserError(
            f"{public_url(url)!r} is no endpoint for {model}; expected a URL such as http://localhost:8000/v1"
        )
    if parts.username or parts.password or parts.query:
        raise UserError(
            f"the endpoint of {model}, {public_url(url)!r}, came with a user or a query; keys come from the environment"
        )
    return url
