"""Encoding passages shard by shard, so that a build that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from madke.core.errors import UserError
from madke.encoders import Encoder
from madke.files import replacing
from madke.knowledge.manifest import DenseSettings
from madke.knowledge.passage_store import PassageStore
from madke.shards import Inputs, finish, is_finished, made_from
from madke.workers import Workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Texts = tuple[list[str], list[str]]
"""Titles and texts of a shard's passages."""


def encode_shards(
    store: PassageStore,
    encoder: Encoder,
    settings: DenseSettings,
    *,
    corpus: str,
    folder: Path,
    replace: bool,
    workers: Workers,
    progress: Callable[[int, int | None], None],
) -> list[Path]:
    """Encode every passage, and return the files of vectors in row order.

    Each is a ``.npy`` file in ``folder``: float16, shape ``(settings.shard_rows, dimension)``, the last one shorter,
    with a record beside it. A finished shard of the same corpus (``corpus`` is its SHA-256) and encoder is left as it
    is; one of anything else is replaced, or, without ``replace``, refused. A shard is encoded in one go, in batches of
    passages of like length, so its bytes do not depend on who does it.

    Raises:
        UserError: A shard cannot be written or must not be replaced, or the encoder gives what is no finite float16.
    """
    import numpy as np

    paths: list[Path] = []
    missing: list[tuple[Path, Inputs, range]] = []
    for start in range(0, len(store), settings.shard_rows):
        rows = range(start, min(start + settings.shard_rows, len(store)))
        path = folder / f"{start:010d}.npy"
        paths.append(path)
        inputs: Inputs = {**vector_inputs(settings, corpus), "start": start, "stop": rows.stop}
        if is_finished(path, inputs):
            progress(rows.stop, len(store))
        elif not replace and made_from(path) not in (None, inputs):
            raise UserError("holds vectors of something else; choose another folder for these", file=folder)
        else:
            missing.append((path, inputs, rows))
    texts = (_texts(store, rows) for _, _, rows in missing)
    for (path, inputs, rows), vectors in zip(missing, workers.map(partial(_encode, encoder), texts), strict=True):
        if not np.isfinite(vectors).all():
            raise UserError(f"encoder {encoder.name!r}: its vectors do not fit into 16 bits", file=path)
        with replacing(path) as file:
            np.save(file, vectors)
        finish(path, inputs)
        progress(rows.stop, len(store))
    return paths


def vector_inputs(settings: DenseSettings, corpus: str) -> Inputs:
    """What decides the vectors of a corpus (``corpus`` is its SHA-256), whichever shard they are in."""
    return {
        "corpus": corpus,
        "encoder": settings.encoder,
        "dtype": settings.dtype,
        "revision": settings.revision,
        "batching": settings.batching,
    }


def _texts(store: PassageStore, rows: range) -> Texts:
    passages = store.read(rows)
    return [passage.title for passage in passages], [passage.text for passage in passages]


def _encode(encoder: Encoder, texts: Texts) -> NDArray[np.float16]:
    import numpy as np

    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused where it arrives
        return encoder.encode_passages(*texts).astype(np.float16)
