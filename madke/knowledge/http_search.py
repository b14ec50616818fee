"""Search services over HTTP: requests, presets of well-known services, and any other by its description."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Self

import requests
import urllib3
from pydantic import Field, field_validator, model_validator

from madke.assets import asset
from madke.core.addresses import public_url, retry_after
from madke.core.errors import unknown
from madke.knowledge.web import Address, WebResult
from madke.knowledge.web_mapping import MappedOptions, filled, parse_json, variables, with_keys
from madke.knowledge.web_source import MAX_BYTES, Answer, Fetch, NoAnswer, Request, TryAgain
from madke.yaml_file import read_mapping

_TIMEOUT = 20.0
"""Seconds to connect, and seconds between two pieces of data."""
_DEADLINE = 60.0
"""Seconds for a whole reply, even if its body arrives slowly."""
_TRANSIENT = (
    requests.ConnectionError,
    requests.Timeout,
    urllib3.exceptions.TimeoutError,
    urllib3.exceptions.ProtocolError,
)
"""Errors that are retried; the last one is a body that ends early."""


class Reply(NamedTuple):
    """A reply; ``wait``: the seconds that its headers ask to wait."""

    status: int
    wait: float | None
    content: bytes


class HttpService:
    """Requests to one service: bounded replies, no redirects, and what each status means.

    For messages: ``variables`` are the environment variables that hold the service's keys, ``hint`` says why access may
    be rejected although no key is needed. ``no_credits``: see :class:`HttpOptions`.
    """

    def __init__(
        self,
        *,
        method: str,
        concurrency: int,
        variables: str = "",
        hint: str = "",
        no_credits: Mapping[int, str] | None = None,
    ) -> None:
        # At DEBUG it logs full addresses, and a parameter may be a key.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.WARNING)
        self.concurrency = concurrency
        self._method = method
        self._variables = variables
        self._hint = hint
        self._no_credits = no_credits or {}
        self._session = _Session(concurrency)

    def request(self, url: str, headers: Mapping[str, str], **parts: Any) -> Reply:
        """Send a request once and return the reply with status 200; else NoAnswer or TryAgain."""
        try:
            reply = self._reply(url, headers, parts)
        except _TRANSIENT as error:
            raise TryAgain(type(error).__name__, reached=False) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            # Without its text, which may contain a key.
            raise NoAnswer(type(error).__name__) from None
        if reply.status != 200:
            self.judge(reply)
        return reply

    def judge(self, reply: Reply) -> NoReturn:
        """Raise what a reply with another status than 200 means."""
        # In our words, because the body may contain the key.
        reason = f"HTTP {reply.status}"
        if reply.status in (401, 403):
            hint = f" ({self._hint})" if self._hint else ""
            raise NoAnswer(f"{reason}, {self._variables or 'access'} was rejected{hint}", refused=True)
        mark = self._no_credits.get(reply.status)
        if reply.status == 402 or (mark is not None and mark in reply.content.decode(errors="replace").lower()):
            raise NoAnswer(f"{reason}, no credits are left", refused=True)
        if reply.status == 429 or reply.status >= 500:
            raise TryAgain(reason, wait=reply.wait)
        raise NoAnswer(reason)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._session.close()

    def _reply(self, url: str, headers: Mapping[str, str], parts: Mapping[str, Any]) -> Reply:
        ends = time.monotonic() + _DEADLINE
        # Uncompressed, so that the byte limit holds for what is read.
        headers = {"Accept-Encoding": "identity", **headers}
        with self._session.request(
            self._method, url, headers=headers, timeout=_TIMEOUT, allow_redirects=False, stream=True, **parts
        ) as reply:
            content = bytearray()
            read = reply.status_code in (200, *self._no_credits)  # Other bodies are not used.
            while read and (block := reply.raw.read1(1 << 16, decode_content=False)):
                content += block
                if len(content) > MAX_BYTES:
                    raise NoAnswer(f"HTTP {reply.status_code}, but the reply exceeds {MAX_BYTES:,} bytes")
                if time.monotonic() > ends:
                    raise NoAnswer(f"no complete reply within {_DEADLINE:g} s")
            return Reply(reply.status_code, retry_after(reply.headers), bytes(content))


class _Session(requests.Session):
    """Follows no redirect: it would send the key to another host and read the body without a limit."""

    def __init__(self, connections: int) -> None:
        super().__init__()
        self.auth = lambda request: request  # else ~/.netrc replaces the key
        for scheme in ("http://", "https://"):
            self.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=connections))

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


_Value = str | int | float | bool


class HttpOptions(MappedOptions):
    """How to ask a search service over HTTP. A preset sets all but the address; further settings change the preset.

    In ``params`` and ``body``, ``{query}`` and ``{k}`` stand for the query and the number of results. In ``headers``
    and in ``params``, ``${NAME}`` stands for the environment variable that holds a key.
    """

    preset: str | None = None
    """A name in ``indexes/search_services.yaml``."""
    url: Address
    """The address, without user and query. With a preset, its own path may be left out."""
    method: Literal["GET", "POST"] = "GET"
    params: dict[str, _Value] = Field(default_factory=dict)
    """The query of the address."""
    body: dict[str, Any] | None = None
    """The JSON body."""
    headers: dict[str, str] = Field(default_factory=dict)
    concurrency: Annotated[int, Field(ge=1, le=64)] = 8
    """Requests at once."""
    refused: str = ""
    """Why the service may reject access although it needs no key, for messages."""
    no_credits: dict[int, str] = Field(default_factory=dict)
    """Status -> text (lower case) of replies that mean that the quota is used up. An empty text is in every reply."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        """The preset's settings, changed by the given ones; mappings are merged."""
        name = given.get("preset") if isinstance(given, Mapping) else None
        if not isinstance(name, str):
            return given
        presets = read_mapping(asset("indexes", "search_services.yaml"))
        if name not in presets:
            raise ValueError(str(unknown("preset", name, presets)))
        preset = presets[name]
        merged = {name: value for name, value in preset.items() if name != "path"}
        for name, value in given.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
            merged[name] = {**merged[name], **value} if both else value
        if isinstance(url := merged.get("url"), str) and (path := preset.get("path")):
            merged["url"] = url.rstrip("/").removesuffix(path) + path
        return merged

    @field_validator("params")
    @classmethod
    def _keys_alone(cls, params: dict[str, _Value]) -> dict[str, _Value]:
        for name, value in params.items():
            if any(variables(str(value))) and filled(value, "", 0) != value:
                raise ValueError(f"{name} contains a key and a slot; expected one of them")
        return params

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.method == "GET" and self.body is not None:
            raise ValueError("body requires method: POST")
        if "{query}" not in str([self.params, self.body]):
            raise ValueError("expected {query} in params or body")
        return self

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return list(dict.fromkeys(variables(str([self.headers, self.params]))))


class HttpSearch(HttpService):
    """A service that is described by its options; see :class:`madke.knowledge.web_source.Service`."""

    def __init__(self, options: HttpOptions) -> None:
        super().__init__(
            method=options.method,
            concurrency=options.concurrency,
            variables=" or ".join(options.keys),
            hint=options.refused,
            no_credits=options.no_credits,
        )
        self._options = options
        self._secret_params = {name: str(value) for name, value in options.params.items() if any(variables(str(value)))}
        self.address = f"{options.method} {public_url(options.url)}"
        kind = options.preset or "http"
        self.description = f"{kind} search at {public_url(options.url)} (settings {options.digest})"

    def send(self, request: Request) -> Answer:
        """The service's reply."""
        options = self._options
        params = {**request["params"], **with_keys(self._secret_params)}
        reply = self.request(options.url, with_keys(options.headers), params=params, json=request["body"])
        return options.answer(parse_json(reply.content))

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The service's results."""
        options, count = self._options, self._options.count(k)
        public = {name: value for name, value in options.params.items() if name not in self._secret_params}
        request = {"params": filled(public, query, count), "body": filled(options.body, query, count)}
        return options.read(fetch(request))
