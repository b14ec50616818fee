"""``python -m eval.real_models``: measures of kept replies, and the page from kept results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.real_models.__main__ import main
from eval.real_models.kept import Call, KeptCell, read_kept
from eval.real_models.measures import by_stage, changes
from eval.real_models.models import MODELS, check_file
from eval.real_models.table import page
from madke.core.errors import UserError
from madke.core.transcript import Final, Round, Selection, Stance, Transcript, Turn

KEY = "qwen-0.5b"


def test_the_page_is_written_from_what_is_kept(tmp_path: Path) -> None:
    main(["--page", str(tmp_path / "page.md")])
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| rag | now, no schemas | 100 |" in text


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match="expected 1d961463"):
        check_file(MODELS[KEY], tmp_path / f"{KEY}.gguf")


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
    counts = {"prompt_tokens": 10, "new_tokens": 5, "seconds": 1.0, "messages": (("user", "Which lake?"),)}
    return Call(**{**fields, **counts, "stage": stage, "text": text, "round": n, **more})


def test_stages_count_what_was_read_repeated_given_back_cut_and_failed() -> None:
    calls = [
        call("select", "Choose.", echo=1.0),
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


def test_arms_with_fewer_questions_than_planned_are_interim() -> None:
    cells = [
        kept([call("speak", "Danube"), call("speak", "Baikal")]),
        kept([call("speak", "Baikal")], kind="before", held=[transcript(answer=None, status="abstained")]),
        kept([call("reply", "Aral", 2)], arm="swapped", held=[swapped(("Aral",), ("Baikal",))]),
    ]
    text = page(cells)
    assert "The plan asks 100 questions; an arm with fewer has the first of them." in text
    assert "| match | now, no schemas | 0.3.0 | 1 |" in text
    assert "| all | now, no schemas | speak | 2 | 100.0 |" in text
    assert "| now, no schemas | 1 | 100.0 [21, 100] | 0.0 [0, 79] | 100.0 [21, 100] |" in text


def test_a_damaged_file_of_kept_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.xz").write_bytes(b"\xfd7zXZ\x00broken")
    with pytest.raises(UserError, match=r"a\.jsonl\.xz"):
        read_kept(tmp_path / "a.jsonl.xz")
