"""How each task reads an answer: one table for all of them, and what lists and texts are compared by."""

from dataclasses import replace
from pathlib import Path

import pytest

from madke.core.question import Question
from madke.engine.parse.answer import answer_of
from madke.scoring.metrics import METRICS, metrics_of
from madke.tasks import TASKS
from tests.support.plain import play, signed

LISTED = Question(
    question="Who made the album?",
    answers=("Ian Brown", "Mike Oldfield"),
    task="answer_list",
    metadata={"wrong_answers": ["Taylor Swift"]},
)
LAKES = Question(id="x", question="Which lakes are deep?", task="text", answers=("Lake Baikal", "1,470 m"))
CHOICES = {"choice": ("red", "blue"), "numbers": ("156", "15.6", "-156", "the Vatican.")}

SHORT = [
    ('"Paris."', "Paris"),
    ("**Paris**.", "Paris"),
    (" Paris.\n", "Paris"),
    ("$1,250.00", "$1,250.00"),
    ("(B) Mercury", "(B) Mercury"),
    ("Washington, D.C.", "Washington, D.C."),
    ("Who Framed Roger Rabbit?", "Who Framed Roger Rabbit?"),
    ('"Yes" and "no"', '"Yes" and "no"'),
    ("A*", "A*"),
    ("Elvis Presley...", "Elvis Presley..."),
    ("...", None),
    ("." * 200_000 + "!", None),
    ("**", None),
]
DECLINED = [
    "I do not know", "I don't know the answer.", "N/A", "cannot be determined", "not given in the knowledge", "unknown",
    "no answer", "It cannot be determined from the passages", "insufficient information", "I can't tell, since ...",
]  # fmt: skip
NO_DECLINE = ["none", "no", "Unknown Pleasures", "I Don't Know What You Came to Do", "Nobody", "0"]
TRANSLATIONS = [
    (" \u201cHe  ate\nit.\u201d ", "He ate it."),
    ("'\"He ate it.\"'", "He ate it."),
    ('"Yes" and "no"', '"Yes" and "no"'),
    ('""', None),
    ("...", None),
    ("I do not know.", "I do not know."),
]
CLAIMS = [
    ("SUPPORTED.", "SUPPORTS"),
    ("NOT_ENOUGH_INFO", "NOT ENOUGH INFO"),
    ("**Not enough information**", "NOT ENOUGH INFO"),
    ("The claim is refuted.", "REFUTES"),
    ("not supported", None),
    ("does not refute", None),
    ("SUPPORTS or REFUTES", None),
    ("", None),
]
LETTERS = [
    ("(b)", "B"),
    ("Answer: B", "B"),
    ("B) blue", "B"),
    ("**(B) blue**", "B"),
    ("blue (B)", "B"),
    ("Option B \u2014 blue", "B"),
    ("red", "A"),
    ("C", None),
    ("a blue one", None),
    ("A or B", None),
]
NUMBERS = [("15.6", "B"), ("156", "A"), ("15.6.", "B"), ("-156", "C"), ("The Vatican", "D"), ("1.56", None)]
TEXTS = [
    ("\n Baikal is deep [0].\n\nSo is **Tanganyika** [1]. ", "Baikal is deep [0].\n\nSo is **Tanganyika** [1]."),
    ("It is deep [Passage 2]. So is this (passages 1, 3).", "It is deep [2]. So is this [1, 3]."),
    ("[0] It is deep. [1][2] So is this.", "It is deep [0]. So is this [1][2]."),
    ("[0] says that it is deep [0].", "[0] says that it is deep [0]."),
    ("It is deep. [0] So is this. [1]", "It is deep. [0] So is this. [1]"),
    ("It was made in 1990 (passage of the strait).", "It was made in 1990 (passage of the strait)."),
    ("[0] Deep!! [1] Is it [a lake]? Yes.\n[2] So.", "Deep! [0]! Is it [1] [a lake]? Yes.\nSo [2]."),
    (" ... ", None),
    ("The answer is unknown.", None),
]
TABLE = [
    *(("short_answer", *row) for row in SHORT),
    *((task, said, None) for said in DECLINED for task in ("short_answer", "math")),
    *(("short_answer", said, said) for said in NO_DECLINE),
    *(("translation", *row) for row in TRANSLATIONS),
    *(("claim", *row) for row in CLAIMS),
    *(("choice", *row) for row in LETTERS),
    *(("numbers", *row) for row in NUMBERS),
    *(("text", *row) for row in TEXTS),
]


@pytest.mark.parametrize(("task", "text", "answer"), TABLE)
def test_an_answer_is_read_by_its_task(task: str, text: str, answer: str | None) -> None:
    question = Question(id="q", question="?", task=task, choices=CHOICES.get(task, ()))
    assert TASKS["choice" if task == "numbers" else task].read(text, question) == answer


def test_debaters_who_all_decline_do_not_agree() -> None:
    transcript, _ = play(signed("I do not know"), early_stop="agreement")
    assert (transcript.stop_reason, transcript.status, transcript.answer) == ("rounds", "abstained", None)


@pytest.mark.parametrize(
    ("task", "one", "other", "same"),
    [
        ("translation", "He ate it.", "he  ate it", True),
        ("text", "Baikal  is deep.", "baikal is deep.", True),
        ("text", "Baikal is deep.", "Baikal is very deep.", False),
        ("answer_list", "Ian Brown; Mike Oldfield", "Oldfield; Ian Brown", True),
        ("answer_list", "Ian Brown; Mike Oldfield", "Ian Brown", False),
    ],
)
def test_texts_are_the_same_but_for_case_spacing_and_order_of_items(
    task: str, one: str, other: str, same: bool
) -> None:
    assert TASKS[task].same(one, other, replace(LISTED, task=task)) is same


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["[1] a" + " " * 200_000 + "b [2] c", "[1]" * 60_000 + "b", "[1] a " + "[1 " * 60_000], ids=range(3)
)
def test_long_hostile_prose_is_read_in_reasonable_time(text: str) -> None:
    assert TASKS["text"].read(text, LAKES)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The deepest lake is Lake Baikal in Siberia [0].", True),
        ("Lake Tanganyika is 1,470 m deep [1].", True),
        ("Lake Chad is shallow [2].", False),
    ],
)
def test_a_text_is_right_if_it_states_a_gold(text: str, right: bool) -> None:
    assert TASKS["text"].accepts(text, LAKES) is right


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Two did. The answer is Ian Brown; Mike Oldfield.", "Ian Brown; Mike Oldfield"),
        ("The answer is Ian Brown. He is a singer.", "Ian Brown"),
        ("Answer: 15 May 1885 in Chelsea, London; 1924 (Paris)", "15 May 1885 in Chelsea, London; 1924 (Paris)"),
        ('{"reasoning": "Two.", "answer": "Ian Brown; Mike Oldfield; ian brown"}', "Ian Brown; Mike Oldfield"),
        ("The answer is Liberal; Liberal-Progressives; the Liberal.", "Liberal; Liberal-Progressives"),
        ("The answer is unknown.", None),
    ],
)
def test_a_list_is_read_to_the_end_of_its_sentence(reply: str, answer: str | None) -> None:
    assert answer_of(reply, TASKS["answer_list"], LISTED, "plain").value == answer


def test_the_first_hundred_items_of_an_endless_list_are_read() -> None:
    task, items = TASKS["answer_list"], [f"Lake {n}" for n in range(1, 20_001)]
    assert task.read("; ".join(items), LISTED) == "; ".join(items[:100])
    assert task.same("; ".join(items), "; ".join(items[:100]), LISTED)
    assert task.contained("Ian Brown; Taylor Swift", "An album by Ian Brown.", LISTED)
    assert not task.contained("Ian Brown; Taylor Swift", "An album by Josef Strauss.", LISTED)


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
    task = TASKS["answer_list"]
    assert METRICS[metrics_of(task)[0]](answer, LISTED) == right
    assert task.accepts(answer, replace(LISTED, metadata={})) == (answer != "Ian Brown")


def test_recorded_translations_score_sanely_and_gpt_4_best(shared_data: Path) -> None:
    references = (shared_data / "questions" / "commonmt_200.en").read_text(encoding="utf-8").splitlines()
    questions = [Question(id="t", question="?", answers=(reference,), task="translation") for reference in references]
    for name, low, high in (("chrf", 0.5, 0.6), ("bleu", 0.25, 0.35)):
        means = {}
        for path in (shared_data / "recorded" / "mad_commonmt_outputs").glob("*.txt"):
            answers = path.read_text(encoding="utf-8").splitlines()
            scores = [METRICS[name](*pair) for pair in zip(answers, questions, strict=True)]
            means[path.stem] = sum(scores) / len(scores)
        assert len(means) == 6
        assert all(low < mean < high for mean in means.values()), means
        assert max(means, key=means.get) == "gpt4"
