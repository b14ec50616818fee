"""What passages are made from, dumps or books: which files they are, and their pages in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import SEEK_END
from pathlib import Path

from madke.core.errors import UserError
from madke.files import fingerprint
from madke.indexing.passages.books import find_books, read_book
from madke.indexing.passages.dump import read_dump, silent_namespaces
from madke.indexing.passages.folder import Kind, SourceFile
from madke.indexing.passages.pages import RawPage
from madke.indexing.passages.wikitext import HIDDEN

_log = logging.getLogger(__name__)

_END_BYTES = 1 << 20


def read_pages(sources: Sequence[Path], kind: Kind) -> tuple[Iterator[RawPage | str], frozenset[str]]:
    """The pages to work on, of any other page the field of Counts that counts it; and whose links show nothing.

    Raises:
        UserError: A source cannot be read.
    """
    if kind == "wikipedia":
        return _dump_pages(sources), HIDDEN.union(*map(silent_namespaces, sources))
    return _book_pages(sources), HIDDEN


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


def _book_pages(sources: Sequence[Path]) -> Iterator[RawPage | str]:
    for book in find_books(sources):
        yield RawPage(book.name, "", "", read_book(book))


def describe_sources(sources: Sequence[Path], kind: Kind) -> tuple[SourceFile, ...]:
    """The files, in order, with what identifies each.

    Raises:
        UserError: A file is missing, cannot be read, or has the content of another.
    """
    if kind == "wikipedia":
        files = [(path, _describe_dump(path)) for path in sources]
    else:
        files = [
            (book.path, SourceFile(name=book.name, size=book.path.stat().st_size, sha256=fingerprint(book.path)))
            for book in find_books(sources)
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
    try:
        with path.open("rb") as file:
            digest = sha256(file.read(_END_BYTES))
            size = file.seek(0, SEEK_END)
            file.seek(max(0, size - _END_BYTES))
            digest.update(file.read())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    return SourceFile(name=path.name, size=size, sha256=digest.hexdigest())
