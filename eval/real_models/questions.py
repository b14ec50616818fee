"""The questions of the study: a fixed split of two datasets, with a frozen BM25 pool for each question.

Each dataset is sorted by the SHA-256 of the question's id. The first ``DEVELOPMENT`` questions are for writing prompts,
the next ``HELD_OUT`` are for the study. Nothing else decides. The two datasets alternate in a file, so any even number
of first questions has as many of one as of the other.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import madke
from madke._util.files import atomic_write, read_jsonl, write_file
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data import read_dataset
from madke.data.questions import question_from_fields, question_to_json
from madke.retrieval.indexes.build import build_index
from madke.retrieval.pools.pool_file import PoolRecord, read_pools, record_to_json
from madke.tasks.answer_text import squad_normalize

DATASETS = ("nq_open", "hotpotqa")
DEVELOPMENT = 30
HELD_OUT = 50
PASSAGES = 5
SOURCE = "wiki"


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """A file of questions and the file of their pools."""

    questions: Path
    pools: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Split:
        """The split ``dev`` or ``heldout`` in a folder, such as :func:`write_splits` makes; also unpacked files."""
        return cls(**{part: _found(folder / f"{name}.{part}.jsonl") for part in ("questions", "pools")})

    def read(self, limit: int | None = None) -> tuple[list[Question], dict[str, PoolRecord]]:
        """The first questions, and the pools by question id."""
        return read_dataset(self.questions, limit=limit), read_pools(self.pools)


def _found(plain: Path) -> Path:
    packed = plain.with_name(f"{plain.name}.gz")
    for file in (plain, packed):
        if file.is_file():
            return file
    raise UserError("is missing; make it with --make-questions --data FOLDER", file=packed)


def ordered(ids: Sequence[str]) -> list[str]:
    """The ids in the order of the split."""
    return sorted(ids, key=lambda each: sha256(each.encode()).hexdigest())


def split_of(rows: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The ids of ``dev`` and ``heldout``, alternating between datasets (name -> ids)."""
    sorted_ids = [ordered(rows[dataset]) for dataset in DATASETS]
    parts = {"dev": slice(DEVELOPMENT), "heldout": slice(DEVELOPMENT, DEVELOPMENT + HELD_OUT)}
    return {
        name: [each for pair in zip(*(ids[part] for ids in sorted_ids), strict=True) for each in pair]
        for name, part in parts.items()
    }


def write_splits(data: Path, out: Path) -> None:
    """Write questions, pools and id lists of both splits.

    ``data`` holds ``questions.jsonl`` (dataset, qid, question, answers, gold_titles) and ``psgs_100k.tsv.gz`` (the
    passages, in DPR's form). The pools are the first five passages of Lucene's BM25.
    """
    rows = {str(row["qid"]): row for _, row in read_jsonl(data / "questions.jsonl") if row["dataset"] in DATASETS}
    splits = split_of({name: [each for each, row in rows.items() if row["dataset"] == name] for name in DATASETS})
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index(data / "psgs_100k.tsv.gz", index)
        for name, ids in splits.items():
            with atomic_write(out / f"{name}.ids.txt") as file:
                file.writelines(f"{each}\n".encode() for each in ids)
            asked = [question_from_fields(_line(rows[each]), None) for each in ids]
            madke.build_pools(asked, plain := Path(folder) / name, sources={SOURCE: str(index)}, k=PASSAGES)
            # Without the description of the source, which names the folder of the index.
            pools = [replace(record, sources={}) for record in read_pools(plain).values()]
            write_file(out / f"{name}.questions.jsonl.gz", packed(map(question_to_json, asked)))
            write_file(out / f"{name}.pools.jsonl.gz", packed(map(record_to_json, pools)))


def packed(lines: Iterable[bytes]) -> bytes:
    """The lines, compressed; the same bytes for the same lines."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["qid"],
        "question": row["question"],
        "golden_answers": row["answers"],
        "task": "short_answer",
        "metadata": {"dataset": row["dataset"], "gold_titles": row["gold_titles"]},
    }


def holds_gold(question: Question, pool: PoolRecord) -> bool:
    """Whether the pool could answer the question: a gold answer stands in a passage (after SQuAD's normalisation).

    For a gold answer of yes or no: the pool has every page that the dataset names.
    """
    if {squad_normalize(answer) for answer in question.answers} <= {"yes", "no"}:
        return set(question.metadata.get("gold_titles", ("",))) <= {passage.title for passage in pool.passages}
    texts = [f" {squad_normalize(f'{passage.title} {passage.text}')} " for passage in pool.passages]
    return any(f" {squad_normalize(answer)} " in text for answer in question.answers for text in texts)
