"""Building a pool file from three sources, against the time that the sources take when each is asked alone."""

from __future__ import annotations

from functools import partial

from eval.benchmarks.indexes import RandomEncoder, bm25_index, dense_index
from eval.benchmarks.measure import Setting, best_of, duration, generated_corpus, queries_for, report
from madke.core.question import Question
from madke.knowledge.fusion import HybridSource
from madke.knowledge.index_sources import Bm25Source, DenseSource
from madke.pools.building import retrieve_pools

PASSAGES = 100_000
QUESTIONS = 1_000
DEPTH = 10
"""What `madke pool build` asks for by default."""
_AIM = 0.9


def main(setting: Setting) -> None:
    """BM25, dense, and the fusion of the two; the encoder of queries costs nothing, so that writing shows."""
    passages, count = (500, 50) if setting.quick else (PASSAGES, QUESTIONS)
    corpus = generated_corpus(setting.folder, passages)
    texts = queries_for(corpus, count)
    bm25 = Bm25Source(bm25_index(corpus), name="wiki-bm25")
    dense = DenseSource(dense_index(setting.folder, passages), name="wiki-dense", encoder=RandomEncoder())
    sources = (bm25, dense, HybridSource([bm25, dense], name="wiki"))
    questions = [Question(id=str(number), question=text, answers=()) for number, text in enumerate(texts)]
    out = setting.folder / "pools.jsonl"
    build = partial(retrieve_pools, questions, sources, DEPTH, out)
    alone = [partial(source.search, texts, DEPTH) for source in sources]
    best_of(1, build)  # Java compiles on the first round what it runs on the others
    whole, *parts = best_of(3, build, *alone)
    report(
        f"pools, {count:,} questions, three sources of {passages:,} passages",
        f"{count / whole:.0f} questions/s",
        f"{count / sum(parts):.0f} for the sources alone (BM25 {duration(parts[0])}, dense {duration(parts[1])}, "
        f"hybrid {duration(parts[2])})",
        sum(parts) / whole,
        f"{_AIM}",
        sum(parts) / whole >= _AIM,
    )
