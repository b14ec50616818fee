"""The grammars on text that real language models wrote. ``eval/parser.py`` reports on all of it."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.parse.answer import answer_of
from madke.engine.parse.decisions import parse_selection, parse_verdict
from madke.tasks import TASKS

SIDES = ("Affirmative side", "Negative side")


def read_lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read(text: str, task: str, choices: Any = (), **how: Any) -> str | None:
    return answer_of(text, TASKS[task], Question(id="q", question="?", task=task, choices=tuple(choices)), **how).value


def mirage(shared_data: Path, *runs: str) -> Iterator[Any]:
    for run in runs:
        yield from read_lines(shared_data / "recorded" / "mirage_mmlu_med" / f"{run}.jsonl.gz")


def test_letters_are_read_where_there_is_one_and_nowhere_else(shared_data: Path) -> None:
    letters = several = 0
    for item in list(mirage(shared_data, "gpt-35-turbo-16k_cot", "gpt-4-32k_rag_32"))[::6]:
        text = item["outputs"][0]
        value = read(text, "choice", item["options"].values())
        if letter := re.search(r'"answer_choice": "([A-D])"', text):
            letters += 1
            assert value == letter.group(1)
        elif re.search(r'"answer_choice": "(?:[A-D](?:/| and |, )|None|Cannot|")', text):
            several += 1
            assert value is None
    assert (letters, several) == (279, 9)


@pytest.mark.slow
def test_bracketed_document_numbers_are_chosen_and_are_no_answers(shared_data: Path) -> None:
    items = list(mirage(shared_data, "gpt-35-turbo-16k_rag_32", "gpt-4-32k_rag_32"))[::12]
    texts = [item["outputs"][0].partition('"answer_choice"')[0] for item in items]
    answers = [read(text, "short_answer", shown=range(32)) for text in texts]
    assert not any(re.fullmatch(r"\W*\d{1,2}\W*", answer) for answer in answers if answer)
    chosen = [parse_selection(text, size=32, limit=3).value.ids for text in texts]
    assert sum(bool(ids) for ids in chosen) >= 55
    assert all(len(ids) <= 3 and set(ids) <= set(range(32)) for ids in chosen)
    assert all(parse_verdict(text).value.consensus is None for text in texts)


def test_every_moderator_verdict_is_read_and_none_says_another_thing_when_it_is_cut_off(shared_data: Path) -> None:
    verdicts = [
        message["content"]
        for debate in read_lines(shared_data / "recorded" / "mad_commonmt_debates_100.jsonl.gz")
        for message in debate["players"]["Moderator"]
        if message["role"] == "assistant"
    ]
    assert len(verdicts) == 376
    for text in verdicts[::3]:
        told = parse_verdict(text, sides=SIDES)
        assert told.rule == "record"
        assert told.value.consensus is ("preference': 'Yes'" in text)
        assert (told.value.side is None, told.value.answer is None) == ("Side': ''" in text, "Translation': ''" in text)
        for end in range(0, len(text), 40):
            cut = parse_verdict(text[:end], sides=SIDES).value
            assert cut.consensus in (None, told.value.consensus)
            assert cut.side in (None, told.value.side)
            assert cut.answer in (None, told.value.answer)


def test_labels_in_agents_final_actions_are_read(shared_data: Path) -> None:
    items = list(read_lines(shared_data / "recorded" / "react_fever_250.jsonl.gz"))[::2]
    found = [read(item["transcript"], "claim") for item in items]
    told = [TASKS["claim"].read(item["info"]["answer"] or "", Question(id="q", question="?")) for item in items]
    assert sum(one == other for one, other in zip(found, told, strict=True)) >= len(items) - 1
