"""Chat models at OpenAI-compatible endpoints (OpenAI, vLLM, ...) or on Azure, through ``openai``."""

from __future__ import annotations

import json
import logging
import os
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from madke.core.addresses import public_url, without_path_secrets
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError, unknown
from madke.models.cut_prompts import CutPrompts, cut_warning
from madke.models.dialect import REFUSALS, Dialect
from madke.models.endpoint import Endpoint, checked_url, key_from_environment, openai_endpoint, origin
from madke.models.openai_wire import (
    assembled,
    delta,
    has_slots,
    is_utf8,
    read_broken,
    read_completion,
    read_refusal,
)
from madke.models.prices import BATCH, FLEX
from madke.models.refusals import ServerError, free_tokens, no_api, no_resources, unexplained
from madke.models.schemas import IGNORED, NOT_TAKEN, ignores_schema, readable
from madke.models.timeouts import SilenceLimit, time_limit

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

    from madke.models.transport import Transport

_log = logging.getLogger(__name__)

_KEY_SHAPES = re.compile(r"\b(sk-|Bearer\s+)[\w*.-]{4,}")
"""Keys, whole or masked, that a server may quote in its errors."""
_HEADERS = {"Accept-Encoding": "identity"}
"""No compression, which could hide the length of a reply."""
_REASON_LENGTH = 300
_ADAPTATIONS = 10
"""Maximum number of dialect changes in one call."""
_NOWHERE = "https://azure.invalid"


class OpenAIChat:
    """A chat model at OpenAI or at an OpenAI-compatible server, for one event loop.

    When a server rejects a request field, the client changes its dialect and repeats the request at once, as well as
    the concurrent requests in the old dialect. One log line reports the dialect found.

    Args:
        model: The model's name at the endpoint.
        base_url: Address of the API, including ``/v1``. Default: ``OPENAI_BASE_URL``, else OpenAI's address.
        name: Default: ``openai/MODEL``.
        endpoint: The endpoint itself; replaces ``base_url`` and ``where``.
        timeout: How many seconds the server may be silent (:mod:`madke.models.timeouts`). Default: the entry's, else
            ``MADKE_TIMEOUT``, else 300, or 900 at the service tier ``flex``.
        transport: Default: :func:`chosen_transport`.
        **where: Further arguments of :func:`madke.models.endpoint.openai_endpoint`.
    """

    takes_schemas = True
    _path = "/chat/completions"
    _address_hint = "does the base URL end in /v1?"

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
        if "response_format" in self.endpoint.entry.extra_body:  # the user's own replaces ours
            self.dialect = self.dialect.model_copy(update={"json_schema": False})
        if self.endpoint.is_openai and "prompt_cache_key" not in self.dialect.model_fields_set:
            self.dialect = self.dialect.model_copy(update={"prompt_cache_key": True})
        self._reported = self.dialect
        self._timed_out = False
        self._has_answered = False
        self._cut_prompts = CutPrompts()
        self._has_warned = False
        self._model = model
        self._timeout = SilenceLimit(timeout or time_limit(self.endpoint.entry))
        self._transport = transport or chosen_transport()
        self._options: Any = {"headers": {**_HEADERS, **self.endpoint.headers}, "security": {"bearer_auth": True}}
        self._client: AsyncOpenAI | None = None

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one attempt; CallError if it fails. A reply that contains a key fails too, since replies are stored.

        UserError if a first call shows that there is no API at this address.
        """
        try:
            completion = await self._attempt(request)
            stored = completion.text + completion.reasoning + completion.finish_reason
            if any(secret in stored for secret in self.endpoint.secrets):
                raise CallError("the reply contains the API key and is not stored", retryable=False)
        except CallError as error:
            raise CallError(**{**vars(error), "reason": self._redacted(error.reason)}) from None
        return completion if completion.error is None else replace(completion, error=self._redacted(completion.error))

    def start_from(self, dialect: Mapping[str, Any]) -> None:
        """Start from what an earlier process learned of the endpoint, unless a call has shown more since.

        What the model's entry states wins. ValueError if ``dialect`` is none.
        """
        if not self._has_answered:
            stated = self.endpoint.entry.dialect.model_dump(exclude_unset=True)
            self.dialect = self._reported = Dialect.model_validate({**self.dialect.stated(), **dialect, **stated})

    async def aclose(self) -> None:
        """Close the connections. Another event loop can use the model afterwards."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, request: ChatRequest) -> Completion:
        import openai

        started, original, tier = time.monotonic(), request, self.endpoint.entry.tier
        requests, spent = 0, Usage()
        while True:
            dialect = self.dialect
            current = request.in_form(bound=dialect.json_schema)
            if current.bound is None and original.bound is not None and original.bound.required:
                raise CallError(NOT_TAKEN, retryable=False)
            served_at = {"service_tier": tier} if tier else {}
            sent = {**self._body(dialect, current), **served_at, **self.endpoint.entry.extra_body}
            requests += 1
            on_delta = readable(current.on_delta) if current.on_delta and current.bound else current.on_delta
            try:
                body = await self._post(sent, replace(current, on_delta=on_delta))
            except openai.APIStatusError as error:
                refusal = self._refusal(error)
                if tier and self.endpoint.entry.fall_back and no_resources(refusal):
                    tier = None
                    continue
                other = self._after_refusal(refusal, dialect, sent, request) if requests <= _ADAPTATIONS else None
                if other is None:
                    at_tier = "service_tier" in sent
                    return read_refusal(refusal, error.response, attempts=requests, at_tier=at_tier)
                request = other
                continue
            self._has_answered = True
            self._report_dialect()
            self._note_slots(body)
            completion = self._completion(body, sent, current, seconds=time.monotonic() - started, attempts=requests)
            if request.max_tokens != original.max_tokens:
                completion = replace(completion, max_tokens=request.max_tokens)
            completion = completion if dialect.stop else _stopped(completion, request.stop)
            if original.bound is None:
                return completion
            if current.bound is not None and ignores_schema(completion):
                # Only the first calls are asked in this form, so their replies would differ from all others.
                self._refuse_schemas(required=current.bound.required)
                spent, request = spent + completion.usage, request.in_form(bound=False)
                continue
            if current.bound is None and self.dialect.json_schema:
                # The free form was sent after a refusal without a reason: the schema was the reason.
                self._refuse_schemas(required=False)
            return replace(completion, bound=current.bound is not None, usage=spent + completion.usage)

    def _after_refusal(
        self, refusal: ServerError, dialect: Dialect, sent: Mapping[str, Any], request: ChatRequest
    ) -> ChatRequest | None:
        """The request to send after a refusal, perhaps in another dialect; None if the refusal is final."""
        if self._adapted(refusal, dialect, sent, request):
            return request
        limit = sent.get(dialect.max_tokens)
        if limit and (free := free_tokens(refusal, limit)):
            return replace(request, max_tokens=free)
        bound = request.bound if dialect.json_schema else None
        return request.in_form(bound=False) if bound and not bound.required and unexplained(refusal) else None

    def _completion(
        self, body: bytes, sent: Mapping[str, Any], request: ChatRequest, *, seconds: float, attempts: int
    ) -> Completion:
        is_cut = partial(self._is_cut, request)
        completion = read_completion(assembled(body), request, seconds=seconds, attempts=attempts, is_cut=is_cut)
        if "stream_options" in sent and completion.usage.estimated:
            self.dialect = self._reported = self.dialect.model_copy(update={"stream_options": False})
        # A server that names no tier has used the one that was asked for.
        tier = completion.tier or sent.get("service_tier")
        if not is_utf8(body):
            completion = replace(completion, usage=replace(completion.usage, not_utf8=True))
        return replace(completion, tier=tier if tier in (FLEX, BATCH) else "")

    def _refuse_schemas(self, *, required: bool) -> None:
        """Note that the server takes no schemas, or ignores them; its reply to such a request counts for nothing."""
        self.dialect = self.dialect.model_copy(update={"json_schema": False})
        self._report_dialect()
        if required:
            raise CallError(IGNORED, retryable=False)

    def _body(self, dialect: Dialect, request: ChatRequest) -> dict[str, Any]:
        return dialect.body(self._model, request)

    def _is_cut(self, request: ChatRequest, counted: int) -> bool:
        """Whether the server cut the prompt, of which it ``counted`` so many tokens; the first time in a warning."""
        expected = self._cut_prompts.expected(request.messages, counted)
        if expected is not None and not self._has_warned:
            self._has_warned = True
            _log.warning("%s", cut_warning(self.name, expected, counted, request.max_tokens))
        return expected is not None

    async def _post(self, sent: Mapping[str, Any], request: ChatRequest) -> bytes:
        """The body of the response; ``openai.APIStatusError`` for an error status, CallError for a broken connection.

        If it is a stream, the listeners of the request hear of the text as it arrives.
        """
        import openai

        try:
            async with self._timeout.call() as alive:
                return await self._body_of(sent, request, alive)
        except openai.APIStatusError:
            raise
        except Exception as error:  # noqa: BLE001
            broken = read_broken(error)
            if isinstance(broken, CallError) and broken.timed_out and not self._timed_out:
                self._timed_out = True
                _log.warning("%s: %s; further calls are sent fewer at a time", self.name, broken)
            raise broken from None

    async def _body_of(self, sent: Mapping[str, Any], request: ChatRequest, alive: Callable[[], None]) -> bytes:
        import httpx2
        import openai

        client = self._connected()
        where: Any = {"path": self._path, "body": sent, "options": self._options}
        if "stream" not in sent:
            whole: bytes = await client.post(**where, cast_to=bytes)
            alive()
            return whole
        response = await client.post(**where, cast_to=httpx2.Response, stream=True, stream_cls=openai.AsyncStream[Any])
        body, read = bytearray(), 0
        on_delta, on_token = request.on_delta, request.on_token
        try:
            async for piece in response.aiter_bytes():
                alive()  # by comments too: the server says that it is at work
                body += piece
                while (on_delta or on_token) and (end := body.find(b"\n", read)) >= 0:
                    line, read = bytes(body[read:end]), end + 1
                    text, *others = delta(line)
                    if on_token and (text or any(others)):
                        on_token()
                        on_token = None
                    if on_delta and text:
                        on_delta(text)
        finally:
            await response.aclose()
        return bytes(body)

    def _refusal(self, error: APIStatusError) -> ServerError:
        """The refusal in a response. UserError if nothing has shown that there is an API at this address."""
        try:
            body = json.loads(error.response.content)  # the whole one: the package has only what is under "error"
        except (ValueError, RecursionError):
            body = error.body
        refusal = ServerError.read(error.status_code, body)
        if not self._has_answered and no_api(refusal, self._model):
            where = f"HTTP {refusal.status} from {public_url(str(error.request.url))}"
            raise UserError(f"{self.name}: {self._redacted(f'{where}: {refusal.message}')}; {self._address_hint}")
        return refusal

    def _adapted(self, error: ServerError, dialect: Dialect, sent: Mapping[str, Any], request: ChatRequest) -> bool:
        """Whether to repeat the request, in a dialect that this or a concurrent request has found."""
        sent_form = self._body(dialect, request)
        if error.status in REFUSALS and self._body(self.dialect, request) != sent_form:
            return True
        found = dialect.after(error, sent)
        if found is None or self._body(found, request) == sent_form:
            return False
        self.dialect = found
        return True

    def _report_dialect(self) -> None:
        if self.dialect != self._reported:
            self._reported = self.dialect
            stated = ", ".join(f"{key}: {str(value).lower()}" for key, value in self.dialect.stated().items())
            _log.warning("%s: the server needs requests in another form; detected: {%s}", self.name, stated)

    def _note_slots(self, body: bytes) -> None:
        if not self.dialect.slots and has_slots(body):
            self.dialect = self._reported = self.dialect.model_copy(update={"slots": True})

    def _redacted(self, reason: str) -> str:
        """The reason without secrets, on one line, shortened."""
        for secret in self.endpoint.secrets:
            reason = reason.replace(secret, "[key]")
        reason = without_path_secrets(reason, self.endpoint.address)
        reason = " ".join(_KEY_SHAPES.sub("[key]", reason).split())
        return reason if len(reason) <= _REASON_LENGTH else f"{reason[:_REASON_LENGTH]}..."

    def _connected(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        from madke.models.transport import open_transport

        if self._client is None:
            # The package requires a key; local servers ignore it.
            key = self.endpoint.key or "no-key"
            http = open_transport(self._transport, self._timeout.whole, own=self.endpoint.own)
            self._client = AsyncOpenAI(api_key=key, base_url=self.endpoint.address, max_retries=0, http_client=http)
        return self._client


class AzureChat(OpenAIChat):
    """A chat model deployed on Azure OpenAI, with the key in ``AZURE_OPENAI_API_KEY``.

    Args:
        deployment: The deployment's name.
        endpoint: The resource's URL. Default: ``AZURE_OPENAI_ENDPOINT``.
        at: The deployment's own URL. The key is sent there only if it has the same origin as the endpoint.
        needs_key: False for a model that will not be called.
        **options: ``timeout`` and ``transport``, as for :class:`OpenAIChat`.
    """

    _address_hint = "is AZURE_OPENAI_ENDPOINT the address of the resource, such as https://NAME.openai.azure.com?"

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        at: str | None = None,
        needs_key: bool = True,
        **options: Any,
    ) -> None:
        from openai import Omit

        name = f"azure/{deployment}"
        url = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT") or ("" if needs_key else at or _NOWHERE)
        if not url:
            raise UserError(f"AZURE_OPENAI_ENDPOINT is not set, and {name} needs it (or a base URL)")
        address = checked_url(at or url, model=name)
        key = key_from_environment("AZURE_OPENAI_API_KEY") if origin(address) == origin(url) else None
        if key is None and needs_key:
            raise UserError(f"AZURE_OPENAI_API_KEY is not set, and {name} needs it")
        where = Endpoint(address=address, limited_as=address, key=key)
        super().__init__(deployment, name=name, endpoint=where, **options)
        version = os.environ.get("AZURE_OPENAI_API_VERSION") or "2024-10-21"
        self._path = f"/openai/deployments/{quote(deployment)}/chat/completions?api-version={quote(version)}"
        self._options = {"headers": {**_HEADERS, "api-key": key or "", "Authorization": Omit()}}


def _stopped(completion: Completion, stop: tuple[str, ...]) -> Completion:
    """The completion cut at the first stop string, for a server that does not support them."""
    cut = min((at for each in stop if (at := completion.text.find(each)) >= 0), default=None)
    return completion if cut is None else replace(completion, text=completion.text[:cut], finish_reason="stop")


def chosen_transport() -> Transport:
    """The transport in ``MADKE_TRANSPORT``; by default aiohttp, or httpx where a proxy needs it."""
    match os.environ.get("MADKE_TRANSPORT") or None:
        case "aiohttp" | "httpx" as chosen:
            return chosen
        case None:
            proxies = urllib.request.getproxies()
            urls = [proxies.get(scheme, "") for scheme in ("http", "https", "all")]
            return "aiohttp" if all(url.startswith("http://") or "://" not in url for url in urls) else "httpx"
        case other:
            raise unknown("transport in MADKE_TRANSPORT", other, ("aiohttp", "httpx"))
