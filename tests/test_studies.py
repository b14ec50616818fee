"""The studies: a small one with a stand-in for the model, its replay, and the kept texts of the old one read anew."""

from __future__ import annotations

import lzma
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eval.real_models.questions import Split
from eval.studies import equal_cost
from eval.studies.equal_cost import read_anew
from eval.studies.equal_cost_results import Results, vote_of
from eval.studies.kept import differences, read_study
from eval.studies.pays.__main__ import FOLDER, arms_of, main, replayed_study
from madke.core.chat import ChatRequest, Completion
from madke.data import read_dataset
from tests.support.study_model import Answering

MODEL = "tests.support.study_model:Answering"
OLD = equal_cost.FOLDER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four questions, run in blocks of two."""
    folder = tmp_path_factory.mktemp("study")
    run(folder, "--limit", "2")
    run(folder, "--limit", "4")
    return folder


def run(folder: Path, *options: str) -> None:
    asked = ["run", "--model", "small", "--served-as", MODEL, "--block", "2", "--concurrency", "4", *options]
    assert main([*asked, "--work", str(folder / "work"), "--calls", str(folder / "calls")]) == 0


def kept(folder: Path) -> Path:
    return folder / "calls" / "small.jsonl.xz"


def test_the_questions_are_new_and_each_has_a_pool() -> None:
    questions = read_dataset(FOLDER / "questions.jsonl.gz")
    new = {question.id for question in questions}
    assert len(new) == len(questions) == 600
    answered = {
        each.id for arm in read_study(OLD / "calls" / "qwen-0.5b.jsonl.xz").transcripts.values() for each in arm
    }
    reported = {question.id for question in Split.of(OLD.parents[1] / "real_models" / "split", "heldout").read()[0]}
    assert not new & (answered | reported)
    third = [question.metadata["dataset"] for question in questions[:200]]
    assert {name: third.count(name) for name in sorted(set(third))} == {"hotpotqa": 67, "nq_open": 106, "ramdocs": 27}


def test_a_vote_has_the_first_round_of_its_debate_and_three_samples_more(folder: Path) -> None:
    held = read_study(kept(folder)).transcripts
    for debate, vote in (("mad", "mad-vote"), ("mad-brief", "rag-vote"), ("mad-no-pool", "vote-no-pool")):
        samples = {each.id: each.rounds[0].turns for each in held[vote]}
        for each in held[debate]:
            first = each.rounds[0].turns
            assert [turn.stance.text for turn in first] == [turn.stance.text for turn in samples[each.id][:3]]
            assert len(samples[each.id]) == 6


def test_a_replay_makes_the_same_debates_from_the_kept_calls_alone(folder: Path, tmp_path: Path) -> None:
    study = read_study(kept(folder))
    assert study.arms == [arm.name for arm in arms_of([], MODEL).all_arms()]
    replayed = replayed_study(kept(folder), study, tmp_path / "replay")
    assert sum(map(len, replayed.transcripts.values())) == 4 * len(study.arms)
    assert differences(study, replayed) == []


def test_a_replay_tells_a_call_that_is_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lzma.decompress(kept(folder).read_bytes()).splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"call":' in line)
    (tmp_path / "small.jsonl.xz").write_bytes(lzma.compress(b"".join(lines[:first] + lines[first + 1 :])))
    assert main(["replay", "--calls", str(tmp_path)]) == 1
    assert "is not among the kept calls" in capsys.readouterr().err


def test_a_study_goes_on_from_the_kept_calls_without_its_experiment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ChatRequest] = []
    answer = Answering.complete

    async def complete(self: Answering, request: ChatRequest) -> Completion:
        asked.append(request)
        return await answer(self, request)

    monkeypatch.setattr(Answering, "complete", complete)
    (tmp_path / "calls").mkdir()
    shutil.copy(kept(folder), kept(tmp_path))
    run(tmp_path, "--limit", "5")
    assert read_study(kept(tmp_path)).questions == 5
    fifth = read_dataset(FOLDER / "questions.jsonl.gz", limit=5)[-1]
    assert {request.purpose.question for request in asked} == {fifth.id}


def test_kept_texts_are_read_anew_without_a_call_and_the_course_stays() -> None:
    study = read_study(OLD / "calls" / "qwen-0.5b.jsonl.xz")
    some = replace(study, transcripts={name: study.transcripts[name][:12] for name in ("cot", "mad", "vote")})
    _, pools = Split.of(OLD, "study").read()
    found = read_anew(some, pools)
    for name, transcripts in found.now.transcripts.items():
        for before, after in zip(some.transcripts[name], transcripts, strict=True):
            texts = [[[turn.stance.text for turn in entry.turns] for entry in each.rounds] for each in (before, after)]
            assert texts[0] == texts[1]
            assert (before.stop_reason, before.total) == (after.stop_reason, after.total)
    votes = [turn.stance for each in found.now.transcripts["vote"] for turn in each.rounds[0].turns]
    assert sum(stance.answer is not None for stance in votes) / len(votes) > 0.95, "a plain sentence is an answer"
    assert found.arms["cot"].off_course == 0


def test_a_shorter_vote_is_the_beginning_of_the_long_one() -> None:
    study = read_study(OLD / "calls" / "qwen-1.5b.jsonl.xz")
    results = Results(study=replace(study, transcripts={"vote": study.transcripts["vote"][:6]}))
    assert [vote.per_question("calls") for vote in results.votes] == [*range(1, 17)]
    whole = results.arms["vote"].transcripts
    assert [vote_of(each, 16).answer for each in whole] == [each.answer for each in whole]
    assert [vote_of(each, 1).answer for each in whole] == [each.rounds[0].turns[0].stance.answer for each in whole]
