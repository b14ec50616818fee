"""Answers in the format of TREC RAG's tracks and of ragnarok: sentences that cite, over a list of references.

2024: one JSON object a line, ``{"run_id", "topic_id", "topic", "references": [...], "response_length", "answer":
[{"text", "citations": [...]}]}``. 2025: run, topic and its text are in ``metadata`` (``run_id``, ``narrative_id``,
``narrative``). Citations are 0-based places in ``references``; documents named instead of places are read too.
"""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write, text_lines
from madke.core.agreement import CitedSentence
from madke.core.errors import UserError

MOST_REFERENCES = 20
"""The most references that TREC RAG takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RagAnswer:
    """One answer."""

    run: str
    id: str
    question: str
    references: tuple[str, ...]
    """Keys of passages."""
    sentences: tuple[CitedSentence, ...]

    @property
    def length(self) -> int:
        """Words, as TREC RAG counts them."""
        return sum(len(unicodedata.normalize("NFKC", each.text.strip()).split()) for each in self.sentences)


def read_rag_answers(path: Path) -> Iterator[RagAnswer]:
    """The answers in a file; UserError with file and line for one in another form."""
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield _answer(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            form = 'an object with "references" and "answer": [{"text", "citations"}]'
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"expected {form}, found {what}", file=path, line=number) from None


def _answer(record: Mapping[str, Any]) -> RagAnswer:
    about = record.get("metadata", record)
    references = tuple(_text(reference) for reference in record["references"])
    topic = next(about[name] for name in ("topic_id", "narrative_id", "qid") if name in about)
    asked = next((about[name] for name in ("topic", "narrative", "title", "query") if name in about), "")
    sentences = tuple(
        CitedSentence(text=_text(each["text"]), citations=tuple(_place(n, references) for n in each["citations"]))
        for each in record["answer"]
    )
    return RagAnswer(
        run=str(about.get("run_id", "")),
        id=str(topic),
        question=_text(asked),
        references=references,
        sentences=sentences,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where a text belongs")
    return value


def _place(cited: Any, references: tuple[str, ...]) -> int:
    """A place in the references; one out of range stays, so that measures can count it as such."""
    if isinstance(cited, str):
        return references.index(cited) if cited in references else len(references)
    if isinstance(cited, bool) or not isinstance(cited, int):
        raise TypeError(f"the citation {cited!r}")
    return cited if cited >= 0 else len(references)


def write_rag_answers(answers: Iterable[RagAnswer], path: Path) -> int:
    """Write answers in TREC RAG's format of 2024, atomically; return how many."""
    written = 0
    with atomic_write(path) as file:
        for each in answers:
            record = {
                "run_id": each.run,
                "topic_id": each.id,
                "topic": each.question,
                "references": list(each.references),
                "response_length": each.length,
                "answer": [{"text": one.text, "citations": list(one.citations)} for one in each.sentences],
            }
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            written += 1
    return written
