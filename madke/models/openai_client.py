"""Chat models at OpenAI-compatible endpoints (OpenAI, vLLM, ...) or on Azure, through ``openai``."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from madke.core.addresses import public_url
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.dialect import REFUSALS, Dialect
from madke.models.endpoint import Endpoint, checked_url, key_from_environment, openai_endpoint
from madke.models.limiter import SilenceLimit, time_limit
from madke.models.openai_wire import (
    SLOT_TIMINGS,
    ServerError,
    delta,
    expected_tokens,
    free_tokens,
    ignores_schema,
    no_api,
    read_broken,
    read_completion,
    read_refusal,
    too_long,
)

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

    from madke.models.transport import Transport

_log = logging.getLogger(__name__)

_HEADERS = {"Accept-Encoding": "identity"}
"""No compression, which could hide the length of a reply."""
_MAX_ADAPTATIONS = 10
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
        timeout: How many seconds the server may be silent. Default: :func:`madke.models.limiter.time_limit`.
        transport: Default: the one that the proxies of the environment need.
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
        entry = self.endpoint.entry
        known: dict[str, Any] = {}
        if "response_format" in entry.extra_body:  # the user's own replaces ours
            known["json_schema"] = False
        if self.endpoint.is_openai and "prompt_cache_key" not in entry.dialect.model_fields_set:
            known["prompt_cache_key"] = True
        self.dialect: Dialect = entry.dialect.model_copy(update=known)
        self._reported = self.dialect
        self._has_answered = self._has_timed_out = self._has_cut = False
        self._model = model
        self._timeout = SilenceLimit(timeout or time_limit(entry))
        self._transport = transport
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
            raise CallError(**{**vars(error), "reason": self.endpoint.redact(error.reason)}) from None
        reason = completion.error
        return completion if reason is None else replace(completion, error=self.endpoint.redact(reason))

    def start_from(self, dialect: Mapping[str, Any]) -> None:
        """Start from what an earlier process learned of the endpoint, unless a call has shown more since.

        What the model's entry states wins. ValueError if ``dialect`` is none.
        """
        if not self._has_answered:
            stated = self.endpoint.entry.dialect.model_dump(exclude_unset=True)
            self.dialect = self._reported = Dialect.model_validate({**self.dialect.non_defaults(), **dialect, **stated})

    async def aclose(self) -> None:
        """Close the connections. Another event loop can use the model afterwards."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, request: ChatRequest) -> Completion:
        """One logical request: repeated until its dialect, its limit of tokens and its form are those of the server."""
        import openai

        started, original = time.monotonic(), request
        requests, spent = 0, Usage()
        while True:
            dialect, requests = self.dialect, requests + 1
            current = request.in_form(bound=dialect.json_schema)
            sent = {**dialect.body(self._model, current), **self.endpoint.entry.extra_body}
            try:
                body = await self._post(sent, current)
            except openai.APIStatusError as error:
                refusal = self._refusal(error)
                again = self._after_refusal(refusal, dialect, sent, request) if requests <= _MAX_ADAPTATIONS else None
                if again is None:
                    return read_refusal(refusal, error.response, attempts=requests)
                request = again
                continue
            self._has_answered = True
            self._report_dialect()
            seconds = time.monotonic() - started
            completion = read_completion(body, current, seconds=seconds, attempts=requests)
            self._note(completion, body, sent, current)
            if request.max_tokens != original.max_tokens:
                completion = replace(completion, max_tokens=request.max_tokens)
            ends = [at for stop in request.stop if (at := completion.text.find(stop)) >= 0]
            if ends and not dialect.stop:
                completion = replace(completion, text=completion.text[: min(ends)], finish_reason="stop")
            if original.bound is None:
                return completion
            ignored = current.bound is not None and ignores_schema(completion)
            # The free form was sent after a refusal without a reason: then the schema was the reason.
            if ignored or (current.bound is None and self.dialect.json_schema):
                self.dialect = self.dialect.model_copy(update={"json_schema": False})
                self._report_dialect()
            if not ignored:
                return replace(completion, bound=current.bound is not None, usage=spent + completion.usage)
            # Only the first calls are asked in this form, so their replies would differ from all others.
            spent, request = spent + completion.usage, request.in_form(bound=False)

    def _after_refusal(
        self, refusal: ServerError, dialect: Dialect, sent: Mapping[str, Any], request: ChatRequest
    ) -> ChatRequest | None:
        """The request to send after a refusal, perhaps in another dialect; None if the refusal is final."""
        form = dialect.body(self._model, request)
        if refusal.status in REFUSALS and self.dialect.body(self._model, request) != form:
            return request  # a concurrent request has found another dialect
        learned = dialect.after(refusal, sent)
        if learned is not None and learned.body(self._model, request) != form:
            self.dialect = learned
            return request
        limit = sent.get(dialect.max_tokens)
        if limit and (free := free_tokens(refusal, limit)):
            return replace(request, max_tokens=free)
        # A refusal that is neither about the prompt nor about a known field may concern the schema.
        unexplained = refusal.status == 400 and "content_filter" not in refusal.names and not too_long(refusal)
        return request.in_form(bound=False) if request.bound and dialect.json_schema and unexplained else None

    def _note(self, completion: Completion, body: bytes, sent: Mapping[str, Any], request: ChatRequest) -> None:
        """Note what a reply shows of the server; a prompt that it cut is worth a warning, once."""
        if "stream_options" in sent and completion.usage.estimated:
            self.dialect = self._reported = self.dialect.model_copy(update={"stream_options": False})
        if not self.dialect.slots and SLOT_TIMINGS.search(body):
            self.dialect = self._reported = self.dialect.model_copy(update={"slots": True})
        if completion.usage.server_cut and not self._has_cut:
            self._has_cut = True
            expected = expected_tokens(request.messages)
            window = 1 << (expected + expected // 4 + request.max_tokens).bit_length()
            _log.warning(
                f"{self.name}: the server counted {completion.usage.prompt_tokens:,} tokens of a prompt of about "
                f"{expected:,}, so it cuts long prompts to its context window without an error. Enlarge the window. "
                f"Ollama: PARAMETER num_ctx {window} in the model file, or OLLAMA_CONTEXT_LENGTH={window}; behind a "
                f"gateway that passes it on, extra_body: {{num_ctx: {window}}} in models.yaml"
            )

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
            if isinstance(broken, CallError) and broken.timed_out and not self._has_timed_out:
                self._has_timed_out = True
                _log.warning("%s: %s; further calls are sent fewer at a time", self.name, broken)
            raise broken from None

    async def _body_of(self, sent: Mapping[str, Any], request: ChatRequest, alive: Callable[[], None]) -> bytes:
        import httpx2
        import openai

        client = self._open_client()
        where: Any = {"path": self._path, "body": sent, "options": self._options}
        if "stream" not in sent:
            whole: bytes = await client.post(**where, cast_to=bytes)
            alive()
            return whole
        response = await client.post(**where, cast_to=httpx2.Response, stream=True, stream_cls=openai.AsyncStream[Any])
        body, read = bytearray(), 0
        on_delta, on_token = request.on_delta, request.on_token
        if request.bound is not None:
            on_delta = None  # nobody reads JSON; the whole reply is shown in words
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
            raise UserError(f"{self.name}: {self.endpoint.redact(f'{where}: {refusal.message}')}; {self._address_hint}")
        return refusal

    def _report_dialect(self) -> None:
        if self.dialect != self._reported:
            self._reported = self.dialect
            stated = ", ".join(f"{key}: {str(value).lower()}" for key, value in self.dialect.non_defaults().items())
            _log.warning("%s: the server needs requests in another form; detected: {%s}", self.name, stated)

    def _open_client(self) -> AsyncOpenAI:
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
        needs_key: False for a model that will not be called.
    """

    _address_hint = "is AZURE_OPENAI_ENDPOINT the address of the resource, such as https://NAME.openai.azure.com?"

    def __init__(self, deployment: str, *, endpoint: str | None = None, needs_key: bool = True) -> None:
        from openai import Omit

        name = f"azure/{deployment}"
        url = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT") or ("" if needs_key else _NOWHERE)
        if not url:
            raise UserError(f"AZURE_OPENAI_ENDPOINT is not set, and {name} needs it (or a base URL)")
        address = checked_url(url, model=name)
        key = key_from_environment("AZURE_OPENAI_API_KEY")
        if key is None and needs_key:
            raise UserError(f"AZURE_OPENAI_API_KEY is not set, and {name} needs it")
        where = Endpoint(address=address, limited_as=address, key=key)
        super().__init__(deployment, name=name, endpoint=where)
        version = os.environ.get("AZURE_OPENAI_API_VERSION") or "2024-10-21"
        self._path = f"/openai/deployments/{quote(deployment)}/chat/completions?api-version={quote(version)}"
        self._options = {"headers": {**_HEADERS, "api-key": key or "", "Authorization": Omit()}}
