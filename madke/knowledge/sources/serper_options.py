"""What can be set about a web search through Serper: the value of ``serper:`` in a file of sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

CREDIT_BUYS = 10
"""Results; more of them cost two credits."""
_MOST = 100
_PER_SITE = 2
"""Results of one site that Google lists at most, as a rule."""
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)


class SerperOptions(BaseModel):
    """Settings of a web search.

    The defaults are the paper's (MADKE, section 3.1.1): brief descriptions of organic results, nothing else of a page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    organic: bool = True
    """Snippets of the organic results."""
    answer_box: bool = False
    """Google's direct answer, where it gives one, as the first passage."""
    knowledge_graph: bool = False
    """The panel about an entity (type, description, attributes), as a passage before the organic results."""
    results: Annotated[int | None, Field(strict=True, ge=1, le=_MOST)] = None
    """Organic results to ask for. By default as many as are searched for, and two more where domains are left out,
    rounded up to tens: ten cost one credit, more cost two."""
    country: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    """Two letters, such as ``us``; by default Serper's choice."""
    language: Annotated[str | None, Field(pattern="^[a-z]{2,3}(-[a-z0-9]{2,4})?$")] = None
    """Such as ``en`` or ``pt-br``; by default Serper's choice."""
    after: date | None = None
    """First day of the pages' dates, in Google's judgement."""
    before: date | None = None
    """Last day of the pages' dates; both days belong to the range."""
    exclude: tuple[str, ...] = ()
    """Domains that no passage may come from, with their subdomains; a leading ``www.`` is not counted."""
    cache_days: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """Days for which a kept answer is used; by default for ever."""

    @field_validator("country", "language", mode="before")
    @classmethod
    def _lower(cls, code: Any) -> Any:
        return code.lower() if isinstance(code, str) else code

    @field_validator("after", "before", mode="before")
    @classmethod
    def _no_number(cls, day: Any) -> Any:
        if isinstance(day, int | float):  # a year alone would be taken for seconds since 1970
            raise ValueError(f"expected a day such as 2021-01-31, found {day!r}")
        return day

    @field_validator("exclude")
    @classmethod
    def _domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({_domain(domain) for domain in domains}))

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if not (self.organic or self.answer_box or self.knowledge_graph):
            raise ValueError("organic, answer_box and knowledge_graph are all off; expected at least one of them")
        if self.after and self.before and self.after > self.before:
            raise ValueError(f"after ({self.after}) is later than before ({self.before})")
        return self

    def parameters(self, query: str, k: int) -> dict[str, str | int]:
        """What is sent for ``k`` passages. The query stays verbatim: it names no domain to leave out."""
        wanted = k + (_PER_SITE if self.exclude else 0)
        optional = {"gl": self.country, "hl": self.language, "tbs": self._date_range()}
        return {
            "q": query,
            "num": self.results or min(-(-wanted // CREDIT_BUYS) * CREDIT_BUYS, _MOST),
            **{name: value for name, value in optional.items() if value is not None},
        }

    def allows(self, links: Iterable[str]) -> bool:
        """Whether a text that these links are given for may be shown.

        Where domains are left out, one without a link, or with a link that cannot be read, may come from there: it may
        not be shown either.
        """
        if not self.exclude:
            return True
        hosts = [_host(link) for link in links]
        return bool(hosts) and all(host is not None and not self._is_excluded(host) for host in hosts)

    @property
    def changed(self) -> str:
        """The settings that differ from the defaults and change results, such as ``country="us"``; may be empty."""
        values = self.model_dump(mode="json", exclude_defaults=True, exclude={"cache_days"})
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in values.items())

    def _date_range(self) -> str | None:
        ends = (("cd_min", self.after), ("cd_max", self.before))
        given = [f"{name}:{day.month}/{day.day}/{day.year}" for name, day in ends if day is not None]
        return ",".join(["cdr:1", *given]) if given else None

    def _is_excluded(self, host: str) -> bool:
        return any(host == domain or host.endswith(f".{domain}") for domain in self.exclude)


def _domain(text: str) -> str:
    domain = (_host(f"//{text.strip()}") or "").removeprefix("www.")
    if not _HOST.fullmatch(domain) or re.search(r"[/:@?#\\]", text):
        raise ValueError(f"expected a domain such as example.org, found {text!r}")
    return domain


def _host(link: str) -> str | None:
    """The host of a link in lower case, international names as ``xn--``; None where it cannot be read."""
    try:
        # Browsers read a backslash as a slash.
        host = urlsplit(link.replace("\\", "/")).hostname or ""
        host = host.rstrip(".").encode("idna").decode("ascii").lower()
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None
