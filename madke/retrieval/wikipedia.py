"""Wikipedia by its search API: the articles found, split into passages of 100 words, and the best of these.

It follows the API's etiquette: a user agent that names the program, one request at a time, ``maxlag``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from pydantic import Field

from madke._version import __version__
from madke.core.addresses import public_url
from madke.retrieval.http_search import HttpReply, HttpService, parse_json
from madke.retrieval.passages.raw_pages import split_words
from madke.retrieval.web import Address, Fetch, NoAnswer, PricedReply, Request, TryAgain, WebOptions, WebResult

_WORDS = 100
_LONGEST_QUERY = 300
"""Characters; the API refuses longer ones."""
_LINKED_WORDS = 6
"""Words of a passage in its link, by which a browser finds it in the article."""
_MAX_LAG = 5
"""Seconds that the servers' copies may be behind; if it is more, the API asks to wait."""
_BUSY = re.compile(r"maxlag|ratelimited|readonly|cirrussearch-too-busy-error|internal_api_error_\w+")
_HEADING = re.compile(r"^=+\s*(.*?)\s*=+$")
_NO_TEXT = {"see also", "references", "notes", "external links", "further reading", "bibliography", "sources"}
"""Headings of sections that are lists of links."""


class WikipediaOptions(WebOptions):
    """Settings of a search in Wikipedia, or in another wiki with the same software."""

    language: Annotated[str, Field(pattern="^[a-z]{2,3}(-[a-z]+)*$")] = "en"
    articles: Annotated[int, Field(ge=1, le=20)] = 3
    """Articles to read for each query; each is one request, and is cached."""
    url: Address | None = None
    """Address of another wiki's ``api.php``; it needs the extension TextExtracts."""
    contact: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$")] | None = None
    """A mail address or page for the user agent, so that the operators can reach you."""


class Wikipedia(HttpService):
    """See :class:`madke.retrieval.web.Service`."""

    def __init__(self, options: WikipediaOptions) -> None:
        super().__init__(method="GET", concurrency=1)
        self._options = options
        self._url = options.url or f"https://{options.language}.wikipedia.org/w/api.php"
        self.address = public_url(self._url)
        self.description = f"Wikipedia search at {self.address} ({options.articles} articles per query)"
        contact = f"; {options.contact}" if options.contact else ""
        self._headers = {"User-Agent": f"madke/{__version__} (batch question answering{contact})"}

    def send(self, request: Request) -> PricedReply:
        """The API's reply."""
        fixed = {"action": "query", "format": "json", "formatversion": 2, "maxlag": _MAX_LAG}
        return _checked(self.request(self._url, self._headers, params=fixed | dict(request)))

    def results(self, query: str, k: int, fetch: Fetch) -> Iterator[WebResult]:
        """The best passages of the articles that the search finds."""
        request = {"list": "search", "srsearch": query[:_LONGEST_QUERY], "srlimit": self._options.articles}
        found = [item.get("pageid") for item in _list(fetch(request), "search")]
        passages = [passage for page in found if isinstance(page, int) for passage in self._passages(page, fetch)]
        for passage, score in _best(passages, query, k):
            words = quote(" ".join(passage.text.split()[:_LINKED_WORDS]), safe="")
            yield WebResult(
                title=passage.title,
                snippet=passage.text,
                # A part of the page: else the passages of an article would be duplicates of each other.
                link=f"{passage.url}#:~:text={words.replace('-', '%2D')}",
                id=passage.key,
                score=score,
            )

    def _passages(self, page: int, fetch: Fetch) -> Iterator[_Passage]:
        article = {
            "prop": "extracts|info|pageprops",
            "pageids": page,
            "explaintext": 1,
            "exsectionformat": "wiki",
            "inprop": "url",
            "ppprop": "disambiguation",
        }
        for item in _list(fetch(article), "pages"):
            title, text, url = (str(item.get(name) or "") for name in ("title", "extract", "fullurl"))
            if "pageprops" not in item and self._options.allows([url]):
                for n, part in enumerate(split_words(_prose(text), _WORDS)):
                    yield _Passage(f"{page}-{n}", title, part, url)


class _Passage(NamedTuple):
    key: str
    title: str
    text: str
    url: str


def _checked(response: HttpReply) -> PricedReply:
    reply = parse_json(response.content)
    if not isinstance(reply, dict):
        raise NoAnswer("the reply is not of the MediaWiki API")
    error = reply.get("error")
    if error is None and isinstance(reply.get("query"), dict):
        return PricedReply(reply)
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and _BUSY.fullmatch(code):
        raise TryAgain(f"the wiki is busy ({code})", wait=response.wait)
    known = isinstance(code, str) and re.fullmatch(r"[\w-]{1,40}", code)
    raise NoAnswer(f"the wiki refuses the request ({code})" if known else "the reply is not of the MediaWiki API")


def _list(reply: Any, name: str) -> list[dict[str, Any]]:
    found = reply["query"].get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _prose(extract: str) -> str:
    """The text of an article without headings and without sections that are lists of links."""
    kept, skipped = [], False
    for line in extract.splitlines():
        if heading := _HEADING.match(line.strip()):
            skipped = heading[1].casefold() in _NO_TEXT
        elif not skipped:
            kept.append(line)
    return "\n".join(kept)


def _best(passages: Sequence[_Passage], query: str, k: int) -> list[tuple[_Passage, float]]:
    """The ``k`` best passages with their scores: BM25 among these passages alone, titles included."""
    counts = [Counter(_terms(f"{passage.title} {passage.text}")) for passage in passages]
    found_in = Counter(term for count in counts for term in count)
    asked = set(_terms(query))

    rarity = {term: math.log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for term, n in found_in.items()}

    def score(count: Counter[str]) -> float:
        return sum(rarity[term] * count[term] / (count[term] + 0.9) for term in asked & count.keys())

    scored = [(passage, round(score(count), 6)) for passage, count in zip(passages, counts, strict=True)]
    return sorted(scored, key=lambda each: -each[1])[:k]


def _terms(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
