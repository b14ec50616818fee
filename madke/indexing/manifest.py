"""What an index folder says about itself: which corpus, which settings, which files, which versions."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from madke.core.errors import UserError
from madke.encoders import Dtype, Similarity
from madke.files import fingerprint
from madke.indexing.passage_store import PassageStore

MANIFEST = "manifest.json"
PASSAGES = "passages.arrow"
PASSAGES_MANIFEST = "passages.json"
"""What `madke index passages` writes last into its folder."""
LUCENE = "lucene"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bm25Settings(_Record):
    """A Lucene index. ``k1`` and ``b`` act when it is searched."""

    kind: Literal["bm25"] = "bm25"
    k1: float = 0.9
    b: float = 0.4


class DenseSettings(_Record):
    """FAISS shards. What a shard and a batch of passages hold decides the vectors' last bits."""

    kind: Literal["dense"] = "dense"
    encoder: str
    dtype: Dtype
    dimension: int
    similarity: Similarity
    factory: str
    """FAISS factory string: ``Flat``, ``SQ8``, ``IVF4096,SQ8``, ``PQ96np``, ``HNSW32``, ..."""
    reason: str = ""
    """Why ``--faiss auto`` chose it; empty where somebody named it."""
    parameters: str = ""
    """Search parameters in FAISS's own words: ``nprobe=64``, ``efSearch=64``."""
    shard_rows: int
    """Passages encoded at a time."""
    revision: str = ""
    """Which weights the encoder had (:attr:`madke.encoders.Encoder.revision`); empty where it does not say."""
    batching: str = ""
    """How a shard is cut into batches (:data:`madke.encoders.BATCHING`); empty in older indexes."""
    file_mb: float = 64.0
    """At most so many megabytes of vectors in a FAISS file; it is built in memory."""


class Exactness(_Record):
    """How much of what an exact search finds the index finds, measured when it was built."""

    recall_at_5: float
    """Share of the exact search's first five passages that are among the index's first five; 1 is exact."""
    margin: float = 0.0
    """Half the width of its 95 % interval over queries."""
    queries: int


class CorpusInfo(_Record):
    """The corpus that was indexed: a file, or a folder of passages."""

    path: str
    sha256: str


def _inside(path: str) -> str:
    if not path or path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{path!r} is no path inside the folder")
    return path


class FileInfo(_Record):
    """One file of the index, by its path inside the folder."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int
    """Bytes."""
    sha256: str


class Manifest(_Record):
    """The content of ``manifest.json``."""

    format: Literal[1] = 1
    corpus: CorpusInfo
    passages: int
    index: Annotated[Bm25Settings | DenseSettings, Field(discriminator="kind")]
    exactness: Exactness | None = None
    """Dense indexes only."""
    files: tuple[FileInfo, ...]
    versions: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell this index from any other: of corpus, settings and files."""
        content = self.model_dump_json(include={"corpus": {"sha256"}, "index": True, "files": True})
        return sha256(content.encode()).hexdigest()[:12]

    @property
    def size(self) -> int:
        """Bytes of all files of the index."""
        return sum(file.size for file in self.files)


def describe_corpus(path: Path) -> CorpusInfo:
    """Path and fingerprint of a corpus: a file (read once), a folder of passages, or an index, whose corpus it is.

    Raises:
        UserError: It is none of them.
    """
    if (path / MANIFEST).is_file():
        return read_manifest(path).corpus
    if (path / PASSAGES_MANIFEST).is_file():
        # It names the SHA-256 of every shard.
        return CorpusInfo(path=str(path.resolve()), sha256=fingerprint(path / PASSAGES_MANIFEST))
    if not path.is_file():
        raise UserError("no such corpus; expected a file, a finished folder of passages, or an index folder", file=path)
    return CorpusInfo(path=str(path.resolve()), sha256=fingerprint(path))


def describe_files(folder: Path) -> tuple[FileInfo, ...]:
    """All files of an index folder but the manifest, in order of their paths."""
    return tuple(
        FileInfo(path=path.relative_to(folder).as_posix(), size=path.stat().st_size, sha256=fingerprint(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, "write.lock")
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index folder.

    Raises:
        UserError: The folder is no index, or its manifest cannot be read.
    """
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(
            f"no index here ({MANIFEST} missing); build one with `madke index build`", file=folder
        ) from None
    except UnicodeDecodeError:
        raise UserError("unreadable manifest: it is not UTF-8; build the index again", file=path) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"unreadable manifest: {where}: {first['msg']}; build the index again", file=path) from error


def open_manifest(folder: Path) -> Manifest:
    """The manifest of a folder whose files are all there with their sizes: a check cheap enough for every search.

    Raises:
        UserError: As :func:`read_manifest`, and for a missing or truncated file.
    """
    manifest = read_manifest(folder)
    for file in manifest.files:
        path = folder / file.path
        size = path.stat().st_size if path.is_file() else None
        if size != file.size:
            found = "is missing" if size is None else f"has {size} bytes"
            raise UserError(f"{file.path} {found}, {file.size} bytes expected; build the index again", file=folder)
    return manifest


def verify(folder: Path) -> list[str]:
    """Everything that is wrong with an index: files changed or missing, count wrong, corpus changed or gone.

    Reads every file of the index, and the corpus.
    """
    manifest = read_manifest(folder)
    problems = []
    for file in manifest.files:
        path = folder / file.path
        if not path.is_file():
            problems.append(f"{file.path}: missing")
        elif fingerprint(path) != file.sha256:
            problems.append(f"{file.path}: content differs from what was built")
    if not problems and (count := len(PassageStore(folder / PASSAGES))) != manifest.passages:
        problems.append(f"{PASSAGES}: {count} passages, {manifest.passages} expected")
    corpus = Path(manifest.corpus.path)
    if not corpus.exists():
        problems.append(f"corpus {corpus}: missing, so it cannot be compared")
    elif describe_corpus(corpus).sha256 != manifest.corpus.sha256:
        problems.append(f"corpus {corpus}: changed since the index was built; build the index again")
    return problems
