"""Google results through Serper's HTTP API: snippets of the results page, never the pages themselves.

The key comes from ``SERPER_API_KEY`` and is sent only in the request's header.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from madke.core.addresses import public_url
from madke.core.errors import UserError
from madke.models.endpoint import key_from_environment
from madke.retrieval.http_search import HttpService, parse_json
from madke.retrieval.web import Fetch, NoAnswer, PricedReply, Request, WebOptions, WebResult

SERPER_KEY = "SERPER_API_KEY"
CREDIT_BUYS = 10
"""Results per credit; more results cost two credits."""
_BASE_URL = "https://google.serper.dev"
_MAX_RESULTS = 100
_IMPOSSIBLE_PRICE = 1_000
"""Credits; every search costs less."""


class SerperOptions(WebOptions):
    """Settings of a web search. As in the paper (MADKE, section 3.1.1), only organic snippets become passages."""

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
            "num": self.results or min(-(-self.request_size(k) // CREDIT_BUYS) * CREDIT_BUYS, _MAX_RESULTS),
            **{name: value for name, value in optional.items() if value is not None},
        }

    @property
    def keys(self) -> Sequence[str]:
        """The environment variable that holds the key."""
        return (SERPER_KEY,)

    @property
    def changed(self) -> str:
        """The non-default settings that change results, such as ``country="us"``; may be empty."""
        values = self.model_dump(mode="json", exclude_defaults=True, exclude={"cache_days"})
        ordered = sorted(values.items(), key=lambda item: item[0] == "exclude")
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in ordered)


class Serper(HttpService):
    """``POST {base_url}/search``. Default: the address in ``SERPER_BASE_URL``, else Serper's own."""

    def __init__(self, options: SerperOptions, base_url: str | None = None) -> None:
        no_credits = {400: "not enough credits"}
        super().__init__(method="POST", concurrency=8, variables=SERPER_KEY, no_credits=no_credits)
        self.address = (base_url or os.environ.get("SERPER_BASE_URL") or _BASE_URL).rstrip("/")
        if "@" in self.address or "?" in self.address:
            # The address is written to pool files and the cache.
            expected = "expected the address alone (the key is SERPER_API_KEY)"
            raise UserError(f"SERPER_BASE_URL contains a user or a query; {expected}")
        self._options = options
        self._key = key_from_environment(SERPER_KEY) or ""
        changed = f" ({options.changed})" if options.changed else ""
        self.description = f"web search through {public_url(self.address)}{changed}"

    def send(self, request: Request) -> PricedReply:
        """The reply; a price that is missing or impossible is that of the requested results."""
        reply = parse_json(self.request(f"{self.address}/search", {"X-API-KEY": self._key}, json=dict(request)).content)
        if not isinstance(reply, Mapping) or _organic(reply) is None:
            raise NoAnswer("HTTP 200, but the body is not a search result")
        price = reply.get("credits")
        if type(price) is not int or not 0 <= price < _IMPOSSIBLE_PRICE:
            price = 1 if request["num"] <= CREDIT_BUYS else 2
        return PricedReply(reply, price)

    def results(self, query: str, k: int, fetch: Fetch) -> Iterable[WebResult]:
        """The organic results by rank that are not excluded."""
        found = _organic(fetch(self._options.parameters(query, k))) or ()
        return [result for result in found if self._options.allows([result.link])]


def _organic(reply: Mapping[str, Any]) -> list[WebResult] | None:
    """The organic results without invalid ones, since the reply was paid for; None if it is not a search result."""
    items = reply.get("organic") or []
    read = []
    for item in items if isinstance(items, list) else ():
        with suppress(ValidationError):
            read.append(WebResult.model_validate(item))
    return read if read or items == [] else None
