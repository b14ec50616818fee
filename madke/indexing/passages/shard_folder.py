"""A folder of passages: shards of JSON lines, and the manifest that says what they were made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from madke.core.errors import UserError
from madke.files import fingerprint, replacing
from madke.indexing.manifest import PASSAGES_MANIFEST as FINISHED

UNFINISHED = "unfinished.json"
"""The manifest while passages are made: it lists the shards that are finished."""

Kind = Literal["wikipedia", "text"]
RULES = 2
"""Raised whenever the same source gives other passages than before, so that no folder mixes two ways of cleaning."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def shard_name(number: int) -> str:
    """The name of a shard's file."""
    return f"passages-{number:05d}.jsonl.gz"


class Counts(_Record):
    """Pages by what became of them, and passages. For books a page is a file."""

    pages: int = 0
    """All that were read: the sum of the seven below."""
    articles: int = 0
    """Pages that gave passages."""
    redirects: int = 0
    disambiguations: int = 0
    lists: int = 0
    other_namespaces: int = 0
    empty: int = 0
    """No word of prose, for instance nothing but a list or a table."""
    unparsable: int = 0
    passages: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})


class SourceFile(_Record):
    """One file that passages are made from, known by its name and content, wherever it lies."""

    name: str
    size: int
    """Bytes."""
    sha256: str
    """Of all of a book; of the first and last MiB of a dump, which may have 20 GB."""


class Settings(_Record):
    """Everything that decides which passages come out."""

    kind: Kind
    words: int
    """Words a passage; the last of a page may have fewer."""
    rules: int = RULES
    sources: tuple[SourceFile, ...]


class Shard(_Record):
    """One finished file of passages."""

    number: int
    sha256: str
    counts: Counts
    """Of the pages from the end of the shard before to the end of this one."""

    @property
    def name(self) -> str:
        """The file's name."""
        return shard_name(self.number)


class PassagesManifest(_Record):
    """The content of ``passages.json``, and while passages are made of ``unfinished.json``."""

    format: Literal[1] = 1
    settings: Settings
    shards: tuple[Shard, ...]
    """In order; while unfinished, some may be missing."""
    versions: dict[str, str]

    @property
    def counts(self) -> Counts:
        """Of all shards."""
        return sum((shard.counts for shard in self.shards), Counts())


class PassagesFolder(NamedTuple):
    """What a folder holds already."""

    manifest: PassagesManifest
    finished: bool


def read_folder(folder: Path) -> PassagesFolder | None:
    """What a folder of passages says about itself; None where it holds no manifest.

    Raises:
        UserError: Its manifest cannot be read.
    """
    for name in (FINISHED, UNFINISHED):
        path = folder / name
        try:
            manifest = PassagesManifest.model_validate_json(path.read_text(encoding="utf-8"))
            return PassagesFolder(manifest, finished=name == FINISHED)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise UserError(
                f"unreadable manifest: {why}; make the passages again in another folder", file=path
            ) from None
    return None


def finished_shards(folder: Path) -> Iterator[Path]:
    """The files of a finished folder, in order, each compared with its hash as it is asked for.

    Raises:
        UserError: The folder holds no passages, or not all of them, or a file is not as it was written.
    """
    found = read_folder(folder)
    if found is None:
        raise UserError(
            f"no passages here ({FINISHED} missing); `madke index passages` makes such a folder", file=folder
        )
    if not found.finished:
        raise UserError(
            "its passages are not finished; run the `madke index passages` command that made it again", file=folder
        )
    for shard in found.manifest.shards:
        path = folder / shard.name
        if not is_intact(folder, shard):
            raise UserError(
                "is missing, or not as it was written; `madke index passages`, run again, makes it anew", file=path
            )
        yield path


def write_manifest(folder: Path, manifest: PassagesManifest, *, finished: bool) -> None:
    """Write the manifest; a finished one replaces the unfinished."""
    with replacing(folder / (FINISHED if finished else UNFINISHED)) as file:
        file.write(manifest.model_dump_json(indent=2).encode() + b"\n")
    (folder / (UNFINISHED if finished else FINISHED)).unlink(missing_ok=True)


def is_intact(folder: Path, shard: Shard) -> bool:
    """Whether a shard's file is as it was written."""
    try:
        return fingerprint(folder / shard.name) == shard.sha256
    except UserError:
        return False
