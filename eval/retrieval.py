"""How often fusions of two or more retrievers find a relevant passage, next to the retrievers themselves.

    python eval/retrieval.py questions questions.jsonl qrels.tsv nq_open 300 nq.jsonl
    madke pool build nq.jsonl --sources bm25=FOLDER,dense=FOLDER --k 100 --out nq-pools.jsonl
    python eval/retrieval.py fusions nq-pools.jsonl --qrels qrels.tsv --relevance 2

The first form writes the first N questions of a dataset as our own questions file. ``questions.jsonl`` has ``dataset``,
``qid``, ``question`` and ``answers``; ``qrels.tsv`` has the columns ``dataset``, ``qid``, ``passage_id`` and ``rel``.
The last form prints one column for each pool file: hit@5 and hit@20 in percent, each with half its 95 % interval.
Weights belong to the first source: 0.5 stands for half the weight of each other source.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from madke._util.files import atomic_write, read_jsonl
from madke.core.errors import UserError
from madke.pools.pool_file import pool_records
from madke.report.tables import percent_cell
from madke.scoring.retrieval import Judged, Ranking, Rankings, judged_of, of_pools, read_qrels
from madke.scoring.statistics import estimate

Fusion = Callable[[Sequence[Ranking]], Sequence[str]]
"""From the rankings of one question to the keys of its passages, best first."""

_DEPTHS = (5, 20)
_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


def reciprocal(rankings: Sequence[Ranking], constant: int, weight: float = 1.0) -> Sequence[str]:
    """Reciprocal rank fusion (Cormack et al., 2009) with this constant."""
    ranked = [{key: 1 / (constant + rank) for rank, key in enumerate(each, start=1)} for each in rankings]
    return _summed(ranked, weight, [0.0] * len(ranked))


def weighted(
    rankings: Sequence[Ranking], normalise: Callable[[Ranking], Mapping[str, float]], weight: float = 1.0
) -> Sequence[str]:
    """The weighted sum of normalised scores. A passage that a ranking lacks gets its lowest score."""
    scaled = [normalise(each) if each else {} for each in rankings]
    return _summed(scaled, weight, [min(each.values(), default=0.0) for each in scaled])


def _summed(points: Sequence[Mapping[str, float]], weight: float, missing: Sequence[float]) -> Sequence[str]:
    weights = [weight, *[1.0] * (len(points) - 1)]
    sums = {
        key: sum(w * each.get(key, lowest) for w, each, lowest in zip(weights, points, missing, strict=True))
        for key in dict.fromkeys(key for each in points for key in each)
    }
    return sorted(sums, key=lambda key: -sums[key])


def min_max(scores: Ranking) -> Mapping[str, float]:
    """The lowest score becomes 0, the highest 1. This is the product's."""
    low, high = min(scores.values()), max(scores.values())
    return {key: (score - low) / (high - low) if high > low else 1.0 for key, score in scores.items()}


def from_bound(scores: Ranking) -> Mapping[str, float]:
    """Min-max from the lowest possible score (Bruch et al., 2023): -1 of a cosine, 0 of BM25."""
    low, high = -1.0 if max(scores.values()) <= 1 else 0.0, max(scores.values())
    return {key: (score - low) / (high - low) if high > low else 1.0 for key, score in scores.items()}


def by_maximum(scores: Ranking) -> Mapping[str, float]:
    """Scores divided by the highest."""
    high = max(scores.values()) or 1.0
    return {key: score / high for key, score in scores.items()}


def z_score(scores: Ranking) -> Mapping[str, float]:
    """Standard deviations from the mean."""
    mean, sd = fmean(scores.values()), pstdev(scores.values()) or 1.0
    return {key: (score - mean) / sd for key, score in scores.items()}


def _alone(rankings: Sequence[Ranking], n: int) -> Sequence[str]:
    return [*rankings[n]]


_NORMALISE = {"min-max": min_max, "from its bound": from_bound, "by its maximum": by_maximum, "z-score": z_score}


def fusions(sources: Sequence[str]) -> Iterator[tuple[str, Fusion | None]]:
    """(name, fusion) of each row: the sources alone, every rule, and None for an oracle."""
    for n, source in enumerate(sources):
        yield source, partial(_alone, n=n)
    for constant in (1, 5, 10, 20, 60, 100):
        yield f"reciprocal rank, {constant}", partial(reciprocal, constant=constant)
    for weight in (0.3, 0.5):
        yield f"reciprocal rank, 60, weight {weight:g}", partial(reciprocal, constant=60, weight=weight)
    for name, normalise in _NORMALISE.items():
        for weight in _WEIGHTS:
            yield f"sum, {name}, weight {weight:g}", partial(weighted, normalise=normalise, weight=weight)
    yield "oracle over the first 100 of each", None


def hits(
    rankings: Mapping[str, Rankings], qrels: Mapping[str, Judged], least: int, fusion: Fusion | None, k: int
) -> str:
    """hit@k of one fusion in percent, with half its interval. The oracle finds what any ranking holds."""
    found = []
    for question in next(iter(rankings.values())):
        relevant = {key for key, relevance in judged_of(qrels, question).items() if relevance >= least}
        if relevant:
            each = [of[question] for of in rankings.values()]
            first = islice(fusion(each), k) if fusion else (key for ranking in each for key in ranking)
            found.append(float(not relevant.isdisjoint([*first])))
    mean = estimate(found)
    if mean is None:
        raise UserError("no question of the pools has a relevant passage in the judgements")
    return percent_cell(mean).with_interval


def show_fusions(pools: Sequence[Path], qrels: Path, least: int) -> None:
    """Print the table of all fusions, as Markdown."""
    judgements = read_qrels(qrels)
    held = {path: of_pools(record for _, record in pool_records(path)) for path in pools}
    sources = [*dict.fromkeys(source for rankings in held.values() for source in rankings)]
    print("| hit@5 / hit@20 | " + " | ".join(path.stem for path in pools) + " |")
    print("|---" * (len(pools) + 1) + "|")
    for name, fusion in fusions(sources):
        cells = [
            " / ".join(hits({s: held[path][s] for s in sources}, judgements, least, fusion, k) for k in _DEPTHS)
            for path in pools
        ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def write_questions(questions: Path, qrels: Path, dataset: str, count: int, out: Path) -> None:
    """Write the first ``count`` questions of a dataset in the project's own form."""
    gold: dict[tuple[str, str], set[str]] = defaultdict(set)
    with qrels.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["rel"] == "2":
                gold[row["dataset"], row["qid"]].add(row["passage_id"])
    chosen = [question for _, question in read_jsonl(questions) if question["dataset"] == dataset][:count]
    if len(chosen) < count:
        raise UserError(f"{len(chosen)} questions of {dataset!r}, {count} asked for", file=questions)
    with atomic_write(out) as lines:
        for question in chosen:
            line: dict[str, Any] = {
                "id": question["qid"],
                "question": question["question"],
                "golden_answers": question["answers"],
                "task": "short_answer",
                "metadata": {"dataset": dataset, "gold_passages": sorted(gold[dataset, question["qid"]], key=_number)},
            }
            lines.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def main() -> int:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    written = verbs.add_parser("questions", help="write questions in the project's own form")
    written.add_argument("questions", type=Path)
    written.add_argument("qrels", type=Path)
    written.add_argument("dataset")
    written.add_argument("count", type=int)
    written.add_argument("out", type=Path)
    compared = verbs.add_parser("fusions", help="compare fusions on pool files")
    compared.add_argument("pools", type=Path, nargs="+")
    compared.add_argument("--qrels", type=Path, required=True)
    compared.add_argument("--relevance", type=int, default=1, help="lowest relevance that counts (default 1)")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "fusions":
            show_fusions(arguments.pools, arguments.qrels, arguments.relevance)
        else:
            write_questions(arguments.questions, arguments.qrels, arguments.dataset, arguments.count, arguments.out)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _number(passage: str) -> tuple[int, str]:
    return (int(passage) if passage.isdigit() else 0, passage)


if __name__ == "__main__":
    raise SystemExit(main())
