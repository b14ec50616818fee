"""Files that never begin or never end are refused in one line: pipes, devices, and lines without an end."""

import gzip
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke._util.yaml_file import read_mapping
from madke.core.errors import UserError
from madke.data import read_dataset, rows
from madke.retrieval.pools import read_pools


@pytest.fixture
def special(tmp_path: Path) -> Iterator[Any]:
    """Makes a file of a kind that is no regular one."""
    with socket.socket(socket.AF_UNIX) as listening:

        def make(kind: str) -> Path:
            if kind.startswith("/dev"):
                return Path(kind)
            path = tmp_path / "q.jsonl"
            os.mkfifo(path) if kind == "fifo" else listening.bind(str(path))
            return path

        yield make


KINDS = {"fifo": "a pipe", "socket": "a socket", "/dev/zero": "a device", "/dev/null": "a device"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [read_dataset, read_pools, read_mapping])
def test_what_is_no_regular_file_is_refused(special: Any, kind: str, read: Any) -> None:
    with pytest.raises(UserError, match=f"is {KINDS[kind]}; expected a regular file"):
        read(special(kind))


def test_a_document_that_unpacks_to_more_than_memory_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_MAX_DOCUMENT", 1 << 20)
    path = tmp_path / "q.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"[" + b" " * (2 << 20) + b"]")
    with pytest.raises(UserError, match=r"is longer than .* GiB; convert it to JSON Lines"):
        read_dataset(path)
