"""Every slice of a real dataset beside the checkout is read; skipped where there is none."""

from pathlib import Path
from typing import Any

import pytest

from madke.data import read_dataset
from madke.tasks import get_task

SLICES = [
    ("triviaqa_500.jsonl", "triviaqa", 500),
    ("triviaqa_kilt_200.jsonl", "triviaqa", 200),
    ("nq_open_1500.jsonl", "nq_open", 1500),
    ("hotpotqa_3000.json", "hotpotqa", 3000),
    ("2wiki_250.jsonl", "2wikimultihopqa", 250),
    ("fever_2000.jsonl", "fever", 2000),
    ("mmlu_med", "mmlu_med", 1089),
    ("commonmt_200.zh", "commonmt", 200),
    ("ciar_50.json", "ciar", 50),
    ("math500_250.json", "math500", 250),
    ("bbh_logical_deduction_seven_objects_125.json", "bbh_logical_deduction", 125),
    ("bbh_geometric_shapes_125.json", "bbh_geometric_shapes", 125),
    ("gsm8k_300.jsonl", "gsm8k", 300),
    ("ramdocs_250.jsonl", "ramdocs", 250),
]


@pytest.mark.parametrize(("name", "dataset", "count"), SLICES)
def test_all_entries_pass_the_check_of_their_task(shared_data: Path, name: Any, dataset: Any, count: Any) -> None:
    questions = read_dataset(shared_data / "questions" / name, dataset=dataset)
    assert len(questions) == len({question.id for question in questions}) == count
    unreadable = set()
    for question in questions:
        task = get_task(question.task)
        assert task.check(question) is None
        assert question.answers
        if any(task.read(gold, question) is None for gold in question.answers):
            unreadable.add(question.id)
    # Their golds are "---" and ")"; the card says so.
    assert unreadable == ({"nq_open-0291", "nq_open-0364"} if dataset == "nq_open" else set())
