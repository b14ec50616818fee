"""Documents that LibreOffice makes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from madke.retrieval.documents.reading import read_document
from tests.support.documents import convert, flat, paragraph, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_LONG_WORDS = """international representatives administration considered infrastructure telecommunication extraordinary
responsibilities nevertheless characteristics hydroelectric installations incomprehensible specialists"""
LAKES = [("Lake", "Depth"), ("Baikal", "1,642 m"), ("Geneva", "310 m")]


def prose(words: int) -> list[str]:
    chosen = random.Random(0)
    return [chosen.choice(_LONG_WORDS.split()) for _ in range(words)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("office") / "reports"
    out.mkdir()
    columns = paragraph(" ".join(["begin", *prose(500), "finish"])) + paragraph("Last.", new_page=True)
    convert(
        {"columns": flat(columns, columns=2), "table": flat(paragraph("Depths of lakes") + table(LAKES), columns=1)},
        out,
    )
    return out


def passages(made: Path, name: str) -> list[tuple[str, str]]:
    return read_document(made / name, name).passages


def test_columns_are_read_one_after_the_other_and_divided_words_are_joined(made: Path) -> None:
    found = passages(made, "columns.pdf")
    # On paper many words are divided, and the text begins a second column in the middle.
    assert " ".join(text for _, text in found[:-1]).split() == ["begin", *prose(500), "finish"]
    assert {title for title, _ in found[:-1]} <= {"columns.pdf, p. 1", "columns.pdf, p. 2"}
    assert found[-1] == ("columns.pdf, p. 2", "Last.") or found[-1] == ("columns.pdf, p. 3", "Last.")


def test_a_row_of_a_table_stays_together(made: Path) -> None:
    ((title, text),) = passages(made, "table.pdf")
    assert (title, text) == ("table.pdf, p. 1", "Depths of lakes Lake Depth Baikal 1,642 m Geneva 310 m")
