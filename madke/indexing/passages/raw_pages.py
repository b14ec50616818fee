"""Read the pages of dumps and books, and split them into passages."""

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

from madke.assets import install
from madke.core.errors import UserError
from madke.files import fingerprint
from madke.indexing.corpus import Counts, Kind, SourceFile
from madke.indexing.passages.books import find_books, read_book, sections
from madke.indexing.passages.dump import read_dump, silent_namespaces
from madke.indexing.passages.wikitext import HIDDEN, plain_text


class RawPage(NamedTuple):
    """One wiki page or one book file before cleaning; a book's revision and title are empty."""

    page_id: str
    """The page's number, or the book file's path relative to its source."""
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
    """Pages that one worker processes together; their passages go to one shard."""

    shard: int
    kind: Kind
    words: int
    hidden: frozenset[str]
    """See :func:`madke.indexing.passages.wikitext.strip_markup`."""
    pages: tuple[RawPage, ...]
    seen: Counts
    """Counts of skipped pages between the previous batch and the end of this one."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """The result of a batch."""

    shard: int
    passages: tuple[Passage, ...]
    counts: Counts
    unparsable: tuple[str, ...]
    """Title (or file name) and error of each page that could not be parsed."""


def make_passages(batch: Batch) -> Made:
    """Make the passages of a batch, in order. A page that cannot be parsed is reported and skipped."""
    passages: list[Passage] = []
    counts: Counter[str] = Counter(pages=len(batch.pages))
    unparsable = []
    for page in batch.pages:
        try:
            kind, found = _passages_of(page, batch)
        except ImportError as error:  # on a node of a cluster
            raise UserError(f"a worker lacks {error.name}: {install('wiki')} on its node") from error
        except Exception as error:  # one page of millions may raise anything in a parser
            kind, found = "unparsable", []
            unparsable.append(f"{page.title or page.page_id}: {type(error).__name__}: {error}")
        counts[kind] += 1
        counts["passages"] += len(found)
        passages += found
    total = batch.seen + Counts(**counts)
    return Made(shard=batch.shard, passages=tuple(passages), counts=total, unparsable=tuple(unparsable))


def _passages_of(page: RawPage, batch: Batch) -> tuple[str, list[Passage]]:
    """The field of Counts for the page, and its passages."""
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
# English Wikipedia templates end in "disambiguation"; "disambiguation needed" marks a link, not a page.
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*+(?:(?:[^{{}}|\n<]{{1,40}}[ -])?(?:{_AMBIGUOUS})(?![^{{}}|\n]{{0,3}}(?:needed|link))(?:[ -]cleanup)?|"
    r"dab|hndis|geodis|mil-unit-dis|numberdis|schooldis|hospitaldis|roaddis|dp|aimai)\s*(?:\||\}\})"
    r"|__DISAMBIG__",
    re.IGNORECASE,
)
_AMBIGUOUS_TITLE = re.compile(rf"\((?:{_AMBIGUOUS})(?: page)?\)\Z", re.IGNORECASE)
_LIST_TITLE = re.compile(r"Lists? of .|Outline of .|Index of .*\barticles\b")


def page_kind(title: str, wikitext: str) -> Literal["article", "redirect", "disambiguation", "list"]:
    """Classify a page of the article namespace by its title and templates (as in DrQA, whose pages DPR split)."""
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
    """An iterator over pages (for a skipped page, its field of Counts), and namespaces whose links show no text."""
    if kind == "wikipedia":
        return _dump_pages(sources), HIDDEN.union(*map(silent_namespaces, sources))
    return (RawPage(name, "", "", read_book(path)) for path, name in find_books(sources)), HIDDEN


def _dump_pages(sources: Sequence[Path]) -> Iterator[RawPage | str]:
    for source in sources:
        for page in read_dump(source):
            if page.broken:
                _log.warning("skipped, cannot be parsed: %s: %s", page.title or "a page", page.broken)
                yield "unparsable"
            elif page.namespace != 0:
                yield "other_namespaces"
            elif page.redirect:
                yield "redirects"
            else:
                yield RawPage(str(page.id), str(page.revision), page.title, page.text)


def describe_sources(sources: Sequence[Path], kind: Kind) -> tuple[SourceFile, ...]:
    """The source files in order; UserError if two have the same content."""
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
            raise UserError(f"this file has the same content as {first[content]}; give only one of them", file=path)
        first[content] = path
    return tuple(file for _, file in files)


def _describe_dump(path: Path) -> SourceFile:
    if path.is_dir():
        raise UserError("this is a folder, but a dump is a file; read a folder of texts with --kind text", file=path)
    if not path.is_file():
        raise UserError("no such dump file", file=path)
    with path.open("rb") as file:
        digest = sha256(file.read(_END_BYTES))
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        digest.update(file.read())
    return SourceFile(name=path.name, size=size, sha256=digest.hexdigest())
