"""One FAISS file per shard of vectors. Each shard is trained on its own vectors, so none waits for another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from madke.core.errors import UserError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FACTORIES = ("Flat", "SQ8", "SQfp16")
"""Exact float32, 8 bits or 16 bits a dimension: 4, 1 or 2 bytes."""


def check_factory(factory: str) -> None:
    """Refuse an index type that is not in :data:`FACTORIES`, and a missing faiss, before hours of encoding.

    Raises:
        UserError: Either of the two.
    """
    if factory not in FACTORIES:
        raise unknown("index factory", factory, FACTORIES)
    try:
        import faiss  # noqa: F401
    except ImportError as error:
        raise UserError("dense indexes need faiss-cpu: pip install 'madke[dense]'") from error


def write_shard(vectors: NDArray[np.float16], factory: str, path: Path) -> None:
    """Write one inner-product index over vectors of shape ``(rows, dimension)``, numbered from 0."""
    import faiss
    import numpy as np

    index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    exact = vectors.astype(np.float32)
    index.train(exact)
    index.add(exact)
    faiss.write_index(index, str(path))
