"""FEVER (Thorne et al., 2018): one claim a line, with the sentences of Wikipedia that decide it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from madke.data.formats.record import Format, Item, Row, short, unique
from madke.data.formats.rows import json_rows

_ESCAPES = {
    "_": " ",
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
}


def page_title(name: str) -> str:
    """The title of a page from the name that FEVER gives it: ``Soul_Food_-LRB-film-RRB-``, accents decomposed."""
    for escape, sign in _ESCAPES.items():
        name = name.replace(escape, sign)
    return unicodedata.normalize("NFC", name)


def _item(row: Row) -> Item:
    titles = unique(_titles(row))
    return Item(
        id=row.text("id"),
        question=row.text("claim"),
        # The test split has no labels.
        answers=(row.text("label"),) if "label" in row.fields else (),
        metadata={"gold_titles": list(titles)} if titles else {},
    )


def _titles(row: Row) -> Iterator[str]:
    """Titles of the evidence, all sets of it; claims without enough information have none."""
    if "evidence" not in row.fields:
        return
    for group in row.list_of("evidence"):
        for sentence in group if isinstance(group, list) else [group]:
            if not isinstance(sentence, list) or len(sentence) != 4:
                raise row.error(f"'evidence' holds {short(sentence)}; expected [annotation, evidence, page, sentence]")
            if sentence[2] is not None:
                yield page_title(row.checked(sentence[2], "evidence"))


FEVER = Format(name="fever", task="claim", rows=json_rows, item=_item, signs=(frozenset({"claim", "label"}),))
