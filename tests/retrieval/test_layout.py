"""PDF pages with columns whose lines were drawn across the page, and tables, which look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.retrieval.documents.layout import Piece, read_by_columns
from madke.retrieval.documents.reading import read_document
from madke.retrieval.documents.source import DocumentSource
from tests.support import documents
from tests.support.installed import needs

needs("pypdfium2", "docs")

KESTREL = ["The kestrel nests in", "old towers. Its eggs", "hatch after twenty-", "eight days in spring."]
HERON = ["The heron nests in", "tall trees. Its eggs", "hatch after twenty-", "six days in summer."]
STORK = ["The stork nests on", "chimneys and on roofs", "of houses in villages", "near wet meadows."]
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


def test_lines_with_spaces_between_the_columns_are_read_by_columns(tmp_path: Path) -> None:
    lines = [
        (60, 780 - 14 * n, f"{left:<30}{right}") for n, (left, right) in enumerate(zip(KESTREL, HERON, strict=True))
    ]
    assert read(tmp_path, lines) == (READ, "")


def test_three_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    columns = ((40, KESTREL), (220, HERON), (400, STORK))
    items = [(x, 780 - 14 * n, column[n]) for n in range(4) for x, column in columns]
    assert read(tmp_path, items) == (f"{READ} {' '.join(STORK)}", "")


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


def test_what_may_be_columns_or_a_table_is_named_in_the_list_of_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / ".cache"))
    rows = [
        ("Opens on each Monday", "Closes on each Friday"),
        ("and on every Sunday.", "in the late morning."),
        ("Tickets at the gate.", "Children may go free."),
        ("Dogs stay at home.", "Bicycles stay outside"),
        ("Guides are for hire.", "Maps are in the shop."),
    ]
    items = [piece for n, (a, b) in enumerate(rows) for piece in ((60, 780 - 14 * n, a), (320, 780 - 14 * n, b))]
    text, note = read(tmp_path, items)
    assert text == " ".join(f"{a} {b}" for a, b in rows)
    assert note == "layout unclear on p. 1 (columns or a table; lines may be mixed)"
    source = DocumentSource(tmp_path, name="park", encoder="none")
    assert f"park: birds.pdf: {note}" in caplog.text
    source.aclose()


BOX = st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(0, 9), st.integers(0, 3))


@given(st.lists(st.tuples(st.sampled_from("ab \n-."), BOX), max_size=60))
def test_no_character_is_lost_on_any_page(drawn: list[tuple[str, tuple[int, int, int, int]]]) -> None:
    characters = [
        Piece(text, 10.0 * x, 7.0 * y, 10.0 * x + width, 7.0 * y + height) for text, (x, y, width, height) in drawn
    ]
    found, _ = read_by_columns(characters)
    if found is not None:
        expected = Counter(text for text, _ in drawn if not text.isspace())
        assert Counter(letter for letter in found if not letter.isspace()) == expected


def test_scripts_without_capitals_are_unclear() -> None:
    """Nothing shows whether a line goes on in the next."""
    characters = []
    for n in range(4):
        for x in (50.0, 300.0):
            for at, letter in enumerate("أب جد هو زح طي"):
                characters.append(Piece(letter, x + 6 * at, 700.0 - 14 * n, x + 6 * at + 5, 710.0 - 14 * n))
    assert read_by_columns(characters) == (None, True)
