"""Plans and protocols say which vote would cost as much as a debate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from madke.engine.cost import equal_vote
from madke.variants import load_variant
from tests.support.cli import madke


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"id": "q", "question": "Which lake is the deepest?", "golden_answers": ["Baikal"]}))
    return file


@pytest.mark.parametrize(
    ("name", "settings", "vote"),
    [
        ("mad", {}, (6, 6)),
        ("madke", {}, (6, 16)),
        ("gated", {}, (2, 6)),
        ("moa", {}, (7, 7)),
        ("mad-noise", {}, (3, 3)),
        ("mad", {"debaters": 4, "rounds": 3}, (12, 12)),
        ("cot", {}, None),
        ("self-consistency", {}, None),
        ("isolate", {}, None),
        ("adaptive-vote", {}, None),
    ],
)
def test_as_many_samples_as_calls(name: str, settings: dict[str, int], vote: tuple[int, int] | None) -> None:
    assert equal_vote(load_variant(name).with_settings(settings).protocol) == vote


def plan(questions: Path, tmp_path: Path, *options: str) -> str:
    done = madke("run", questions, "--plan", "--out", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_a_plan_names_the_vote_by_calls_and_by_tokens(questions: Path, tmp_path: Path) -> None:
    said = plan(questions, tmp_path, "--protocol", "mad", "--sources", "wiki", "--set", "knowledge.per_source=3")
    found = re.search(r"costs as much with 6 samples by calls, (\d+) by tokens: .* --set debaters=6\.", said)
    assert found is not None
    # Replies to two others are longer than a sample, but the passages are most of both.
    assert 7 <= int(found[1]) <= 12


def test_a_vote_needs_no_equal_one(questions: Path, tmp_path: Path) -> None:
    assert "A vote over" not in plan(questions, tmp_path, "--protocol", "self-consistency", "--sources", "wiki")
