"""Build a folder of passages from a Wikipedia dump or books.

One process reads the source and sends batches of raw pages to the workers, which clean and split them. The same process
numbers and writes the passages in source order. Batches and shards depend on the source only, so the output bytes do
not depend on the workers. Ids are consecutive numbers from 1, as in DPR's file.
"""

import gzip
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby, islice, takewhile
from operator import attrgetter
from pathlib import Path

from madke._util.assets import require
from madke._util.files import atomic_write, dir_lock, fingerprint, is_intact, unfinished_parts, write_file
from madke._util.versions import versions
from madke._util.workers import Workers
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import (
    UNFINISHED,
    CorpusCounts,
    CorpusKind,
    PassageSettings,
    PassagesManifest,
    Shard,
    read_folder,
    shard_name,
)
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST as FINISHED
from madke.retrieval.passages.raw_pages import Batch, BatchResult, RawPage, describe_sources, make_passages, read_pages

_log = logging.getLogger(__name__)

_BATCH_CHARACTERS = 1_000_000
"""Raw text per batch: a third of a second of work. A page is never divided."""
_SHARD_BATCHES = 64
"""About 40,000 passages, 10 MB; the English Wikipedia has several hundred such shards."""
# Both determine the content of a shard: raise RULES when one changes.
_COMPRESSION = 6
_PACKAGES: dict[str, tuple[str, ...]] = {"wikipedia": ("mwxml", "mwparserfromhell"), "text": ()}
"""The parsers of each kind that are no part of the core."""


def build_passages(
    sources: Sequence[Path],
    out: Path,
    *,
    workers: Workers,
    kind: CorpusKind = "wikipedia",
    words: int = 100,
    progress: Callable[[CorpusCounts], None] = lambda counts: None,
) -> PassagesManifest:
    """Write the passages of dumps or books to the folder ``out``; resumes after the last finished shard.

    Sources are dump files in order, or book files and folders of them. If a shard was changed, it and all later shards
    are written again. Memory holds a few batches. ``progress`` gets the counts so far, with those of finished shards.

    Raises:
        UserError: A source cannot be read or is given twice, ``out`` holds something else, a package is
            missing, or the disk is full. Finished shards are kept.
    """
    require(f"passages of kind {kind} need", "wiki", *_PACKAGES[kind])
    if out.exists() and not out.is_dir():
        raise UserError("found a file, expected a folder for the passages", file=out)
    settings = PassageSettings(kind=kind, words=words, sources=describe_sources(sources, kind))
    with dir_lock(out):
        found = read_folder(out)
        if found is None and any(not path.name.startswith(".") for path in out.iterdir()):
            raise UserError("this folder is not empty and holds no passages; choose another folder", file=out)
        shards: list[Shard] = []
        if found:
            known, old = found.shards, found.settings
            if known and old != settings:
                held = f"kind {old.kind}, {old.words} words, rules {old.rules}"
                held = f"passages of other or changed sources, or with other settings ({held})"
                raise UserError(f"this folder holds {held}; remove it or choose another folder", file=out)
            shards = list(takewhile(lambda shard: is_intact(out / shard_name(shard.number), shard.sha256), known))
            if len(shards) < len(known):
                warning = "%s is missing or was changed; it and all later shards are written again"
                _log.warning(warning, out / shard_name(len(shards)))
            elif (out / FINISHED).is_file():
                return found
        try:
            return _Build(out, settings, shards, progress).run(sources, workers)
        except UserError as error:
            if not shards:
                (out / UNFINISHED).unlink(missing_ok=True)
                raise
            raise UserError(f"{error} ({len(shards)} finished shards are kept)") from None


@dataclass
class _Build:
    _out: Path
    _settings: PassageSettings
    _shards: list[Shard]
    """The finished shards, in order."""
    _progress: Callable[[CorpusCounts], None]

    def run(self, sources: Sequence[Path], workers: Workers) -> PassagesManifest:
        self._save(finished=False)
        names = {shard_name(number) for number in range(len(self._shards) + 1)} | {FINISHED, UNFINISHED}
        for left in unfinished_parts(self._out, names):
            left.unlink()
        made = workers.map(make_passages, self._batches(sources))
        for _, of_shard in groupby(made, key=attrgetter("shard")):
            self._shards.append(self._write(of_shard))
            self._save(finished=False)
        if not self._counts().passages:
            while self._shards:
                (self._out / shard_name(self._shards.pop().number)).unlink()
            raise UserError("this source has no passages", file=sources[0])
        return self._save(finished=True)

    def _batches(self, sources: Sequence[Path]) -> Iterator[Batch]:
        """Batches of raw pages, without those of finished shards."""
        settings = self._settings
        pages, hidden = read_pages(sources, settings.kind)
        deque(islice(pages, self._counts().pages), maxlen=0)
        finished = len(self._shards)
        for number in count():
            raw, seen = _next_batch(pages)
            if not raw and not seen.pages:
                return
            shard = finished + number // _SHARD_BATCHES
            yield Batch(shard=shard, kind=settings.kind, words=settings.words, hidden=hidden, pages=raw, seen=seen)

    def _write(self, made: Iterable[BatchResult]) -> Shard:
        done = self._counts()
        counts = CorpusCounts()
        number = len(self._shards)
        path = self._out / shard_name(number)
        # No name and no time in the gzip header: equal passages give equal bytes.
        with atomic_write(path) as file, gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as lines:
            for batch in made:
                for id_, passage in enumerate(batch.passages, start=done.passages + counts.passages + 1):
                    fields = {"id": str(id_)} | passage._asdict()
                    lines.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
                counts += batch.counts
                for complaint in batch.unparsable:
                    _log.warning("skipped, cannot be parsed: %s", complaint)
                self._progress(done + counts)
        return Shard(number=number, sha256=fingerprint(path), counts=counts)

    def _counts(self) -> CorpusCounts:
        return sum((shard.counts for shard in self._shards), CorpusCounts())

    def _save(self, *, finished: bool) -> PassagesManifest:
        """Write the manifest; the finished one replaces the unfinished one."""
        manifest = PassagesManifest(settings=self._settings, shards=tuple(self._shards), versions=versions())
        name, other = (FINISHED, UNFINISHED) if finished else (UNFINISHED, FINISHED)
        write_file(self._out / name, manifest.model_dump_json(indent=2).encode() + b"\n")
        (self._out / other).unlink(missing_ok=True)
        return manifest


def _next_batch(pages: Iterator[RawPage | str]) -> tuple[tuple[RawPage, ...], CorpusCounts]:
    """The next pages to process, and the counts of pages skipped before them; both empty at the end."""
    raw: list[RawPage] = []
    seen: Counter[str] = Counter()
    characters = 0
    for page in pages:
        if isinstance(page, str):
            seen.update(("pages", page))
            continue
        raw.append(page)
        characters += len(page.text)
        if characters >= _BATCH_CHARACTERS:
            break
    return tuple(raw), CorpusCounts(**seen)
