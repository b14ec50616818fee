"""The pages of dumps and books, and the passages made of them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import SEEK_END
from pathlib import Path
from typing import Literal, NamedTuple

from madke.core.errors import UserError
from madke.files import fingerprint
from madke.indexing.corpus import Counts, Kind, SourceFile
from madke.indexing.passages.books import find_books, read_book, sections
from madke.indexing.passages.dump import read_dump, silent_namespaces
from madke.indexing.passages.wikitext import HIDDEN, plain_text


class RawPage(NamedTuple):
    """One page of a wiki, or one book file, as it was read; a book has no revision, and its title is empty."""

    page_id: str
    """The page's number, or the book file's name below its source."""
    revision: str
    title: str
    text: str


class Passage(NamedTuple):
    """A passage without its id, which depends on all passages before it."""

    title: str
    text: str
    page_id: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pages that are worked on together; their passages go to one shard."""

    shard: int
    kind: Kind
    words: int
    hidden: frozenset[str]
    """See :func:`madke.indexing.passages.wikitext.strip_markup`."""
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
    """The passages of a batch, in order. A page that cannot be parsed is reported, and costs no other page."""
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
    total = batch.seen + Counts(**counts)
    return Made(shard=batch.shard, passages=tuple(passages), counts=total, unparsable=tuple(unparsable))


def _passages_of(page: RawPage, batch: Batch) -> tuple[str, list[Passage]]:
    """A field of Counts, and the page's passages."""
    if batch.kind == "text":
        parts: list[tuple[str, str]] = list(sections(page.page_id, page.text))
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


_REDIRECT = re.compile(
    r"\s*+#\s*+(?:redirect(?:ion)?|weiterleitung|redirección|rinvia|redirecionamento|doorverwijzing|patrz|"
    r"перенаправление|перенаправлення|omdirigering|yönlendirme|転送|重定向|넘겨주기|تحويل)\s*:?\s*\[\[",
    re.IGNORECASE,
)
_AMBIGUOUS = (
    r"disambig(?:uation|ua)?|disamb|homonymie|begriffsklärung|desambiguaci[oó]n|desambiguação|doorverwijspagina|"
    r"ujednoznacznienie|неоднозначность|багатозначність|förgrening|anlam ayr\u0131m\u0131|"
    r"曖昧さ回避|消歧义|消歧義|동음이의|توضيح"
)
# Templates of the English Wikipedia are called "... disambiguation"; "disambiguation needed" marks a link, not a page.
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*+(?:(?:[^{{}}|\n<]{{1,40}}[ -])?(?:{_AMBIGUOUS})(?![^{{}}|\n]{{0,3}}(?:needed|link))(?:[ -]cleanup)?|"
    r"dab|hndis|geodis|mil-unit-dis|numberdis|schooldis|hospitaldis|roaddis|dp|aimai)\s*(?:\||\}\})"
    r"|__DISAMBIG__",
    re.IGNORECASE,
)
_AMBIGUOUS_TITLE = re.compile(rf"\((?:{_AMBIGUOUS})(?: page)?\)\Z", re.IGNORECASE)
_LIST_TITLE = re.compile(r"Lists? of .|Outline of .|Index of .*\barticles\b")


def page_kind(title: str, wikitext: str) -> Literal["article", "redirect", "disambiguation", "list"]:
    """What a page of the article namespace is, by its title and its templates (DrQA, whose pages DPR split)."""
    if _REDIRECT.match(wikitext):
        return "redirect"
    if _AMBIGUOUS_TITLE.search(title) or _DISAMBIGUATION.search(wikitext):
        return "disambiguation"
    if _LIST_TITLE.match(title):
        return "list"
    return "article"


def split_words(text: str, words: int) -> Iterator[str]:
    """Passages of ``words`` words (100 in Karpukhin et al. 2020, section 4.1); the last one may be shorter."""
    found = text.split()
    for start in range(0, len(found), words):
        yield " ".join(found[start : start + words])


_log = logging.getLogger(__name__)

_END_BYTES = 1 << 20


def read_pages(sources: Sequence[Path], kind: Kind) -> tuple[Iterator[RawPage | str], frozenset[str]]:
    """The pages to work on, of any other page the field of Counts that counts it; and whose links show nothing."""
    if kind == "wikipedia":
        return _dump_pages(sources), HIDDEN.union(*map(silent_namespaces, sources))
    return (RawPage(name, "", "", read_book(path)) for path, name in find_books(sources)), HIDDEN


def _dump_pages(sources: Sequence[Path]) -> Iterator[RawPage | str]:
    for source in sources:
        for page in read_dump(source):
            if page.broken:
                _log.warning("left out, for it cannot be parsed: %s: %s", page.title or "a page", page.broken)
                yield "unparsable"
            elif page.namespace != 0:
                yield "other_namespaces"
            elif page.redirect:
                yield "redirects"
            else:
                yield RawPage(str(page.id), str(page.revision), page.title, page.text)


def describe_sources(sources: Sequence[Path], kind: Kind) -> tuple[SourceFile, ...]:
    """The files, in order, with what identifies each."""
    if kind == "wikipedia":
        files = [(path, _describe_dump(path)) for path in sources]
    else:
        files = [
            (path, SourceFile(name=name, size=path.stat().st_size, sha256=fingerprint(path)))
            for path, name in find_books(sources)
        ]
    first: dict[tuple[int, str], Path] = {}
    for path, file in files:
        content = (file.size, file.sha256)
        if file.size and content in first:
            raise UserError(f"has the same content as {first[content]}; give one of the two", file=path)
        first[content] = path
    return tuple(file for _, file in files)


def _describe_dump(path: Path) -> SourceFile:
    if not path.is_file():
        raise UserError("no such dump file", file=path)
    with path.open("rb") as file:
        digest = sha256(file.read(_END_BYTES))
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        digest.update(file.read())
    return SourceFile(name=path.name, size=size, sha256=digest.hexdigest())
