import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from madke.core.question import Question
from madke.scoring.metrics import BUILT_IN_METRICS, METRICS
from madke.scoring.statistics import estimate
from madke.tasks import TASKS
from madke.tasks.answer_text import squad_normalize


def asked(*golds: str, dataset: str | None = None) -> Question:
    return Question(id="q", question="?", answers=golds, metadata={"dataset": dataset} if dataset else {})


@pytest.mark.parametrize(
    ("text", "normal"),
    [("The  Cat's a hat!", "cats hat"), ("An apple, a day", "apple day"), ("U.S.", "us"), ("theatre", "theatre")],
)
def test_squad_normalisation(text: str, normal: str) -> None:
    assert squad_normalize(text) == normal


@pytest.mark.parametrize(
    ("answer", "golds", "em", "f1"),
    [
        ("Henry Campbell Bannerman", ("Henry Campbell Bannerman",), 1, 1),
        ("garlic", ("Head of garlic", "garlic head"), 0, 2 / 3),
        ("the Danube", ("Danube",), 1, 1),
        ("Lake Placid, New York, United States", ("Lake placid",), 0, 0.5),
        ("Paris Paris", ("Paris",), 0, 2 / 3),
        ("nothing shared", ("Rome",), 0, 0),
        ("Yes", ("True",), 1, 1),
        ("true", ("true",), 1, 1),
        ("No.", ("False",), 1, 1),
        ("no", ("True",), 0, 0),
        ("8", ("8.0",), 1, 1),
        ("8.0", ("8.0",), 1, 1),
        ("1,234", ("1234.0",), 1, 1),
        ("8", ("8.05",), 0, 0),
        ("8", ("Python 8.0",), 0, 0),
    ],
)
def test_exact_match_and_f1_take_the_best_gold(answer: str, golds: tuple[str, ...], em: int, f1: float) -> None:
    assert METRICS["em"](answer, asked(*golds)) == em
    assert METRICS["f1"](answer, asked(*golds)) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("asked_for", "gold", "answer", "em", "right"),
    [
        ("Which prime minister followed Balfour?", "Henry Campbell Bannerman", "Henry Campbell Bannerman", 1, 1),
        ("Of what did a gardener in California grow the largest?", "Head of garlic", "garlic head", 0, 1),
        ("Where were the Winter Games of 1932?", "Lake placid", "Lake Placid, New York, United States", 0, 1),
        ("Who reached the Pole next?", "Sir Edmund Hillary", "Roald Amundsen and Edmund Hillary", 0, 0),
    ],
)
def test_table_6_of_madke(asked_for: str, gold: str, answer: str, em: int, right: int) -> None:
    # Wang et al., Table 6: EM, and what the human judges say, with whom the matcher agrees.
    question = replace(asked(gold), question=asked_for)
    assert (METRICS["em"](answer, question), METRICS["match"](answer, question)) == (em, right)


def test_yes_and_no_score_all_or_nothing_only_in_the_multi_hop_sets() -> None:
    assert METRICS["f1"]("yes it was", asked("yes", dataset="hotpotqa")) == 0
    assert METRICS["f1"]("yes it was", asked("yes", dataset="nq_open")) == pytest.approx(0.5)


def test_bleu_of_a_beginning_is_the_brevity_penalty() -> None:
    # All n-grams are right, four words of six: exp(1 - 6/4) (Papineni et al., Eq. 3).
    assert METRICS["bleu"]("a b c d", asked("a b c d e f")) == pytest.approx(math.exp(-0.5))


def test_bleu_counts_no_longer_n_grams_than_the_answer_has() -> None:
    assert METRICS["bleu"]("a b", asked("a b")) == 1


def test_chrf_weighs_recall_twice() -> None:
    # Orders 1 and 2 exist on both sides: precision 1, recall (2/3 + 1/2) / 2 = 7/12, beta 2 (Popovic, Eq. 1).
    assert METRICS["chrf"]("ab", asked("abc")) == pytest.approx(5 * (7 / 12) / (4 + 7 / 12))


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_translation_metrics_lie_between_0_and_1_and_take_several_references(name: str) -> None:
    metric = METRICS[name]
    assert metric("", asked("a reference")) == 0
    assert metric("a perfect copy of it", asked()) == 0
    assert metric("a perfect copy of it", asked("a perfect copy of it")) == 1
    assert metric("a perfect copy of it", asked("quite another one", "a perfect copy of it")) == 1


@pytest.mark.parametrize(
    ("name", "task", "right", "wrong", "gold"),
    [
        ("match", "short_answer", "It was J. R. R. Tolkien.", "It was C. S. Lewis.", "John Ronald Reuel Tolkien"),
        ("math_equivalence", "math", "0.5", "0.6", r"\frac{1}{2}"),
        ("label_accuracy", "claim", "REFUTES", "SUPPORTS", "REFUTES"),
        ("choice_accuracy", "choice", "B", "A", "B"),
    ],
)
def test_an_answer_scores_1_if_its_task_accepts_it(name: str, task: str, right: str, wrong: str, gold: str) -> None:
    question = replace(asked(gold), task=task)
    assert METRICS[name](right, question) == 1
    assert METRICS[name](wrong, question) == 0


def test_every_metric_of_every_task_is_defined() -> None:
    assert {name for task in TASKS.values() for name in task.metrics} <= set(METRICS)


def test_a_rate_has_wilsons_interval() -> None:
    # Newcombe, 1998, Statistics in Medicine 17, Table I: 81 of 263 gives 0.2553 to 0.3662.
    found = estimate([1.0] * 81 + [0.0] * 182)
    assert (found.value, found.low, found.high) == pytest.approx((0.3080, 0.2553, 0.3662), abs=5e-5)


def test_no_values_have_no_estimate() -> None:
    assert estimate([]) is None


def test_recorded_hotpotqa_scores_are_reproduced_item_by_item(shared_data: Path) -> None:
    path = shared_data / "recorded" / "fireact_hotpotqa_llama2_7b.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        items = json.load(file).values()
    for item in items:
        question = asked(item["gt"], dataset="hotpotqa")
        assert METRICS["em"](item["pred"], question) == item["em"], item
        assert METRICS["f1"](item["pred"], question) == pytest.approx(item["f1"]), item


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, each in BUILT_IN_METRICS.items() for n in range(len(each.examples))]
)
def test_a_metric_gives_the_values_of_its_examples(name: str, number: int) -> None:
    example = BUILT_IN_METRICS[name].examples[number]
    question = Question(id="q", question="?", answers=example.golds, task=example.task, choices=example.choices)
    assert METRICS[name](example.answer, question) == pytest.approx(example.value)
