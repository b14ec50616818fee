"""RAMDocs (Wang et al., 2025): ambiguous questions with documents that are right, wrong, or beside the point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from madke.data.formats.record import Format, Item, Paragraph, Row, short
from madke.data.formats.rows import json_rows

_KINDS: Mapping[str, Literal["gold", "misinformation", "other"]] = {
    "correct": "gold",
    "misinfo": "misinformation",
    "noise": "other",
}


def _item(row: Row) -> Item:
    wrong = row.texts("wrong_answers") if row.fields.get("wrong_answers") else ()
    return Item(
        question=row.text("question"),
        answers=row.texts("gold_answers"),
        metadata={"wrong_answers": list(wrong)} if wrong else {},
        paragraphs=tuple(_paragraph(row, document) for document in row.list_of("documents")),
    )


def _paragraph(row: Row, document: Any) -> Paragraph:
    if not isinstance(document, Mapping):
        raise row.error(f"'documents' holds {short(document)}; expected objects")
    kind = document.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise row.error(f"a document's type is {short(kind)}; expected {', '.join(_KINDS)}")
    return Paragraph(title="", text=row.checked(document.get("text"), "text"), kind=_KINDS[kind])


RAMDOCS = Format(
    name="ramdocs",
    task="short_answer",
    rows=json_rows,
    item=_item,
    signs=(frozenset({"question", "documents", "gold_answers"}),),
)
