"""From a dump to a folder of passages, also by ``madke index passages``, and again after something went wrong.

After kill -9 and a full disk nothing finished is lost, and the bytes are the same.
"""

import bz2
import gzip
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke._util.workers import InProcess
from madke.core.errors import UserError
from madke.retrieval import passages
from madke.retrieval.indexes.corpus import CorpusCounts, PassagesManifest, read_corpus, read_folder
from madke.retrieval.passages import build_passages, page_kind, read_dump
from tests.support.cli import madke, refused
from tests.support.dump import Page, articles, write_dump
from tests.support.small_disk import fill_up

PAGES = [
    Page(title="Lake Baikal", text="'''Lake Baikal''' is [[deep]].\n== H ==\n" + "word " * 230 + "[[Datei:A.jpg|m]]"),
    Page(title="Baikal", text="#REDIRECT [[Lake Baikal]]", redirect="Lake Baikal"),
    Page(title="Bajkal", text="#redirect [[Lake Baikal]]"),
    Page(title="Diskussion:Lake Baikal", text="Talk.", namespace=1),
    Page(title="Baikal (disambiguation)", text="* [[Lake Baikal]]"),
    Page(title="List of lakes", text="* [[Lake Baikal]]"),
    Page(title="Only a table", text="{|\n| cell\n|}\n* item"),
    Page(title="Sea & <ocean>", text="A short & salty «море».", earlier="An old text."),
]


BATCH_CHARACTERS, SHARD_BATCHES = 20_000, 2


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few pages, shards of two batches."""
    monkeypatch.setattr(passages, "_BATCH_CHARACTERS", BATCH_CHARACTERS)
    monkeypatch.setattr(passages, "_SHARD_BATCHES", SHARD_BATCHES)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(tmp_path / "wiki.xml.bz2", articles(90, paragraphs=4), streams_of=20)


def build(source: Path, out: Path, **settings: Any) -> PassagesManifest:
    return build_passages([source], out, workers=InProcess(), **settings)


def lines(folder: Path) -> Iterator[dict[str, str]]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def written(folder: Path) -> dict[str, int]:
    """When each finished shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.glob("passages-*.jsonl.gz"))}


@pytest.mark.parametrize("name", ["d.xml", "d.xml.gz", "d.xml.bz2"])
def test_articles_become_passages_of_a_hundred_words_and_every_page_is_counted(name: str, tmp_path: Path) -> None:
    manifest = build(write_dump(tmp_path / name, PAGES), tmp_path / "out")

    found = list(lines(tmp_path / "out"))
    assert [(p["id"], p["title"], p["page_id"], p["revision"], len(p["text"].split())) for p in found] == [
        ("1", "Lake Baikal", "1", "1000", 100),
        ("2", "Lake Baikal", "1", "1000", 100),
        ("3", "Lake Baikal", "1", "1000", 34),
        ("4", "Sea & <ocean>", "8", "8001", 5),
    ]
    assert found[0]["text"].startswith("Lake Baikal is deep. word word")
    assert found[3]["text"] == "A short & salty «море»."
    assert manifest.counts == CorpusCounts(
        pages=8, articles=2, redirects=2, disambiguations=1, lists=1, other_namespaces=1, empty=1, passages=4
    )


@pytest.mark.usefixtures("small_shards")
def test_a_damaged_shard_and_later_ones_are_rebuilt(
    dump: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build(dump, tmp_path / "out")
    before, times = contents(tmp_path / "out"), written(tmp_path / "out")
    shard = tmp_path / "out" / "passages-00001.jsonl.gz"
    shard.write_bytes(shard.read_bytes()[:-9] + b"x" * 9)

    with caplog.at_level(logging.WARNING):
        build(dump, tmp_path / "out")

    assert "passages-00001.jsonl.gz is missing or was changed; it and all later shards are" in caplog.text
    assert contents(tmp_path / "out") == before
    kept = [name for name, time in written(tmp_path / "out").items() if time == times[name]]
    assert kept == ["passages-00000.jsonl.gz"]


def test_a_folder_made_from_something_else_is_refused(dump: Path, tmp_path: Path) -> None:
    build(dump, tmp_path / "out")
    before = contents(tmp_path / "out")
    refusal = r"changed sources, or with other settings \(kind wikipedia, 100 words"

    with pytest.raises(UserError, match=refusal):
        build(dump, tmp_path / "out", words=50)
    with pytest.raises(UserError, match=refusal):
        build(write_dump(tmp_path / "other.xml", PAGES), tmp_path / "out")

    assert contents(tmp_path / "out") == before


def test_folders_and_sources_that_will_not_do_are_refused(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "d.xml", [Page(title="List of lakes", text="x")])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")

    with pytest.raises(UserError, match="this folder is not empty and holds no passages; choose another"):
        build(dump, tmp_path / "full")
    with pytest.raises(UserError, match="no such dump file"):
        build(tmp_path / "none.xml", tmp_path / "out")
    with pytest.raises(UserError, match="this source has no passages"):
        build(dump, tmp_path / "out")
    # What was begun with nothing in it does not stand in the way of the next source.
    build(write_dump(tmp_path / "d2.xml", PAGES), tmp_path / "out")


def test_a_dump_that_is_cut_off_says_after_which_page(tmp_path: Path) -> None:
    whole = write_dump(tmp_path / "whole.xml.bz2", articles(30), streams_of=10).read_bytes()
    (tmp_path / "d.xml.bz2").write_bytes(whole[: len(whole) * 2 // 3])

    with pytest.raises(UserError, match=r"xml\.bz2: the dump is truncated after page \d+ \('.+'\); download it again"):
        list(read_dump(tmp_path / "d.xml.bz2"))


def test_what_is_no_dump_is_said(tmp_path: Path) -> None:
    (tmp_path / "d.xml.bz2").write_bytes(bz2.compress(b"plain text"))

    with pytest.raises(UserError, match="not a Wikipedia XML dump, or damaged: syntax error"):
        list(read_dump(tmp_path / "d.xml.bz2"))


@pytest.mark.parametrize(
    ("title", "text", "kind"),
    [
        ("See", "#WEITERLEITUNG [[Meer]]", "redirect"),
        ("Lac (homonymie)", "", "disambiguation"),
        ("Lake", "* [[A]]\n{{disambig}}", "disambiguation"),
        ("Lake", "{{Disambiguation|geo|surname}}", "disambiguation"),
        ("See", "{{Begriffsklärung}}", "disambiguation"),
        ("Lake", "of a [[lake]]{{disambiguation needed|date=May 2020}}", "article"),
        ("Lake", "{{Other uses|Lake (disambiguation)}} A lake.", "article"),
        ("Lists of lakes", "text", "list"),
        ("Outline of hydrology", "text", "list"),
        ("Index of refraction", "text", "article"),
    ],
)
def test_what_is_no_article(title: str, text: str, kind: str) -> None:
    assert page_kind(title, text) == kind


def test_the_counts_are_shown_and_the_same_command_finds_nothing_to_do(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "d.xml.bz2", articles(14, paragraphs=2))
    command = ("index", "passages", dump, "--out", tmp_path / "out")

    assert "--processes needs --engine local" in refused(*command, "--engine", "ray", "--processes", 2)
    assert not (tmp_path / "out").exists()
    first, again = madke(*command, "--processes", 1), madke(*command, "--processes", 1)

    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    count = len(list(read_corpus(tmp_path / "out")))
    for words in (["pages", "14"], ["articles", "12"], ["redirects", "2"], ["passages", str(count)]):
        assert words in [line.split() for line in first.stdout.splitlines()]
    assert f"{count} passages in 1 file" in first.stdout
    assert again.stdout.startswith(f"{tmp_path / 'out'}: already finished\n")


KILLED = f"""
import sys
from pathlib import Path
from madke.retrieval import passages
from madke._util.workers import open_workers

passages._BATCH_CHARACTERS, passages._SHARD_BATCHES = {BATCH_CHARACTERS}, {SHARD_BATCHES}
batches = 0

def progress(counts):
    global batches
    batches += 1
    if batches == 6:
        print("ready", flush=True)
        sys.stdin.read()

with open_workers("local", processes=2) as workers:
    passages.build_passages([Path(sys.argv[1])], Path(sys.argv[2]), workers=workers, progress=progress)
"""


@pytest.mark.usefixtures("small_shards")
def test_kill_in_the_middle_and_the_same_command_gives_the_same_bytes(dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(dump), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    left = read_folder(out)
    assert left is not None
    assert [shard.number for shard in left.shards] == [0, 1]
    assert not (out / "passages.json").exists()
    with pytest.raises(UserError, match="passages of this folder are unfinished; run the same `madke index passages`"):
        list(read_corpus(out))
    finished = written(out)

    build(dump, out)
    build(dump, tmp_path / "undisturbed")

    assert contents(out) == contents(tmp_path / "undisturbed")
    assert finished.items() <= written(out).items()


@pytest.mark.usefixtures("small_shards")
def test_a_full_disk_is_one_line_and_loses_no_finished_shard(dump: Path, small_disk: Path, tmp_path: Path) -> None:
    out = small_disk / "out"
    filler = fill_up(small_disk, leave=40_000)

    with pytest.raises(UserError, match=r"^[^\n]*the disk is full; free some space[^\n]* finished shards are kept\)$"):
        build(dump, out)
    finished = written(out)
    assert finished
    filler.unlink()
    build(dump, out)
    build(dump, tmp_path / "undisturbed")

    assert contents(out) == contents(tmp_path / "undisturbed")
    assert finished.items() <= written(out).items()
