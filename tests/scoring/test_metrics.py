"""Metrics of one answer: golden values, worked examples of papers, and what each accepts."""

from dataclasses import replace
from typing import Any

import pytest

from madke.core.question import Question
from madke.scoring.metrics import METRICS


def asked(*golds: str, dataset: str | None = None) -> Question:
    return Question(id="q", question="?", answers=golds, metadata={"dataset": dataset} if dataset else {})


@pytest.mark.parametrize(
    ("answer", "golds", "em", "f1"),
    [
        ("garlic", ("Head of garlic", "garlic head"), 0, 2 / 3),
        ("The  Cat's a hat!", ("cats hat",), 1, 1),
        ("the U.S.", ("US", "theatre"), 1, 1),
        ("Paris Paris", ("Paris",), 0, 2 / 3),
        ("nothing shared", ("Rome",), 0, 0),
        # Tables of programs hold True for yes and 8.0 for 8.
        ("Yes", ("True",), 1, 1),
        ("No.", ("False",), 1, 1),
        ("8", ("8.0",), 1, 1),
        ("1,234", ("1234.0",), 1, 1),
        ("8", ("8.05",), 0, 0),
    ],
)
def test_exact_match_and_f1_take_the_best_gold(answer: str, golds: tuple[str, ...], em: int, f1: float) -> None:
    assert METRICS["em"](answer, asked(*golds)) == em
    assert METRICS["f1"](answer, asked(*golds)) == pytest.approx(f1)


def test_yes_and_no_score_all_or_nothing_only_in_the_multi_hop_sets() -> None:
    for dataset in ("hotpotqa", "2wikimultihopqa"):
        assert METRICS["f1"]("yes it was", asked("yes", dataset=dataset)) == 0
        assert METRICS["f1"]("yes", asked("yes", dataset=dataset)) == 1
    assert METRICS["f1"]("yes it was", asked("yes", dataset="nq_open")) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("question", "gold", "answer", "em", "right"),
    [
        ("Which prime minister followed Balfour?", "Henry Campbell Bannerman", "Henry Campbell Bannerman", 1, 1),
        ("Of what did a gardener in California grow the largest?", "Head of garlic", "garlic head", 0, 1),
        ("Where were the Winter Games of 1932?", "Lake placid", "Lake Placid, New York, United States", 0, 1),
        ("Who reached the Pole next?", "Sir Edmund Hillary", "Roald Amundsen and Edmund Hillary", 0, 0),
    ],
)
def test_table_6_of_madke(question: str, gold: str, answer: str, em: int, right: int) -> None:
    # Wang et al., Table 6: EM, and what the human judges say, with whom the matcher agrees.
    of = replace(asked(gold), question=question)
    assert (METRICS["em"](answer, of), METRICS["match"](answer, of)) == (em, right)


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_translation_metrics_lie_between_0_and_1_and_take_several_references(name: str) -> None:
    metric = METRICS[name]
    assert metric("", asked("a reference")) == 0
    assert metric("a perfect copy of it", asked()) == 0
    assert metric("a perfect copy of it", asked("quite another one", "a perfect copy of it")) == 1


@pytest.mark.parametrize(
    ("name", "answer", "golds", "value", "more"),
    [
        ("match", "5kg", ["5 kilograms"], 1, {}),
        ("match", "5 kg", ["5 g"], 0, {}),
        ("label_accuracy", "REFUTES", ["REFUTES"], 1, {"task": "claim"}),
        ("choice_accuracy", "B", ["B"], 1, {"task": "choice", "choices": ("Chad", "Baikal")}),
        ("choice_accuracy", "A", ["B"], 0, {"task": "choice", "choices": ("Chad", "Baikal")}),
        ("math_equivalence", "0.5", [r"\frac{1}{2}"], 1, {"task": "math"}),
        ("math_equivalence", "0.6", [r"\frac{1}{2}"], 0, {"task": "math"}),
        ("named", "Baikal is deep [0]. So is Tanganyika.", ["Baikal", "Tanganyika", "Chad", "Van"], 0.5, {}),
        ("named", "Rome", ["Rom"], 0, {}),
        ("chrf", "ab", ["abc"], 5 * (7 / 12) / (4 + 7 / 12), {"task": "translation"}),
        ("bleu", "a b c d", ["a b c d e f"], 0.6065306597, {"task": "translation"}),
    ],
)
def test_golden_values(name: str, answer: str, golds: list[str], value: float, more: dict[str, Any]) -> None:
    question = Question(id="q", question="?", answers=tuple(golds), **more)
    assert METRICS[name](answer, question) == pytest.approx(value)


SPORTS = Question(
    question="Which sport is he known for?",
    answers=("American football", "Ice hockey"),
    metadata={"wrong_answers": ["Basketball", "football", "Ice Hockey"]},  # one within a gold, one that is a gold
)
BORN = Question(question="When was he born?", answers=("15 May 1885", "1924"))


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        (SPORTS, "American football; ice hockey", 1),
        (SPORTS, "He played ice hockey and American football.", 1),
        (SPORTS, "Ice hockey", 0),  # one of two
        (SPORTS, "American football, ice hockey, basketball", 0),  # with a wrong one
        (BORN, "May 15, 1885; in 1924", 1),  # items of a list are compared by the matcher
        (BORN, "May 16, 1885; in 1924", 0),
    ],
)
def test_an_answer_names_all_golds_and_no_wrong_one(question: Question, answer: str, right: int) -> None:
    assert METRICS["all_golds"](answer, question) == right
