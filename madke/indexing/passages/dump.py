"""The pages of a Wikipedia XML dump, streamed (``pages-articles.xml.bz2`` and its like, export format 0.3 to 0.11)."""

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
"""Media, File and Category: links to them show nothing in the text (MediaWiki's fixed numbers)."""
_FORGET_AFTER = 1_000
"""Pages after which the parser's memory of finished ones is cleared."""


@dataclass(frozen=True, kw_only=True)
class DumpPage:
    """One page with its latest revision."""

    id: int
    title: str
    namespace: int
    """0 for articles."""
    redirect: bool
    """The dump marks it as a redirect; old dumps do not mark them."""
    revision: int
    text: str
    broken: str = ""
    """What cannot be read, and after which page; empty for a good page."""


def read_dump(path: Path) -> Iterator[DumpPage]:
    """All pages of a dump file (XML, plain, ``.gz`` or ``.bz2``, of one stream or many) in order, in constant memory.

    A page that is good XML, and yet no page as exports have them, comes as a broken one.
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
                # mwxml empties the elements of finished pages and leaves them in the tree: gigabytes for a Wikipedia.
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
    """Lower-case names, in the wiki's own language, of the namespaces whose links show nothing."""
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
        """Reads each page whole, for an error that leaves mwxml's own iterator ends it."""

        @classmethod
        def process_item(cls, item_element: Any, namespace_map: Any) -> Any:
            if item_element.tag == "page":
                return _read_page(item_element, namespace_map)
            return super().process_item(item_element, namespace_map)

    root = ElementIterator.from_file(file)
    if root.tag != "mediawiki":
        raise ValueError(f"the XML element <mediawiki> was expected, found <{root.tag}>")
    return root.element, PagesApart.from_element(root)


@contextmanager
def _opened(path: Path, where: Callable[[], str]) -> Iterator[IO[bytes]]:
    """The bytes of a dump; whatever is wrong with them is one error for people."""
    from mwxml.errors import MalformedXML

    openers: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            yield file
    except EOFError:
        raise UserError(f"is cut off{where()}; bring the dump here again", file=path) from None
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot be read{where()}: {reason}", file=path) from None
    except (ParseError, MalformedXML, ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"is no Wikipedia XML dump, or a damaged one{where()}: {reason}", file=path) from None
