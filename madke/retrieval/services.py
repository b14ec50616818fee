"""Search services over HTTP: Serper, Wikipedia, and any that people describe in YAML (templates, paths to results)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from madke._util.assets import asset
from madke._util.yaml_file import read_mapping
from madke._version import __version__
from madke.core.addresses import public_url
from madke.core.errors import unknown
from madke.models.encoders import titled_text
from madke.models.endpoint import key_from_environment
from madke.retrieval.ranking import WordIndex
from madke.retrieval.web import Address, Fetch, NoAnswer, Request, WebResult, WebService

JsonPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$")]
"""Keys and positions in a JSON value, such as ``hits.0.title``."""

_SLOT = re.compile(r"\{(query|k)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


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


def _with_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the values of ``${NAME}``; UserError if a value cannot be sent in a header."""
    return {
        name: _VARIABLE.sub(lambda variable: key_from_environment(variable[1]) or "", text)
        for name, text in texts.items()
    }


_MAX_PER_SITE = 2
"""Google usually lists at most two results of one site; so many more are requested if domains are excluded."""

_Value = str | int | float | bool


def search_presets() -> dict[str, Any]:
    """Name -> settings of each preset of :class:`HttpOptions`."""
    return read_mapping(asset("indexes", "search_services.yaml"))


class HttpOptions(WebService):
    """How to ask a search service over HTTP. A preset sets all but the address; further settings change the preset.

    In ``params`` and ``body``, ``{query}`` and ``{k}`` stand for the query and the number of results. In ``headers``
    and in ``params``, ``${NAME}`` stands for the environment variable that holds a key.
    """

    preset: str | None = None
    """A name in ``indexes/search_services.yaml``."""
    url: Address
    """The address, without user and query. With a preset, its own path may be left out."""
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
    credits: Annotated[int, Field(ge=0)] | JsonPath = 0
    """Price of a reply, or its path in the reply, for the count of spent credits."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, fields: Any) -> Any:
        """The preset's settings, changed by the given ones; mappings are merged."""
        name = fields.get("preset") if isinstance(fields, Mapping) else None
        if not isinstance(name, str):
            return fields
        known = search_presets()
        if name not in known:
            raise ValueError(str(unknown("preset", name, known)))
        preset = known[name]
        merged = {name: value for name, value in preset.items() if name != "path"}
        for name, value in fields.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
            merged[name] = {**merged[name], **value} if both else value
        if isinstance(url := merged.get("url"), str) and (path := preset.get("path")):
            merged["url"] = url.rstrip("/").removesuffix(path) + path
        return merged

    @field_validator("params")
    @classmethod
    def _keys_alone(cls, params: dict[str, _Value]) -> dict[str, _Value]:
        for name, value in params.items():
            if _VARIABLE.findall(str(value)) and fill_template(value, "", 0) != value:
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
        return list(dict.fromkeys(_VARIABLE.findall(str([self.headers, self.params]))))

    @property
    def address(self) -> str:
        """Method and address."""
        return f"{self.method} {public_url(self.url)}"

    @property
    def description(self) -> str:
        """Other settings are another source."""
        values = self.model_dump(mode="json", exclude={"cache_days", "concurrency"})
        digest = sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.preset or 'http'} search at {public_url(self.url)} (settings {digest})"

    def parts(self, request: Request) -> dict[str, Any]:
        """With the keys."""
        params = {**request["params"], **_with_keys(self._secret_params)}
        return {"url": self.url, "headers": _with_keys(self.headers), "params": params or None, "json": request["body"]}

    def check(self, reply: Any, request: Request) -> int:
        """The configured price, of a reply as described."""
        self._read(reply)
        price = self.credits if isinstance(self.credits, int) else value_at(reply, self.credits)
        return price if type(price) is int and price >= 0 else 1

    @property
    def sends_key_away(self) -> bool:
        """Whether a key goes to another address than that of the preset."""
        preset = search_presets().get(self.preset or "", {})
        own = preset.get("url", "") + preset.get("path", ""), preset.get("headers", {})
        return bool(self.keys) and ((self.url, self.headers) != own or bool(self._secret_params))

    def find(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The service's results."""
        limit = k + (_MAX_PER_SITE if self.exclude else 0)
        count = min(limit, self.max_results or limit)
        public = {name: value for name, value in self.params.items() if name not in self._secret_params}
        request = {"params": fill_template(public, query, count), "body": fill_template(self.body, query, count)}
        return self._read(fetch(request))

    @property
    def _secret_params(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.params.items() if _VARIABLE.findall(str(value))}

    def _read(self, reply: Any) -> list[WebResult]:
        """The results of a reply that are not excluded; NoAnswer if the reply is not as described."""
        items = value_at(reply, self.results.removesuffix("?"))
        if items is None and self.results.endswith("?") and isinstance(reply, Mapping):
            return []
        results = [result for item in items if (result := self._result(item))] if isinstance(items, list) else []
        if not results and items != []:
            where = self.results or "the reply"
            raise NoAnswer(f"the reply has no list of results with the configured fields at {where!r}")
        if any(result.score is None for result in results):  # The ranks are comparable, some scores are not.
            results = [result.model_copy(update={"score": None}) for result in results]
        return [result for result in results if self.allows(result.link)]

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


_PASSAGE_WORDS = 100
_MAX_QUERY = 300
"""Characters; the API refuses longer ones."""
_LINKED_WORDS = 6
"""Words of a passage in its link, by which a browser finds it in the article."""
_MAX_LAG_SECONDS = 5
"""Seconds that the servers' copies may be behind; if it is more, the API asks to wait."""
_BUSY = re.compile(r"maxlag|ratelimited|readonly|cirrussearch-too-busy-error|internal_api_error_\w+")
_HEADING = re.compile(r"^=+\s*(.*?)\s*=+$")
_NO_TEXT = {"see also", "references", "notes", "external links", "further reading", "bibliography", "sources"}
"""Headings of sections that are lists of links."""


class WikipediaOptions(WebService):
    """Settings of a search in Wikipedia, or in another wiki with the same software."""

    language: Annotated[str, Field(pattern="^[a-z]{2,3}(-[a-z]+)*$")] = "en"
    articles: Annotated[int, Field(ge=1, le=20)] = 3
    """Articles to read for each query; each is one request, and is cached."""
    url: Address | None = None
    """Address of another wiki's ``api.php``; it needs the extension TextExtracts."""
    contact: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$")] | None = None
    """A mail address or page for the user agent, so that the operators can reach you."""
    method: Literal["GET"] = "GET"
    concurrency: Literal[1] = 1
    """One request at a time, as the operators ask."""

    @property
    def _api(self) -> str:
        return self.url or f"https://{self.language}.wikipedia.org/w/api.php"

    @property
    def address(self) -> str:
        """The address of the API."""
        return public_url(self._api)

    @property
    def description(self) -> str:
        """Address and number of articles."""
        return f"Wikipedia search at {self.address} ({self.articles} articles per query)"

    def parts(self, request: Request) -> dict[str, Any]:
        """With a name and a contact."""
        contact = f"; {self.contact}" if self.contact else ""
        headers = {"User-Agent": f"madke/{__version__} (batch question answering{contact})"}
        fixed = {"action": "query", "format": "json", "formatversion": 2, "maxlag": _MAX_LAG_SECONDS}
        return {"url": self._api, "headers": headers, "params": fixed | dict(request)}

    def check(self, reply: Any, request: Request) -> int:
        """A reply costs nothing."""
        error = reply.get("error") if isinstance(reply, dict) else "no object"
        if error is None and isinstance(reply.get("query"), dict):
            return 0
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, str) and _BUSY.fullmatch(code):
            raise NoAnswer(f"the wiki is busy ({code})", retry=True)
        known = isinstance(code, str) and re.fullmatch(r"[\w-]{1,40}", code)
        raise NoAnswer(f"the wiki refuses the request ({code})" if known else "the reply is not of the MediaWiki API")

    def find(self, query: str, k: int, fetch: Fetch) -> Iterator[WebResult]:
        """The best passages of the articles that the search finds."""
        request = {"list": "search", "srsearch": query[:_MAX_QUERY], "srlimit": self.articles}
        pages = [item.get("pageid") for item in _list(fetch(request), "search")]
        passages = [passage for page in pages if isinstance(page, int) for passage in self._passages(page, fetch)]
        index = WordIndex(titled_text(passage.title, passage.snippet) for passage in passages)
        scores = dict(index.search(query, k))
        others = (row for row in range(len(passages)) if row not in scores)
        for row in [*scores, *others][:k]:
            yield passages[row].model_copy(update={"score": scores.get(row, 0.0)})

    def _passages(self, page: int, fetch: Fetch) -> Iterator[WebResult]:
        request = {
            "prop": "extracts|info|pageprops",
            "pageids": page,
            "explaintext": 1,
            "exsectionformat": "wiki",
            "inprop": "url",
            "ppprop": "disambiguation",
        }
        for item in _list(fetch(request), "pages"):
            title, extract, url = (str(item.get(name) or "") for name in ("title", "extract", "fullurl"))
            if "pageprops" in item or not self.allows(url):
                continue
            words = _prose(extract).split()
            for n, start in enumerate(range(0, len(words), _PASSAGE_WORDS)):
                text = words[start : start + _PASSAGE_WORDS]
                # A part of the page: else the passages of an article would be duplicates of each other.
                part = quote(" ".join(text[:_LINKED_WORDS]), safe="").replace("-", "%2D")
                link = f"{url}#:~:text={part}"
                yield WebResult(id=f"{page}-{n}", title=title, snippet=" ".join(text), link=link)


def _list(reply: Any, name: str) -> list[dict[str, Any]]:
    entries = reply["query"].get(name)
    return [item for item in entries if isinstance(item, dict)] if isinstance(entries, list) else []


def _prose(extract: str) -> str:
    """The text of an article without headings and without sections that are lists of links."""
    kept, skipped = [], False
    for line in extract.splitlines():
        if heading := _HEADING.match(line.strip()):
            skipped = heading[1].casefold() in _NO_TEXT
        elif not skipped:
            kept.append(line)
    return "\n".join(kept)
