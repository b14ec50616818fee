"""Documents that LibreOffice makes: the text of each is on its page, and each that cannot be read is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from madke.retrieval.documents.reading import read_document
from tests.support.documents import convert, flat, heading, image, paragraph, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_LONG_WORDS = """international representatives administration considered infrastructure telecommunication extraordinary
responsibilities nevertheless characteristics hydroelectric installations incomprehensible specialists"""
CHINESE = "贝加尔湖位于西伯利亚\uff0c是世界上最深的湖泊\uff0c最大深度为一千六百四十二米。安加拉河是唯一流出的河流。"
JAPANESE = "琵琶湖は日本で最も大きい湖である。"
ARABIC = "بحيرة بايكال هي أعمق بحيرة في العالم وعمقها 1642 مترا."
HEBREW = "ים המלח הוא המקום הנמוך ביותר בעולם."
LAKES = [("Lake", "Depth"), ("Baikal", "1,642 m"), ("Geneva", "310 m")]


def prose(words: int) -> list[str]:
    chosen = random.Random(0)
    return [chosen.choice(_LONG_WORDS.split()) for _ in range(words)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("office") / "reports"
    out.mkdir()
    numbered = [paragraph(f"Page number {n} tells of bird mark{n}.", new_page=n > 1) for n in range(1, 1001)]
    sources = {
        "columns": flat(
            paragraph(" ".join(["begin", *prose(500), "finish"])) + paragraph("Last.", new_page=True), columns=2
        ),
        "table": flat(paragraph("Depths of lakes") + table(LAKES)),
        "chinese": flat(paragraph(CHINESE * 5) + paragraph(JAPANESE, new_page=True), font="Noto Serif CJK SC"),
        "arabic": flat(paragraph(ARABIC) + paragraph(HEBREW), right_to_left=True),
        "long": flat("".join(numbered)),
    }
    convert(sources, out)
    convert({"scan": flat(image(out / "table.pdf"))}, out)
    convert({"locked": flat(paragraph("A secret about lakes."))}, out, password="secret")
    chapters = (
        heading("Depths") + paragraph("Baikal is deep.") + table(LAKES) + heading("Rivers") + paragraph("The Angara.")
    )
    convert({"chapters": flat(chapters)}, out, to="docx")
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
