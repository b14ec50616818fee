"""Pools from settings that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from madke.core.knowledge import KnowledgePool
from madke.engine.settings import Knowledge
from madke.retrieval.pools.pool_file import PoolRecord, pool_of


def load_pool(record: PoolRecord, *, sources: Sequence[str], **settings: Any) -> KnowledgePool:
    """The pool under these settings of ``knowledge``."""
    return pool_of(record, Knowledge.model_validate({"sources": tuple(sources), **settings}))
