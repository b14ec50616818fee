"""HotpotQA (Yang et al., 2018) and 2WikiMultiHopQA (Ho et al., 2020), which share one schema.

``context`` is a list of [title, sentences]; ``supporting_facts`` a list of [title, sentence number]; on Hugging Face
both are columns. Also read: files without paragraphs, and the layout that has the two gold paragraphs as ``para_a`` and
``para_b`` beside ``distractors``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from madke.data.formats.mathematics import GSM8K_RESULT
from madke.data.formats.record import Format, Item, Paragraph, Row, short, unique
from madke.data.formats.rows import json_rows

_HOTPOT_TYPES = ("bridge", "comparison")
_WIKI_TYPES = ("compositional", "comparison", "inference", "bridge_comparison")


def _item(types: Collection[str], answers: Callable[[Row], tuple[str, ...]], row: Row) -> Item:
    if row.fields.get("type") and row.fields["type"] not in types:
        raise row.error(f"'type' is {short(row.fields['type'])}; expected {', '.join(types)}")
    paired = "para_a" in row.fields
    pages = _paired(row) if paired else _pairs(row, "context", "sentences")
    if paired:
        gold = unique(iter((row.text("title_a"), row.text("title_b"))))
    else:
        gold = unique(row.checked(title, "supporting_facts") for title, _ in _pairs(row, "supporting_facts", "sent_id"))
    metadata: dict[str, Any] = {key: row.text(key) for key in ("type", "level") if row.fields.get(key)}
    if gold:
        metadata["gold_titles"] = list(gold)
    return Item(
        id=row.text("_id", "id") if {"_id", "id"} & set(row.fields) else None,
        question=row.text("question"),
        answers=answers(row),
        metadata=metadata,
        paragraphs=tuple(_paragraph(row, title, sentences, gold) for title, sentences in pages),
    )


def _answer(row: Row) -> tuple[str, ...]:
    """One text; test splits have none."""
    if "answers" in row.fields:
        raise row.error(f"'answers' is {short(row.fields['answers'])}; expected a text under 'answer'")
    value = row.fields.get("answer")
    if value is None:
        return ()
    if GSM8K_RESULT in (answer := row.checked(value, "answer")):
        raise row.error(f"'answer' holds {GSM8K_RESULT!r}, as the worked solutions of GSM8K; expected a short answer")
    return (answer,)


def _answer_or_list(row: Row) -> tuple[str, ...]:
    """2WikiMultiHopQA is passed on with a list of ``answers`` too."""
    return row.texts("answers") if row.fields.get("answers") is not None else _answer(row)


def _pairs(row: Row, key: str, second: str) -> list[tuple[Any, Any]]:
    value = row.fields.get(key)
    if value is None:
        return []
    if isinstance(value, Mapping):
        titles, others = value.get("title"), value.get(second)
        if not isinstance(titles, list) or not isinstance(others, list) or len(titles) != len(others):
            raise row.error(f"{key!r}: expected lists of the same length under 'title' and {second!r}")
        return list(zip(titles, others, strict=True))
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise row.error(f"{key!r}: expected a list of pairs [title, {second}]")
    return [(title, other) for title, other in value]


def _paired(row: Row) -> Iterator[tuple[Any, Any]]:
    yield row.fields["title_a"], row.list_of("para_a")
    yield row.fields["title_b"], row.list_of("para_b")
    for distractor in row.list_of("distractors"):
        if not isinstance(distractor, list) or len(distractor) < 2:
            raise row.error("'distractors': expected lists of title, sentences and score")
        yield distractor[0], distractor[1]


def _paragraph(row: Row, title: Any, sentences: Any, gold: tuple[str, ...]) -> Paragraph:
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise row.error(f"'context': the sentences of {short(title)} are {type(sentences).__name__}; expected texts")
    # HotpotQA's sentences begin with the space that parts them, 2WikiMultiHopQA's do not.
    text = " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
    title = row.checked(title, "title")
    return Paragraph(title=title, text=row.checked(text or title, "context"), kind="gold" if title in gold else "other")


HOTPOTQA = Format(
    name="hotpotqa",
    task="short_answer",
    rows=json_rows,
    item=partial(_item, _HOTPOT_TYPES, _answer),
    signs=(frozenset({"question", "answer"}), frozenset({"question", "answer", "supporting_facts"})),
)
TWO_WIKI = Format(
    name="2wikimultihopqa",
    task="short_answer",
    rows=json_rows,
    item=partial(_item, _WIKI_TYPES, _answer_or_list),
    signs=(
        frozenset({"question", "answer"}),
        frozenset({"question", "answers"}),
        frozenset({"question", "answer", "supporting_facts"}),
        frozenset({"question", "answer", "supporting_facts", "evidences"}),
    ),
)
