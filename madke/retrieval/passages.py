"""Build a folder of passages from a Wikipedia dump.

A dump is Wikipedia's XML (such as ``pages-articles.xml.bz2``, export format 0.3 to 0.11), read as a stream. One process
reads it and sends batches of raw pages to the workers, which clean and split them. The same process numbers and writes
the passages in source order. Batches and shards depend on the source only, so the output bytes do not depend on the
workers. Ids are consecutive numbers from 1, as in DPR's file.
"""

import bz2
import gzip
import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from io import SEEK_END
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree.ElementTree import ParseError

from madke._util.assets import install, require, versions
from madke._util.files import atomic_write, dir_lock, fingerprint, is_intact, unfinished_parts, write_file
from madke._util.workers import Workers
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import (
    UNFINISHED,
    CorpusCounts,
    PassageSettings,
    PassagesManifest,
    Shard,
    SourceFile,
    read_folder,
    shard_name,
)
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST as FINISHED
from madke.retrieval.wikitext import HIDDEN, plain_text

_log = logging.getLogger(__name__)


class RawPage(NamedTuple):
    """One wiki page with its latest revision, before cleaning."""

    page_id: str
    revision: str
    title: str
    text: str
    namespace: int
    """0 for articles."""
    redirect: bool
    """Whether the dump marks it as a redirect; old dumps have no such marks."""


_BATCH_CHARACTERS = 1_000_000
"""Raw text per batch: a third of a second of work. A page is never divided."""
_SHARD_BATCHES = 64
"""About 40,000 passages, 10 MB; the English Wikipedia has several hundred such shards."""
# Both determine the content of a shard: raise RULES when one changes.
_COMPRESSION = 6


def build_passages(
    sources: Sequence[Path],
    out: Path,
    *,
    workers: Workers,
    words: int = 100,
    progress: Callable[[CorpusCounts], None] = lambda counts: None,
) -> PassagesManifest:
    """Write the passages of dumps to the folder ``out``; resumes after the last finished shard.

    Sources are dump files in order. If a shard was changed, it and all later shards are written again. Memory holds a
    few batches. ``progress`` gets the counts so far, with those of finished shards.

    Raises:
        UserError: A source cannot be read or is given twice, ``out`` holds something else, a package is
            missing, or the disk is full. Finished shards are kept.
    """
    require("passages of Wikipedia need", "wiki", "mwxml", "mwparserfromhell")
    if out.exists() and not out.is_dir():
        raise UserError("found a file, expected a folder for the passages", file=out)
    settings = PassageSettings(kind="wikipedia", words=words, sources=_source_files(sources))
    with dir_lock(out):
        existing = read_folder(out)
        if existing is None and any(not path.name.startswith(".") for path in out.iterdir()):
            raise UserError("this folder is not empty and holds no passages; choose another folder", file=out)
        shards: list[Shard] = []
        if existing:
            known, old = existing.shards, existing.settings
            if known and old != settings:
                difference = f"kind {old.kind}, {old.words} words, rules {old.rules}"
                difference = f"passages of other or changed sources, or with other settings ({difference})"
                raise UserError(f"this folder holds {difference}; remove it or choose another folder", file=out)
            shards = list(takewhile(lambda shard: is_intact(out / shard_name(shard.number), shard.sha256), known))
            if len(shards) < len(known):
                warning = "%s is missing or was changed; it and all later shards are written again"
                _log.warning(warning, out / shard_name(len(shards)))
            elif (out / FINISHED).is_file():
                return existing
        try:
            return _build(out, settings, shards, sources, workers, progress)
        except UserError as error:
            if not shards:
                (out / UNFINISHED).unlink(missing_ok=True)
                raise
            raise UserError(f"{error} ({len(shards)} finished shards are kept)") from None


def _build(
    out: Path,
    settings: PassageSettings,
    shards: list[Shard],
    sources: Sequence[Path],
    workers: Workers,
    progress: Callable[[CorpusCounts], None],
) -> PassagesManifest:
    """Add the missing shards to the finished ones."""

    def saved(name: str, other: str) -> PassagesManifest:
        """Write the manifest; the finished one replaces the unfinished one."""
        manifest = PassagesManifest(settings=settings, shards=tuple(shards), versions=versions())
        write_file(out / name, manifest.model_dump_json(indent=2).encode() + b"\n")
        (out / other).unlink(missing_ok=True)
        return manifest

    done = saved(UNFINISHED, FINISHED).counts
    names = {shard_name(number) for number in range(len(shards) + 1)} | {FINISHED, UNFINISHED}
    for left in unfinished_parts(out, names):
        left.unlink()
    hidden = HIDDEN.union(*map(_silent_namespaces, sources))
    batches = workers.map(partial(_make_passages, settings.words, hidden), _batches(sources, skip=done.pages))
    for batch in batches:
        own, path = CorpusCounts(), out / shard_name(len(shards))
        # No name and no time in the gzip header: equal passages give equal bytes.
        with atomic_write(path) as file, gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as lines:
            for passages, counts, unparsable in chain([batch], islice(batches, _SHARD_BATCHES - 1)):
                for id_, passage in enumerate(passages, start=done.passages + own.passages + 1):
                    lines.write(json.dumps({"id": str(id_)} | passage, ensure_ascii=False).encode() + b"\n")
                own += counts
                for complaint in unparsable:
                    _log.warning("skipped, cannot be parsed: %s", complaint)
                progress(done + own)
        shards.append(Shard(number=len(shards), sha256=fingerprint(path), counts=own))
        done = saved(UNFINISHED, FINISHED).counts
    if not done.passages:
        while shards:
            (out / shard_name(shards.pop().number)).unlink()
        raise UserError("this source has no passages", file=sources[0])
    return saved(FINISHED, UNFINISHED)


_Page = RawPage | Literal["redirect", "other_namespace"]
"""A page, or why it is skipped."""


def _batches(sources: Sequence[Path], *, skip: int) -> Iterator[list[_Page]]:
    """The pages of dumps after the first ``skip``, in the lists that a worker processes at once."""
    batch: list[_Page] = []
    characters = 0
    for page in islice(chain.from_iterable(map(read_dump, sources)), skip, None):
        batch.append("other_namespace" if page.namespace != 0 else "redirect" if page.redirect else page)
        characters += len(page.text) if page is batch[-1] else 0
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _make_passages(
    size: int, hidden: frozenset[str], pages: Sequence[_Page]
) -> tuple[list[dict[str, str]], CorpusCounts, list[str]]:
    """Make the passages of a batch, in order; ``size`` words each (100 in Karpukhin et al. 2020, section 4.1).

    The last one of a page may be shorter. They have no ids, which depend on all passages before them. A page that
    cannot be parsed is skipped, and its title and error are returned last.
    """
    passages: list[dict[str, str]] = []
    counts: Counter[str] = Counter(pages=len(pages))
    unparsable = []
    for page in pages:
        kind = page if isinstance(page, str) else page_kind(page.title, page.text)
        if isinstance(page, str) or kind != "article":
            counts[f"{kind}s"] += 1
            continue
        try:
            words = plain_text(page.text, hidden=hidden).split()
        except ImportError as error:  # on a node of a cluster
            raise UserError(f"a worker lacks {error.name}: {install('wiki')} on its node") from error
        except Exception as error:  # noqa: BLE001 - one page of millions may raise anything in a parser
            counts["unparsable"] += 1
            unparsable.append(f"{page.title}: {type(error).__name__}: {error}")
            continue
        counts["articles" if words else "empty"] += 1
        for start in range(0, len(words), size):
            text = " ".join(words[start : start + size])
            passages.append({"title": page.title, "text": text, "page_id": page.page_id, "revision": page.revision})
    counts["passages"] = len(passages)
    return passages, CorpusCounts(**counts), unparsable


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


_END_BYTES = 1 << 20
_SILENT_NAMESPACES = (-2, 6, 14)
"""Media, File and Category (MediaWiki's fixed numbers): their links show no text."""
_PAGES_IN_MEMORY = 1_000
"""Number of pages after which the parser's finished elements are removed from memory."""


def _source_files(sources: Sequence[Path]) -> tuple[SourceFile, ...]:
    """The source files in order; UserError if two have the same content."""
    first: dict[tuple[int, str], Path] = {}
    files: list[SourceFile] = []
    for path in sources:
        if not path.is_file():
            raise UserError("no such dump file; for a folder of texts, name the folder as a source", file=path)
        with path.open("rb") as file:
            digest = sha256(file.read(_END_BYTES))
            size = file.seek(0, SEEK_END)
            file.seek(max(0, size - _END_BYTES))
            digest.update(file.read())
        files.append(SourceFile(name=path.name, size=size, sha256=digest.hexdigest()))
        if (other := first.setdefault((size, digest.hexdigest()), path)) is not path:
            raise UserError(f"this file has the same content as {other}; give only one of them", file=path)
    return tuple(files)


def read_dump(path: Path) -> Iterator[RawPage]:
    """Yield the pages of a dump file (XML; plain, ``.gz``, or single- or multi-stream ``.bz2``) in constant memory."""
    last = ""
    with _open_dump(path, lambda: last) as (root, dump):
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
            if number % _PAGES_IN_MEMORY == 0:
                # mwxml leaves emptied elements of finished pages in the tree: gigabytes for a Wikipedia.
                root.clear()


def _silent_namespaces(path: Path) -> frozenset[str]:
    """Lower-case names, in the wiki's language, of the namespaces whose links show no text."""
    with _open_dump(path, lambda: "") as (_, dump):
        return frozenset(
            namespace.name.lower()
            for namespace in dump.site_info.namespaces or ()
            if namespace.id in _SILENT_NAMESPACES and namespace.name
        )


@contextmanager
def _open_dump(path: Path, where: Callable[[], str]) -> Iterator[tuple[Any, Any]]:
    """The root element and the pages of a dump; every error in its content becomes a UserError."""
    from mwxml import Dump
    from mwxml.element_iterator import ElementIterator
    from mwxml.errors import MalformedXML

    opener: Any = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            root = ElementIterator.from_file(file)
            if root.tag != "mediawiki":
                raise ValueError(f"expected the XML element <mediawiki>, found <{root.tag}>")
            yield root.element, Dump.from_element(root)
    except EOFError:
        raise UserError(f"the dump is truncated{where()}; download it again", file=path) from None
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot be read{where()}: {reason}", file=path) from None
    except (ParseError, MalformedXML, ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"not a Wikipedia XML dump, or damaged{where()}: {reason}", file=path) from None
