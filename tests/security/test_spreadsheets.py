"""Text of others is no formula in any CSV; tests/report has each file that is written, whole."""

import csv
import io

import pytest

from madke.report.tables import csv_cell

FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    *(f"{before}=1" for before in "\t\n\r\x00\u200b"),
    *(f"{sign}1+1" for sign in "\uff1d\uff0b\uff0d\uff20"),
    '","=1',
]
"""Signs, also after what is not seen, in full width, and after the end of a cell."""


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_as_a_formula(text: str) -> None:
    line = io.StringIO(newline="")
    csv.writer(line).writerow([csv_cell(text), csv_cell("1")])
    first, second = next(csv.reader([line.getvalue()]))
    assert first[0] not in "=+-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20"
    assert second == "1"


@pytest.mark.parametrize("text", ["-1.5", "+3e-4", "Lake Baikal", "a=b", "1-2", "", 'ja, "so"', "日本"])
def test_figures_and_words_stay_as_they_are(text: str) -> None:
    assert csv_cell(text) == text
