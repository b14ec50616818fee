"""The study: a small one with a stand-in for the model, its replay, and what follows from kept transcripts."""

import lzma
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from eval.studies.kept import KeptStudy, differences, read_study
from eval.studies.pays.__main__ import FOLDER, main, parts_of, replayed_study
from eval.studies.pays.page import page_text
from eval.studies.pays.recompute import recomputed
from eval.studies.pays.results import (
    CORE,
    MODELS,
    PRIMARY,
    SECONDARY,
    Arm,
    Contrast,
    Figures,
    plan_of,
    vote_of,
)
from madke.core.chat import ChatRequest, Completion, Usage
from madke.data import read_dataset
from madke.scoring.paired import compare_two
from tests.support.transcripts import transcript

MODEL = "tests.test_studies:Answering"
EXPLORATORY = FOLDER.parent / "equal-cost"


class Answering:
    """A model that answers at once; its answers depend on the prompt and the seed."""

    name = "answering"

    async def complete(self, request: ChatRequest) -> Completion:
        """One of three answers; every third judge finds the debate settled."""
        purpose = request.purpose
        words = " ".join(message.content for message in request.messages)
        number = sha256(f"{purpose.question} {purpose.agent} {purpose.round} {request.seed}".encode()).digest()[0]
        text = f"I compared what I have. The answer is {('Paris', 'Rome', 'the capital')[number % 3]}."
        if purpose.stage == "select":
            text = f"Selected: {number % 2}"
        elif purpose.stage == "judge":
            text = "Verdict: [SAME]" if number % 3 == 0 else "Verdict: [DIFFERENT]"
        return Completion(text=text, usage=Usage(prompt_tokens=len(words) // 4, completion_tokens=len(text) // 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study of a model with three questions planned, two of them for all arms; run in two blocks."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "small", replace(plan_of("small"), planned=3, others=2, least=3))
        run(folder, "--limit", "2")
        run(folder)
        yield folder


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
        each.id for arm in read_study(EXPLORATORY / "calls" / "qwen-0.5b.jsonl.xz").transcripts.values() for each in arm
    }
    reported = {*(FOLDER.parent / "split" / "heldout.ids.txt").read_text(encoding="utf-8").split()}
    assert len(reported) == 100
    assert not new & (answered | reported)
    third = [question.metadata["dataset"] for question in questions[:200]]
    assert {name: third.count(name) for name in sorted(set(third))} == {"hotpotqa": 67, "nq_open": 106, "ramdocs": 27}


@pytest.mark.slow
def test_a_vote_has_the_first_round_of_its_debate_and_three_samples_more(folder: Path) -> None:
    held = read_study(kept(folder)).transcripts
    for debate, vote in (("mad", "mad-vote"), ("mad-brief", "rag-vote"), ("mad-no-pool", "vote-no-pool")):
        samples = {each.id: each.rounds[0].turns for each in held[vote]}
        for each in held[debate]:
            first = each.rounds[0].turns
            assert [turn.stance.text for turn in first] == [turn.stance.text for turn in samples[each.id][:3]]
            assert len(samples[each.id]) == 6


@pytest.mark.slow
def test_a_replay_makes_the_same_debates_from_the_kept_calls_alone(folder: Path, tmp_path: Path) -> None:
    study = read_study(kept(folder))
    assert {arm: len(held) for arm, held in study.transcripts.items()} == {
        arm.name: 3 if arm.name in CORE else 2 for part in parts_of(MODEL).values() for arm in part.all_arms()
    }
    replayed = replayed_study(kept(folder), study, tmp_path / "replay")
    assert {arm: len(held) for arm, held in replayed.transcripts.items()} == {
        arm: len(held) for arm, held in study.transcripts.items()
    }
    assert differences(study, replayed) == []


@pytest.mark.slow
def test_a_replay_tells_a_call_that_is_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lzma.decompress(kept(folder).read_bytes()).splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"call":' in line)
    (tmp_path / "small.jsonl.xz").write_bytes(lzma.compress(b"".join(lines[:first] + lines[first + 1 :])))
    assert main(["replay", "--limit", "1", "--calls", str(tmp_path)]) == 1
    assert "is not among the kept calls" in capsys.readouterr().err


def test_a_shorter_vote_is_the_beginning_of_the_long_one(folder: Path) -> None:
    whole = read_study(kept(folder)).transcripts["mad-vote"]
    votes = {size: [vote_of(each, size) for each in whole] for size in range(1, 7)}
    assert [Arm(name="", transcripts=held).per_question("calls") for held in votes.values()] == [*range(1, 7)]
    assert [each.answer for each in votes[1]] == [each.rounds[0].turns[0].stance.answer for each in whole]
    assert [(each.answer, each.status) for each in votes[6]] == [(each.answer, each.status) for each in whole]


def outcomes(**marks: str) -> Figures:
    """A study whose arms are right (+) and wrong (-) on these questions, by votes of three; ``x``: its calls failed."""
    said = {"+": "Lake Baikal", "-": "Lake Chad", "x": None}
    transcripts = {
        arm.replace("_", "-"): [
            transcript(f"q{n}", said=[text] * 3, consensus=None, answer=text, status="ok" if text else "failed")
            for n, text in enumerate(said[mark] for mark in row)
        ]
        for arm, row in marks.items()
    }
    study = KeptStudy(
        model="qwen-0.5b", served_as=None, questions=600, version="0", prompts={}, transcripts=transcripts
    )
    return Figures.of(study)


def contrast(vote: str, debate: str) -> Contrast:
    left, right = ([float(mark == "+") for mark in row] for row in (vote, debate))
    test = compare_two(left, right)
    return Contrast(test=replace(test, p_holm=test.p), others={}, margin=0.05)


@pytest.mark.parametrize(
    ("vote", "debate", "finding"),
    [
        ("-" * 60 + "+" * 540, "+" * 600, "pays"),
        ("+" * 600, "-" * 60 + "+" * 540, "costs"),
        ("+" * 600, "-" * 12 + "+" * 588, "costs and equal within 5 points"),
        ("+-" * 20 + "+" * 560, "-+" * 20 + "+" * 560, "equal within 5 points"),
        # The 90 % interval, 6.7 points to each side, would fit into 5.
        ("+-" * 300, "-+" * 300, "not decided; about 1,079 questions would decide"),
    ],
)
def test_the_finding_of_a_contrast_is_one_of_the_four_of_the_plan(vote: str, debate: str, finding: str) -> None:
    assert contrast(vote, debate).finding == finding


def test_a_second_computation_gives_the_same_tests() -> None:
    found = outcomes(
        mad_vote="+-" * 20 + "x" * 4,
        mad="+" * 26 + "-" * 14 + "+" * 4,
        rag_vote="-++" * 14 + "++",
        mad_brief="+--" * 14 + "++",
        second_turn="--+-" * 11,
        views="-+++" * 11,
        madke="+" * 30 + "-" * 14,
        madke_vote="+" * 22 + "-" * 22,
    )
    for contrasts, pairs in ((found.primary, PRIMARY), (found.secondary, SECONDARY)):
        for contrast, again in zip(contrasts, recomputed(found, pairs), strict=True):
            test = contrast.test
            assert (f"{test.right} minus {test.left}", test.n) == again[:2]
            middle = (test.difference.low + test.difference.high) / 2
            assert [test.difference.value, middle, test.p, test.p_holm] == pytest.approx(
                [again[2], (again[3] + again[4]) / 2, again[5], again[6]]
            )
    assert (found.primary[0].test.n, found.primary[0].test.left_out) == (40, 4)


def test_the_page_has_every_contrast_once_there_are_enough_questions_and_none_before(folder: Path) -> None:
    found = Figures.of(read_study(kept(folder)))
    page = page_text([found], "x.svg")
    assert page.splitlines()[4].startswith("**On small (n = 3), talking ")
    for left, right in (*PRIMARY, *SECONDARY):
        assert f"`{right}` minus `{left}`" in page
    assert "Knowledge times debate" in page
    calls = {name: found.arms[name].per_question("calls") for name in ("madke", "madke-vote")}
    assert abs(calls["madke-vote"] - calls["madke"]) <= 1, "a vote of as many debaters as cost the same"

    without_others = replace(found, plan=replace(found.plan, others=3))
    assert {*without_others.arms} == {*CORE}, "too few to be compared"
    interim = page_text([replace(found, plan=plan_of("qwen-0.5b"))], "x.svg")
    assert "3 questions are answered (600 planned, nothing is compared below 300)" in interim
    assert "minus" not in interim
