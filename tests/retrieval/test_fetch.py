"""Fetching published indexes from a server on the loopback: whole, broken off, changed, wrong."""

import hashlib
import io
import random
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
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
from tests.support.search_server import Reply, SearchServer, Seen

needs("jnius_config", "wiki")
needs("faiss", "wiki")

QUERIES = [passage["title"] for passage in PASSAGES]


@pytest.fixture(scope="module")
def big(lucene: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger than what is read from a connection at a time, and not compressible."""
    folder = Path(shutil.copytree(lucene, tmp_path_factory.mktemp("big") / lucene.name))
    (folder / "readme.txt").write_bytes(random.Random(0).randbytes(1_000_000))
    return folder


@pytest.fixture(scope="module")
def archive(big: Path) -> bytes:
    return packed(big)


def packed(folder: Path) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return file.getvalue()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


def reply_with(content: bytes, seen: Seen, *, end: int | None = None, ranges: bool = True) -> Reply:
    """The rest of a file from where the request asks for it; at ``end`` the connection is closed."""
    start = int(seen.headers.get("range", "bytes=0-")[6:-1]) if ranges else 0
    headers = {"Content-Length": str(len(content) - start), "Connection": "close"}
    if start:
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    return 206 if start else 200, headers, content[start:end]


class Publisher:
    """A server of files, and the recipes to fetch them."""

    def __init__(self, archive: bytes, folder: Path) -> None:
        self.files = {"tiny": archive}
        self.server = SearchServer(lambda seen, before: reply_with(self.files[seen.path[1:]], seen))
        self.recipes = folder / "published.yaml"

    def publish(self, file: str = "tiny", **fields: Any) -> None:
        """Add the recipe of a file as it is now, unless the fields say otherwise."""
        content = self.files[file]
        digest = hashlib.md5(content).hexdigest()
        usual = {"kind": "lucene", "about": "fifty passages", "url": f"{self.server.url}/{file}", "documents": 50}
        recipe = usual | {"checksum": f"md5:{digest}", "size": len(content), "unpacked": 2_000_000} | fields
        others = yaml.safe_load(self.recipes.read_text()) if self.recipes.exists() else {}
        self.recipes.write_text(yaml.safe_dump(others | {file: recipe}))

    def fetch(self, file: str = "tiny", sleep: Callable[[float], object] = lambda seconds: None) -> Path:
        return fetch(file, recipes=self.recipes, sleep=sleep)[0]

    @property
    def ranges(self) -> list[str | None]:
        """What the requests asked for."""
        return [seen.headers.get("range") for seen in self.server.requests]


@pytest.fixture
def site(archive: bytes, tmp_path: Path) -> Iterator[Publisher]:
    publisher = Publisher(archive, tmp_path)
    with publisher.server.running():
        publisher.publish()
        yield publisher


def assert_is_whole(folder: Path, big: Path) -> None:
    names = [path.name for path in big.iterdir()]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["fetched.json", *names])
    assert all((folder / name).read_bytes() == (big / name).read_bytes() for name in names)
    assert [path for path in folder.parent.iterdir() if folder.name in path.name] == [folder]


def assert_nothing_is_there(cache: Path) -> None:
    assert list(cache.iterdir()) == []
    with pytest.raises(UserError, match="unknown source 'tiny'"):
        open_source("tiny")


def test_an_index_is_fetched_once_and_has_a_name(site: Publisher, cache: Path, big: Path) -> None:
    folder = site.fetch()

    assert folder == cache / "tiny"
    assert_is_whole(folder, big)
    assert site.fetch() == folder
    assert site.ranges == [None]
    expected = Bm25Source(big, name="tiny").search(QUERIES, 3)
    assert open_source("tiny").search(QUERIES, 3) == expected


Answer = Callable[[bytes, Seen], Reply]
CUT = partial(reply_with, end=300_000)


def refusal(status: int, **headers: str) -> Answer:
    return lambda content, seen: (status, headers, b"")


@pytest.mark.parametrize(
    ("answers", "ranges", "waited"),
    [
        ([CUT], [None, "bytes=300000-"], [1.0]),
        ([CUT, partial(reply_with, ranges=False)], [None, "bytes=300000-"], [1.0]),
        ([CUT, refusal(416)], [None, "bytes=300000-", None], [1.0, 1.0]),
        ([refusal(503, **{"Retry-After": "7"}), refusal(429)], [None] * 3, [7.0, 2.0]),
    ],
    ids=["cut", "no ranges", "range refused", "busy"],
)
def test_a_download_goes_on_where_it_was(
    answers: list[Answer], ranges: list[str | None], waited: list[float], site: Publisher, archive: bytes, big: Path
) -> None:
    site.server.reply = lambda seen, before: [*answers, reply_with][before](archive, seen)
    waits: list[float] = []

    assert_is_whole(site.fetch(sleep=waits.append), big)
    assert (site.ranges, waits) == (ranges, waited)


def test_a_file_that_is_not_there_is_asked_for_once(site: Publisher, cache: Path) -> None:
    site.server.reply = lambda seen, before: (404, {}, b"")

    with pytest.raises(UserError, match="tiny: HTTP 404; expected the file"):
        site.fetch()
    assert site.ranges == [None]
    assert_nothing_is_there(cache)


def test_a_wrong_checksum_removes_the_file_and_says_both(site: Publisher, cache: Path, archive: bytes) -> None:
    site.files["tiny"] = archive[:-1] + b"?"
    right, wrong = (hashlib.md5(content).hexdigest() for content in (archive, site.files["tiny"]))

    with pytest.raises(UserError, match=f"md5 {wrong}, expected {right}; the download is removed"):
        site.fetch()
    assert_nothing_is_there(cache)


def test_too_little_space_is_said_before_any_request(site: Publisher, cache: Path) -> None:
    site.publish(unpacked=10**18)

    with pytest.raises(UserError, match=r"needs 1,000,000,000\.0 GB of disk space, but only .* GB are free"):
        site.fetch()
    assert site.ranges == []
    assert_nothing_is_there(cache)


def escaping(folder: Path) -> bytes:
    """An archive with a file above its folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("index/../../../segments_1"))
    return file.getvalue()


def without(pattern: str) -> Callable[[Path], bytes]:
    def pack(folder: Path) -> bytes:
        next(folder.glob(pattern)).unlink()
        return packed(folder)

    return pack


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (escaping, "outside the destination"),
        (without("*.tim"), "Lucene cannot open this index: CorruptIndexException"),
        (without("segments_*"), "it holds no lucene index"),
    ],
    ids=["outside", "damaged", "no index"],
)
def test_an_archive_without_an_index_that_can_be_searched_leaves_nothing(
    make: Callable[[Path], bytes], message: str, site: Publisher, cache: Path, big: Path, tmp_path: Path
) -> None:
    site.files["tiny"] = make(Path(shutil.copytree(big, tmp_path / "broken")))
    site.publish()

    with pytest.raises(UserError, match=rf"the checksum is right, but .*{message}.*; nothing is kept or registered"):
        site.fetch()
    assert not (cache.parent / "segments_1").exists()
    assert_nothing_is_there(cache)


def test_vectors_need_the_index_with_their_texts(
    site: Publisher, cache: Path, big: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["tiny.words"] = packed(vectors)
    site.publish("tiny.words", kind="faiss", encoder="words", texts="tiny")
    with pytest.raises(UserError, match=r"this index takes its texts from tiny; run first: madke index fetch tiny$"):
        site.fetch("tiny.words")
    assert site.ranges == []

    texts, folder = site.fetch("tiny"), site.fetch("tiny.words")
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda name, **_: WordEncoder())

    assert folder == cache / "tiny.words"
    source = open_source("tiny.words")
    expected = DenseSource(vectors, name="tiny.words", encoder=WordEncoder(), texts=big).search(QUERIES, 3)
    assert source.search(QUERIES, 3) == expected
    assert f"texts from {texts} (" in source.description


@pytest.mark.slow
def test_a_fetch_that_was_killed_goes_on(site: Publisher, cache: Path, archive: bytes, big: Path) -> None:
    words = ("index", "fetch", "tiny", "--recipes", site.recipes)
    again, killed = threading.Event(), threading.Event()

    def reply(seen: Seen, before: int) -> Reply:
        if before == 1:
            again.set()
            killed.wait(60)
        return reply_with(archive, seen, end=None if before else 600_000)

    site.server.reply = reply
    with subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert again.wait(60)
        process.kill()
    killed.set()
    done = madke(*words)

    assert (done.returncode, done.stdout) == (0, f"tiny: {cache / 'tiny'}\n"), done.stderr
    assert site.ranges == [None, "bytes=600000-", "bytes=600000-"]
    assert_is_whole(cache / "tiny", big)
    assert madke(*words).stdout == f"tiny: already here, {cache / 'tiny'}\n"


def test_a_wrong_recipe_is_named(site: Publisher) -> None:
    site.publish(checksum="md5:0")
    with pytest.raises(UserError, match=r"published\.yaml:\d+: tiny.checksum: .* found 'md5:0'"):
        published_indexes(site.recipes)
