"""Web search: settings, the contents of a Serper reply, and a file of results as a source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.files import fingerprint, read_jsonl
from madke.yaml_file import validated

SERPER_KEY = "SERPER_API_KEY"
CREDIT_BUYS = 10
"""Results per credit; more results cost two credits."""
_MAX_RESULTS = 100
_PER_SITE = 2
"""Google usually lists at most two results of one site."""
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)


class WebResult(BaseModel):
    """One result of a search: its snippet, never the page; ``date`` as the search engine writes it."""

    title: str = ""
    snippet: str = ""
    link: str
    date: str | None = None
    score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The service's own score, if it gives one."""

    @property
    def key(self) -> str:
        """The passage's key."""
        return self.link


class WebPanel(WebResult):
    """A panel next to the organic results; ``kind`` is, for example, ``answer_box``."""

    kind: str

    @property
    def key(self) -> str:
        """The kind and the link, or else the title or the snippet."""
        return f"{self.kind} {self.link or self.title or self.snippet}"


def web_hits(results: Iterable[WebResult], k: int, *, source: str, retrieved_at: str | None) -> Hits:
    """The first ``k`` results with a snippet. Without a score of its own, a result has ``1 / (rank + 1)``."""
    shown = [result for result in results if result.snippet.strip()][:k]
    return Hits(
        passages=tuple(
            Passage(
                source=source,
                key=result.key,
                title=result.title,
                text=result.snippet,
                score=1 / (rank + 1) if result.score is None else result.score,
                rank=rank,
                url=result.link or None,
                retrieved_at=retrieved_at,
                date=result.date,
            )
            for rank, result in enumerate(shown)
        )
    )


def _without_secrets(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s@?#]+", url):  # without the value, which may contain a key
        raise ValueError("expected http:// or https:// and an address without user and query")
    return url


Address = Annotated[str, AfterValidator(_without_secrets)]
"""The address of a service. It is written to pool files and to the cache."""


class WebOptions(BaseModel):
    """Settings that all search services share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exclude: tuple[str, ...] = ()
    """Excluded domains, with their subdomains; a leading ``www.`` is ignored."""
    cache_days: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """Days for which a cached answer is used; default: without limit."""

    @field_validator("exclude")
    @classmethod
    def _domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({_domain(domain) for domain in domains}))

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables that hold keys."""
        return ()

    @property
    def has_price(self) -> bool:
        """Whether replies cost credits."""
        return False

    def wanted(self, k: int) -> int:
        """Results to request for ``k`` passages: some more if domains are excluded."""
        return k + (_PER_SITE if self.exclude else 0)

    def allows(self, links: Iterable[str]) -> bool:
        """Whether a text with these links may be used; if domains are excluded, it needs a valid link."""
        hosts = [_host(link) for link in links]
        return not self.exclude or (bool(hosts) and all(host and not self._is_excluded(host) for host in hosts))

    def _is_excluded(self, host: str) -> bool:
        return any(host == domain or host.endswith(f".{domain}") for domain in self.exclude)


class SerperOptions(WebOptions):
    """Settings of a web search; the defaults are the paper's (MADKE, section 3.1.1): only organic snippets."""

    organic: bool = True
    answer_box: bool = False
    """Google's direct answer becomes the first passage."""
    knowledge_graph: bool = False
    """The panel about an entity (type, description, attributes) becomes a passage before the organic results."""
    results: Annotated[int | None, Field(strict=True, ge=1, le=_MAX_RESULTS)] = None
    """Organic results to request. Default: the number of passages, plus two if domains are excluded, rounded up to
    tens: ten cost one credit, more cost two."""
    country: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    """Two letters, such as ``us``; default: Serper's."""
    language: Annotated[str | None, Field(pattern="^[a-z]{2,3}(-[a-z0-9]{2,4})?$")] = None
    """Such as ``en`` or ``pt-br``; default: Serper's."""
    after: date | None = None
    """First day of the pages' dates (inclusive), as Google dates them."""
    before: date | None = None
    """Last day of the pages' dates (inclusive)."""

    @field_validator("country", "language", mode="before")
    @classmethod
    def _lower(cls, code: Any) -> Any:
        return code.lower() if isinstance(code, str) else code

    @field_validator("after", "before", mode="before")
    @classmethod
    def _no_number(cls, day: Any) -> Any:
        if isinstance(day, int | float):  # pydantic would read a year as seconds since 1970
            raise ValueError(f"expected a day such as 2021-01-31, found {day!r}")
        return day

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if not (self.organic or self.answer_box or self.knowledge_graph):
            raise ValueError("organic, answer_box and knowledge_graph are all off; expected at least one of them")
        if self.after and self.before and self.after > self.before:
            raise ValueError(f"after ({self.after}) is later than before ({self.before})")
        return self

    def parameters(self, query: str, k: int) -> dict[str, str | int]:
        """The request for ``k`` passages; the query is sent verbatim."""
        ends = (("cd_min", self.after), ("cd_max", self.before))
        days = [f"{name}:{day.month}/{day.day}/{day.year}" for name, day in ends if day is not None]
        optional = {"gl": self.country, "hl": self.language, "tbs": ",".join(["cdr:1", *days]) if days else None}
        return {
            "q": query,
            "num": self.results or min(-(-self.wanted(k) // CREDIT_BUYS) * CREDIT_BUYS, _MAX_RESULTS),
            **{name: value for name, value in optional.items() if value is not None},
        }

    @property
    def keys(self) -> Sequence[str]:
        """The environment variable that holds the key."""
        return (SERPER_KEY,)

    @property
    def has_price(self) -> bool:
        """Serper costs credits."""
        return True

    @property
    def changed(self) -> str:
        """The non-default settings that change results, such as ``country="us"``; may be empty."""
        values = self.model_dump(mode="json", exclude_defaults=True, exclude={"cache_days"})
        ordered = sorted(values.items(), key=lambda item: item[0] == "exclude")
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in ordered)


def _domain(text: str) -> str:
    domain = (_host(f"//{text.strip()}") or "").removeprefix("www.")
    if not _HOST.fullmatch(domain) or re.search(r"[/:@?#\\]", text):
        raise ValueError(f"expected a domain such as example.org, found {text!r}")
    return domain


def _host(link: str) -> str | None:
    """The host of a link in lower case, international names as ``xn--``; None if the link is invalid."""
    try:
        # Browsers treat a backslash as a slash.
        host = urlsplit(link.replace("\\", "/")).hostname or ""
        host = host.rstrip(".").encode("idna").decode("ascii").lower()
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None


_IMPOSSIBLE_PRICE = 1_000
"""Credits; every search costs less."""


class AnswerBox(BaseModel):
    """Google's direct answer."""

    title: str = ""
    answer: str = ""
    snippet: str = ""
    link: str = ""
    date: str | None = None


class KnowledgeGraph(BaseModel):
    """Google's panel about an entity, with its website and the page that the description comes from."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    title: str = ""
    type: str = ""
    description: str = ""
    descriptionLink: str = ""
    website: str = ""
    attributes: dict[str, str] = {}


class SerperReply(BaseModel):
    """The parts of a reply that become passages, and its price."""

    organic: tuple[WebResult, ...] = ()
    answerBox: AnswerBox | None = None
    knowledgeGraph: KnowledgeGraph | None = None
    credits: int = 0

    def results(self, options: SerperOptions) -> Iterator[WebResult]:
        """The results that the options allow: answer box, knowledge graph, organic results by rank."""
        box, graph = self.answerBox, self.knowledgeGraph
        if options.answer_box and box and options.allows(_non_empty(box.link)):
            text = _sentences(box.answer, box.snippet)
            yield WebPanel(kind="answer_box", title=box.title, snippet=text, link=box.link, date=box.date)
        if options.knowledge_graph and graph and options.allows(_non_empty(graph.descriptionLink, graph.website)):
            attributes = (f"{name}: {value}" for name, value in graph.attributes.items())
            text = _sentences(graph.type, graph.description, *attributes)
            yield WebPanel(kind="knowledge_graph", title=graph.title, snippet=text, link=graph.descriptionLink)
        if options.organic:
            yield from (result for result in self.organic if options.allows([result.link]))


def parse_reply(content: bytes, *, asked: int) -> SerperReply | None:
    """Parse the body of a reply; None if it is no search result.

    The reply was paid for, so an invalid part is skipped and the rest is used. If the price is missing or impossible,
    it is that of ``asked`` results.
    """
    try:
        # A snippet cut inside a character ends in half a surrogate pair, which cannot be encoded.
        body = json.loads(json.dumps(json.loads(content), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    organic = (body.get("organic") or []) if isinstance(body, dict) else None
    if not isinstance(organic, list):
        return None
    read = tuple(result for item in organic if (result := _part_of(WebResult, item)) is not None)
    if organic and not read:
        return None
    price = body.get("credits")
    return SerperReply(
        organic=read,
        answerBox=_part_of(AnswerBox, body.get("answerBox")),
        knowledgeGraph=_part_of(KnowledgeGraph, body.get("knowledgeGraph")),
        credits=price if type(price) is int and 0 <= price < _IMPOSSIBLE_PRICE else 1 if asked <= CREDIT_BUYS else 2,
    )


_Part = TypeVar("_Part", bound=BaseModel)


def _part_of(kind: type[_Part], item: Any) -> _Part | None:
    try:
        return kind.model_validate(item)
    except ValidationError:
        return None


def _non_empty(*links: str) -> list[str]:
    return [link for link in links if link]


def _sentences(*parts: str) -> str:
    kept = [part.strip() for part in parts if part.strip()]
    return " ".join([*(part if part.endswith((".", "!", "?")) else f"{part}." for part in kept[:-1]), *kept[-1:]])


class _Line(BaseModel):
    query: str
    results: tuple[WebResult, ...]


class SnippetsSource:
    """Results from a JSONL file of ``{"query", "results": [{"title", "snippet", "link", "date"?}]}``.

    Queries are matched without regard to case and white space; an unknown query has no passages. UserError on an
    invalid line or a repeated query.
    """

    def __init__(self, path: Path, *, name: str) -> None:
        self.name = name
        self._results: dict[str, tuple[WebResult, ...]] = {}
        for number, item in read_jsonl(path):
            line = validated(item, _Line, file=f"{path}:{number}")
            key = _normalised(line.query)
            if key in self._results:
                raise UserError(f"query {line.query!r} occurs twice", file=path, line=number)
            self._results[key] = line.results
        self.fingerprint = fingerprint(path)[:12]
        self.description = f"web-style snippets for {len(self._results):,} queries ({path}, {self.fingerprint})"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The first ``k`` results for each query."""
        return [
            web_hits(self._results.get(_normalised(query), ()), k, source=self.name, retrieved_at=None)
            for query in queries
        ]


def _normalised(query: str) -> str:
    return " ".join(query.split()).casefold()
