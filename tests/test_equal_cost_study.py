"""The study on equal cost: a small one with a stand-in for the model, and the replay of the calls that are kept."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest

from eval.real_models.questions import Split
from eval.studies.equal_cost import arms_of, main, replayed_study
from eval.studies.equal_cost_kept import changed_prompts, differences, read_study
from eval.studies.equal_cost_results import Results, vote_of
from madke.core.chat import ChatRequest, Completion
from tests.support.study_model import Answering

STUDY = Path(__file__).parents[1] / "eval" / "studies" / "equal-cost"
KEPT = sorted((STUDY / "calls").glob("*.jsonl.xz"))
MODEL = "tests.support.study_model:Answering"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of six questions, run in blocks of three."""
    folder = tmp_path_factory.mktemp("study")
    run(folder, "--limit", "3")
    run(folder, "--limit", "6")
    run(folder, "--limit", "6")  # The same command goes on: its first block of three is done.
    return folder


def run(folder: Path, *options: str) -> None:
    asked = ["run", "--model", "qwen-0.5b", "--served-as", MODEL, "--block", "3", "--concurrency", "4", *options]
    assert main([*asked, "--work", str(folder / "work"), "--calls", str(folder / "calls")]) == 0


def kept(folder: Path) -> Path:
    return folder / "calls" / "qwen-0.5b.jsonl.xz"


def test_all_arms_answer_the_same_questions(folder: Path) -> None:
    study = read_study(kept(folder))
    assert study.arms == [arm.name for arm in arms_of("qwen-0.5b").all_arms()]
    asked = [question.id for question in Split.of(STUDY, "study").read(6)[0]]
    for arm, transcripts in study.transcripts.items():
        assert sorted(transcript.id for transcript in transcripts) == sorted(asked), arm
        assert all(transcript.status != "failed" for transcript in transcripts), arm


def test_arms_share_their_equal_calls(folder: Path) -> None:
    held = read_study(kept(folder)).transcripts
    assert all(transcript.total.paid == 0 for transcript in held["adaptive-vote"])
    assert all(transcript.total.paid == 4 for transcript in held["moa"])
    assert all(transcript.total.calls == 3 for transcript in held["mad-noise"])


def test_a_replay_makes_no_call_and_finds_the_same_debates(folder: Path, tmp_path: Path) -> None:
    study = read_study(kept(folder))
    replayed = replayed_study(kept(folder), study, tmp_path / "replay")
    assert sum(map(len, replayed.transcripts.values())) == 6 * len(study.arms)
    assert differences(study, replayed) == []
    assert main(["replay", "--calls", str(folder / "calls"), "--limit", "3"]) == 0


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

    run(tmp_path, "--limit", "7")

    before, after = read_study(kept(folder)), read_study(kept(tmp_path))
    assert after.questions == 7
    for arm, transcripts in before.transcripts.items():
        found = {each.id: each.answer for each in after.transcripts[arm]}
        assert len(found) == 7
        assert {each.id: each.answer for each in transcripts}.items() <= found.items(), arm
    seventh = Split.of(STUDY, "study").read(7)[0][-1]
    assert {request.purpose.question for request in asked} == {seventh.id}


def test_a_replay_tells_a_call_that_is_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lzma.decompress(kept(folder).read_bytes()).splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"call":' in line)
    (tmp_path / "qwen-0.5b.jsonl.xz").write_bytes(lzma.compress(b"".join(lines[:first] + lines[first + 1 :])))
    assert main(["replay", "--calls", str(tmp_path)]) == 1
    assert "is not among the kept calls" in capsys.readouterr().err


def test_a_shorter_vote_is_the_beginning_of_the_long_one(folder: Path) -> None:
    results = Results(study=read_study(kept(folder)))
    assert [vote.per_question("calls") for vote in results.votes] == [*range(1, 17)]
    whole = results.arms["vote"].transcripts
    assert [vote_of(each, 16).answer for each in whole] == [each.answer for each in whole]
    assert [vote_of(each, 1).answer for each in whole] == [each.rounds[0].turns[0].stance.answer for each in whole]


def test_an_adaptive_vote_is_a_vote_of_its_samples(folder: Path) -> None:
    """It shares the samples of the vote, so its answer is that of as many of them."""
    results = Results(study=read_study(kept(folder)))
    long = {each.id: each for each in results.arms["vote"].transcripts}
    for each in results.arms["adaptive-vote"].transcripts:
        assert each.answer == vote_of(long[each.id], each.total.calls).answer


def test_the_mixed_panel_has_both_models_in_turn() -> None:
    recipe = arms_of("mixed")
    casts = {arm.name: arm.cast for arm in recipe.all_arms()}
    assert [*casts] == ["gated", "mad", "moa", "madke"]
    assert casts["mad"] == {"Debater 1": "qwen-0.5b", "Debater 2": "qwen-1.5b", "Debater 3": "qwen-0.5b"}
    assert "Debater 7" not in casts["moa"]
    assert recipe.model == "qwen-1.5b"


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_ten_questions_of_the_kept_calls_replay(file: Path, tmp_path: Path) -> None:
    study = read_study(file)
    found = differences(study, replayed_study(file, study, tmp_path / "replay", limit=10))
    assert found == [], f"prompt files that are not those of the study: {changed_prompts(study)}"
