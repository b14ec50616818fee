"""The passages (a memory-mapped Arrow file) and the manifest of an index folder."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, Field

from madke._util.assets import require
from madke._util.files import atomic_write, fingerprint
from madke._util.yaml_file import read_json
from madke.core.errors import UserError
from madke.models.encoders import Dtype, Encoding, Pooling, Similarity

MANIFEST = "manifest.json"
PASSAGES_FILE = "passages.arrow"
PASSAGES_MANIFEST = "passages.json"
"""The last file that `madke index passages` writes to its folder."""
LUCENE = "lucene"
_ROWS_PER_BATCH = 1_000


class StoredPassage(NamedTuple):
    """One passage of a corpus."""

    id: str
    title: str
    text: str


def write_passages(
    path: Path, passages: Iterable[StoredPassage], progress: Callable[[int, None], None] = lambda done, total: None
) -> int:
    """Stream passages into a new store and return their number. A failure leaves no file."""
    pa = _pyarrow()
    schema = pa.schema([(name, pa.string()) for name in StoredPassage._fields])
    count = 0
    rows = iter(passages)
    with atomic_write(path) as file, pa.ipc.new_file(file, schema) as writer:
        while chunk := list(islice(rows, _ROWS_PER_BATCH)):
            columns = [pa.array(column, pa.string()) for column in zip(*chunk, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            count += len(chunk)
            progress(count, None)
    return count


class PassageStore:
    """A passage store on disk: ``store[row]`` reads a :class:`StoredPassage`; UserError if it is damaged."""

    def __init__(self, path: Path) -> None:
        pa = _pyarrow()
        self._path = path
        try:
            self._map = pa.memory_map(str(path), "r")
            self._reader = pa.ipc.open_file(self._map)
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(f"cannot be read as a passage store ({error})", file=path) from error
        self._batches: dict[int, tuple[Any, ...]] = {}
        full = self._reader.num_record_batches - 1
        self._length = 0 if full < 0 else full * _ROWS_PER_BATCH + len(self._batch(full)[0])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> StoredPassage:
        if not 0 <= row < self._length:
            raise IndexError(f"row {row} of a store of {self._length} passages")
        batch, place = divmod(row, _ROWS_PER_BATCH)
        try:
            ids, titles, texts = self._batch(batch)
            # Table.take would copy whole columns; one value of a cached batch costs a few microseconds.
            return StoredPassage(ids[place].as_py(), titles[place].as_py(), texts[place].as_py())
        except (OSError, ValueError) as error:  # includes Arrow's errors and invalid UTF-8
            raise UserError(f"damaged at row {row:,} ({error}); build the index again", file=self._path) from None

    def _batch(self, number: int) -> tuple[Any, ...]:
        if number not in self._batches:
            self._batches[number] = tuple(self._reader.get_batch(number).columns)
        return self._batches[number]


def _pyarrow() -> Any:
    require("indexes need", "wiki", "pyarrow")
    import pyarrow as pa
    import pyarrow.ipc

    return pa


class ManifestPart(BaseModel, extra="forbid", frozen=True):
    """A part of a manifest."""


class Bm25Settings(ManifestPart):
    """A Lucene index; ``k1`` and ``b`` are applied at search time."""

    kind: Literal["bm25"] = "bm25"
    k1: float = 0.9
    b: float = 0.4


class DenseSettings(ManifestPart):
    """FAISS shards. The division into shards and batches affects the last bits of the vectors."""

    kind: Literal["dense"] = "dense"
    encoder: str
    dtype: Dtype
    dimension: int
    similarity: Similarity
    factory: str
    """FAISS factory string."""
    reason: str = ""
    """In manifests of madke 0.4: why it chose this type."""
    parameters: str = ""
    """Search parameters in FAISS syntax: ``nprobe=64``, ``efSearch=64``."""
    shard_rows: int
    revision: str = ""
    """Of the encoder; empty if unknown."""
    batching: str = ""
    file_mb: float = 64.0
    query_prefix: str | None = None
    """This and the next three: see :class:`madke.models.encoders.Encoding`. An older index has none of them."""
    passage_prefix: str | None = None
    pooling: Pooling | None = None
    normalize: bool | None = None

    @property
    def encoding(self) -> Encoding:
        """How the encoder encodes the index's passages and queries."""
        return Encoding(**{each.name: getattr(self, each.name) for each in fields(Encoding)})


class CorpusInfo(ManifestPart):
    """The corpus that was indexed: a file, or a folder of passages."""

    path: str
    sha256: str
    skipped: int = 0
    """Passages without text, which are not in the index."""

    @property
    def identity(self) -> str:
        """Identifies the rows of the index: an older index of the same corpus may hold what is skipped now."""
        return f"{self.sha256} without {self.skipped}" if self.skipped else self.sha256


def _inside(path: str) -> str:
    if not path or path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{path!r} is not a path inside the folder")
    return path


class FileInfo(ManifestPart):
    """One file of the index, by its path inside the folder; ``size`` is in bytes."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int
    sha256: str


class Manifest(ManifestPart, extra="ignore"):
    """The content of ``manifest.json``. What madke 0.4 had measured and wrote into it is not used."""

    format: Literal[1] = 1
    corpus: CorpusInfo
    passages: int
    index: Annotated[Bm25Settings | DenseSettings, Field(discriminator="kind")]
    files: tuple[FileInfo, ...]
    versions: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that identify corpus, settings and files."""
        content = self.model_dump_json(include={"corpus": {"sha256"}, "index": True, "files": True}, exclude_none=True)
        return sha256(content.encode()).hexdigest()[:12]

    @property
    def size(self) -> int:
        """Bytes of all files of the index."""
        return sum(file.size for file in self.files)


def describe_files(folder: Path) -> tuple[FileInfo, ...]:
    """All files of an index folder except the manifest, sorted by path."""
    return tuple(
        FileInfo(path=path.relative_to(folder).as_posix(), size=path.stat().st_size, sha256=fingerprint(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, "write.lock")
    )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index folder; UserError if it is missing or invalid."""
    path = folder / MANIFEST
    if not path.is_file():
        build = "build one with `madke index build`"
        raise UserError(f"this folder holds no index ({MANIFEST} is missing); {build}", file=folder)
    return read_json(path, Manifest, "unreadable manifest; build the index again")


def open_manifest(folder: Path) -> Manifest:
    """Read the manifest and check that all files exist with their sizes, which is fast enough for every search."""
    manifest = read_manifest(folder)
    for file in manifest.files:
        path = folder / file.path
        size = path.stat().st_size if path.is_file() else None
        if size != file.size:
            state = "is missing" if size is None else f"has {size} bytes"
            raise UserError(f"{file.path} {state}, expected {file.size} bytes; build the index again", file=folder)
    return manifest
