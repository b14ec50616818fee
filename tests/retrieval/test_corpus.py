"""Corpora in each of their formats, whole and broken."""

import gzip
from pathlib import Path

import pytest

from madke._util.files import fingerprint
from madke._util.workers import InProcess
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import describe_corpus, read_corpus, read_unique
from madke.retrieval.indexes.index_folder import StoredPassage
from madke.retrieval.passages import build_passages
from tests.data.published import write
from tests.support.dump import articles, write_dump

A = StoredPassage("1", "Title", 'A "quoted"\ttext')


def test_dpr_tsv_with_csv_quoting_plain_and_gzipped(tmp_path: Path) -> None:
    content = 'id\ttext\ttitle\n1\t"A ""quoted""\ttext"\tTitle\n2\tplain\tT2\n'
    (tmp_path / "c.tsv").write_text(content)
    with gzip.open(tmp_path / "c.tsv.gz", "wt") as file:
        file.write(content)

    for name in ("c.tsv", "c.tsv.gz"):
        assert list(read_corpus(tmp_path / name)) == [A, StoredPassage("2", "T2", "plain")]


def test_jsonl_in_both_forms(tmp_path: Path) -> None:
    content = [
        {"id": "1", "title": "Title", "text": 'A "quoted"\ttext'},
        {"id": 2, "contents": '"Two words"\nThe text\nof it'},
        {"id": "3", "contents": "only text"},
        {"id": "4", "text": "no title"},
        {"_id": "6", "title": "BEIR", "text": "of a folder", "metadata": {"url": "x"}},
    ]
    path = write(tmp_path / "c.jsonl", content)

    assert list(read_corpus(path)) == [
        A,
        StoredPassage("2", "Two words", "The text\nof it"),
        StoredPassage("3", "", "only text"),
        StoredPassage("4", "", "no title"),
        StoredPassage("6", "BEIR", "of a folder"),
    ]
    write(tmp_path / "beir" / "corpus.jsonl", content)
    assert list(read_corpus(tmp_path / "beir")) == list(read_corpus(path))
    assert describe_corpus(tmp_path / "beir").sha256 == fingerprint(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.tsv", "id\tbody\n1\tx\n", r"c\.tsv:1: header \['id', 'body'\]; expected the columns id, text and title"),
        ("c.tsv", "id\ttext\ttitle\n1\tx\ty\n2\tx\n", r"c\.tsv:3: 2 columns, 3 expected"),
        ("c.tsv", "id\ttext\ttitle\n\tx\ty\n", r"c\.tsv:2: empty id"),
        ("c.jsonl", '{"id": "1", "title": "x"}\n', r"c\.jsonl:1: expected an object"),
        ("c.csv", "", r"unknown corpus form"),
    ],
)
def test_what_is_broken_is_said_with_its_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(UserError, match=message):
        list(read_corpus(tmp_path / name))


def test_a_damaged_shard_of_passages_is_said_before_it_is_read(tmp_path: Path) -> None:
    build_passages([write_dump(tmp_path / "d.xml", articles(3))], tmp_path / "passages", workers=InProcess())
    shard = tmp_path / "passages" / "passages-00000.jsonl.gz"
    shard.write_bytes(gzip.compress(gzip.decompress(shard.read_bytes()).replace(b"e", b"o")))

    remedy = "the file is missing or was changed; run the same `madke index passages` command"
    with pytest.raises(UserError, match=rf"00000\.jsonl\.gz: {remedy}"):
        next(read_corpus(tmp_path / "passages"))


def test_a_repeated_id_is_refused_with_both_lines(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    path = write(tmp_path / "c.jsonl", [{"id": id_, "contents": "x"} for id_ in ("a", "b", "c", "b")])

    with pytest.raises(UserError, match=r"c\.jsonl:4: id 'b' was already used on line 2"):
        list(read_unique(path, []))
