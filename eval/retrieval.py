"""How often an index finds a gold passage: hit@k of index folders over questions with relevance judgements.

    python eval/retrieval.py --questions questions.jsonl --qrels qrels.tsv --index bm25 dense bm25+dense --k 5,20
    python eval/retrieval.py --questions questions.jsonl --qrels qrels.tsv --write-questions nq_open 300 nq.jsonl

``questions.jsonl`` has ``dataset``, ``qid``, ``question`` and ``answers``; ``qrels.tsv`` has the columns ``dataset``,
``qid``, ``passage_id``, ``rel`` and ``has_answer``. A question counts as a hit at k when a passage with rel 2 (one that
the dataset marks as gold) is among the first k; those without such a passage are left out, and their number is shown.
The second form writes the first N questions of a dataset as our own questions file.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import atomic_write, read_jsonl
from madke.knowledge.asking import search
from madke.knowledge.named import open_source

Gold = dict[tuple[str, str], set[str]]


def read_gold(path: Path) -> Gold:
    """Ids of the passages with rel 2, by dataset and question id."""
    gold: Gold = defaultdict(set)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["rel"] == "2":
                gold[row["dataset"], row["qid"]].add(row["passage_id"])
    return gold


def write_questions(questions: list[dict[str, Any]], gold: Gold, dataset: str, count: int, out: Path) -> None:
    """Write the first ``count`` questions of a dataset in the project's own form."""
    chosen = [question for question in questions if question["dataset"] == dataset][:count]
    if len(chosen) < count:
        raise UserError(f"{len(chosen)} questions of {dataset!r}, {count} asked for")
    with atomic_write(out) as file:
        for question in chosen:
            line = {
                "id": question["qid"],
                "question": question["question"],
                "golden_answers": question["answers"],
                "task": "short_answer",
                "metadata": {"dataset": dataset, "gold_passages": sorted(gold[dataset, question["qid"]], key=_number)},
            }
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def measure(questions: list[dict[str, Any]], gold: Gold, index: str, depths: list[int]) -> None:
    """Print hit@k by dataset for one index, with the half-width of its 95 % interval, and the time taken."""
    source = open_source("index", index)
    by_dataset: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for question in questions:
        by_dataset[question["dataset"]].append(question)
    for dataset, asked in by_dataset.items():
        judged = [question for question in asked if gold[dataset, question["qid"]]]
        if not judged:
            continue
        started = time.perf_counter()
        answers = search(source, [question["question"] for question in judged], max(depths))
        seconds = time.perf_counter() - started
        first_hits = [
            next((p.rank for p in hits.passages if p.key in gold[dataset, question["qid"]]), math.inf)
            for question, hits in zip(judged, answers, strict=True)
        ]
        scores = []
        for depth in depths:
            share = sum(rank < depth for rank in first_hits) / len(judged)
            margin = 1.96 * math.sqrt(share * (1 - share) / len(judged))
            scores.append(f"hit@{depth} {100 * share:5.1f} ±{100 * margin:.1f}")
        left_out = len(asked) - len(judged)
        print(
            f"{index}\t{dataset}\tn {len(judged)} (+{left_out} unjudged)\t" + "\t".join(scores) + f"\t{seconds:.1f} s"
        )


def main() -> int:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)
    parser.add_argument("--dataset", action="append", help="only this dataset; may be given several times")
    parser.add_argument("--index", nargs="+", default=[], metavar="A[+B]", help="index folders or names; A+B, 0.5*A+B")
    parser.add_argument("--k", default="5,20", help="depths, separated by commas (default 5,20)")
    parser.add_argument("--write-questions", nargs=3, metavar=("DATASET", "N", "OUT"))
    arguments = parser.parse_args()
    try:
        questions = [item for _, item in read_jsonl(arguments.questions)]
        gold = read_gold(arguments.qrels)
        if arguments.write_questions:
            dataset, count, out = arguments.write_questions
            write_questions(questions, gold, dataset, int(count), Path(out))
        if arguments.dataset:
            questions = [question for question in questions if question["dataset"] in arguments.dataset]
        for index in arguments.index:
            measure(questions, gold, index, [int(depth) for depth in arguments.k.split(",")])
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _number(passage: str) -> tuple[int, str]:
    return (int(passage) if passage.isdigit() else 0, passage)


if __name__ == "__main__":
    raise SystemExit(main())
