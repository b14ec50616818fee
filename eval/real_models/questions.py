"""The questions of the study: a fixed split of two datasets, with a frozen BM25 pool for each question.

Each dataset is sorted by the SHA-256 of the question's id. The first ``DEVELOPMENT`` questions are for writing prompts,
the next ``HELD_OUT`` are for the study. Nothing else decides. The two datasets alternate in a file, so any even number
of first questions has as many of one as of the other.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import read_dataset
from madke.retrieval.pools.pool_file import PoolRecord, read_pools

DEVELOPMENT = 30
HELD_OUT = 50
PASSAGES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """A file of questions and the file of their pools."""

    questions: Path
    pools: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Split:
        """The questions and pools of that name in a folder, packed or not."""
        return cls(**{part: _found(folder / f"{name}.{part}.jsonl") for part in ("questions", "pools")})

    def read(self, limit: int | None = None) -> tuple[list[Question], dict[str, PoolRecord]]:
        """The first questions, and the pools by question id."""
        return read_dataset(self.questions, limit=limit), read_pools(self.pools)


def _found(plain: Path) -> Path:
    packed = plain.with_name(f"{plain.name}.gz")
    for file in (plain, packed):
        if file.is_file():
            return file
    raise UserError("is missing", file=packed)


def ordered(ids: Sequence[str]) -> list[str]:
    """The ids in the order of the split."""
    return sorted(ids, key=lambda each: sha256(each.encode()).hexdigest())


def packed(lines: Iterable[bytes]) -> bytes:
    """The lines, compressed; the same bytes for the same lines."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)
