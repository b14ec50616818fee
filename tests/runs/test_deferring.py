"""Answers that do not reach a calibration's threshold are deferred: in runs, scores, sheets and at a server."""

import csv
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.engine.deferral import Calibration
from madke.report.human_grades import write_sheet
from madke.runs.directory import read_transcripts
from madke.scoring.arms import open_results
from madke.scoring.scored import score_run

QUESTIONS = [{"id": f"q{n}", "question": f"Which is number {n}?", "golden_answers": [f"Number {n}"]} for n in range(6)]


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    made = Calibration(
        run="dev", variant="mad", tasks=("short_answer",), models=("debaters",), signal="agreement_last",
        points=(*[(1.0, False)] * 60, *[(0.5, True)] * 20),
    )  # fmt: skip
    file = tmp_path / "calibration.json"
    file.write_text(made.model_dump_json(), encoding="utf-8")
    return file


class Split:
    """A model whose second debater disagrees on odd questions."""

    name = "debaters"

    async def complete(self, request: ChatRequest) -> Completion:
        n = int(request.purpose.question.removeprefix("q"))
        other = n % 2 == 1 and request.purpose.agent == "Debater 2"
        return Completion(text=f"The answer is Number {9 if other else n}.")


def test_a_run_defers_counts_and_hands_over(tmp_path: Path, calibration: Path) -> None:
    asked: dict[str, Any] = {"protocol": "mad", "model": Split(), "out": tmp_path / "run"}
    run = madke.run(QUESTIONS, error_at_most="5%", calibration=calibration, **asked)
    done = {each.id: each for each in read_transcripts(tmp_path / "run")}
    assert {id_: each.status for id_, each in done.items()} == {
        f"q{n}": "deferred" if n % 2 else "ok" for n in range(6)
    }
    deferral = done["q1"].deferral
    assert deferral is not None
    assert done["q1"].answer is None
    assert deferral.answer == "Number 1"
    scores, _ = score_run(tmp_path / "run")
    assert (scores.deferred, scores.failed, scores.abstained) == (3, 0, 0)
    correct = run.scores["correct"]
    assert (correct.n, correct.value) == (3, 1.0), "a deferred answer is never wrong"
    madke.run(QUESTIONS, error_at_most="5%", calibration=calibration, **asked)
    again = {each.id: each for each in read_transcripts(tmp_path / "run")}
    assert again == done, "a deferred question is not asked again"
    with pytest.raises(UserError, match="deferring"):
        madke.run(QUESTIONS, **asked)
    sheet = tmp_path / "sheet.csv"
    write_sheet(open_results([tmp_path / "run"], None), sheet, deferred=True)
    with sheet.open(encoding="utf-8-sig") as file:
        assert sorted(row["answer"] for row in csv.DictReader(file)) == ["Number 1", "Number 3", "Number 5"]


def test_one_question_is_deferred_with_the_answer_set_apart(calibration: Path) -> None:
    asked: dict[str, Any] = {"protocol": "mad", "model": Split(), "error_at_most": 0.05, "calibration": calibration}
    debate = madke.ask(QUESTIONS[1], **asked)
    assert debate.answer is None
    assert debate.transcript.deferral is not None
    assert madke.ask(QUESTIONS[2], **asked).answer == "Number 2"
