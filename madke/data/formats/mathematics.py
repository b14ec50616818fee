"""MATH-500 (Hendrycks et al., 2021; Lightman et al., 2023) and GSM8K (Cobbe et al., 2021)."""

from __future__ import annotations

from madke.data.formats.record import Format, Item, Row
from madke.data.formats.rows import json_rows

GSM8K_RESULT = "####"
"""What stands before the result, at the end of a worked solution."""


def _math500(row: Row) -> Item:
    return Item(
        id=row.text("unique_id"),
        question=row.text("problem"),
        answers=(row.text("answer"),),
        metadata={key: row.text(key) for key in ("subject", "level")},
    )


def _gsm8k(row: Row) -> Item:
    _, mark, result = row.text("answer").rpartition(GSM8K_RESULT)
    if not mark or not result.strip():
        raise row.error(f"'answer' does not end with {GSM8K_RESULT} and a number")
    return Item(question=row.text("question"), answers=(result.strip(),))


MATH500 = Format(
    name="math500", task="math", rows=json_rows, item=_math500, signs=(frozenset({"problem", "answer", "unique_id"}),)
)
GSM8K = Format(name="gsm8k", task="math", rows=json_rows, item=_gsm8k, signs=(frozenset({"question", "answer"}),))
