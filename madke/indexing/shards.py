"""Files that take long to make, each with a record of what it was made from: a finished one is not made again."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from madke.core.errors import UserError
from madke.files import fingerprint, replacing

_log = logging.getLogger(__name__)

Inputs = Mapping[str, str | int]
"""Everything that decides the bytes of a shard."""


def is_finished(path: Path, inputs: Inputs) -> bool:
    """Whether the file is there, whole, and made from these inputs. A damaged one is reported, and made again."""
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        sha256 = fingerprint(path)
    except (OSError, ValueError, UserError):
        return False
    if not isinstance(record, dict) or record.get("inputs") != dict(inputs):
        return False
    if record.get("sha256") != sha256:
        _log.warning("%s: is damaged, and is made again", path)
        return False
    return True


def finish(path: Path, inputs: Inputs) -> None:
    """Record that the file is finished."""
    record = {"inputs": dict(inputs), "sha256": fingerprint(path)}
    with replacing(_record_path(path)) as file:
        file.write(json.dumps(record).encode())


def drop_records(folder: Path) -> None:
    """Remove the records of a folder's shards, once they are part of something whole."""
    for path in folder.glob("*.made.json"):
        path.unlink()


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.made.json")
