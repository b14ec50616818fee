"""Files that take long to make, each with a record of what it was made from: a finished one is not made again."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import fingerprint, replacing

_log = logging.getLogger(__name__)

_RECORD = ".made.json"

Inputs = Mapping[str, str | int]
"""Everything that decides the bytes of a shard."""


def is_finished(path: Path, inputs: Inputs) -> bool:
    """Whether the file is there, whole, and made from these inputs. A damaged one is reported, and made again."""
    record = _record(path)
    if record.get("inputs") != dict(inputs):
        return False
    try:
        sha256 = fingerprint(path)
    except UserError:
        return False
    if record.get("sha256") != sha256:
        _log.warning("%s: is damaged, and is made again", path)
        return False
    return True


def made_from(path: Path) -> dict[str, str | int] | None:
    """What a finished file was made from; None where nothing says so."""
    inputs = _record(path).get("inputs")
    return inputs if isinstance(inputs, dict) else None


def any_finished(folder: Path) -> bool:
    """Whether the folder holds a finished file."""
    return any(folder.glob(f"*{_RECORD}"))


def finish(path: Path, inputs: Inputs) -> None:
    """Record that the file is finished."""
    record = {"inputs": dict(inputs), "sha256": fingerprint(path)}
    with replacing(_record_path(path)) as file:
        file.write(json.dumps(record).encode())


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + _RECORD)
