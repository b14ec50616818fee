"""Stream the pages of a Wikipedia XML dump (such as ``pages-articles.xml.bz2``, export format 0.3 to 0.11)."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import ParseError

from madke.core.errors import UserError

_SILENT_NAMESPACES = (-2, 6, 14)
"""Media, File and Category (MediaWiki's fixed numbers): their links show no text."""
_FORGET_AFTER = 1_000
"""Number of pages after which the parser's finished elements are removed from memory."""


@dataclass(frozen=True, kw_only=True)
class DumpPage:
    """One page with its latest revision."""

    id: int
    title: str
    namespace: int
    """0 for articles."""
    redirect: bool
    """Whether the dump marks it as a redirect; old dumps have no such marks."""
    revision: int
    text: str
    broken: str = ""
    """The error, and the page before it; empty for a valid page."""


def read_dump(path: Path) -> Iterator[DumpPage]:
    """Yield the pages of a dump file (XML; plain, ``.gz``, or single- or multi-stream ``.bz2``) in constant memory.

    A page that is valid XML but no valid export page is yielded with ``broken`` set.
    """
    last = ""
    with _opened(path, lambda: last) as file:
        root, dump = _root_and_dump(file)
        pages = (item for item in dump.items if isinstance(item, DumpPage))
        for number, page in enumerate(pages, start=1):
            yield replace(page, broken=page.broken + last) if page.broken else page
            if page.id:
                last = f" after page {page.id} ({page.title!r})"
            if number % _FORGET_AFTER == 0:
                # mwxml leaves emptied elements of finished pages in the tree: gigabytes for a Wikipedia.
                root.clear()


def _read_page(element: Any, namespaces: Any) -> DumpPage:
    from mwxml import Page
    from mwxml.errors import MalformedXML

    page = revision = None
    try:
        page = Page.from_element(element, namespaces)
        for revision in page:  # noqa: B007  (a dump with history has the latest last)
            pass
        return DumpPage(
            id=page.id,
            title=page.title,
            namespace=page.namespace,
            redirect=page.redirect is not None,
            revision=revision.id if revision else 0,
            text=(revision and revision.slots.contents["main"].text) or "",
        )
    except (MalformedXML, ValueError, TypeError, AttributeError, KeyError) as error:
        broken = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        id_, title, namespace = (page.id or 0, page.title, page.namespace) if page else (0, "", 0)
        return DumpPage(id=id_, title=title, namespace=namespace, redirect=False, revision=0, text="", broken=broken)


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

    class PagesApart(Dump):  # type: ignore[misc]
        """Reads each page whole, because an error inside mwxml's iterator would end the iteration."""

        @classmethod
        def process_item(cls, item_element: Any, namespace_map: Any) -> Any:
            if item_element.tag == "page":
                return _read_page(item_element, namespace_map)
            return super().process_item(item_element, namespace_map)

    root = ElementIterator.from_file(file)
    if root.tag != "mediawiki":
        raise ValueError(f"expected the XML element <mediawiki>, found <{root.tag}>")
    return root.element, PagesApart.from_element(root)


@contextmanager
def _opened(path: Path, where: Callable[[], str]) -> Iterator[IO[bytes]]:
    """Open a dump; every error in its content becomes a UserError."""
    from mwxml.errors import MalformedXML

    openers: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            yield file
    except EOFError:
        raise UserError(f"the dump is truncated{where()}; download it again", file=path) from None
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot be read{where()}: {reason}", file=path) from None
    except (ParseError, MalformedXML, ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"not a Wikipedia XML dump, or damaged{where()}: {reason}", file=path) from None
