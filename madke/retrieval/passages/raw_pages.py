"""Read the pages of dumps and books, and split them into passages.

A dump is Wikipedia's XML (such as ``pages-articles.xml.bz2``, export format 0.3 to 0.11), read as a stream.
"""

import bz2
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import SEEK_END
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from xml.etree.ElementTree import ParseError

from madke._util.assets import install
from madke._util.files import fingerprint
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import CorpusCounts, CorpusKind, SourceFile
from madke.retrieval.passages.books import find_books, read_book, sections
from madke.retrieval.passages.wikitext import HIDDEN, plain_text


class RawPage(NamedTuple):
    """One wiki page, with its latest revision, or one book file before cleaning."""

    page_id: str
    """The page's number, or the book file's path relative to its source."""
    revision: str = ""
    """Empty for a book, like the title."""
    title: str = ""
    text: str = ""
    namespace: int = 0
    """0 for articles."""
    redirect: bool = False
    """Whether the dump marks it as a redirect; old dumps have no such marks."""


class RawPassage(NamedTuple):
    """A passage without its id, which depends on all passages before it."""

    title: str
    text: str
    page_id: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pages that one worker processes together; their passages go to one shard."""

    shard: int
    kind: CorpusKind
    words: int
    hidden: frozenset[str]
    """See :func:`madke.retrieval.passages.wikitext.strip_markup`."""
    pages: tuple[RawPage, ...]
    seen: CorpusCounts
    """Counts of skipped pages between the previous batch and the end of this one."""


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The result of a batch."""

    shard: int
    passages: tuple[RawPassage, ...]
    counts: CorpusCounts
    unparsable: tuple[str, ...]
    """Title (or file name) and error of each page that could not be parsed."""


def make_passages(batch: Batch) -> BatchResult:
    """Make the passages of a batch, in order. A page that cannot be parsed is reported and skipped."""
    passages: list[RawPassage] = []
    counts: Counter[str] = Counter(pages=len(batch.pages))
    unparsable = []
    for page in batch.pages:
        try:
            kind, found = _passages_of(page, batch)
        except ImportError as error:  # on a node of a cluster
            raise UserError(f"a worker lacks {error.name}: {install('wiki')} on its node") from error
        except Exception as error:  # noqa: BLE001 - one page of millions may raise anything in a parser
            kind, found = "unparsable", []
            unparsable.append(f"{page.title or page.page_id}: {type(error).__name__}: {error}")
        counts[kind] += 1
        counts["passages"] += len(found)
        passages += found
    total = batch.seen + CorpusCounts(**counts)
    return BatchResult(shard=batch.shard, passages=tuple(passages), counts=total, unparsable=tuple(unparsable))


def _passages_of(page: RawPage, batch: Batch) -> tuple[str, list[RawPassage]]:
    """The field of Counts for the page, and its passages."""
    if batch.kind == "text":
        parts = [(section.title, section.text) for section in sections(page.page_id, page.text)]
    else:
        kind = page_kind(page.title, page.text)
        if kind != "article":
            return f"{kind}s", []
        parts = [(page.title, plain_text(page.text, hidden=batch.hidden))]
    found = [
        RawPassage(title, text, page.page_id, page.revision)
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


_END_BYTES = 1 << 20
_SILENT_NAMESPACES = (-2, 6, 14)
"""Media, File and Category (MediaWiki's fixed numbers): their links show no text."""
_FORGET_AFTER = 1_000
"""Number of pages after which the parser's finished elements are removed from memory."""


def read_pages(sources: Sequence[Path], kind: CorpusKind) -> tuple[Iterator[RawPage | str], frozenset[str]]:
    """An iterator over pages (for a skipped page, its field of Counts), and namespaces whose links show no text."""
    if kind == "wikipedia":
        return _dump_pages(sources), HIDDEN.union(*map(silent_namespaces, sources))
    return (RawPage(name, text=read_book(path)) for path, name in find_books(sources)), HIDDEN


def _dump_pages(sources: Sequence[Path]) -> Iterator[RawPage | str]:
    for source in sources:
        for page in read_dump(source):
            if page.namespace != 0:
                yield "other_namespaces"
            elif page.redirect:
                yield "redirects"
            else:
                yield page


def describe_sources(sources: Sequence[Path], kind: CorpusKind) -> tuple[SourceFile, ...]:
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
    if not path.is_file():
        raise UserError("no such dump file; a folder of texts needs --kind text", file=path)
    with path.open("rb") as file:
        digest = sha256(file.read(_END_BYTES))
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        digest.update(file.read())
    return SourceFile(name=path.name, size=size, sha256=digest.hexdigest())


def read_dump(path: Path) -> Iterator[RawPage]:
    """Yield the pages of a dump file (XML; plain, ``.gz``, or single- or multi-stream ``.bz2``) in constant memory."""
    last = ""
    with _opened(path, lambda: last) as file:
        root, dump = _root_and_dump(file)
        for number, page in enumerate(dump.pages, start=1):
            revision = None
            for revision in page:  # noqa: B007  (a dump with history has the latest last)
                pass
            yield RawPage(
                page_id=str(page.id),
                revision=str(revision.id if revision else 0),
                title=page.title,
                text=(revision and revision.slots.contents["main"].text) or "",
                namespace=page.namespace,
                redirect=page.redirect is not None,
            )
            last = f" after page {page.id} ({page.title!r})"
            if number % _FORGET_AFTER == 0:
                # mwxml leaves emptied elements of finished pages in the tree: gigabytes for a Wikipedia.
                root.clear()


def silent_namespaces(path: Path) -> frozenset[str]:
    """Lower-case names, in the wiki's language, of the namespaces whose links show no text."""
    with _opened(path, lambda: "") as file:
        _, dump = _root_and_dump(file)
        return frozenset(
            namespace.name.lower()
            for namespace in dump.site_info.namespaces or ()
            if namespace.id in _SILENT_NAMESPACES and namespace.name
        )


def _root_and_dump(file: IO[bytes]) -> tuple[Any, Any]:
    from mwxml import Dump
    from mwxml.element_iterator import ElementIterator

    root = ElementIterator.from_file(file)
    if root.tag != "mediawiki":
        raise ValueError(f"expected the XML element <mediawiki>, found <{root.tag}>")
    return root.element, Dump.from_element(root)


@contextmanager
def _opened(path: Path, where: Callable[[], str]) -> Iterator[IO[bytes]]:
    """Open a dump; every error in its content becomes a UserError."""
    from mwxml.errors import MalformedXML

    opener: Any = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            yield file
    except EOFError:
        raise UserError(f"the dump is truncated{where()}; download it again", file=path) from None
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot be read{where()}: {reason}", file=path) from None
    except (ParseError, MalformedXML, ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"not a Wikipedia XML dump, or damaged{where()}: {reason}", file=path) from None
