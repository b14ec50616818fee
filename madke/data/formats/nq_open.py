"""NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019): question and short answers, one object a line."""

from __future__ import annotations

from madke.data.formats.record import Format, Item, Row
from madke.data.formats.rows import json_rows


def _item(row: Row) -> Item:
    row.list_of("answer")
    return Item(question=row.text("question"), answers=row.texts("answer"))


NQ_OPEN = Format(
    name="nq_open", task="short_answer", rows=json_rows, item=_item, signs=(frozenset({"question", "answer"}),)
)
