"""Corpora as streams of passages, and the passage folders that ``madke index passages`` writes.

A corpus is such a folder, a folder of BEIR's with a ``corpus.jsonl``, or a file in one of these formats, plain or
gzipped:

* ``.tsv``: DPR's, tab-separated with CSV quoting and a header with ``id``, ``text`` and ``title``;
* ``.jsonl``: objects with ``id`` (BEIR: ``_id``), ``text`` and optionally ``title``, or Anserini's ``id`` and
  ``contents``, whose first line is the title in quotes.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from madke._util.files import cells_of, fingerprint, is_intact, read_jsonl
from madke._util.yaml_file import read_json
from madke.core.errors import UserError
from madke.retrieval.indexes.index_folder import MANIFEST, CorpusInfo, ManifestPart, StoredPassage, read_manifest
from madke.retrieval.indexes.index_folder import PASSAGES_MANIFEST as FINISHED

UNFINISHED = "unfinished.json"
"""The manifest of an unfinished folder; it lists the finished shards."""

CLEANING_RULES = 3
"""Version of the cleaning rules, raised with every change of the passages: no folder mixes two versions."""


def read_corpus(path: Path) -> Iterator[StoredPassage]:
    """Stream the passages of a corpus in order; UserError at the first invalid line or shard."""
    return (passage for _, _, passage in _passages_in(path))


def read_unique(path: Path, skipped: list[str]) -> Iterator[StoredPassage]:
    """Like :func:`read_corpus`, but passages without text are left out; at the end UserError for a repeated id.

    ``skipped`` gets id and line of each passage without text. Keeps a hash of 8 bytes per id; if two hashes are equal,
    the corpus is read again to compare the ids.
    """
    import numpy as np

    hashes = array("q")
    for file, line, passage in _passages_in(path):
        hashes.append(hash(passage.id))
        if has_text(passage):
            yield passage
        else:
            skipped.append(f"{passage.id!r} on line {line}" + (f" of {file.name}" if file != path else ""))
    ordered = np.sort(np.asarray(hashes))
    repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    seen: dict[str, str] = {}
    for file, line, passage in _passages_in(path) if repeated else ():
        if hash(passage.id) in repeated:
            if passage.id in seen:
                raise UserError(f"id {passage.id!r} was already used on line {seen[passage.id]}", file=file, line=line)
            seen[passage.id] = str(line) if file == path else f"{line} of {file.name}"


def has_text(passage: StoredPassage) -> bool:
    """Whether the text has a letter or a digit. Lucene leaves out empty documents, and an encoder gives noise."""
    return bool(re.search(r"\w", passage.text))


def _passages_in(path: Path) -> Iterator[tuple[Path, int, StoredPassage]]:
    for file in _files(path):
        form = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
        if form not in (".tsv", ".jsonl"):
            expected = "expected a .tsv or .jsonl file (or .gz of one), or a folder of passages"
            raise UserError(f"unknown corpus format; {expected}", file=file)
        passages = _read_tsv(file) if form == ".tsv" else ((line, passage_of(item)) for line, item in read_jsonl(file))
        for line, passage in passages:
            if passage is None:
                raise UserError(PASSAGE_FORMAT, file=file, line=line)
            yield file, line, passage


def _files(path: Path) -> Iterable[Path]:
    file = _content(path)
    return finished_shards(path) if file.parent == path and file.name == FINISHED else [file]


def _content(path: Path) -> Path:
    """What a corpus consists of: a file, that of a folder of BEIR's, or the manifest of a folder of passages."""
    beir = path / "corpus.jsonl"
    if path.is_dir():
        return beir if beir.is_file() and not (path / FINISHED).exists() else path / FINISHED
    return path


def is_corpus(path: Path) -> bool:
    """Whether a path is a table or folder of passages, which need an index."""
    return path.name.endswith((".tsv", ".tsv.gz")) or (path.is_dir() and _content(path).is_file())


def build_first(corpus: str) -> str:
    """What to do with passages that were given as a source."""
    out = f"{Path(corpus).resolve().name.partition('.')[0]}-index"
    command = f"madke index build {quote(corpus)} --out {quote(out)}"
    return f"{corpus}: passages need an index: run {command}, then use --sources ./{quote(out)}"


def describe_corpus(path: Path) -> CorpusInfo:
    """Path and fingerprint of a corpus: a file (read once), a folder of passages, or an index (its corpus)."""
    if (path / MANIFEST).is_file():
        return read_manifest(path).corpus
    content = _content(path)
    if not content.is_file():
        raise UserError("no such corpus; expected a file, a finished folder of passages, or an index folder", file=path)
    # The manifest of a folder contains the SHA-256 of every shard.
    return CorpusInfo(path=str(path.resolve()), sha256=fingerprint(content))


def _read_tsv(path: Path) -> Iterator[tuple[int, StoredPassage]]:
    rows = cells_of(path, "\t", strict=True)
    _, header = next(rows, (1, []))
    if not {"id", "text", "title"} <= set(header):
        raise UserError(f"header {header!r}; expected the columns id, text and title", file=path, line=1)
    columns = [header.index(name) for name in ("id", "title", "text")]
    for line, row in rows:
        if len(row) != len(header):
            raise UserError(f"{len(row)} columns, {len(header)} expected", file=path, line=line)
        passage = StoredPassage(*(row[column] for column in columns))
        if not passage.id:
            raise UserError("empty id", file=path, line=line)
        yield line, passage


PASSAGE_FORMAT = (
    'expected an object {"id", "text"}, also with "title", or {"id", "contents"} of strings; BEIR has "_id"'
)


def passage_of(fields: Any) -> StoredPassage | None:
    """The passage in the JSON of one line; None if it has another form than :data:`PASSAGE_FORMAT`."""
    if not isinstance(fields, dict):
        return None
    identifier, text = fields.get("id", fields.get("_id")), fields.get("text")
    title = "" if fields.get("title") is None else fields["title"]
    if "contents" in fields:
        contents = "" if fields["contents"] is None else fields["contents"]
        if not isinstance(contents, str):
            return None
        head, newline, body = contents.partition("\n")
        title, text = (head.strip().removeprefix('"').removesuffix('"'), body) if newline else ("", head)
    if isinstance(identifier, str | int) and identifier != "" and isinstance(title, str) and isinstance(text, str):
        return StoredPassage(str(identifier), title, text)
    return None


def shard_name(number: int) -> str:
    """The name of a shard's file."""
    return f"passages-{number:05d}.jsonl.gz"


class CorpusCounts(ManifestPart):
    """Number of passages, and of pages by outcome."""

    pages: int = 0
    """All pages read: the sum of the seven counts below."""
    articles: int = 0
    """Pages with passages."""
    redirects: int = 0
    disambiguations: int = 0
    lists: int = 0
    other_namespaces: int = 0
    empty: int = 0
    """Pages without a word of prose."""
    unparsable: int = 0
    passages: int = 0

    def __add__(self, other: CorpusCounts) -> CorpusCounts:
        return CorpusCounts(**{name: getattr(self, name) + getattr(other, name) for name in CorpusCounts.model_fields})


class SourceFile(ManifestPart):
    """One source file, identified by its name, size (bytes) and content, not by its folder."""

    name: str
    size: int
    sha256: str
    """Of the first and last MiB of a dump, which may have 20 GB."""


class PassageSettings(ManifestPart):
    """Everything that determines the passages; the last passage of a page may have fewer than ``words`` words."""

    kind: Literal["wikipedia", "text"]
    """``text``: files of text, which madke 0.4 could split."""
    words: int
    rules: int = CLEANING_RULES
    sources: tuple[SourceFile, ...]


class Shard(ManifestPart):
    """One finished file of passages."""

    number: int
    sha256: str
    counts: CorpusCounts


class PassagesManifest(ManifestPart):
    """The content of ``passages.json``, or of ``unfinished.json`` until all passages are written."""

    format: Literal[1] = 1
    settings: PassageSettings
    shards: tuple[Shard, ...]
    versions: dict[str, str]

    @property
    def counts(self) -> CorpusCounts:
        """Counts over all shards."""
        return sum((shard.counts for shard in self.shards), CorpusCounts())


def read_folder(folder: Path) -> PassagesManifest | None:
    """Read the manifest of a folder of passages; None if there is none, UserError if it is damaged."""
    for name in (FINISHED, UNFINISHED):
        if (folder / name).is_file():
            wrong = "unreadable manifest; make the passages again in another folder"
            return read_json(folder / name, PassagesManifest, wrong)
    return None


def finished_shards(folder: Path) -> Iterator[Path]:
    """Yield the files of a finished folder in order; each file's hash is checked before it is yielded."""
    listing = read_folder(folder)
    if listing is None:
        make = "make one with `madke index passages`"
        missing = f"{FINISHED}, or a corpus.jsonl of BEIR, is missing"
        raise UserError(f"this folder holds no passages ({missing}); {make}", file=folder)
    remedy = "run the same `madke index passages` command again"
    if not (folder / FINISHED).is_file():
        raise UserError(f"the passages of this folder are unfinished; {remedy}", file=folder)
    for shard in listing.shards:
        path = folder / shard_name(shard.number)
        if not is_intact(path, shard.sha256):
            raise UserError(f"the file is missing or was changed; {remedy}", file=path)
        yield path
