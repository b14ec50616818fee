"""Corpora as a stream of passages.

A corpus is a folder that ``madke index passages`` made, or a file in one of these forms, plain or gzipped:

* ``.tsv``: DPR's, tab-separated with CSV quoting and a header naming ``id``, ``text`` and ``title``;
* ``.jsonl``: objects with ``id``, ``title`` and ``text``, or Anserini's ``id`` and ``contents``, whose first line is
  the title in quotes.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import read_jsonl
from madke.indexing.passage_store import StoredPassage
from madke.indexing.passages.shard_folder import finished_shards


def read_corpus(path: Path) -> Iterator[StoredPassage]:
    """The passages of a corpus in order, streamed.

    Raises:
        UserError: The file or folder cannot be read as a corpus; the message names the line or shard.
    """
    for _, _, passage in _located(path):
        yield passage


def read_unique(path: Path) -> Iterator[StoredPassage]:
    """As :func:`read_corpus`, and refuses a corpus in which an id occurs twice, once its end is reached.

    Keeps 8 bytes a passage, a hash of its id; where two hashes are equal, the file is read again to compare the ids.
    """
    import numpy as np

    hashes = array("q")
    for passage in read_corpus(path):
        hashes.append(hash(passage.id))
        yield passage
    ordered = np.sort(np.frombuffer(hashes, dtype=np.int64)) if hashes else np.empty(0, dtype=np.int64)
    repeated = {int(value) for value in ordered[1:][ordered[1:] == ordered[:-1]]}
    if not repeated:
        return
    seen: dict[str, str] = {}
    for file, line, passage in _located(path):
        if hash(passage.id) not in repeated:
            continue
        if passage.id in seen:
            raise UserError(f"id {passage.id!r} was already used on line {seen[passage.id]}", file=file, line=line)
        seen[passage.id] = str(line) if file == path else f"{line} of {file.name}"


def _located(path: Path) -> Iterator[tuple[Path, int, StoredPassage]]:
    """Each passage with its file and line."""
    for file in finished_shards(path) if path.is_dir() else [path]:
        for line, passage in _numbered(file):
            yield file, line, passage


def _numbered(path: Path) -> Iterator[tuple[int, StoredPassage]]:
    form = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if form == ".tsv":
        return _read_tsv(path)
    if form == ".jsonl":
        return _read_jsonl(path)
    raise UserError(
        "unknown corpus form; expected a .tsv or .jsonl file, possibly with .gz, or a folder of passages", file=path
    )


def _read_tsv(path: Path) -> Iterator[tuple[int, StoredPassage]]:
    opener = gzip.open if path.suffix == ".gz" else open
    line = 0
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter="\t", strict=True)
            header = next(rows, [])
            if not {"id", "text", "title"} <= set(header):
                raise UserError(f"header {header!r}; expected the columns id, text and title", file=path, line=1)
            columns = [header.index(name) for name in ("id", "title", "text")]
            for row in rows:
                line = rows.line_num
                if len(row) != len(header):
                    raise UserError(f"{len(row)} columns, {len(header)} expected", file=path, line=line)
                passage = StoredPassage(*(row[column] for column in columns))
                if not passage.id:
                    raise UserError("empty id", file=path, line=line)
                yield line, passage
    except (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot be read: {reason}", file=path, line=line + 1) from error


def _read_jsonl(path: Path) -> Iterator[tuple[int, StoredPassage]]:
    for number, fields in read_jsonl(path):
        passage = _passage(fields)
        if passage is None:
            raise UserError(
                'expected an object {"id", "title", "text"} or {"id", "contents"} of strings', file=path, line=number
            )
        yield number, passage


def _passage(fields: dict[str, Any]) -> StoredPassage | None:
    if "contents" in fields:
        head, newline, body = str(fields["contents"]).partition("\n")
        title, text = (head.strip().removeprefix('"').removesuffix('"'), body) if newline else ("", head)
    elif isinstance(fields.get("title"), str) and isinstance(fields.get("text"), str):
        title, text = fields["title"], fields["text"]
    else:
        return None
    identifier = fields.get("id")
    if identifier in (None, "") or not isinstance(identifier, str | int):
        return None
    return StoredPassage(str(identifier), title, text)
