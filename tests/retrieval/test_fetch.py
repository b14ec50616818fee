"""Fetching published indexes from a server on the loopback: whole, broken off, changed, wrong."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import subprocess
import tarfile
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke.core.errors import UserError
from madke.retrieval.fetch import fetch, published_indexes
from madke.retrieval.index_sources import Bm25Source, DenseSource
from madke.retrieval.named import open_source
from tests.support.cli import command, madke
from tests.support.corpus import PASSAGES, WordEncoder
from tests.support.installed import needs
from tests.support.loopback import QuietHandler, serving

needs("jnius_config", "wiki")
needs("faiss", "wiki")

QUERIES = [passage["title"] for passage in PASSAGES]


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How one request is answered."""

    status: int | None = None
    """An error, with no body."""
    retry_after: str | None = None
    cut_after: int | None = None
    """Bytes of the body that come."""
    hangs: bool = False
    """Whether nothing comes then, until the test ends; else the connection is closed."""
    ranges: bool = True


@dataclass(kw_only=True)
class PublishedServer:
    """A web server on the loopback that publishes files, and does what servers and networks do wrong."""

    files: dict[str, bytes]
    url: str = ""
    behave: Callable[[int], Behaviour] = lambda n: Behaviour()
    """How the n-th request, from 1, is answered."""
    ranges: list[str | None] = field(default_factory=list)
    """What the requests asked for."""
    stopping: threading.Event = field(default_factory=threading.Event)

    def handler(self) -> type[QuietHandler]:
        server = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                server.ranges.append(self.headers.get("Range"))
                how = server.behave(len(server.ranges))
                content = server.files[self.path.lstrip("/")]
                start = int((server.ranges[-1] or "bytes=0-")[6:-1]) if how.ranges else 0
                self.close_connection = True
                if how.status is not None:
                    self.answer(how.status, {"Retry-After": how.retry_after} if how.retry_after else {}, b"")
                    return
                headers = {"Content-Length": str(len(content) - start)}
                if start:
                    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.answer(206 if start else 200, headers, content[start:][: how.cut_after])
                if how.hangs:
                    server.stopping.wait(60)

        return Handler


@pytest.fixture(scope="module")
def big(lucene: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger than what is read from a connection at a time, and not compressible."""
    folder = Path(shutil.copytree(lucene, tmp_path_factory.mktemp("big") / lucene.name))
    (folder / "readme.txt").write_bytes(random.Random(0).randbytes(1_000_000))
    return folder


@pytest.fixture(scope="module")
def archive(big: Path) -> bytes:
    return packed(big)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def server(archive: bytes) -> Iterator[PublishedServer]:
    server = PublishedServer(files={"tiny.tar.gz": archive})
    with serving(server.handler()) as server.url:
        yield server
        server.stopping.set()


def packed(folder: Path) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return file.getvalue()


def recipe(server: PublishedServer, path: str = "tiny.tar.gz", **fields: Any) -> dict[str, Any]:
    content = server.files[path]
    return {
        "kind": "lucene",
        "about": "fifty passages",
        "url": f"{server.url}/{path}",
        "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
        "size": len(content),
        "unpacked": 2_000_000,
        "documents": 50,
        **fields,
    }


def recipes(tmp_path: Path, **entries: dict[str, Any]) -> Path:
    path = tmp_path / "published.yaml"
    path.write_text(yaml.safe_dump(entries))
    return path


Bring = Callable[..., Path]


@pytest.fixture
def brought(server: PublishedServer, tmp_path: Path) -> Bring:
    """Fetches the tiny index, as published now unless the recipe's fields say otherwise."""

    def bring(sleep: Callable[[float], object] = lambda seconds: None, **fields: Any) -> Path:
        return fetch("tiny", recipes=recipes(tmp_path, tiny=recipe(server, **fields)), sleep=sleep)[0]

    return bring


def assert_is_whole(folder: Path, big: Path) -> None:
    names = [path.name for path in big.iterdir()]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["fetched.json", *names])
    assert all((folder / name).read_bytes() == (big / name).read_bytes() for name in names)
    assert [path for path in folder.parent.iterdir() if folder.name in path.name] == [folder]


def test_an_index_is_fetched_once_and_has_a_name(
    server: PublishedServer, brought: Bring, cache: Path, big: Path
) -> None:
    folder = brought()

    assert folder == cache / "tiny"
    assert_is_whole(folder, big)
    assert brought() == folder
    assert server.ranges == [None]
    expected = Bm25Source(big, name="tiny").search(QUERIES, 3)
    assert open_source("tiny").search(QUERIES, 3) == expected


CUT = Behaviour(cut_after=300_000)
WITHOUT_RANGES = Behaviour(cut_after=300_000, ranges=False)


@pytest.mark.parametrize(
    ("answers", "ranges", "waited"),
    [
        ([CUT], [None, "bytes=300000-"], [1.0]),
        ([WITHOUT_RANGES, Behaviour(ranges=False)], [None, "bytes=300000-"], [1.0]),
        ([CUT, Behaviour(status=416)], [None, "bytes=300000-", None], [1.0, 1.0]),
        ([Behaviour(status=503, retry_after="7"), Behaviour(status=429)], [None] * 3, [7.0, 2.0]),
    ],
    ids=["cut", "no ranges", "range refused", "busy"],
)
def test_a_download_goes_on_where_it_was(
    answers: list[Behaviour],
    ranges: list[str | None],
    waited: list[float],
    server: PublishedServer,
    brought: Bring,
    big: Path,
) -> None:
    server.behave = lambda n: [*answers, Behaviour()][n - 1]
    waits: list[float] = []

    assert_is_whole(brought(waits.append), big)
    assert (server.ranges, waits) == (ranges, waited)


def test_a_file_that_is_not_there_is_asked_for_once(server: PublishedServer, brought: Bring, cache: Path) -> None:
    server.behave = lambda n: Behaviour(status=404)

    with pytest.raises(UserError, match=r"tiny\.tar\.gz: HTTP 404; expected the file"):
        brought()
    assert server.ranges == [None]
    assert list(cache.iterdir()) == []


def test_a_wrong_checksum_removes_the_file_and_says_both(
    server: PublishedServer, brought: Bring, cache: Path, archive: bytes, big: Path
) -> None:
    right = hashlib.md5(archive).hexdigest()
    server.files["tiny.tar.gz"] = archive[:-1] + b"?"
    wrong = hashlib.md5(server.files["tiny.tar.gz"]).hexdigest()

    with pytest.raises(UserError, match=f"md5 {wrong}, expected {right}; the download is removed"):
        brought(checksum=f"md5:{right}")
    assert list(cache.iterdir()) == []
    with pytest.raises(UserError, match="unknown source 'tiny'"):
        open_source("tiny")

    server.files["tiny.tar.gz"] = archive
    assert_is_whole(brought(), big)


def test_too_little_space_is_said_before_anything_is_asked(
    server: PublishedServer, brought: Bring, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 60_000_000_000))
    with pytest.raises(UserError, match=r"needs 60\.0 GB of disk space, but only 60\.0 GB are free"):
        brought(unpacked=60_000_000_000 - 500_000)
    assert server.ranges == []
    assert list(cache.iterdir()) == []


def escaping(folder: Path) -> bytes:
    """An archive with a file above its folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("index/../../../segments_1"))
    return file.getvalue()


def damaged(pattern: str) -> Callable[[Path], bytes]:
    def pack(folder: Path) -> bytes:
        next(folder.glob(pattern)).unlink()
        return packed(folder)

    return pack


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (escaping, "outside the destination"),
        (lambda folder: b"no archive", "not a gzip file"),
        (damaged("*.tim"), "Lucene cannot open this index: CorruptIndexException"),
        (damaged("segments_*"), "it holds no lucene index"),
    ],
    ids=["outside", "no archive", "damaged", "no index"],
)
def test_an_archive_without_an_index_that_can_be_searched_leaves_nothing(
    make: Callable[[Path], bytes],
    message: str,
    server: PublishedServer,
    brought: Bring,
    cache: Path,
    big: Path,
    tmp_path: Path,
) -> None:
    server.files["tiny.tar.gz"] = make(Path(shutil.copytree(big, tmp_path / "broken")))

    with pytest.raises(UserError, match=rf"the checksum is right, but .*{message}.*; nothing is kept or registered"):
        brought()
    assert list(cache.iterdir()) == []
    assert not (cache.parent / "segments_1").exists()
    with pytest.raises(UserError, match="unknown source 'tiny'"):
        open_source("tiny")


def test_vectors_need_the_index_with_their_texts(
    server: PublishedServer, tmp_path: Path, cache: Path, big: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["vectors.tar.gz"] = packed(vectors)
    file = recipes(
        tmp_path,
        tiny=recipe(server),
        **{"tiny.words": recipe(server, "vectors.tar.gz", kind="faiss", encoder="words", texts="tiny")},
    )
    with pytest.raises(UserError, match=r"this index takes its texts from tiny; run first: madke index fetch tiny$"):
        fetch("tiny.words", recipes=file)
    assert server.ranges == []

    texts = fetch("tiny", recipes=file)[0]
    folder = fetch("tiny.words", recipes=file)[0]
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda name, **_: WordEncoder())

    assert folder == cache / "tiny.words"
    expected = DenseSource(vectors, name="tiny.words", encoder=WordEncoder(), texts=big).search(QUERIES, 3)
    source = open_source("tiny.words")
    assert source.search(QUERIES, 3) == expected
    assert f"texts from {texts} (" in source.description


def killed(server: PublishedServer, file: Path, part: Path) -> None:
    """Start a fetch, and kill it in the middle."""
    server.behave = lambda n: Behaviour(cut_after=600_000, hangs=True)
    words = command("index", "fetch", "tiny", "--recipes", file)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size >= 1 << 19) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    server.behave = lambda n: Behaviour()


@pytest.mark.slow
def test_a_fetch_that_was_killed_goes_on(server: PublishedServer, tmp_path: Path, cache: Path, big: Path) -> None:
    part = cache / "tiny.tar.gz.part"
    file = recipes(tmp_path, tiny=recipe(server))

    killed(server, file, part)
    size = part.stat().st_size
    done = madke("index", "fetch", "tiny", "--recipes", file)

    assert (done.returncode, done.stdout) == (0, f"tiny: {cache / 'tiny'}\n"), done.stderr
    assert server.ranges == [None, f"bytes={size}-"]
    assert_is_whole(cache / "tiny", big)
    again = madke("index", "fetch", "tiny", "--recipes", file)
    assert again.stdout == f"tiny: already here, {cache / 'tiny'}\n"


def test_a_wrong_recipe_is_named(server: PublishedServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"published\.yaml:\d+: tiny.checksum: .* found 'md5:0'"):
        published_indexes(recipes(tmp_path, tiny=recipe(server, checksum="md5:0")))
