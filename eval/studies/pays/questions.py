"""The questions of the study, and a frozen pool for each: three parts in one fixed order.

Each part is sorted by the SHA-256 of the question's id. Left out are the questions that prompts were written with, that
earlier pages report, or that the exploratory part of the study answered. The parts are interleaved in proportion, so
that each prefix holds about the same share of each.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import madke
from madke._util.files import read_jsonl, write_file
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.questions import question_from_fields, question_to_json
from madke.retrieval.indexes.build import build_index
from madke.retrieval.pools import PoolRecord, read_pools, record_to_json

SOURCE = "passages"
PARTS = {"nq_open": 320, "hotpotqa": 200, "ramdocs": 80}
"""Dataset -> how many of its questions."""
DEVELOPMENT, HELD_OUT = 30, 50
"""Of NQ and of HotpotQA: the questions that prompts were written with, and those that earlier pages report."""
EXPLORATORY = 20
"""Questions of each dataset that the exploratory part answered."""
RAMDOCS_DEVELOPMENT = 18
PASSAGES = 5

Part = list[tuple[Question, PoolRecord]]


def write_questions(data: Path, out: Path) -> None:
    """Write ``questions.jsonl.gz`` and ``pools.jsonl.gz``.

    ``data`` holds ``wiki_passages/`` (``questions.jsonl``, ``psgs_100k.tsv.gz``) and ``questions/ramdocs_250.jsonl``.
    """
    rows = {str(row["qid"]): row for _, row in read_jsonl(data / "wiki_passages" / "questions.jsonl")}
    parts = {"ramdocs": ramdocs(data / "questions" / "ramdocs_250.jsonl")}
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index(data / "wiki_passages" / "psgs_100k.tsv.gz", index)
        for name in (name for name in PARTS if name != "ramdocs"):
            ids = ordered([each for each, row in rows.items() if row["dataset"] == name])
            new = ids[DEVELOPMENT + HELD_OUT + EXPLORATORY :][: PARTS[name]]
            parts[name] = with_pools([rows[each] for each in new], index)
    chosen = interleaved([parts[name][:count] for name, count in PARTS.items()])
    write_file(out / "questions.jsonl.gz", packed(question_to_json(question) for question, _ in chosen))
    write_file(out / "pools.jsonl.gz", packed(record_to_json(pool) for _, pool in chosen))


def ordered(texts: Iterable[str]) -> list[str]:
    """Ids or texts in the order of their SHA-256."""
    return sorted(texts, key=lambda each: sha256(each.encode()).hexdigest())


def packed(lines: Iterable[bytes]) -> bytes:
    """The lines, compressed; the same bytes for the same lines."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)


def with_pools(rows: Sequence[dict[str, Any]], index: Path) -> Part:
    """Questions of the passage collection, each with the first passages of Lucene's BM25."""
    questions = [
        question_from_fields(
            {
                "id": row["qid"],
                "question": row["question"],
                "golden_answers": row["answers"],
                "task": "short_answer",
                "metadata": {"dataset": row["dataset"], "gold_titles": row["gold_titles"]},
            },
            None,
        )
        for row in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pools.jsonl"
        madke.build_pools(questions, file, sources={SOURCE: str(index)}, k=PASSAGES)
        pools = read_pools(file)
    # Without the description of the source, which names the folder of the index.
    return [(question, replace(pools[question.id], sources={})) for question in questions]


def ramdocs(file: Path) -> Part:
    """The questions with correct documents and misinformation. A question's pool is its documents, by their hash."""
    documents = {f"ramdocs-{number:04}": row["documents"] for number, (_, row) in enumerate(read_jsonl(file), start=1)}
    questions = {question.id: question for question in read_dataset(file, dataset="ramdocs")}
    both = [each for each in questions if {"correct", "misinfo"} <= {document["type"] for document in documents[each]}]
    chosen = ordered(both)[RAMDOCS_DEVELOPMENT + EXPLORATORY :]
    return [(without_places(questions[each]), pool(questions[each], documents[each])) for each in chosen]


def without_places(question: Question) -> Question:
    """The question without the places of its documents in the file: they are not those of the pool."""
    kept = {name: value for name, value in question.metadata.items() if not name.endswith("_passages")}
    return replace(question, metadata={**kept, "dataset": "ramdocs"})


def pool(question: Question, documents: Iterable[dict[str, Any]]) -> PoolRecord:
    """A pool of the question's own documents; the file lists the correct ones first, so they are sorted by hash."""
    texts = ordered(dict.fromkeys(each["text"] for each in documents))
    passages = [
        Passage(source=SOURCE, key=f"{question.id}-{rank}", title="", text=text, score=0.0, rank=rank)
        for rank, text in enumerate(texts)
    ]
    return PoolRecord(id=question.id, question=question.question, passages=tuple(passages))


def interleaved(parts: Sequence[Part]) -> Part:
    """All parts in one order: the next question is of the part that is furthest behind its share."""
    places = [((n + 0.5) / len(part), number, each) for number, part in enumerate(parts) for n, each in enumerate(part)]
    return [each for _, _, each in sorted(places, key=lambda place: place[:2])]
