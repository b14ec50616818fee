"""``python -m eval.real_models`` against a scripted endpoint: runs, a kill, resuming, replay, and its measures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eval.real_models.__main__ import main
from eval.real_models.collect import example_answers
from eval.real_models.kept import Call, KeptCell, read_kept, write_kept
from eval.real_models.measures import by_stage, echo_share
from eval.real_models.models import MODELS, check_file
from eval.real_models.questions import DATASETS, DEVELOPMENT, HELD_OUT, Split, holds_gold, split_of
from eval.real_models.swapped import changes, write_swapped
from eval.real_models.table import page
from madke._util.files import read_jsonl
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, Round, Selection, Stance, Transcript, Turn
from madke.retrieval.pools.pool_file import PoolRecord, record_from_json
from tests.support.dataset import write_dataset
from tests.support.openai_server import chat, openai_server

KEY = "qwen-0.5b"
ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    questions, pools = write_dataset(tmp_path, 4)
    questions.rename(tmp_path / "dev.questions.jsonl")
    pools.rename(tmp_path / "dev.pools.jsonl")
    return tmp_path


def arguments(folder: Path, url: str, *more: Any) -> list[str]:
    own = ["--dev", "--model", KEY, "--url", url, "--questions", folder, "--work", folder / "work"]
    return [str(each) for each in (*own, "--only", "rag,free", "--only", "standard,free", *more)]


def transcripts(folder: Path) -> Any:
    return [record for file in sorted((folder / "work").glob("**/transcripts.jsonl")) for _, record in read_jsonl(file)]


# The whole command


def test_a_study_runs_once_and_its_page_is_written_again_from_what_it_kept(folder: Path, capsys: Any) -> None:
    with openai_server(chat("Answer: Lake Baikal")) as server:
        assert main(arguments(folder, server.url)) == 0
        first, asked = capsys.readouterr().out, len(server.requests)
        assert main(arguments(folder, server.url)) == 0
        assert capsys.readouterr().out == first
        assert len(server.requests) == asked == 8
    assert "| rag | now, no schemas | 4 | 100.0 [51, 100] |" in first
    replayed = folder / "page.md"
    assert main(["--replay", "--calls", str(folder / "work" / "dev-calls"), "--page", str(replayed)]) == 0
    assert replayed.read_text(encoding="utf-8") + "\n" == first


@contextmanager
def started(options: Sequence[str]) -> Any:
    program = [sys.executable, "-m", "eval.real_models", *options]
    with subprocess.Popen(program, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        yield process


def test_after_a_kill_the_same_command_asks_only_what_was_not_answered(folder: Path) -> None:
    with openai_server(lambda body, n: reply(n)) as server:

        def reply(n: int) -> Any:
            if n == 3:
                os.killpg(process.pid, signal.SIGKILL)
            return chat("Answer: Lake Baikal")

        with started(arguments(folder, server.url)) as process:
            assert process.wait(timeout=120) == -signal.SIGKILL
        assert len(server.requests) == 3
        assert main(arguments(folder, server.url)) == 0
        assert len(server.requests) == 9  # The third call was made, but its reply was lost.
    assert len(transcripts(folder)) == 8


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match="expected 1d961463"):
        check_file(MODELS[KEY], tmp_path / f"{KEY}.gguf")


# What runs


# Questions


def test_the_split_is_fixed_by_the_ids() -> None:
    rows = {name: [f"{name}-{n}" for n in range(200)] for name in DATASETS}
    splits = split_of(rows)
    assert [len(splits["dev"]), len(splits["heldout"])] == [2 * DEVELOPMENT, 2 * HELD_OUT]
    assert not {*splits["dev"]} & {*splits["heldout"]}
    assert split_of({name: ids[::-1] for name, ids in rows.items()}) == splits
    assert [each.split("-")[0] for each in splits["heldout"][:4]] == ["nq_open", "hotpotqa"] * 2


def record(*passages: tuple[str, str]) -> PoolRecord:
    lines = [{"source": "wiki", "title": title, "text": text} for title, text in passages]
    return record_from_json(json.dumps({"id": "q", "question": "?", "passages": lines}))


def question(text: str, *answers: str, **metadata: Any) -> Question:
    return Question(id="q", question=text, answers=answers, task="short_answer", metadata=metadata)


def test_a_pool_holds_a_gold_answer_as_whole_words() -> None:
    asked = question("Which lake is the deepest?", "Lake Baikal")
    assert holds_gold(asked, record(("Lakes", "The deepest is Lake Baikal.")))
    assert not holds_gold(asked, record(("Lakes", "The deepest is Lake Baikalsk.")))
    yes = question("Are both lakes?", "yes", gold_titles=["A", "B"])
    assert holds_gold(yes, record(("A", "yes"), ("B", "")))
    assert not holds_gold(yes, record(("A", "yes")))


def test_each_debater_is_right_in_every_second_debate(folder: Path) -> None:
    pools = folder / "dev.pools.jsonl"
    pools.write_text(pools.read_text().replace("of all.", "of all, and Tanganyika comes second."))
    _, rounds = write_swapped(Split.of(folder, "dev"), folder)
    stances = [line["stances"] for _, line in read_jsonl(rounds)]
    assert [[each["answer"] == "Lake Baikal" for each in pair] for pair in stances] == [
        [True, False],
        [False, True],
    ] * 2


# Measures

RULE = "Check every solution and look for mistakes.\nThen write the answer in a last line of its own."
PASSAGE = "Lake Baikal in Siberia is the deepest lake of the world and holds a fifth of its fresh water."


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        (RULE, 1.0),
        ("The answer is Baikal.", 0.0),
        (PASSAGE, 0.0),
        (f"{RULE} " + "word " * 82, 18 / 100),
        ("Look for mistakes. Then write!\nBaikal", 5 / 6),
        (f"Passage 3: {PASSAGE}", 2 / 21),
        ("It says: look for mistakes. Then write!", 0.0),
        ("Then write", 0.0),
        ("", 0.0),
    ],
)
def test_an_echo_is_what_stands_in_the_prompt_but_not_in_its_material(reply: str, share: float) -> None:
    assert echo_share(reply, f"Passage 3: {PASSAGE}\n{RULE}", [PASSAGE]) == pytest.approx(share)


def test_example_answers_come_from_the_prompts(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    text = "answer: 'the answer: a name'\nexamples: [{answer: Danube}, {answer: 'yes'}]\nagreeing: {answer: '1944'}\n"
    (tmp_path / "tasks" / "short_answer.yaml").write_text(text)
    (tmp_path / "examples.txt").write_text("Rhine\n")
    assert example_answers(tmp_path) == {"Danube", "1944", "Rhine"}


def transcript(**more: Any) -> Transcript:
    stance = Stance(text="Answer: Baikal", answer="Baikal", rule="cue")
    first = Round(
        n=1,
        order=("Debater 1",),
        turns=(Turn(agent="Debater 1", stance=stance, selection=Selection(status="abstained")),),
    )
    fields = {
        "id": "q", "question": "?", "task": "short_answer", "answers": ("Baikal",), "status": "ok", "answer": "Baikal",
        "stop_reason": "rounds", "rounds": (first,), "final": Final(by="only", answer="Baikal"),
    }  # fmt: skip
    return Transcript(**{**fields, **more})


def kept(calls: Sequence[Call], *, kind: str = "free", arm: str = "rag", held: Sequence[Transcript] = ()) -> KeptCell:
    return KeptCell(
        model=KEY, kind=kind, arm=arm, holds_gold=("q",), max_tokens=256, version="1",
        transcripts=tuple(held or [transcript()]), calls=tuple(calls),
    )  # fmt: skip


def call(stage: str, text: str, n: int = 1, **more: Any) -> Call:
    fields = {"question": "q", "agent": "Debater 1", "outcome": "ok", "error": None, "finish": "stop"}
    counts = {"prompt_tokens": 10, "new_tokens": 5, "seconds": 1.0, "messages": (("user", f"{PASSAGE} {RULE}"),)}
    return Call(**{**fields, **counts, "stage": stage, "text": text, "round": n, **more})


def test_stages_count_what_was_read_repeated_given_back_cut_and_failed() -> None:
    calls = [
        call("select", RULE, echo=1.0),
        call("speak", "Danube", example=True, finish="length"),
        call("speak", "", outcome="failed", error="timeout"),
    ]
    found = by_stage(kept(calls))
    select, speak = found["select"], found["speak"]
    assert [*found] == ["select", "speak"]
    assert (select.readable.value, select.echoed.value, select.cut.value) == (0.0, 1.0, 0.0)
    assert (speak.readable.value, speak.echoed.value, speak.example.value, speak.cut.value) == (1.0, 0.0, 1.0, 1.0)
    assert (speak.replies, speak.failed, select.failed) == (1, 1, 0)


def turn(agent: str, answer: str | None, status: Any = "ok") -> Turn:
    return Turn(agent=agent, stance=Stance(text=str(answer), answer=answer, status=status))


def swapped(right: Any, wrong: Any) -> Transcript:
    given = Round(n=1, order=("1", "2"), turns=(turn("1", "Baikal"), turn("2", "Aral")))
    return transcript(rounds=(given, Round(n=2, order=("1", "2"), turns=(turn("1", *right), turn("2", *wrong)))))


def test_swapped_stances_count_changes_for_the_better_and_the_worse() -> None:
    found = changes(
        [
            swapped(("Aral",), ("Baikal",)),
            swapped(("Baikal",), ("Aral",)),
            swapped((None, "abstained"), (None, "abstained")),
            swapped((None, "failed"), (None, "failed")),
        ]
    )
    assert found.right_to_wrong.value == pytest.approx(1 / 3)
    assert found.right_to_none.value == pytest.approx(1 / 3)
    assert found.wrong_to_right.value == pytest.approx(1 / 3)
    assert found.wrong_to_right.n == 3


# What is kept


def test_kept_results_come_back_as_they_were_and_give_the_same_page(tmp_path: Path) -> None:
    odd = call("speak", "Danube \ud83d \u2028", messages=None)
    cells_ = [
        kept([odd, call("speak", "Baikal")]),
        kept([call("speak", "Baikal")], kind="before", held=[transcript(answer=None, status="abstained")]),
        kept([call("reply", "Aral", 2)], arm="swapped", held=[swapped(("Aral",), ("Baikal",))]),
    ]
    write_kept(tmp_path / "a.jsonl.xz", cells_)
    assert read_kept(tmp_path / "a.jsonl.xz") == cells_
    text = page(cells_)
    assert page(read_kept(tmp_path / "a.jsonl.xz")) == text
    assert "The plan asks 100 questions; an arm with fewer has the first of them." in text
    assert "| match | now, no schemas | 0.3.0 | 1 |" in text
    assert "| all | now, no schemas | speak | 2 | 100.0 |" in text
    assert "| now, no schemas | 1 | 100.0 [21, 100] | 0.0 [0, 79] | 100.0 [21, 100] |" in text


def test_a_damaged_file_of_kept_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.xz").write_bytes(b"\xfd7zXZ\x00broken")
    with pytest.raises(UserError, match=r"a\.jsonl\.xz"):
        read_kept(tmp_path / "a.jsonl.xz")
