"""Archives cannot write outside their folder: tests/retrieval/test_fetch.py has the rest, bombs among it."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.retrieval.fetch import Published, _unpack


def member(name: Any, kind: Any = tarfile.REGTYPE, target: str = "", content: bytes = b"") -> Any:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, target, len(content)
    return found, content


def long_chain() -> Any:
    """Links that make a path too long to be resolved (CVE-2025-4517), and a file written through them."""
    directory, path = "d" * 247, ""
    found = []
    for letter in "abcdefghijklmnop":
        found += [member(f"{path}{directory}", tarfile.DIRTYPE), member(f"{path}{letter}", tarfile.SYMTYPE, directory)]
        path += f"{directory}/"
    links = "/".join("abcdefghijklmnop")
    found += [
        member(f"{links}/{'l' * 254}", tarfile.SYMTYPE, "../" * 16),
        member("escape", tarfile.SYMTYPE, f"{links}/{'l' * 254}/.."),
        member("escape/outside", content=b"x"),
    ]
    return found


REFUSED = {
    "a path upwards": [member("../outside", content=b"x")],
    "a path that goes up inside": [member("index/../../outside", content=b"x")],
    "a link to elsewhere": [member("out", tarfile.SYMTYPE, "/"), member("out/outside", content=b"x")],
    "a relative link": [member("out", tarfile.SYMTYPE, ".."), member("out/outside", content=b"x")],
    "a link and a file of its name": [member("a", tarfile.SYMTYPE, "../outside"), member("a", content=b"x")],
    "a hard link to a file outside": [member("a", tarfile.LNKTYPE, "../victim"), member("a", content=b"x")],
    "a hard link to a system file": [member("a", tarfile.LNKTYPE, "/etc/passwd")],
    "a link that stays inside": [member("a", content=b"x"), member("b", tarfile.SYMTYPE, "a")],
    "a character device": [member("a", tarfile.CHRTYPE)],
    "a block device": [member("a", tarfile.BLKTYPE)],
    "a named pipe": [member("a", tarfile.FIFOTYPE)],
    "a chain of links": long_chain(),
}


def unpack(members: Any, folder: Any) -> Any:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    (folder / "victim").write_bytes(b"as it was")
    index = Published(
        url="https://x.example/a.tar.gz",
        checksum="md5:" + "0" * 32,
        size=len(archive.getvalue()),
        unpacked=1_000_000,
        kind="lucene",
        documents=1,
        about="a",
    )
    return _unpack(archive, folder / "work" / "deep", index, lambda done, total: None)


@pytest.mark.parametrize("kind", REFUSED)
def test_nothing_is_written_outside(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(REFUSED[kind], tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"as it was"
    assert not [path for path in tmp_path.rglob("*") if path.name == "outside"]


def test_an_absolute_path_is_taken_inside(tmp_path: Path) -> None:
    folder = unpack([member("/index/a", content=b"x"), member("index/b", content=b"y")], tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_of_two_files_with_one_name_the_last_counts_and_no_other_mode_than_a_files(tmp_path: Path) -> None:
    first, second = member("index/a", content=b"x"), member("index/a", content=b"y")
    second[0].mode = 0o6777
    folder = unpack([first, second], tmp_path)
    assert (folder / "a").read_bytes() == b"y"
    assert (folder / "a").stat().st_mode & 0o6022 == 0
