"""Published questions and claims about what Wikipedia holds, some with the paragraphs that answer them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from madke.data.published_rows import Format, Item, Paragraph, Row, json_rows, short, signs, unique

_HIDDEN = "<unk>"
"""The value of an answer in TriviaQA's test splits on Hugging Face."""


def _triviaqa(row: Row) -> Item:
    """TriviaQA (Joshi et al., 2017): the release's JSON, KILT's JSON Lines, plain JSON Lines, Hugging Face rows."""
    if "output" in row.fields:
        return _kilt(row)
    return Item(
        id=row.text("QuestionId", "question_id", "id"),
        question=row.text("Question", "question"),
        answers=row.texts("answers") if "answers" in row.fields else _aliases(row),
    )


def _aliases(row: Row) -> tuple[str, ...]:
    """The value, its aliases and what people answered; none in a split without labels."""
    key = "Answer" if "Answer" in row.fields else "answer"
    answer = row.fields.get(key)
    if answer is None:
        return ()
    if not isinstance(answer, Mapping):
        raise row.error(f"{key!r} is {short(answer)}; expected an object with a value and aliases")
    found = {name.lower(): value for name, value in answer.items()}
    if found.get("value") in (None, "", _HIDDEN):
        return ()
    inner = Row(fields=found, file=row.file, line=row.line, number=row.number)
    texts = [inner.text("value")]
    for name in ("aliases", "humananswers"):
        if found.get(name):
            texts += inner.texts(name)
    return unique(texts)


def _kilt(row: Row) -> Item:
    """KILT (Petroni et al., 2021): each output may hold an answer, and the pages that it stands on."""
    answers: list[str] = []
    titles: list[str] = []
    for output in row.objects("output"):
        if output.get("answer"):
            answers.append(row.checked(output["answer"], "answer"))
        pages = output.get("provenance") or []
        if not isinstance(pages, list):
            raise row.error(f"'provenance' is {short(pages)}; expected a list")
        for page in pages:
            if not isinstance(page, Mapping):
                raise row.error(f"'provenance' holds {short(page)}; expected objects with a title")
            titles.append(row.checked(page.get("title"), "title"))
    if not answers:
        raise row.error("'output' holds no 'answer'")
    return Item(
        id=row.text("id"),
        question=row.text("question", "input"),
        answers=unique(answers),
        metadata=_gold_titles(titles),
    )


def _gold_titles(titles: Collection[str]) -> dict[str, Any]:
    return {"gold_titles": list(dict.fromkeys(titles))} if titles else {}


def _nq_open(row: Row) -> Item:
    """NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019): question and short answers, one object a line."""
    row.list_of("answer")
    return Item(question=row.text("question"), answers=row.texts("answer"))


def _multihop(types: Collection[str], answers: Callable[[Row], tuple[str, ...]], row: Row) -> Item:
    """HotpotQA (Yang et al., 2018) and 2WikiMultiHopQA (Ho et al., 2020), which share one schema.

    ``context`` is a list of [title, sentences]; ``supporting_facts`` a list of [title, sentence number]; on Hugging
    Face both are columns. Also read: files without paragraphs, and the layout that has the two gold paragraphs as
    ``para_a`` and ``para_b`` beside ``distractors``.
    """
    if row.fields.get("type") and row.fields["type"] not in types:
        raise row.error(f"'type' is {short(row.fields['type'])}; expected {', '.join(types)}")
    paired = "para_a" in row.fields
    pages = _paired(row) if paired else _pairs(row, "context", "sentences")
    if paired:
        gold = unique((row.text("title_a"), row.text("title_b")))
    else:
        gold = unique(row.checked(title, "supporting_facts") for title, _ in _pairs(row, "supporting_facts", "sent_id"))
    return Item(
        id=row.text("_id", "id") if {"_id", "id"} & set(row.fields) else None,
        question=row.text("question"),
        answers=answers(row),
        metadata={key: row.text(key) for key in ("type", "level") if row.fields.get(key)} | _gold_titles(gold),
        paragraphs=tuple(_page(row, title, sentences, gold) for title, sentences in pages),
    )


def _answer(row: Row) -> tuple[str, ...]:
    """One text; test splits have none."""
    if "answers" in row.fields:
        raise row.error(f"'answers' is {short(row.fields['answers'])}; expected a text under 'answer'")
    value = row.fields.get("answer")
    if value is None:
        return ()
    if "####" in (answer := row.checked(value, "answer")):
        raise row.error("'answer' holds '####', as the worked solutions of GSM8K; expected a short answer")
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


def _page(row: Row, title: Any, sentences: Any, gold: tuple[str, ...]) -> Paragraph:
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise row.error(f"'context': the sentences of {short(title)} are {type(sentences).__name__}; expected texts")
    # HotpotQA's sentences begin with the space that parts them, 2WikiMultiHopQA's do not.
    text = " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
    title = row.checked(title, "title")
    return Paragraph(title=title, text=row.checked(text or title, "context"), kind="gold" if title in gold else "other")


_ESCAPES = {
    "_": " ", "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "-COLON-": ":",
}  # fmt: skip


def _page_title(name: str) -> str:
    """The title of a page from the name that FEVER gives it: ``Soul_Food_-LRB-film-RRB-``, accents decomposed."""
    for escape, sign in _ESCAPES.items():
        name = name.replace(escape, sign)
    return unicodedata.normalize("NFC", name)


def _fever(row: Row) -> Item:
    """FEVER (Thorne et al., 2018): one claim a line, with the sentences of Wikipedia that decide it."""
    return Item(
        id=row.text("id"),
        question=row.text("claim"),
        # The test split has no labels.
        answers=(row.text("label"),) if "label" in row.fields else (),
        metadata=_gold_titles(list(_evidence(row))),
    )


def _evidence(row: Row) -> Iterator[str]:
    """Titles of the evidence, all sets of it; claims without enough information have none."""
    for group in row.list_of("evidence") if "evidence" in row.fields else ():
        for sentence in group if isinstance(group, list) else [group]:
            if not isinstance(sentence, list) or len(sentence) != 4:
                raise row.error(f"'evidence' holds {short(sentence)}; expected [annotation, evidence, page, sentence]")
            if sentence[2] is not None:
                yield _page_title(row.checked(sentence[2], "evidence"))


_KINDS: Mapping[object, Literal["gold", "misinformation", "other"]] = {
    "correct": "gold",
    "misinfo": "misinformation",
    "noise": "other",
}


def _ramdocs(row: Row) -> Item:
    """RAMDocs (Wang et al., 2025): ambiguous questions with documents that are right, wrong, or beside the point."""
    wrong = row.texts("wrong_answers") if row.fields.get("wrong_answers") else ()
    return Item(
        question=row.text("question"),
        answers=row.texts("gold_answers"),
        metadata={"wrong_answers": list(wrong)} if wrong else {},
        paragraphs=tuple(_document(row, document) for document in row.objects("documents")),
    )


def _document(row: Row, document: Mapping[str, Any]) -> Paragraph:
    kind = document.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise row.error(f"a document's type is {short(kind)}; expected {', '.join(map(str, _KINDS))}")
    return Paragraph(title="", text=row.checked(document.get("text"), "text"), kind=_KINDS[kind])


_HOTPOT_TYPES = ("bridge", "comparison")
_WIKI_TYPES = ("compositional", "comparison", "inference", "bridge_comparison")

_spans = partial(Format, task="short_answer", rows=json_rows)

OPEN_ANSWERS = (
    _spans(
        name="triviaqa",
        rows=partial(json_rows, under="Data"),
        item=_triviaqa,
        signs=signs("Question Answer", "id output answer", "question question_id answer", "question answers"),
    ),
    _spans(name="nq_open", item=_nq_open, signs=signs("question answer")),
    _spans(
        name="hotpotqa",
        item=partial(_multihop, _HOTPOT_TYPES, _answer),
        signs=signs("question answer", "question answer supporting_facts"),
    ),
    _spans(
        name="2wikimultihopqa",
        item=partial(_multihop, _WIKI_TYPES, _answer_or_list),
        signs=signs(
            "question answer",
            "question answers",
            "question answer supporting_facts",
            "question answer supporting_facts evidences",
        ),
    ),
    Format(name="fever", task="claim", rows=json_rows, item=_fever, signs=signs("claim label")),
    _spans(name="ramdocs", item=_ramdocs, signs=signs("question documents gold_answers")),
)
