"""Markdown and HTML are divided at headings."""

from madke.retrieval.documents.reading import sections

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


def found(form: str, content: str) -> list[tuple[str, str]]:
    return [(heading, " ".join(text.split())) for heading, text in sections(form, content)]


def test_html_is_divided_at_headings_and_loses_what_is_no_prose() -> None:
    assert found("html", HTML) == [
        ("", ""),
        ("Book of Lakes", "Before all."),
        ("Deep lakes", "H2O here. one two after cell inner Small heading. More."),
        ("", "Unnamed."),
    ]


def test_markdown_is_read_as_the_html_it_stands_for() -> None:
    assert found("markdown", MARKDOWN) == [
        ("", ""),
        ("Book of Lakes", "Before all."),
        ("Deep lakes", "one two a b 1 2 See the site & code."),
    ]
