"""Models behind an OpenAI-compatible endpoint (OpenAI, vLLM, Ollama, ...) or on Azure, by the ``openai`` package."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from madke.core.addresses import without_path_secrets
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError, UserError, unknown
from madke.llm.endpoints import Endpoint, checked_url, from_environment, openai_endpoint, origin
from madke.llm.limiter import LONGEST_PAUSE
from madke.llm.openai_wire import assembled, rates_wait, read_broken, read_completion, read_refusal
from madke.llm.refusals import REFUSALS, Dialect, ServerError, missing_field

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from madke.llm.transport import Transport

_log = logging.getLogger(__name__)

TIMEOUT = 300.0
_KEY_SHAPES = re.compile(r"\b(sk-|Bearer\s+)[\w*.-]{4,}")
"""Keys that a server may quote in its errors, its own or another's, whole or starred."""
_HEADERS = {"Accept-Encoding": "identity"}
"""A compressed reply can hide its length."""
_REASON = 300
_ADAPTATIONS = 10
"""Refusals of one call at most from which another dialect follows."""
_NOWHERE = "https://azure.invalid"


class OpenAIChat:
    """A chat model at OpenAI or at any server that speaks its protocol, for one event loop.

    A refusal that says what the server does not take changes the dialect of this client, and the request is repeated
    at once, as are those that were under way in the old one; one log line tells what was found out.

    Args:
        model: The model's name at the endpoint.
        base_url: The endpoint, up to and with ``/v1``. Default: ``OPENAI_BASE_URL``, else OpenAI's own.
        name: By default ``openai/MODEL``.
        endpoint: Instead of all that says where: the endpoint itself.
        timeout: Seconds that one attempt may take. Default: the entry's, else ``MADKE_TIMEOUT``, else 300.
        transport: Default: :func:`chosen_transport`.
        **where: Further arguments of :func:`madke.llm.endpoints.openai_endpoint`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        name: str | None = None,
        endpoint: Endpoint | None = None,
        timeout: float | None = None,
        transport: Transport | None = None,
        **where: Any,
    ) -> None:
        self.name = name or f"openai/{model}"
        self.endpoint = endpoint or openai_endpoint(self.name, base_url=base_url, **where)
        self.dialect: Dialect = self.endpoint.entry.dialect
        self._told = self.dialect
        self._model = model
        self._timeout = timeout or self.endpoint.entry.timeout or chosen_timeout()
        self._transport = transport or chosen_transport()
        self._options: Any = {"headers": {**_HEADERS, **self.endpoint.headers}, "security": {"bearer_auth": True}}
        self._free_at = 0.0
        self._client: AsyncOpenAI | None = None

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one attempt; CallError if it failed. So does a reply that holds a key, since replies are stored."""
        try:
            completion = await self._attempt(request)
            if any(secret in completion.text + completion.reasoning for secret in self.endpoint.secrets):
                raise CallError("the reply holds the API key, and is not kept", retryable=False)
        except CallError as error:
            raise CallError(**{**vars(error), "reason": self._fit(error.reason)}) from None
        return completion if completion.error is None else replace(completion, error=self._fit(completion.error))

    @property
    def hold(self) -> float:
        """Seconds for which no call should begin: rate headers said that nothing is left till then."""
        return max(0.0, self._free_at - time.monotonic())

    async def aclose(self) -> None:
        """Close the connections; another event loop may use the model then."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, request: ChatRequest) -> Completion:
        import openai

        from madke.llm.transport import open_transport

        if self._client is None:
            self._client = self._connect(open_transport(self._transport, self._timeout, self._note_rates))
        started = time.monotonic()
        requests = 0
        while True:
            dialect = self.dialect
            sent = {**dialect.body(self._model, request), **self.endpoint.entry.extra_body}
            requests += 1
            try:
                # The package's own timeout is between two reads: a slow drip would outlive it.
                async with asyncio.timeout(self._timeout):
                    body = await self._client.post("/chat/completions", cast_to=bytes, body=sent, options=self._options)
            except openai.APIStatusError as error:
                told = ServerError.read(error.status_code, error.body)
                if requests <= _ADAPTATIONS and self._adapted(told, dialect, sent, request):
                    continue
                if field := missing_field(told, sent):
                    told = replace(told, message=f"{told.message} (give {field!r} under extra_body in models.yaml)")
                return read_refusal(told, error.response, attempts=requests)
            except Exception as error:
                failure = read_broken(error)
                if failure is None:
                    raise
                raise failure from None
            self._tell()
            body = assembled(body) if dialect.stream else body
            completion = read_completion(body, request, seconds=time.monotonic() - started, attempts=requests)
            return completion if dialect.stop else _stopped(completion, request.stop)

    def _adapted(self, told: ServerError, dialect: Dialect, sent: Mapping[str, Any], request: ChatRequest) -> bool:
        """Whether it is worth repeating, in a dialect that this request, or one at the same time, has found out."""
        if told.status in REFUSALS and self.dialect.body(self._model, request) != dialect.body(self._model, request):
            return True
        found = dialect.after(told, sent)
        if found is None or found.body(self._model, request) == dialect.body(self._model, request):
            return False
        self.dialect = found
        return True

    def _tell(self) -> None:
        if self.dialect != self._told:
            self._told = self.dialect
            stated = ", ".join(f"{key}: {str(value).lower()}" for key, value in self.dialect.stated().items())
            _log.warning("%s: the server takes requests in another form, found out by asking: {%s}", self.name, stated)

    def _note_rates(self, headers: Mapping[str, str]) -> None:
        wait = rates_wait(headers)
        if 0 < wait <= LONGEST_PAUSE:
            self._free_at = max(self._free_at, time.monotonic() + wait)

    def _fit(self, reason: str) -> str:
        """Without secrets, on one line, not too long."""
        for secret in self.endpoint.secrets:
            reason = reason.replace(secret, "[key]")
        reason = without_path_secrets(reason, self.endpoint.address)
        reason = " ".join(_KEY_SHAPES.sub("[key]", reason).split())
        return reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."

    def _connect(self, http_client: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        # The package refuses to start without a key; local servers ignore it.
        key = self.endpoint.key or "no-key"
        return AsyncOpenAI(api_key=key, base_url=self.endpoint.address, max_retries=0, http_client=http_client)


class AzureChat(OpenAIChat):
    """A chat model deployed on Azure OpenAI, with the key in ``AZURE_OPENAI_API_KEY``.

    Args:
        deployment: The deployment's name.
        endpoint: The resource's URL. Default: ``AZURE_OPENAI_ENDPOINT``.
        at: The deployment's own URL, which gets the key only if its origin is that of the endpoint.
        needs_key: False for a model that will not be called.
        **options: ``timeout`` and ``transport``, as for :class:`OpenAIChat`.
    """

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        at: str | None = None,
        needs_key: bool = True,
        **options: Any,
    ) -> None:
        name = f"azure/{deployment}"
        url = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT") or ("" if needs_key else at or _NOWHERE)
        if not url:
            raise UserError(f"AZURE_OPENAI_ENDPOINT is not set, and {name} needs it (or a base URL)")
        address = checked_url(at or url, model=name)
        key = from_environment("AZURE_OPENAI_API_KEY") if origin(address) == origin(url) else None
        if key is None and needs_key:
            raise UserError(f"AZURE_OPENAI_API_KEY is not set, and {name} needs it")
        super().__init__(
            deployment, name=name, endpoint=Endpoint(address=address, limited_as=address, key=key), **options
        )

    def _connect(self, http_client: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncAzureOpenAI

        return AsyncAzureOpenAI(
            api_key=self.endpoint.key,
            azure_endpoint=self.endpoint.address,
            api_version=os.environ.get("AZURE_OPENAI_API_VERSION") or "2024-10-21",
            max_retries=0,
            http_client=http_client,
        )


def _stopped(completion: Completion, stop: tuple[str, ...]) -> Completion:
    """The completion up to the first stop string, where the server takes none."""
    cut = min((at for each in stop if (at := completion.text.find(each)) >= 0), default=None)
    return completion if cut is None else replace(completion, text=completion.text[:cut], finish_reason="stop")


def chosen_transport() -> Transport:
    """The transport that ``MADKE_TRANSPORT`` names, else the one that suits the environment's proxies."""
    match os.environ.get("MADKE_TRANSPORT") or None:
        case "aiohttp" | "httpx" as chosen:
            return chosen
        case None:
            proxies = urllib.request.getproxies()
            urls = [proxies.get(scheme, "") for scheme in ("http", "https", "all")]
            return "aiohttp" if all(url.startswith("http://") or "://" not in url for url in urls) else "httpx"
        case other:
            raise unknown("transport in MADKE_TRANSPORT", other, ("aiohttp", "httpx"))


def chosen_timeout() -> float:
    """Seconds that one attempt may take: ``MADKE_TIMEOUT``, else :data:`TIMEOUT`."""
    told = os.environ.get("MADKE_TIMEOUT") or str(TIMEOUT)
    with suppress(ValueError):
        if 0 < (seconds := float(told)) < math.inf:
            return seconds
    raise UserError(f"MADKE_TIMEOUT is {told!r}; expected the seconds that one call may take, such as 600")
