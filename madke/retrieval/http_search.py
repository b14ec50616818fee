"""Search services over HTTP, which people describe in YAML: templates of requests, and paths to the results."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from madke._util.assets import asset
from madke._util.concurrency import in_thread
from madke._util.http_session import keyed_session
from madke._util.yaml_file import read_mapping
from madke.core.addresses import public_url, retry_after
from madke.core.chat import decoded
from madke.core.errors import unknown
from madke.models.endpoint import key_from_environment
from madke.retrieval.web import (
    MAX_REPLY_BYTES,
    Address,
    Fetch,
    NoAnswer,
    PricedReply,
    Request,
    TryAgain,
    WebOptions,
    WebResult,
)

if TYPE_CHECKING:
    import requests

_SLOT = re.compile(r"\{(query|k)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

JsonPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$")]
"""Keys and positions in a JSON value, such as ``hits.0.title``."""

_TIMEOUT = 20.0
"""Seconds to connect, and seconds between two pieces of data."""
_DEADLINE = 60.0
"""Seconds for a whole reply, even if its head or its body arrives slowly."""


class HttpReply(NamedTuple):
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
        self.concurrency = concurrency
        self._method = method
        self._variables = variables
        self._hint = hint
        self._no_credits = no_credits or {}
        self._session = _session(concurrency)

    def request(self, url: str, headers: Mapping[str, str], **parts: Any) -> HttpReply:
        """Send a request once and return the reply with status 200; else NoAnswer or TryAgain."""
        import requests
        from urllib3 import exceptions

        # The last one is a body that ends early.
        transient = requests.ConnectionError, requests.Timeout, exceptions.TimeoutError, exceptions.ProtocolError
        try:
            reply = self._reply(url, headers, parts)
        except transient as error:
            raise TryAgain(type(error).__name__, reached=False) from None
        except (requests.RequestException, exceptions.HTTPError) as error:
            # Without its text, which may contain a key.
            raise NoAnswer(type(error).__name__) from None
        if reply.status != 200:
            self.judge(reply)
        return reply

    def judge(self, reply: HttpReply) -> NoReturn:
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

    def _reply(self, url: str, headers: Mapping[str, str], parts: Mapping[str, Any]) -> HttpReply:
        ends = time.monotonic() + _DEADLINE
        # Uncompressed, so that the byte limit holds for what is read.
        headers = {"Accept-Encoding": "identity", **headers}
        asked = partial(
            self._session.request, self._method, url,
            headers=headers, timeout=_TIMEOUT, allow_redirects=False, stream=True, **parts,
        )  # fmt: skip
        try:
            # In a thread, which can be left: the timeout begins again with each byte of the reply's head.
            begun = in_thread(asked).result(_DEADLINE)
        except TimeoutError:
            raise NoAnswer(f"no complete reply within {_DEADLINE:g} s") from None
        with begun as reply:
            content = bytearray()
            read = reply.status_code in (200, *self._no_credits)  # Other bodies are not used.
            while read and (block := reply.raw.read1(1 << 16, decode_content=False)):
                content += block
                if len(content) > MAX_REPLY_BYTES:
                    raise NoAnswer(f"HTTP {reply.status_code}, but the reply exceeds {MAX_REPLY_BYTES:,} bytes")
                if time.monotonic() > ends:
                    raise NoAnswer(f"no complete reply within {_DEADLINE:g} s")
            return HttpReply(reply.status_code, retry_after(reply.headers), bytes(content))


def _session(connections: int) -> requests.Session:
    import requests

    session = keyed_session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=connections))
    # A redirect would send the key to another host, and its body is read without a limit.
    session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
    return session


class Fields(BaseModel, frozen=True, extra="forbid"):
    """Where the parts of a result are, as paths within the result."""

    text: JsonPath | None = None
    """A string, or a list of strings, which are joined."""
    title: JsonPath | None = None
    contents: JsonPath | None = None
    """Title and text in one string: the first line is the title."""
    url: JsonPath | None = None
    id: JsonPath | None = None
    """Default: the URL."""
    score: JsonPath | None = None
    """A number; higher is better."""
    date: JsonPath | None = None


def string_at(item: Any, path: str | None) -> str:
    """The string or number at a path; the strings of a list, joined; empty if there is none."""
    value = value_at(item, path) if path else None
    parts = value if isinstance(value, list) else [value]
    return " ".join(str(part) for part in parts if isinstance(part, str | int | float) and not isinstance(part, bool))


def value_at(value: Any, path: str) -> Any:
    """The value at a path; None if it is missing."""
    for part in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def fill_template(template: Any, query: str, k: int) -> Any:
    """The template with the query for ``{query}`` and the number for ``{k}`` in its strings.

    Each string is filled once: braces in the query stay as they are. A string that is only ``{k}`` becomes the number.
    """
    if isinstance(template, Mapping):
        return {name: fill_template(value, query, k) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [fill_template(value, query, k) for value in template]
    if not isinstance(template, str):
        return template
    return k if template == "{k}" else _SLOT.sub(lambda slot: query if slot[1] == "query" else str(k), template)


def variables(*texts: str) -> Iterator[str]:
    """The names in ``${NAME}``."""
    for text in texts:
        yield from _VARIABLE.findall(text)


def with_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the values of ``${NAME}``; UserError if a value cannot be sent in a header."""

    def value(variable: re.Match[str]) -> str:
        return key_from_environment(variable[1]) or ""

    return {name: _VARIABLE.sub(value, text) for name, text in texts.items()}


def parse_json(content: bytes | str) -> Any:
    """JSON from a service; NoAnswer if it is not JSON. Characters that cannot be encoded or decoded are replaced."""
    try:
        text = decoded(content) if isinstance(content, bytes) else content
        # A text that is cut inside a character ends in half a surrogate pair, which cannot be encoded.
        return json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise NoAnswer("the reply is not JSON") from None


_Value = str | int | float | bool


def search_presets() -> dict[str, Any]:
    """Name -> settings of each preset of :class:`HttpOptions`."""
    return read_mapping(asset("indexes", "search_services.yaml"))


class HttpOptions(WebOptions):
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
    headers: dict[str, str] = Field(default_factory=dict)
    results: Annotated[str, Field(pattern=r"^([^.\s]+(\.[^.\s]+)*)?\??$")] = ""
    """Path of the list of results. Default: the whole reply. With a ``?`` at the end it may be missing."""
    fields: Fields = Fields()
    html: bool = False
    """Whether titles and texts have HTML tags and character references, which are removed."""
    max_results: Annotated[int, Field(ge=1)] | None = None
    """The most results that the service gives; ``{k}`` is at most this."""
    credits: Annotated[int, Field(ge=0)] = 0
    """Price of a reply, for the count of spent credits."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 8
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
        known = search_presets()
        if name not in known:
            raise ValueError(str(unknown("preset", name, known)))
        preset = known[name]
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
            if any(variables(str(value))) and fill_template(value, "", 0) != value:
                raise ValueError(f"{name} contains a key and a slot; expected one of them")
        return params

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.method == "GET" and self.body is not None:
            raise ValueError("body requires method: POST")
        if "{query}" not in str([self.params, self.body]):
            raise ValueError("expected {query} in params or body")
        if not (self.fields.text or self.fields.contents):
            raise ValueError("fields: expected the path of text, or of contents")
        return self

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return list(dict.fromkeys(variables(str([self.headers, self.params]))))

    def answer(self, reply: Any) -> PricedReply:
        """The reply with its price; NoAnswer if it is not as described."""
        self.read(reply)
        return PricedReply(reply, self.credits)

    def read(self, reply: Any) -> list[WebResult]:
        """The results of a reply that are not excluded; NoAnswer if the reply is not as described."""
        items = value_at(reply, self.results.removesuffix("?"))
        if items is None and self.results.endswith("?") and isinstance(reply, Mapping):
            return []
        found = [result for item in items if (result := self._result(item))] if isinstance(items, list) else []
        if not found and items != []:
            where = self.results or "the reply"
            raise NoAnswer(f"the reply has no list of results with the configured fields at {where!r}")
        if any(result.score is None for result in found):  # The ranks are comparable, some scores are not.
            found = [result.model_copy(update={"score": None}) for result in found]
        return [result for result in found if self.allows([result.link])]

    def count(self, k: int) -> int:
        """The number of results to request for ``k`` passages."""
        return min(self.request_size(k), self.max_results or self.request_size(k))

    @property
    def digest(self) -> str:
        """A short hash of the settings, so that other settings are another source."""
        values = self.model_dump(mode="json", exclude={"cache_days", "concurrency"})
        return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    def _result(self, item: Any) -> WebResult | None:
        """A result; None if it has neither title, text nor URL."""
        paths = self.fields
        title, text = self._text(item, paths.title), self._text(item, paths.text)
        if paths.contents:
            head, newline, body = self._text(item, paths.contents).partition("\n")
            title, text = (head.strip().removeprefix('"').removesuffix('"'), body) if newline else ("", head)
        link, key, date = (string_at(item, path) for path in (paths.url, paths.id, paths.date))
        if not (title or text or link):
            return None
        score = value_at(item, paths.score) if paths.score else None
        values = {"title": title, "snippet": text, "link": link, "date": date or None, "id": key}
        try:
            return WebResult.model_validate({**values, "score": score})
        except ValidationError:
            return WebResult.model_validate(values)

    def _text(self, item: Any, path: str | None) -> str:
        text = string_at(item, path)
        return html.unescape(_TAG.sub("", text)) if self.html else text


class HttpSearch(HttpService):
    """A service that is described by its options; see :class:`madke.retrieval.web.Service`."""

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

    def send(self, request: Request) -> PricedReply:
        """The service's reply."""
        options = self._options
        params = {**request["params"], **with_keys(self._secret_params)}
        reply = self.request(options.url, with_keys(options.headers), params=params, json=request["body"])
        return options.answer(parse_json(reply.content))

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The service's results."""
        options, count = self._options, self._options.count(k)
        public = {name: value for name, value in options.params.items() if name not in self._secret_params}
        request = {"params": fill_template(public, query, count), "body": fill_template(options.body, query, count)}
        return options.read(fetch(request))
