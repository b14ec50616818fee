"""Counter-intuitive arithmetic reasoning (Liang et al., 2024): a question, its answers, and the trap it sets."""

from __future__ import annotations

from madke.data.formats.record import Format, Item, Row
from madke.data.formats.rows import json_rows


def _item(row: Row) -> Item:
    return Item(
        question=row.text("question"),
        answers=row.texts("answer"),
        metadata={"wrong_answers": list(row.texts("incorrect answer"))},
    )


CIAR = Format(
    name="ciar", task="math", rows=json_rows, item=_item, signs=(frozenset({"question", "answer", "incorrect answer"}),)
)
