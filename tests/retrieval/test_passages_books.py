"""Books as plain text, Markdown and HTML."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

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
