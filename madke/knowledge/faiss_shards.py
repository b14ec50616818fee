"""FAISS files mapped from disk and searched together: nothing is read into memory, whatever their size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madke import memory
from madke.core.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 8 << 20
_ANSWER_BYTES = 128 << 20


class FaissShards:
    """Opens FAISS files as one index whose rows are those of the files, one after the other.

    Where the memory that is free can hold the files, they are first read from end to end: faulting their pages in
    one by one would take about ten times as long.

    Args:
        paths: The files, in the order of their rows.
        parameters: Search parameters in FAISS's own words, for instance ``nprobe=32`` or ``efSearch=64``.

    Raises:
        UserError: faiss is missing, a file is no FAISS index, or the parameters do not fit it.
    """

    def __init__(self, paths: Sequence[Path], *, parameters: str = "") -> None:
        faiss = load_faiss()
        in_memory = sum(path.stat().st_size for path in paths) < memory.available()
        self._opened = []
        for path in paths:
            if in_memory:
                _read_ahead(path)
            try:
                # Plain IO_FLAG_MMAP would read scalar quantizers and graphs whole.
                self._opened.append(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))
                set_parameters(self._opened[-1], parameters)
            except RuntimeError as error:
                raise UserError(f"cannot be searched: {faiss_reason(error)}", file=path) from None
            if self._opened[-1].metric_type != faiss.METRIC_INNER_PRODUCT:
                raise UserError("cannot be searched: its scores are distances; inner products are expected", file=path)
        self._index = self._joined(faiss)
        self.dimension: int = self._opened[0].d

    def _joined(self, faiss: Any) -> Any:
        if len(self._opened) == 1:
            return self._opened[0]
        joined = faiss.IndexShards(self._opened[0].d)
        for index in self._opened:
            joined.add_shard(index)
        return joined

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The ``k`` largest inner products for each query and their rows, both of shape ``(len(queries), k)``.

        Where an approximate index finds fewer than ``k``, row -1 stands in the rest.
        """
        import numpy as np

        # Each file's answers, a float and an int of 8 bytes each, wait for those of all others.
        at_once = max(1, _ANSWER_BYTES // (12 * k * len(self._opened)))
        parts = [self._index.search(queries[n : n + at_once], k) for n in range(0, len(queries), at_once)]
        scores, rows = zip(*parts, strict=True) if parts else ([np.empty((0, k))], [np.empty((0, k), dtype=np.int64)])
        return np.concatenate(scores), np.concatenate(rows)


def load_faiss() -> Any:
    """The module faiss.

    Raises:
        UserError: It is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError("dense indexes need faiss-cpu: pip install 'madke[dense]'") from error
    return faiss


def set_parameters(index: Any, parameters: str) -> None:
    """Set search parameters in FAISS's own words; none where they are empty. Raises RuntimeError as FAISS does."""
    if parameters:
        load_faiss().ParameterSpace().set_index_parameters(index, parameters)


def _read_ahead(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(_BLOCK):
            pass


def faiss_reason(error: RuntimeError) -> str:
    """What FAISS says, without the C++ signature and the source path that it puts before and after."""
    return str(error).rsplit(": ", 1)[-1].splitlines()[0]
