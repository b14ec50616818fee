"""Search services over HTTP: presets of well-known ones, and any other by its description."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from madke.assets import asset
from madke.core.addresses import public_url
from madke.core.errors import unknown
from madke.knowledge.web import Address, WebResult
from madke.knowledge.web_http import Http
from madke.knowledge.web_mapping import MappedOptions, filled, parse_json, variables, with_keys
from madke.knowledge.web_source import Answer, Fetch, NoAnswer, Request, Send
from madke.yaml_file import read_mapping

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
        texts = [*self.headers.values(), *map(str, self.params.values())]
        return list(dict.fromkeys(variables(*texts)))


class HttpSearch:
    """A service that is described by its options; see :class:`madke.knowledge.web_source.Service`."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._http = Http(
            method=options.method,
            connections=options.concurrency,
            variables=" or ".join(options.keys),
            hint=options.refused,
            no_credits=options.no_credits,
        )
        self._secret_params = {name: str(value) for name, value in options.params.items() if any(variables(str(value)))}
        self.concurrency = options.concurrency
        self.address = f"{options.method} {public_url(options.url)}"
        kind = options.preset or "http"
        self.description = f"{kind} search at {public_url(options.url)} (settings {options.digest})"

    @contextmanager
    def connected(self) -> Iterator[Send]:
        """Connections for one search."""
        with self._http.connected() as call:
            headers = with_keys(self._options.headers)
            secret = with_keys(self._secret_params)

            def send(request: Request) -> Answer:
                body = call(
                    self._options.url,
                    params={**request["params"], **secret},
                    json=request["body"],
                    headers=headers,
                )
                return checked(body.content, self._options)

            yield send

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The service's results."""
        options, count = self._options, self._options.count(k)
        public = {name: value for name, value in options.params.items() if name not in self._secret_params}
        request = {"params": filled(public, query, count), "body": filled(options.body, query, count)}
        return read(fetch(request), options)


def checked(content: bytes, options: MappedOptions) -> Answer:
    """The reply, if it is as the options describe it; else NoAnswer."""
    try:
        return accepted(parse_json(content), options)
    except ValueError:
        raise NoAnswer("the reply is not JSON") from None


def accepted(reply: Any, options: MappedOptions) -> Answer:
    """The same for a parsed reply."""
    read(reply, options)
    return Answer(reply, options.credits)


def read(reply: Any, options: MappedOptions) -> list[WebResult]:
    """The results of a reply; NoAnswer if it is not as the options describe it."""
    results = options.read(reply)
    if results is None:
        found = options.results or "the reply"
        raise NoAnswer(f"the reply has no list of results with the configured fields at {found!r}")
    return results
