"""Fetching published indexes from a server on the loopback: whole, broken off, changed, wrong, hostile."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke.core.errors import UserError
from madke.retrieval.fetch import fetch, published_indexes
from madke.retrieval.index_sources import Bm25Source, DenseSource
from madke.retrieval.named import open_source
from tests.retrieval.published_server import Behaviour, PublishedServer, published_server
from tests.support.cli import madke
from tests.support.corpus import PASSAGES, WordEncoder
from tests.support.installed import needs
from tests.support.pyserini_format import faiss_folder, lucene_folder

needs("jnius_config", "wiki")
needs("faiss", "wiki")

QUERIES = [passage["title"] for passage in PASSAGES]


@pytest.fixture(scope="module")
def lucene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger than what is read from a connection at a time, and not compressible."""
    folder = lucene_folder(tmp_path_factory.mktemp("published") / "lucene-index.tiny.20210120.d1b9e6")
    (folder / "readme.txt").write_bytes(random.Random(0).randbytes(1_000_000))
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faiss_folder(tmp_path_factory.mktemp("published") / "faiss.tiny.20200127.f403c3")


@pytest.fixture(scope="module")
def archive(lucene: Path) -> bytes:
    return packed(lucene)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def server(archive: bytes) -> Iterator[PublishedServer]:
    with published_server({"tiny.tar.gz": archive}) as running:
        yield running


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


class Waits(list[float]):
    """Where a wait belongs: it is only noted."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def brought(server: PublishedServer, tmp_path: Path) -> Callable[..., Path]:
    """Fetches the tiny index, as published now unless the recipe's fields say otherwise."""

    def bring(*, into: Path | None = None, waits: Waits | None = None, **fields: Any) -> Path:
        file = recipes(tmp_path, tiny=recipe(server, **fields))
        return fetch("tiny", into=into, recipes=file, sleep=waits if waits is not None else Waits())[0]

    return bring


def assert_is_whole(folder: Path, lucene: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["fetched.json", *(path.name for path in lucene.iterdir())]
    )
    assert all((folder / path.name).read_bytes() == path.read_bytes() for path in lucene.iterdir())
    assert [path for path in folder.parent.iterdir() if folder.name in path.name] == [folder]


def test_an_index_is_fetched_and_has_a_name(
    server: PublishedServer, brought: Callable[..., Path], cache: Path, lucene: Path
) -> None:
    folder = brought()

    assert folder == cache / "tiny"
    assert_is_whole(folder, lucene)
    assert brought() == folder
    assert server.ranges == [None]
    expected = Bm25Source(lucene, name="tiny").search(QUERIES, 3)
    assert open_source("tiny").search(QUERIES, 3) == expected


def test_a_folder_of_ones_own_and_sha256(
    brought: Callable[..., Path], archive: bytes, lucene: Path, tmp_path: Path
) -> None:
    folder = brought(into=tmp_path / "a" / "b", checksum=f"sha256:{hashlib.sha256(archive).hexdigest()}")

    assert_is_whole(folder, lucene)
    assert folder == tmp_path / "a" / "b"
    assert open_source("tiny").description.startswith(f"BM25 over 50 documents ({folder}, ")


def test_what_a_fetch_left_that_was_killed_at_its_end_is_tidied_up(
    brought: Callable[..., Path], cache: Path, archive: bytes, lucene: Path
) -> None:
    brought()
    (cache / "tiny.tar.gz.part").write_bytes(archive)
    (cache / ".tiny.unpacking").mkdir()
    (cache.parent / "sources.yaml").unlink()

    assert_is_whole(brought(), lucene)
    assert open_source("tiny").name == "tiny"


CUT = Behaviour(cut_after=300_000)
WITHOUT_RANGES = Behaviour(cut_after=300_000, ranges=False)


@pytest.mark.parametrize(
    ("answers", "ranges", "waited"),
    [
        ({1: CUT}, [None, "bytes=300000-"], [1.0]),
        ({n: CUT for n in range(1, 9)}, [None, *(f"bytes={n}00000-" for n in (3, 6, 9))], [1.0] * 3),
        ({1: WITHOUT_RANGES, 2: Behaviour(ranges=False)}, [None, "bytes=300000-"], [1.0]),
        ({1: CUT, 2: Behaviour(status=416)}, [None, "bytes=300000-", None], [1.0, 1.0]),
        ({1: Behaviour(status=503, retry_after="7"), 2: Behaviour(status=429)}, [None] * 3, [7.0, 2.0]),
        ({1: Behaviour(status=503, retry_after="\u00b2")}, [None] * 2, [1.0]),
    ],
    ids=["cut", "cut often", "no ranges", "range refused", "busy", "odd wait"],
)
def test_a_download_goes_on_where_it_was(
    answers: dict[int, Behaviour],
    ranges: list[str | None],
    waited: list[float],
    server: PublishedServer,
    brought: Callable[..., Path],
    lucene: Path,
) -> None:
    server.behave = lambda n: answers.get(n, Behaviour())
    waits = Waits()

    assert_is_whole(brought(waits=waits), lucene)
    assert server.ranges == ranges
    assert waits == waited


def test_a_server_that_never_gets_further_is_given_up(
    server: PublishedServer, brought: Callable[..., Path], cache: Path
) -> None:
    server.behave = lambda n: WITHOUT_RANGES
    waits = Waits()

    with pytest.raises(UserError, match=r"6 times in a row; 300,000 of 1,\d+,\d+ bytes are downloaded; run the same"):
        brought(waits=waits)
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert (cache / "tiny.tar.gz.part").stat().st_size == 300_000


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (Behaviour(status=404), r"tiny\.tar\.gz: HTTP 404; expected the file"),
        (Behaviour(endless=True), r"found more than 1,\d+,\d+ bytes: this is not the published file; the download is"),
        *((Behaviour(status=302, location=to), r"tiny\.tar\.gz: ") for to in ("http://[::1", "file:///etc/passwd")),
    ],
)
def test_what_repeating_cannot_mend_is_asked_for_once(
    behaviour: Behaviour, message: str, server: PublishedServer, brought: Callable[..., Path], cache: Path
) -> None:
    server.behave = lambda n: behaviour

    with pytest.raises(UserError, match=message):
        brought()
    assert len(server.requests) == 1
    assert list(cache.iterdir()) == []


def test_a_wrong_checksum_removes_the_file_and_says_both(
    server: PublishedServer, brought: Callable[..., Path], cache: Path, archive: bytes, lucene: Path
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
    assert_is_whole(brought(), lucene)


def test_a_file_of_another_size_is_not_downloaded(
    server: PublishedServer, brought: Callable[..., Path], cache: Path, archive: bytes
) -> None:
    with pytest.raises(UserError, match=r"found 1,\d\d\d,\d\d\d bytes, expected 7"):
        brought(size=7)
    assert list(cache.iterdir()) == []


def test_too_little_space_is_said_before_anything_is_asked(
    server: PublishedServer, brought: Callable[..., Path], cache: Path, monkeypatch: pytest.MonkeyPatch, lucene: Path
) -> None:
    usage = namedtuple("usage", "total used free")
    free = 60_000_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, free))
    unpacked = 60_000_000_000 - 500_000

    with pytest.raises(UserError, match=r"needs 60\.0 GB of disk space, but only 60\.0 GB are free"):
        brought(unpacked=unpacked)
    assert server.requests == []
    assert list(cache.iterdir()) == []

    # What has been downloaded already needs no space any more.
    server.behave = lambda n: Behaviour(cut_after=700_000) if n == 1 else Behaviour(status=404)
    with pytest.raises(UserError, match="HTTP 404"):
        brought()
    server.behave = lambda n: Behaviour()
    assert_is_whole(brought(unpacked=unpacked), lucene)


def escaping(kind: str, target: Path) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        if kind == "path":
            member = tarfile.TarInfo(f"index/../../../{target.name}")
        elif kind == "link":
            link = tarfile.TarInfo("index/out")
            link.type, link.linkname = tarfile.SYMTYPE, str(target.parent)
            tar.addfile(link)
            member = tarfile.TarInfo(f"index/out/{target.name}")
        else:
            member = tarfile.TarInfo("index/device")
            member.type = tarfile.FIFOTYPE
        content = b"segments" if kind != "device" else b""
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


INFLATED = ("file", "header", "sparse")


def inflated(kind: str) -> bytes:
    """A small archive of 30 MB of zeros: in a file, in a header, or behind a file that claims to have one byte."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("index/segments_1")
        member.size = 30_000_000
        if kind == "header":
            member.pax_headers = {"comment": "0" * member.size}
            member.size = 0
        elif kind == "sparse":
            sizes = {"GNU.sparse.size": "1", "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"0,{member.size}"}
            member.pax_headers = sizes
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        *((kind, "it cannot be unpacked: ") for kind in ("path", "link", "device", "no archive", "no tar")),
        *((kind, r"it unpacks to more than 2\.2 MB; the recipe states 2\.0 MB; nothing is kept") for kind in INFLATED),
    ],
)
def test_an_archive_that_would_write_elsewhere_or_too_much_is_refused(
    kind: str, message: str, server: PublishedServer, brought: Callable[..., Path], cache: Path
) -> None:
    target = cache.parent / "segments_1"
    plain = {"no archive": b"no archive", "no tar": b"\x1f\x8b" + bytes(40)}
    content = plain[kind] if kind in plain else inflated(kind) if kind in INFLATED else escaping(kind, target)
    server.files["tiny.tar.gz"] = content

    with pytest.raises(UserError, match=rf"tiny\.tar\.gz: the checksum is right, but {message}"):
        brought()
    assert not target.exists()
    assert list(cache.iterdir()) == []


def without_terms(folder: Path) -> None:
    next(folder.glob("*.tim")).unlink()


def without_segments(folder: Path) -> None:
    next(folder.glob("segments_*")).unlink()


def without_texts(folder: Path) -> None:
    shutil.rmtree(folder)
    lucene_folder(folder, store="")


def cut_vectors(folder: Path) -> None:
    whole = (folder / "index").read_bytes()
    (folder / "index").write_bytes(whole[: len(whole) // 2])


def distances(folder: Path) -> None:
    import faiss

    faiss.write_index(faiss.IndexFlatL2(8), str(folder / "index"))


def no_ids(folder: Path) -> None:
    (folder / "docid").write_bytes(b"")


def one_id(folder: Path) -> None:
    (folder / "docid").write_text("p0\n")


@pytest.mark.parametrize(
    ("kind", "damage", "message"),
    [
        ("lucene", without_terms, "Lucene cannot open this index: CorruptIndexException"),
        ("lucene", without_segments, "it holds no lucene index"),
        ("lucene", without_texts, "this Lucene index does not store the texts of its documents"),
        ("faiss", cut_vectors, "index: cannot be searched"),
        ("faiss", distances, "expected inner products"),
        ("faiss", no_ids, "docid: cannot be read"),
        ("faiss", one_id, "50 vectors but 1 ids"),
    ],
)
def test_an_index_that_cannot_be_searched_gets_no_name(
    kind: str,
    damage: Callable[[Path], None],
    message: str,
    server: PublishedServer,
    cache: Path,
    lucene: Path,
    vectors: Path,
    tmp_path: Path,
) -> None:
    broken = Path(shutil.copytree(lucene if kind == "lucene" else vectors, tmp_path / "broken"))
    damage(broken)
    server.files["broken.tar.gz"] = packed(broken)
    more = {"encoder": "words", "texts": "tiny"} if kind == "faiss" else {}
    other = recipe(server, "broken.tar.gz", kind=kind, **more)
    file = recipes(tmp_path, tiny=recipe(server), other=other)
    fetch("tiny", recipes=file)

    with pytest.raises(
        UserError, match=rf"{message}.*; nothing is kept or registered, .*/other\.tar\.gz\.part is removed"
    ):
        fetch("other", recipes=file)
    assert list(cache.iterdir()) == [cache / "tiny"]
    with pytest.raises(UserError, match="unknown source 'other'"):
        open_source("other")


def test_an_archive_without_a_top_folder(server: PublishedServer, brought: Callable[..., Path], lucene: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for path in lucene.iterdir():
            tar.add(path, path.name)
    server.files["tiny.tar.gz"] = file.getvalue()

    assert_is_whole(brought(), lucene)


def test_a_folder_with_something_else_is_refused(brought: Callable[..., Path], tmp_path: Path, lucene: Path) -> None:
    other = Path(shutil.copytree(lucene, tmp_path / "other"))
    with pytest.raises(UserError, match="other: this folder holds something other than the published tiny"):
        brought(into=other)
    with pytest.raises(UserError, match="found a file, expected a folder"):
        brought(into=other / "readme.txt")

    (tmp_path / "empty").mkdir()
    assert_is_whole(brought(into=tmp_path / "empty"), lucene)


def test_two_at_once_do_not_write_one_file(
    server: PublishedServer, brought: Callable[..., Path], cache: Path, lucene: Path
) -> None:
    hanging = threading.Event()

    def behave(n: int) -> Behaviour:
        hanging.set()
        return Behaviour(hang_after=300_000) if n == 1 else Behaviour()

    server.behave = behave
    folders: list[Path] = []
    first = threading.Thread(target=lambda: folders.append(brought()))
    first.start()
    hanging.wait(30)

    with pytest.raises(UserError, match=r"tiny\.tar\.gz\.part: another process is downloading this"):
        brought()
    server.stopping.set()
    first.join()
    assert_is_whole(folders[0], lucene)


def test_vectors_need_the_index_with_their_texts(
    server: PublishedServer, tmp_path: Path, cache: Path, lucene: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["vectors.tar.gz"] = packed(vectors)
    file = recipes(
        tmp_path,
        tiny=recipe(server),
        **{"tiny.words": recipe(server, "vectors.tar.gz", kind="faiss", encoder="words", texts="tiny")},
    )
    with pytest.raises(UserError, match=r"this index takes its texts from tiny; run first: madke index fetch tiny$"):
        fetch("tiny.words", recipes=file)
    assert server.requests == []

    texts = fetch("tiny", recipes=file)[0]
    folder = fetch("tiny.words", recipes=file)[0]
    monkeypatch.setattr("madke.encoding.encoders.load_encoder", lambda name, **_: WordEncoder())

    assert folder == cache / "tiny.words"
    expected = DenseSource(vectors, name="tiny.words", encoder=WordEncoder(), texts=lucene).search(QUERIES, 3)
    source = open_source("tiny.words")
    assert source.search(QUERIES, 3) == expected
    assert f"texts from {texts} (" in source.description


def program(*args: object, before: str = "") -> list[str]:
    """The command as a process that takes Ctrl-C."""
    code = (
        f"{before}\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from madke.cli import app\n"
        "app.run_command_line()"
    )
    return [sys.executable, "-c", code, "index", "fetch", *map(str, args)]


def ended_by(number: int, server: PublishedServer, file: Path, part: Path) -> tuple[int, str]:
    """Start a fetch, stop it in the middle with a signal, and return its status and what it said."""
    server.behave = lambda n: Behaviour(hang_after=600_000)
    with subprocess.Popen(
        program("tiny", "--recipes", file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size >= 1 << 19) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    server.behave = lambda n: Behaviour()
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_that_was_stopped_goes_on(
    number: signal.Signals, server: PublishedServer, tmp_path: Path, cache: Path, lucene: Path
) -> None:
    part = cache / "tiny.tar.gz.part"
    file = recipes(tmp_path, tiny=recipe(server))

    status, said = ended_by(number, server, file, part)
    assert status == (130 if number == signal.SIGINT else -number)
    assert ("interrupted" in said) is (number == signal.SIGINT)
    size = part.stat().st_size
    done = madke("index", "fetch", "tiny", "--recipes", file)

    assert (done.returncode, done.stdout) == (0, f"tiny: {cache / 'tiny'}\n"), done.stderr
    assert server.ranges == [None, f"bytes={size}-"]
    assert_is_whole(cache / "tiny", lucene)
    again = madke("index", "fetch", "tiny", "--recipes", file)
    assert again.stdout == f"tiny: already here, {cache / 'tiny'}\n"


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_what_was_downloaded(
    server: PublishedServer, tmp_path: Path, cache: Path, lucene: Path
) -> None:
    file = recipes(tmp_path, tiny=recipe(server))
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))"

    done = subprocess.run(program("tiny", "--recipes", file, before=full), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "cannot be written: File too large; the downloaded part is kept" in done.stderr
    assert (cache / "tiny.tar.gz.part").stat().st_size == 600_000

    assert_is_whole(fetch("tiny", recipes=file)[0], lucene)
    assert server.ranges == [None, "bytes=600000-"]


def test_the_list_shows_what_is_published() -> None:
    done = subprocess.run(program("--list"), capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.split()[:5] == ["wikipedia-dpr-100w", "9.2", "GB", "12.0", "GB"] for line in lines)
    assert any(line.split()[:2] == ["wikipedia-dpr-100w.dpr-multi", "59.8"] for line in lines)


def test_what_ships_is_complete() -> None:
    known = published_indexes()

    assert {"wikipedia-dpr-100w", "wikipedia-dpr-100w.dpr-multi"} <= set(known)
    for index in known.values():
        assert index.texts is None or known[index.texts].kind == "lucene"
        assert index.url.startswith("https://")


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UserError, match="unknown published index 'wikipedia-dpr'; did you mean 'wikipedia-dpr-100w'"):
        fetch("wikipedia-dpr")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"md5": "0"}, "unknown key 'tiny.md5'"),
        ({"checksum": "md5:0"}, "tiny.checksum: .* found 'md5:0'"),
        ({"url": "file:///etc/passwd"}, "tiny.url"),
        ({"kind": "faiss"}, "tiny: kind faiss requires encoder and texts"),
        ({"texts": "other"}, "tiny: .*kind lucene takes neither"),
    ],
)
def test_a_wrong_recipe_is_named(change: dict[str, str], message: str, server: PublishedServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"published\.yaml:\d+: {message}"):
        published_indexes(recipes(tmp_path, tiny=recipe(server) | change))


def test_a_name_is_no_path(server: PublishedServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"published\.yaml:1: \.\./tiny: "):
        published_indexes(recipes(tmp_path, **{"../tiny": recipe(server)}))
