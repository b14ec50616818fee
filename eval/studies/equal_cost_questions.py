"""The questions of the study on equal cost, and a frozen pool for each: three equal parts in one fixed order."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import madke
from eval.real_models.questions import DEVELOPMENT, HELD_OUT, PASSAGES, ordered, packed
from madke._util.files import read_jsonl, write_file
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.questions import question_from_fields, question_to_json
from madke.retrieval.indexes.build import build_index
from madke.retrieval.pools.pool_file import PoolRecord, read_pools, record_to_json

NAME = "study"
SOURCE = "passages"
PARTS = ("nq_open", "hotpotqa", "ramdocs")
EACH = 100
"""Questions of a part."""
_RAMDOCS_DEVELOPMENT = 18


def write_questions(data: Path, out: Path) -> None:
    """Write questions, pools and the list of ids.

    ``data`` holds ``wiki_passages/`` (``questions.jsonl``, ``psgs_100k.tsv.gz``) and ``questions/ramdocs_250.jsonl``.
    """
    parts = [*_from_wikipedia(data / "wiki_passages"), _ramdocs(data / "questions" / "ramdocs_250.jsonl")]
    held = [each for row in zip(*parts, strict=True) for each in row]
    write_file(out / f"{NAME}.ids.txt", "".join(f"{question.id}\n" for question, _ in held).encode())
    write_file(out / f"{NAME}.questions.jsonl.gz", packed(question_to_json(question) for question, _ in held))
    write_file(out / f"{NAME}.pools.jsonl.gz", packed(record_to_json(pool) for _, pool in held))


_Part = Sequence[tuple[Question, PoolRecord]]


def _from_wikipedia(data: Path) -> list[_Part]:
    """The questions after those of ``eval/real_models``, with the first passages of Lucene's BM25."""
    rows = {str(row["qid"]): row for _, row in read_jsonl(data / "questions.jsonl")}
    found: list[_Part] = []
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index(data / "psgs_100k.tsv.gz", index)
        for name in PARTS[:2]:
            ids = ordered([each for each, row in rows.items() if row["dataset"] == name])[DEVELOPMENT + HELD_OUT :]
            asked = [
                question_from_fields(
                    {
                        "id": each,
                        "question": rows[each]["question"],
                        "golden_answers": rows[each]["answers"],
                        "task": "short_answer",
                        "metadata": {"dataset": name, "gold_titles": rows[each]["gold_titles"]},
                    },
                    None,
                )
                for each in ids[:EACH]
            ]
            file = Path(folder) / f"{name}.jsonl"
            madke.build_pools(asked, file, sources={SOURCE: str(index)}, k=PASSAGES)
            pools = read_pools(file)
            # Without the description of the source, which names the folder of the index.
            found.append([(question, replace(pools[question.id], sources={})) for question in asked])
    return found


def _ramdocs(file: Path) -> _Part:
    """The questions with correct documents and misinformation. A question's pool is its documents, by their hash."""
    kinds = {number: row["documents"] for number, (_, row) in enumerate(read_jsonl(file), start=1)}
    asked = {question.id: question for question in read_dataset(file, dataset="ramdocs")}
    documents = {f"ramdocs-{number:04}": found for number, found in kinds.items()}
    both = [each for each in asked if {"correct", "misinfo"} <= {document["type"] for document in documents[each]}]
    chosen = ordered(both)[_RAMDOCS_DEVELOPMENT : _RAMDOCS_DEVELOPMENT + EACH]
    return [(_without_keys(asked[each]), _pool(asked[each], [d["text"] for d in documents[each]])) for each in chosen]


def _without_keys(question: Question) -> Question:
    """The metadata without the keys of documents: their places in the file are not those of the pool."""
    kept = {name: value for name, value in question.metadata.items() if not name.endswith("_passages")}
    return replace(question, metadata={**kept, "dataset": "ramdocs"})


def _pool(question: Question, texts: Sequence[str]) -> PoolRecord:
    by_hash = sorted(dict.fromkeys(texts), key=lambda text: sha256(text.encode()).hexdigest())
    passages = [
        Passage(source=SOURCE, key=f"{question.id}-{rank}", title="", text=text, score=0.0, rank=rank)
        for rank, text in enumerate(by_hash)
    ]
    return PoolRecord(id=question.id, question=question.question, passages=tuple(passages))
