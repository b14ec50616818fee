"""Raw pages to passages: the work that is spread over processes and machines. Pure: no file is read or written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from madke.core.errors import UserError
from madke.indexing.passages.books import sections
from madke.indexing.passages.folder import Counts, Kind
from madke.indexing.passages.page_kind import page_kind
from madke.indexing.passages.splitting import split_words
from madke.indexing.passages.wikitext import plain_text


class RawPage(NamedTuple):
    """One page of a wiki, or one book file, as it was read."""

    page_id: str
    """The page's number, or the book file's name below its source."""
    revision: str
    """Empty for books."""
    title: str
    """Empty for books: their sections have titles."""
    text: str
    """Wikitext, or the file's content."""


class Passage(NamedTuple):
    """A passage without its id, which depends on all passages before it."""

    title: str
    text: str
    page_id: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pages that are worked on together."""

    shard: int
    """The shard their passages go to."""
    kind: Kind
    words: int
    hidden: frozenset[str]
    """Names of the wiki's namespaces whose links show nothing."""
    pages: tuple[RawPage, ...]
    seen: Counts
    """Pages between the last batch and the end of this one that were not worth sending."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What became of a batch."""

    shard: int
    passages: tuple[Passage, ...]
    counts: Counts
    unparsable: tuple[str, ...]
    """Title (or file name) and error of each page that could not be parsed."""


def make_passages(batch: Batch) -> Made:
    """The passages of a batch, in order. A page that cannot be parsed is reported, and costs no other page.

    Raises:
        UserError: A package is missing here.
    """
    passages: list[Passage] = []
    counts: Counter[str] = Counter(pages=len(batch.pages))
    unparsable = []
    for page in batch.pages:
        try:
            kind, found = _passages_of(page, batch)
        except ImportError as error:  # a machine of a cluster
            raise UserError(f"a worker has no {error.name}: pip install 'madke[wiki]' there") from error
        except Exception as error:  # whatever one page of millions does to a parser
            kind, found = "unparsable", []
            unparsable.append(f"{page.title or page.page_id}: {type(error).__name__}: {error}")
        counts[kind] += 1
        counts["passages"] += len(found)
        passages += found
    return Made(
        shard=batch.shard,
        passages=tuple(passages),
        counts=batch.seen + Counts(**counts),
        unparsable=tuple(unparsable),
    )


def _passages_of(page: RawPage, batch: Batch) -> tuple[str, list[Passage]]:
    """A field of Counts, and the page's passages."""
    if batch.kind == "text":
        parts = [(section.title, section.text) for section in sections(page.page_id, page.text)]
    else:
        kind = page_kind(page.title, page.text)
        if kind != "article":
            return f"{kind}s", []
        parts = [(page.title, plain_text(page.text, hidden=batch.hidden))]
    found = [
        Passage(title, text, page.page_id, page.revision)
        for title, whole in parts
        for text in split_words(whole, batch.words)
    ]
    return "articles" if found else "empty", found
