"""Lists of answers: how they are read, when they are the same, and what they are scored by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from madke.core.question import Question
from madke.engine.parse import answer_of
from madke.scoring.metrics import METRICS, metrics_of
from madke.tasks import get_task

TASK = get_task("answer_list")
ASKED = Question(
    question="Who made the album?",
    answers=("Ian Brown", "Mike Oldfield"),
    task="answer_list",
    metadata={"wrong_answers": ["Taylor Swift"]},
)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Two did. The answer is Ian Brown; Mike Oldfield.", "Ian Brown; Mike Oldfield"),
        ("The answer is American football; ice hockey.", "American football; ice hockey"),
        ("The answer is Ian Brown. He is a singer.", "Ian Brown"),
        ("Answer: 15 May 1885 in Chelsea, London; 1924 (Paris)", "15 May 1885 in Chelsea, London; 1924 (Paris)"),
        ('{"reasoning": "Two.", "answer": "Ian Brown; Mike Oldfield; ian brown"}', "Ian Brown; Mike Oldfield"),
        ("The answer is Liberal; Liberal-Progressives; the Liberal.", "Liberal; Liberal-Progressives"),
        ("The answer is unknown.", None),
    ],
)
def test_a_list_is_read_to_the_end_of_its_sentence(reply: str, answer: str | None) -> None:
    assert answer_of(reply, TASK, ASKED, "plain").value == answer


def test_the_order_and_the_spelling_of_items_do_not_count() -> None:
    assert TASK.same("Ian Brown; Mike Oldfield", "Oldfield; Ian Brown", ASKED)
    assert not TASK.same("Ian Brown; Mike Oldfield", "Ian Brown", ASKED)
    assert TASK.contained("Ian Brown; Taylor Swift", "An album by Ian Brown.", ASKED)
    assert not TASK.contained("Ian Brown; Taylor Swift", "An album by Josef Strauss.", ASKED)


def test_the_first_hundred_items_of_an_endless_list_are_read() -> None:
    items = [f"Lake {n}" for n in range(1, 20_001)]
    assert TASK.read("; ".join(items), ASKED) == "; ".join(items[:100])
    assert TASK.same("; ".join(items), "; ".join(items[:100]), ASKED)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Mike Oldfield; Ian Brown", 1),
        ("Ian Brown", 0),
        ("Ian Brown; Mike Oldfield; Taylor Swift", 0),
        ("Ian Brown; Mike Oldfield; Josef Strauss", 1),  # not listed as wrong
    ],
)
def test_a_right_list_has_every_gold_and_no_listed_wrong_answer(answer: str, right: int) -> None:
    assert METRICS[metrics_of(TASK)[0]](answer, ASKED) == right
    alone = replace(ASKED, metadata={})
    assert TASK.accepts(answer, alone) == (answer != "Ian Brown")
