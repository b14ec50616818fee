"""The grammars on text that real language models wrote."""

import gzip
import json

from madke.core.question import Question
from madke.engine.parse import parse_answer, parse_selection, parse_verdict
from madke.tasks import TASKS

QUESTION = Question(id="q", question="?")


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_bracketed_document_numbers_are_chosen_and_are_no_answers(shared_data):
    texts = [
        item["outputs"][0]
        for model in ("gpt-35-turbo-16k", "gpt-4-32k")
        for item in read_lines(shared_data / "recorded" / "mirage_mmlu_med" / f"{model}_rag_32.jsonl.gz")
    ]
    answers = [parse_answer(text, lambda raw: TASKS["short_answer"].read(raw, QUESTION)).value for text in texts]
    # The two exceptions are no answers but chemistry, [Xe] and [La].
    assert sum(answer is not None for answer in answers) <= 2
    chosen = [parse_selection(text, size=32, limit=3).value.ids for text in texts]
    assert sum(bool(ids) for ids in chosen) >= 700
    assert all(len(ids) <= 3 and set(ids) <= set(range(32)) for ids in chosen)
    assert all(parse_verdict(text).value.consensus is None for text in texts)


def test_labels_in_agents_final_actions_are_read(shared_data):
    items = list(read_lines(shared_data / "recorded" / "react_fever_250.jsonl.gz"))
    read = [parse_answer(item["transcript"], lambda raw: TASKS["claim"].read(raw, QUESTION)).value for item in items]
    told = [TASKS["claim"].read(item["info"]["answer"] or "", QUESTION) for item in items]
    assert sum(one == other for one, other in zip(read, told, strict=True)) >= 249
