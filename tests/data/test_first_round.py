"""First rounds that a file or another run gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance
from madke.data import first_rounds, read_first_rounds
from madke.engine.variant import load_variant
from tests.support.transcripts import transcript

LAKE = Question(id="1", question="Which lake is the deepest?")
CHOICE = Question(id="2", question="Which?", task="choice", choices=("Baikal", "Como"))
PROTOCOL = load_variant("madke").protocol


def read(tmp_path: Path, *lines: Any, questions: Any = (LAKE,), **changes: Any) -> Any:
    path = tmp_path / "given.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_first_rounds(path, questions, PROTOCOL.model_copy(update=changes))


def line(*stances: Any, id_: int | str = 1) -> Any:
    return {"id": id_, "stances": [{"agent": f"S{n}", **stance} for n, stance in enumerate(stances)]}


def answers(given: Any, id_: str = "1", repeat: int = 0) -> Any:
    return [(turn.stance.answer, turn.stance.status) for turn in given.of(id_, repeat)]


def test_the_protocols_marker_and_the_tasks_reader_decide(tmp_path: Path) -> None:
    bare = line({"text": "It lies in Siberia."})
    assert answers(read(tmp_path, bare, marker="text")) == [("It lies in Siberia", "ok")]
    assert answers(read(tmp_path, bare, marker="brackets")) == [("It lies in Siberia", "ok")]
    lettered = line({"text": "It is [b]."}, {"text": "It is [Garda]."}, id_="2")
    assert answers(read(tmp_path, lettered, questions=[CHOICE]), "2") == [("B", "ok"), (None, "unmarked")]
    no_option = line({"text": "", "answer": "E"}, id_="2")
    with pytest.raises(UserError, match=r"jsonl:1: question '2': the answer 'E' of 'S0' is not valid for task choice"):
        read(tmp_path, no_option, questions=[CHOICE])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line({"text": "x"}, id_="other")], "given.jsonl: no first-round stance for question '1'"),
        ([line({"text": "x"}), line({"text": "x"})], "given.jsonl:2: id '1' is already on line 1"),
        ([line({"text": "x", "awnser": "y"})], "unknown key 'stances.0.awnser'; did you mean 'answer'?"),
        ([{"id": 1, "stances": [{"agent": "A", "text": "x"}] * 2}], "question '1': agent 'A' has 2 stances; names"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_id(tmp_path: Path, lines: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, *lines)
    assert said in str(caught.value)


def finished(id_: str = "1", repeat: int = 0, **changes: Any) -> Any:
    said = changes.pop("said", ["Baikal", None])
    return transcript(id_, said=said, consensus=True, answer="x", repeat=repeat, **changes)


def test_a_runs_first_round_is_taken_over_without_what_led_to_it(tmp_path: Path) -> None:
    given = first_rounds([finished(), finished("7")], [LAKE], 3, tmp_path)
    one, other = given.of("1", 2)
    assert one.stance == Stance(text="It is [Baikal].", answer="Baikal")
    assert (other.stance.answer, other.stance.status) == (None, "abstained")
    assert (one.selection, one.reads) == (None, ())


def test_each_repeat_takes_its_own_first_round(tmp_path: Path) -> None:
    runs = [finished(repeat=1, said=["b"]), finished(repeat=0, said=["a"])]
    given = first_rounds(runs, [LAKE], 2, tmp_path)
    assert [given.of("1", repeat)[0].stance.answer for repeat in (0, 1)] == ["a", "b"]
    with pytest.raises(UserError, match="no first round for question '1', repeat 2"):
        first_rounds(runs, [LAKE], 3, tmp_path)


def test_a_run_over_another_question_of_that_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"found 'Who\?' as question '1', expected"):
        first_rounds([finished(question="Who?")], [LAKE], 1, tmp_path)
