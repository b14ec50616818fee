"""One document at a time: its passages, sections, columns and tables, and the bounds on time and memory."""

import gzip
import math
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from madke.retrieval.document_reading import BoundedReader, Unreadable, passages_of, read_document
from madke.retrieval.documents import files_in
from madke.retrieval.ranking import WordIndex, words_of
from tests.support import documents
from tests.support.installed import needs

needs("pypdfium2", "docs")


def passages(folder: Path, name: str, content: bytes | str) -> list[tuple[str, str]]:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_document(folder / name, name).passages


def test_a_passage_names_its_page_or_its_heading(
    tmp_path: Path,
) -> None:
    assert passages(tmp_path, "a.pdf", documents.pdf(["Kestrels hover.", None, "Owls hunt at night."])) == [
        ("a.pdf, p. 1", "Kestrels hover."),
        ("a.pdf, p. 3", "Owls hunt at night."),
    ]
    found = passages(tmp_path, "a.docx", documents.docx(["Vorwort", "# Falken", "Turmfalken rütteln."]))
    assert found == [("a.docx", "Vorwort"), ("a.docx: Falken", "Turmfalken rütteln.")]


HTML = """<!DOCTYPE html><html><head><title>Book of
 Lakes</title><style>p {}</style></head><body><nav>Contents</nav><h1>Book of Lakes</h1><p>Before <b>all</b> &amp;.</p>
<h2>Deep <i>lakes</i></h2><p>H<sub>2</sub>O here.</p><ul><li>one</li><li>two</li></ul>after<script>no()</script>
<!-- hidden --><table><tr><td>cell<table><tr><td>inner</td></tr></table></td></tr></table>
<h4>Small heading</h4><p>More.</p><h3></h3><p>Unnamed.</p></body></html>"""
MARKDOWN = """---
title: ignored

tags: [lakes]
---
## Deep *lakes*

- one

| a | b |
|---|---|
| 1 | 2 |

See [the site](https://x.example) & <script>no()</script> `code`.
"""


def test_html_is_divided_at_headings_and_loses_what_is_no_prose(tmp_path: Path) -> None:
    assert passages(tmp_path, "a.html", HTML) == [
        ("a.html: Book of Lakes", "Before all &."),
        ("a.html: Deep lakes", "H2O here. one two after cell inner Small heading. More."),
        ("a.html", "Unnamed."),
    ]


def test_markdown_is_read_as_the_html_it_stands_for(tmp_path: Path) -> None:
    assert passages(tmp_path, "a.md", MARKDOWN) == [("a.md: Deep lakes", "one a b 1 2 See the site & code.")]


def test_a_sheet_is_read_row_by_row_and_a_talk_slide_by_slide(tmp_path: Path) -> None:
    openpyxl, pptx = (pytest.importorskip(name, reason="needs the extra documents") for name in ("openpyxl", "pptx"))
    book = openpyxl.Workbook()
    book.active.title = "Lakes"
    for row in (["Lake", "Depth"], [], ["Baikal", 1642], ["Geneva", None]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Kestrels", "They nest in towers\nThey hover."
    slide.notes_slide.notes_text_frame.text = "Show the film"
    cells = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table.rows[0].cells
    cells[0].text, cells[1].text = "Eggs", "5"
    talk.save(str(tmp_path / "a.pptx"))

    assert read_document(tmp_path / "a.xlsx", "a.xlsx").passages == [
        ("a.xlsx: Lakes", "Lake, Depth. Lake: Baikal; Depth: 1642. Lake: Geneva.")
    ]
    assert read_document(tmp_path / "a.pptx", "a.pptx").passages == [
        ("a.pptx, slide 1", "Kestrels. They nest in towers. They hover. Eggs 5. Show the film.")
    ]


def test_a_file_whose_reader_is_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.retrieval.document_reading.find_spec", lambda name: None)
    (tmp_path / "a.pptx").write_bytes(b"")
    ((_, found),) = files_in(tmp_path)
    assert found.problem.startswith("needs pptx: pip install")


def test_a_heading_inside_of_a_text_is_a_sentence_of_its_own(tmp_path: Path) -> None:
    content = "NEST BOXES\n\nThey are put up in towns.\n\nWho comes?\n\nKestrels return\nto them.\n"
    text = "NEST BOXES. They are put up in towns. Who comes? Kestrels return to them."
    assert passages(tmp_path, "notes.txt", content) == [("notes.txt", text)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("locked.pdf", documents.locked_pdf(), "encrypted: it opens only with a password"),
        ("broken.pdf", documents.pdf(["text"])[:60], "damaged, or no PDF"),
        ("scan.pdf", documents.pdf([None, None]), "no text (a scan needs text recognition, OCR, first)"),
        ("latin.txt", "caf\xe9".encode("latin-1"), "not UTF-8"),
        ("locked.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "encrypted, or in the format of Office before 2007"),
        ("broken.docx", documents.docx(["text"])[:100], "damaged ("),
        ("notes.md.gz", b"no gzip", "is not gzip"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives hold the time
)
def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as refused:
        passages(tmp_path, name, content)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("a represen\ufffetative view", "a representative view"),
        ("a represen-\r\ntative view", "a representative view"),
        ("well-known, and well\ufffeknown", "well-known, and well-known"),
        ("from 1914\ufffe1918", "from 1914-1918"),
        ("the Jean\ufffePaul", "the Jean-Paul"),
        ("a \ufb01ne \ufb02ow", "a fine flow"),
    ],
)
def test_divided_words_are_joined(lines: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pypdfium2

    monkeypatch.setattr(pypdfium2.PdfTextPage, "get_text_range", lambda page: lines)
    assert passages(tmp_path, "a.pdf", documents.pdf(["x"])) == [("a.pdf, p. 1", expected)]


def test_a_script_without_spaces_is_divided_and_its_lines_are_joined() -> None:
    found = list(passages_of("贝加尔湖是最深的\r\n湖泊。" * 60))
    assert "".join(found) == "贝加尔湖是最深的湖泊。" * 60
    assert [len(one) for one in found] == [220, 220, 220]


@pytest.mark.slow
def test_a_document_that_hangs_or_needs_too_much_memory_does_not_stop_the_others(tmp_path: Path) -> None:
    contents = {"endless.pdf": documents.endless_pdf(), "bomb.docx": documents.bomb_docx(260)}
    contents |= {"huge.txt.gz": gzip.compress(b"A line.\n" * (4 << 20), 1), "good.pdf": documents.pdf(["Still here."])}
    reasons: dict[str, Any] = {}
    slow, small = BoundedReader(seconds=1), BoundedReader(memory_mb=200)
    with closing(slow), closing(small):
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
            try:
                reasons[name] = (slow if name == "endless.pdf" else small).read(tmp_path / name, name).passages
            except Unreadable as error:
                reasons[name] = str(error)
    assert len(contents["endless.pdf"]) < 5_000
    assert len(contents["bomb.docx"]) < 2_000_000
    assert reasons == {
        "endless.pdf": "damaged, or reading it takes more than 1 s or 1,024 MB of memory",
        "bomb.docx": "unpacks to more than 256 MB",
        "huge.txt.gz": "needs more than 200 MB of memory",
        "good.pdf": [("good.pdf, p. 1", "Still here.")],
    }


def test_the_reader_has_no_key_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-the-reader")
    (tmp_path / "a.txt").write_text("Text.")
    with closing(BoundedReader()) as reader:
        reader.read(tmp_path / "a.txt", "a.txt")
        children = psutil.Process().children()
        (process,) = (child for child in children if "madke.retrieval.document_reading" in child.cmdline())
        environment = process.environ()
    assert "PYTHONPATH" in environment
    assert "canary" not in str(environment)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Lakes' depths, and Baikal's", ["lake", "depth", "baikal"]),
        ("U.S. troops don\u2019t: 1,642.5; see wiki_page", ["u.", "troop", "don't", "1,642.5", "see", "wiki_pag"]),
        ("贝加尔 湖", ["贝", "加", "尔", "湖"]),
        ("to be or not to be", []),
    ],
)
def test_words_are_those_of_lucenes_english_analyser(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_the_first_of_equal_texts_comes_first() -> None:
    index = WordIndex(["red owl", "blue owl", "red owl", "a green finch", ""])
    assert [number for number, _ in index.search("a red owl", 9)] == [0, 2, 1]
    assert [number for number, _ in index.search("owls", 2)] == [0, 1]
    assert index.search("heron", 3) == index.search("the", 3) == []


def test_scores_are_those_of_lucenes_formula() -> None:
    index = WordIndex(["owl owl mouse", "mouse", "vole vole vole vole"])
    ((number, score),) = index.search("owl", 5)
    idf, length = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5)), 3 / (8 / 3)
    assert (number, score) == (0, pytest.approx(idf * 2 / (2 + 0.9 * (1 - 0.4 + 0.4 * length)), rel=1e-5))


KESTREL = ["The kestrel nests in", "old towers. Its eggs", "hatch after twenty-", "eight days in spring."]
HERON = ["The heron nests in", "tall trees. Its eggs", "hatch after twenty-", "six days in summer."]
READ = (
    "The kestrel nests in old towers. Its eggs hatch after twentyeight days in spring. "
    "The heron nests in tall trees. Its eggs hatch after twentysix days in summer."
)
HEADLINE = "Birds of the old towns and of the rivers: where they nest and breed"

Items = list[tuple[int, int, str]]


def across(left: Sequence[str], right: Sequence[str]) -> Items:
    """Two columns, of which a line each is drawn in turn."""
    rows = enumerate(zip(left, right, strict=True))
    return [piece for n, (a, b) in rows for piece in ((60, 780 - 14 * n, a), (320, 780 - 14 * n, b))]


ACROSS = across(KESTREL, HERON)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (ACROSS, READ),
        (ACROSS[::2] + ACROSS[1::2], READ),
        ([(60, 810, HEADLINE), *ACROSS, (60, 100, "Page 3")], f"{HEADLINE} {READ} Page 3"),
    ],
    ids=["line by line", "one after the other", "with headline and footer"],
)
def test_columns_are_read_one_by_one_however_they_are_drawn(items: Items, text: str, tmp_path: Path) -> None:
    found = passages(tmp_path, "birds.pdf", documents.drawn_pdf(items))

    assert " ".join(part for _, part in found) == text


OFFICE = Path(__file__).parent / "office"
"""PDF files that LibreOffice 7.4 made, justified and hyphenated: two columns of long words, and a table."""
LONG_WORDS = """international representatives administration considered infrastructure telecommunication extraordinary
responsibilities nevertheless characteristics hydroelectric installations incomprehensible specialists"""


def test_columns_of_an_office_program_are_read_one_after_the_other_and_divided_words_are_joined() -> None:
    chosen = random.Random(0)
    prose = [chosen.choice(LONG_WORDS.split()) for _ in range(500)]

    *found, last = read_document(OFFICE / "columns.pdf", "columns.pdf").passages

    # On paper many words are divided, and the text begins a second column in the middle.
    assert " ".join(text for _, text in found).split() == ["begin", *prose, "finish"]
    assert {title for title, _ in found} <= {"columns.pdf, p. 1", "columns.pdf, p. 2"}
    assert last[1] == "Last."


def test_a_row_of_a_table_of_an_office_program_stays_together() -> None:
    assert read_document(OFFICE / "table.pdf", "table.pdf").passages == [
        ("table.pdf, p. 1", "Depths of lakes Lake Depth Baikal 1,642 m Geneva 310 m")
    ]
