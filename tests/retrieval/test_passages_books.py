"""Books as plain text, Markdown and HTML."""

from __future__ import annotations

import csv
import gzip
import logging
from pathlib import Path

import pytest
from lxml import etree

from madke._util.workers import InProcess
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import read_corpus
from madke.retrieval.passages.books import find_books, read_book, sections
from madke.retrieval.passages.builder import build_passages

HTML = """<!DOCTYPE html><html><head><title>Book of
 Lakes</title><style>p {}</style></head><body><nav>Contents</nav><h1>Book of Lakes</h1><p>Before <b>all</b>.</p>
<h2>Deep <i>lakes</i></h2><p>H<sub>2</sub>O here.</p><ul><li>one</li><li>two</li></ul>after<script>no()</script>
<!-- hidden --><table><tr><td>cell<table><tr><td>inner</td></tr></table></td></tr></table>
<h4>Small heading</h4><p>More.</p><h3></h3><p>Unnamed.</p></body></html>"""
MARKDOWN = """---
title: ignored
---
# Book of Lakes

Before *all*.

## Deep lakes

- one
- two

| a | b |
|---|---|
| 1 | 2 |

See [the site](https://x.example) & <script>no()</script> `code`.
"""


def found(name: str, content: str) -> list[tuple[str, str]]:
    return [(section.title, " ".join(section.text.split())) for section in sections(name, content)]


def test_html_is_divided_at_headings_and_loses_what_is_no_prose() -> None:
    assert found("lakes.html", HTML) == [
        ("Book of Lakes", ""),
        ("Book of Lakes", "Before all."),
        ("Book of Lakes: Deep lakes", "H2O here. one two after Small heading More."),
        ("Book of Lakes", "Unnamed."),
    ]


def test_markdown_is_read_as_the_html_it_stands_for() -> None:
    assert found("lakes.md", MARKDOWN) == [
        ("Book of Lakes", ""),
        ("Book of Lakes", "Before all."),
        ("Book of Lakes: Deep lakes", "one two See the site & code."),
    ]


@pytest.mark.parametrize("tag", ["font", "span", "div", "p><font"])
def test_html_is_read_to_its_end_however_deep_its_elements_lie(tag: str) -> None:
    words = [f"word{number}" for number in range(20_000)]

    [*_, (title, text)] = found("lakes.html", "<h1>A</h1>" + "".join(f"<{tag}>{word} " for word in words))

    assert (title, text.split()) == ("A", words)


def test_markdown_is_read_to_the_bottom_of_its_lists_and_quotes() -> None:
    items = [f"item{depth}" for depth in range(30)]
    lists = "".join("  " * depth + f"- {item}\n" for depth, item in enumerate(items))

    assert found("lakes.md", lists) == [("lakes", " ".join(items))]
    assert found("lakes.md", "> " * 40 + "quoted") == [("lakes", "quoted")]


def test_html_that_the_parser_gives_up_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.html").write_text("<p>before <b title='" + "x" * 11_000_000 + "'>after")
    (tmp_path / "b.html").write_text("<p>good")
    parser = etree.HTMLParser
    monkeypatch.setattr("lxml.etree.HTMLParser", lambda **settings: parser(**settings | {"huge_tree": False}))

    with caplog.at_level(logging.WARNING):
        manifest = build_passages(
            [tmp_path / "a.html", tmp_path / "b.html"], tmp_path / "out", workers=InProcess(), kind="text"
        )

    assert (manifest.counts.unparsable, manifest.counts.articles) == (1, 1)
    assert "skipped, cannot be parsed: a.html: ValueError: the parser stopped at line 1" in caplog.text


@pytest.mark.parametrize("again", ["a.txt", "copy.txt", "."])
def test_the_same_book_twice_is_refused(again: str, tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    for name in ("a.txt", "copy.txt"):
        (tmp_path / "books" / name).write_text("one two")
    sources = [tmp_path / "books" / "a.txt", tmp_path / "books" / again]

    with pytest.raises(UserError, match=r"has the same content as .*a\.txt; give only one of them"):
        build_passages(sources, tmp_path / "out", workers=InProcess(), kind="text")

    assert not (tmp_path / "out").exists()


def test_plain_text_is_named_after_its_file() -> None:
    assert found("books/the_deep_lakes.txt.gz", "One.\n\nTwo.") == [("the deep lakes", "One. Two.")]


def test_folders_are_searched_in_order_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.TXT", "a/b.htm", "a/.hidden.txt", ".git/c.md", "picture.png", "c.html.gz"):
        path = tmp_path / "books" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")

    names = [name for _, name in find_books([tmp_path / "books", tmp_path / "books" / "b.md"])]

    assert names == ["books/a/b.htm", "books/a/z.TXT", "books/b.md", "books/c.html.gz", "b.md"]


def test_books_become_passages_with_their_file_as_page(tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "a.md").write_text("# A\n\n## One\n\n" + "word " * 130 + "\n\n## Two\n\nend")
    (books / "b.txt").write_bytes("\ufeffGrüße".encode())
    (books / "empty.txt").write_text(" \n")

    manifest = build_passages([books], tmp_path / "out", workers=InProcess(), kind="text")

    passages = [(p.id, p.title, len(p.text.split())) for p in read_corpus(tmp_path / "out")]
    assert passages == [("1", "A: One", 100), ("2", "A: One", 30), ("3", "A: Two", 1), ("4", "b", 1)]
    with gzip.open(tmp_path / "out" / "passages-00000.jsonl.gz", "rt", encoding="utf-8") as lines:
        assert (
            list(lines)[3] == '{"id": "4", "title": "b", "text": "Grüße", "page_id": "books/b.txt", "revision": ""}\n'
        )
    assert (manifest.counts.pages, manifest.counts.articles, manifest.counts.empty) == (3, 2, 1)


def test_what_is_no_book_is_said(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (tmp_path / "broken.txt.gz").write_bytes(b"no gzip")
    (tmp_path / "book.pdf").write_bytes(b"%PDF")
    (tmp_path / "none").mkdir()

    with pytest.raises(UserError, match=r"latin\.txt:1: is not UTF-8 text: invalid start byte at byte 2"):
        read_book(tmp_path / "latin.txt")
    with pytest.raises(UserError, match=r"broken\.txt\.gz: is not gzip"):
        read_book(tmp_path / "broken.txt.gz")
    with pytest.raises(UserError, match=r"book\.pdf: unknown book format; expected a file ending in \.txt"):
        find_books([tmp_path / "book.pdf"])
    with pytest.raises(UserError, match="this folder contains no book"):
        find_books([tmp_path / "none"])
    with pytest.raises(UserError, match="no such file or folder"):
        find_books([tmp_path / "missing"])


def test_real_textbooks_become_passages(shared_data: Path, tmp_path: Path) -> None:
    chapters: dict[str, list[str]] = {}
    with gzip.open(shared_data / "medical_textbooks" / "psgs_textbooks.tsv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            chapters.setdefault(row["title"], []).append(row["text"])
    books: dict[str, list[str]] = {}
    for title, texts in list(chapters.items())[:150]:
        book, _, heading = title.partition(": ")
        books.setdefault(book, [f"# {book}\n"]).append(f"## {heading}\n\n{' '.join(texts)}\n")
    (tmp_path / "books").mkdir()
    for book, parts in books.items():
        (tmp_path / "books" / f"{book}.md").write_text("\n".join(parts), encoding="utf-8")

    manifest = build_passages([tmp_path / "books"], tmp_path / "out", workers=InProcess(), kind="text")

    passages = list(read_corpus(tmp_path / "out"))
    assert manifest.counts.passages == len(passages) > 1000
    assert {passage.title for passage in passages} >= {"OpenStax Anatomy and Physiology: Introduction"}
    assert all(len(passage.text.split()) <= 100 for passage in passages)
