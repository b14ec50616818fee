"""BM25 without Java finds what Lucene finds, on the slice of real passages."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from madke._util.files import read_jsonl
from madke.retrieval.documents.word_index import WordIndex
from madke.retrieval.indexes.corpus import read_corpus

LUCENE = {"nq_open": (78.8, 87.8), "hotpotqa": (92.7, 98.3), "hotpotqa_train": (92.4, 98.4)}
"""hit@5 and hit@20 in percent, as docs/retrieval.md gives them."""


@pytest.mark.slow
def test_hits_are_within_a_point_of_lucenes(shared_data: Path) -> None:
    csv.field_size_limit(1 << 24)
    passages = list(read_corpus(shared_data / "wiki_passages" / "psgs_100k.tsv.gz"))
    index = WordIndex.build(f"{passage.title}\n{passage.text}" for passage in passages)
    gold: dict[tuple[str, str], set[str]] = defaultdict(set)
    with (shared_data / "wiki_passages" / "qrels.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["rel"] == "2":
                gold[row["dataset"], row["qid"]].add(row["passage_id"])
    ranks: dict[str, list[int]] = defaultdict(list)
    for _, question in read_jsonl(shared_data / "wiki_passages" / "questions.jsonl"):
        wanted = gold[question["dataset"], question["qid"]]
        if wanted and question["dataset"] in LUCENE:
            found = [passages[row].id for row, _ in index.search(question["question"], 20)]
            ranks[question["dataset"]].append(next((n for n, id_ in enumerate(found) if id_ in wanted), 20))
    for dataset, figures in LUCENE.items():
        for depth, figure in zip((5, 20), figures, strict=True):
            hits = 100 * sum(rank < depth for rank in ranks[dataset]) / len(ranks[dataset])
            assert hits == pytest.approx(figure, abs=1.0), (dataset, depth)
