"""People's corrections of gold answers: the sheet, and the scores with it."""

from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.scoring.arms import open_results
from madke.scoring.corrections import Correction, corrected, read_corrections, write_corrections
from madke.scoring.scored import score_run
from tests.report.run_folders import debate, write_run

RIGHT, WRONG = "Lake Baikal", "the one in Siberia"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four debates: two right, and two that gave an answer which is in no gold list."""
    answers = {"a": RIGHT, "b": RIGHT, "c": WRONG, "d": WRONG}
    return write_run(tmp_path / "run", [debate(id_, [answer] * 2) for id_, answer in answers.items()])


def right(id_: str, answer: str = WRONG) -> Correction:
    return Correction(
        id=id_, question=f"Which lake is the deepest, in survey {id_}?", answer=answer, correction="right"
    )


def no_gold(id_: str) -> Correction:
    return Correction(id=id_, question=f"Which  lake is the deepest, in survey {id_}? ", correction="gold is wrong")


def test_an_answer_that_is_right_counts_and_a_question_with_wrong_gold_does_not(run: Path) -> None:
    (arm,) = corrected(open_results([run]), [right("c"), no_gold("d")])
    scores = score_run(arm)
    assert (scores.correct.value, scores.correct.n) == (1, 3)
    assert arm.corrected == "1 answer accepted, 1 question left out by corrections"
    assert not (run / "metrics.json").exists()
    before = score_run(run)
    assert (before.correct.value, before.correct.n) == (0.5, 4)
    kept = (run / "metrics.json").read_bytes()
    assert score_run(arm).correct.n == 3
    assert (run / "metrics.json").read_bytes() == kept


def test_a_sheet_is_read_as_it_was_written_also_what_looks_like_a_formula(tmp_path: Path) -> None:
    rows = [right("c", "=1+1"), right("c", "'tis"), right("d", 'two\nlines, "quoted"'), no_gold("a")]
    write_corrections(tmp_path / "sheet.csv", rows)
    assert read_corrections(tmp_path / "sheet.csv") == rows
    assert "'=1+1" in (tmp_path / "sheet.csv").read_text(encoding="utf-8-sig")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,question,answer\n", "1: column 'correction' is missing"),
        (
            "id;question;answer;correction\na;Which?;x;maybe\n",
            "2: column 'correction': found 'maybe', expected right or",
        ),
        ("id,question,answer,correction\n,,,\na,,x,right\n", "3: column 'question' is empty"),
        ("id,question,answer,correction\na,Which?,,Right\n", "2: column 'answer' is empty"),
        (f'id,question,answer,correction\na,Which?,x,right\nb,"Wh{"ich? " * 30_000}\n', "3: is not CSV: field larger"),
    ],
)
def test_a_wrong_sheet_is_refused_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(UserError, match=r"sheet\.csv:") as refused:
        read_corrections(tmp_path / "sheet.csv")
    assert reason in str(refused.value)


def test_a_sheet_of_other_questions_is_refused(run: Path) -> None:
    with pytest.raises(UserError, match="no question of the sheet is in these results"):
        corrected(open_results([run]), [right("elsewhere")])
