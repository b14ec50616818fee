"""Encoding passages shard by shard, so that a build that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from madke.core.errors import UserError
from madke.encoders import Encoder
from madke.files import fingerprint, replacing
from madke.knowledge.manifest import DenseSettings
from madke.knowledge.passage_store import PassageStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROWS_PER_CALL = 2_048
"""Passages given to the encoder at a time. It decides which passages share a batch, so it is fixed."""


class _ShardRecord(BaseModel):
    """What a finished shard was made from; a shard made from anything else is made again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str
    encoder: str
    dtype: str
    start: int
    stop: int
    sha256: str


def encode_shards(
    store: PassageStore,
    encoder: Encoder,
    settings: DenseSettings,
    *,
    corpus: str,
    folder: Path,
    progress: Callable[[int, int | None], None],
) -> Iterator[NDArray[np.float16]]:
    """The vectors of each shard of ``settings.shard_rows`` passages, shape ``(rows, dimension)``, in row order.

    Every shard is a ``.npy`` file of float16 in ``folder`` with a record beside it, written when it is finished; a
    finished shard of the same corpus (``corpus`` is its SHA-256) and encoder is read instead of encoded.
    """
    import numpy as np

    for start in range(0, len(store), settings.shard_rows):
        stop = min(start + settings.shard_rows, len(store))
        path = folder / f"{start:010d}.npy"
        if not _finished(path, corpus, encoder, start, stop):
            vectors = np.empty((stop - start, settings.dimension), dtype=np.float16)
            for first in range(start, stop, _ROWS_PER_CALL):
                passages = [store[row] for row in range(first, min(first + _ROWS_PER_CALL, stop))]
                vectors[first - start : first - start + len(passages)] = encoder.encode_passages(
                    [passage.title for passage in passages], [passage.text for passage in passages]
                )
                progress(first + len(passages), len(store))
            with replacing(path) as file:
                np.save(file, vectors)
            record = _ShardRecord(
                corpus=corpus,
                encoder=encoder.name,
                dtype=encoder.dtype,
                start=start,
                stop=stop,
                sha256=fingerprint(path),
            )
            with replacing(_record_path(path)) as file:
                file.write(record.model_dump_json().encode())
        progress(stop, len(store))
        yield np.load(path)


def _record_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _finished(path: Path, corpus: str, encoder: Encoder, start: int, stop: int) -> bool:
    try:
        record = _ShardRecord.model_validate_json(_record_path(path).read_text(encoding="utf-8"))
        expected = _ShardRecord(
            corpus=corpus, encoder=encoder.name, dtype=encoder.dtype, start=start, stop=stop, sha256=fingerprint(path)
        )
    except (OSError, UserError, ValidationError):
        return False
    return record == expected
