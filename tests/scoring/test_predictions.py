"""Answers of other systems, opened as results."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.report.debate_text import debate_text
from madke.scoring.arms import Results, open_results
from madke.scoring.scores import scores_of

LAKE = Question(id="1", question="Which lake is the deepest?", answers=("Lake Baikal", "Baikal"))
RIVER = Question(id="2", question="Which river is the longest?", answers=("the Nile",))
LETTER = Question(id="3", question="Which?", answers=("B",), task="choice", choices=("Como", "Baikal"))
QUESTIONS = (LAKE, RIVER, LETTER)


def opened(folder: Path, *lines: dict[str, Any] | str, questions: Sequence[Question] | None = QUESTIONS) -> Results:
    path = folder / "theirs.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return open_results([path], questions)[0]


@pytest.mark.parametrize(
    ("line", "answer", "status"),
    [
        # An answer is made canonical where the task can read it, and kept where not.
        ({"id": 1, "answer": " Lake  Baikal"}, "Lake Baikal", "ok"),
        ({"id": "2", "answer": "--"}, "--", "ok"),
        ({"id": "3", "answer": "(b)"}, "B", "ok"),
        ({"id": "1", "answer": None}, None, "abstained"),
        ({"id": "1", "answer": " \n"}, None, "abstained"),
        # Raw text is read as a debater's reply.
        ({"id": "1", "output": "<think>[Como]</think>It must be deep. The answer is [Baikal]."}, "Baikal", "ok"),
        ({"id": "2", "output": "Nobody knows."}, None, "abstained"),
        ({"id": "3", "output": '{"step_by_step_thinking": "(A) is too shallow", "answer_choice": "B"}'}, "B", "ok"),
    ],
)
def test_an_answer_or_the_text_of_a_model_is_read(
    tmp_path: Path, line: dict[str, Any], answer: str | None, status: str
) -> None:
    found = {each.id: each for each in opened(tmp_path, line).transcripts()}[str(line["id"])]
    assert (found.answer, found.status) == (answer, status)


def test_a_prediction_is_a_debate_of_one_with_no_calls(tmp_path: Path) -> None:
    found = opened(tmp_path, {"id": "1", "answer": "Baikal"}, questions=[LAKE])
    (transcript,) = found.transcripts()
    assert (found.name, found.config) == ("theirs.jsonl", None)
    assert (transcript.rounds[0].order, transcript.usage) == (("theirs.jsonl",), {})
    assert "Final answer, by only: [Baikal]" in debate_text(transcript)


def test_questions_without_a_line_and_answers_of_another_task_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        transcripts = [*opened(tmp_path, {"id": "2", "answer": "Nile"}, {"id": "3", "answer": 1}).transcripts()]
    assert "no line for 1 of 3 questions (first: '1'); they count as abstained" in caplog.text
    assert "1 answers do not fit their task (first: '1' to question '3')" in caplog.text
    assert {each.id: each.answer for each in transcripts} == {"2": "Nile", "3": "1", "1": None}
    scores = scores_of(transcripts)
    assert (scores.metrics["em"].value, scores.metrics["em"].n, scores.abstained) == (0.5, 2, 1)
    assert "speak" not in scores.parse_failures, "only raw text can be unreadable"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ({"answer": "x"}, "id: Field required"),
        ({"id": "1", "answer": "x", "output": "x"}, "expected one of 'answer' and 'output', found both"),
        ('{"id": "1", "answer": NaN}', "answer: expected a text or a finite number, found nan"),
        ({"id": "1", "answer": "x", "repeat": -1}, "repeat: "),
        ({"id": "9", "answer": "x"}, "found question id '9', which is not among the 3 questions of the data"),
        ({"id": 2, "answer": "x"}, "question '2', repeat 0, is already on line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: dict[str, Any] | str, said: str) -> None:
    with pytest.raises(UserError) as error:
        opened(tmp_path, {"id": "2", "answer": "Nile"}, line)
    assert str(error.value).startswith(f"{tmp_path / 'theirs.jsonl'}:2: ")
    assert said in str(error.value)


def test_an_empty_file_and_a_file_without_questions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no predictions"):
        opened(tmp_path)
    with pytest.raises(UserError, match="give the questions with --data"):
        opened(tmp_path, {"id": "1", "answer": "x"}, questions=None)


def test_names_tell_files_apart_and_a_path_that_is_given_twice_is_taken_once(tmp_path: Path) -> None:
    line = '{"id": "1", "answer": "x"}\n'
    plain, packed = tmp_path / "a" / "x.jsonl", tmp_path / "b" / "x.jsonl.gz"
    for path in (plain, packed):
        path.parent.mkdir()
    plain.write_text(line)
    packed.write_bytes(gzip.compress(line.encode()))
    (tmp_path / "link.jsonl").symlink_to(plain)
    again = [tmp_path / "a" / ".." / "a" / "x.jsonl", tmp_path / "link.jsonl"]
    assert [found.name for found in open_results([plain, packed, *again], [LAKE])] == ["a/x.jsonl", "b/x.jsonl.gz"]
    assert [(found.name, found.path) for found in open_results([plain, plain], [LAKE])] == [("x.jsonl", plain)]
