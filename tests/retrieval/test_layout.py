"""PDF pages with columns, also such whose lines were drawn across the page, and tables, which look alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from madke.retrieval.documents.reading import read_document
from tests.support import documents
from tests.support.installed import needs

needs("pypdfium2", "docs")

KESTREL = ["The kestrel nests in", "old towers. Its eggs", "hatch after twenty-", "eight days in spring."]
HERON = ["The heron nests in", "tall trees. Its eggs", "hatch after twenty-", "six days in summer."]
READ = (
    "The kestrel nests in old towers. Its eggs hatch after twentyeight days in spring. "
    "The heron nests in tall trees. Its eggs hatch after twentysix days in summer."
)
ACROSS = [piece for n in range(4) for piece in ((60, 780 - 14 * n, KESTREL[n]), (320, 780 - 14 * n, HERON[n]))]


def read(tmp_path: Path, items: Sequence[tuple[int, int, str]]) -> tuple[str, str]:
    """Text and note of a page with these texts."""
    (tmp_path / "birds.pdf").write_bytes(documents.drawn_pdf(items))
    found = read_document(tmp_path / "birds.pdf", "birds.pdf")
    return " ".join(text for _, text in found.passages), found.note


def words(items: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The same page with each word drawn for itself, as programs for text recognition do; Courier is 6.6 wide."""
    found = []
    for x, y, text in items:
        at = 0
        for word in text.split():
            found.append((round(x + 6.6 * text.index(word, at)), y, word))
            at = text.index(word, at) + len(word)
    return found


def test_columns_drawn_across_the_page_are_read_one_after_the_other(tmp_path: Path) -> None:
    assert read(tmp_path, ACROSS) == (READ, "")


def test_columns_of_single_words_are_read_one_after_the_other(tmp_path: Path) -> None:
    assert read(tmp_path, words(ACROSS)) == (READ, "")


def test_a_headline_and_a_footer_stay_in_place(tmp_path: Path) -> None:
    headline = "Birds of the old towns and of the rivers: where they nest and breed"
    items = [(60, 810, headline), *ACROSS, (60, 100, "Page 3")]
    assert read(tmp_path, items) == (f"{headline} {READ} Page 3", "")


def test_columns_drawn_one_after_the_other_stay_so(tmp_path: Path) -> None:
    assert read(tmp_path, ACROSS[::2] + ACROSS[1::2]) == (READ, "")


def test_a_table_is_read_by_rows(tmp_path: Path) -> None:
    rows = [("Lake Baikal in Russia", "Depth of 1642 metres"), ("Lake Geneva in the Alps", "Depth of 310 metres")] * 3
    items = [piece for n, (a, b) in enumerate(rows) for piece in ((60, 780 - 14 * n, a), (320, 780 - 14 * n, b))]
    assert read(tmp_path, items) == (" ".join(f"{a} {b}" for a, b in rows), "")


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
