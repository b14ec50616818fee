"""The sample's web results follow the procedure in eval/samples/README.md."""

import hashlib
import json
import re
from collections import Counter
from typing import Any

import pytest

from madke._util.assets import asset

ONE_FACT = {"relevant": (65, 35), "beside": (23, 53), "outdated": (4, 4), "wrong": (8, 8)}
TWO_FACTS = {"relevant": (40, 10), "partial": (30, 40), "beside": (18, 38), "outdated": (4, 4), "wrong": (8, 8)}
UNSETTLED = {"beside": (88, 88), "outdated": (4, 4), "wrong": (8, 8)}
"""Percentages for easy and hard questions."""


def lines(name: str) -> list[Any]:
    text = asset("eval", "samples", name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def sample() -> list[tuple[Any, Any]]:
    """Each question with its line of results."""
    return list(zip(lines("questions.jsonl"), lines("web.jsonl"), strict=True))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def drawn(question: Any, n: int) -> str:
    """The share of result ``n``, as the procedure assigns it."""
    two = question["metadata"]["kind"] in ("bridge", "comparison")
    row = UNSETTLED if question["golden_answers"] == ["NOT ENOUGH INFO"] else TWO_FACTS if two else ONE_FACT
    hard = int(digest(question["id"])[0], 16) >= 8
    place, reached = int(digest(f"{question['id']}/{n}")[:8], 16) / 2**32 * 100, 0
    for share, percentages in row.items():
        reached += percentages[hard]
        if place < reached:
            return share
    raise AssertionError(row)


def test_the_share_of_each_result_is_drawn_from_the_id_of_its_question(sample: Any) -> None:
    for question, line in sample:
        assert (line["question_id"], line["query"]) == (question["id"], question["question"])
        assert line["quality"] == [drawn(question, n) for n in range(1, 6)]
    found = Counter(share for _, line in sample for share in line["quality"])
    assert found == {"relevant": 245, "beside": 225, "partial": 53, "wrong": 42, "outdated": 35}


def test_results_have_the_form_of_a_result_page(sample: Any) -> None:
    snippets, links = set(), set()
    for question, line in sample:
        for n, (result, share) in enumerate(zip(line["results"], line["quality"], strict=True), start=1):
            assert 15 <= len(result["title"]) <= 70, result
            assert 150 <= len(result["snippet"]) <= 300, result
            assert re.fullmatch(r"https://[a-z0-9.-]+\.example/\S+", result["link"]), result
            dated = share == "outdated" or int(digest(f"{question['id']}/{n}")[-1], 16) < 7
            assert bool(re.fullmatch(r"\d{4}-\d\d-\d\d", result.get("date", ""))) == dated, result
            assert share != "outdated" or result["date"] < "2010", result
            snippets.add(result["snippet"])
            links.add(result["link"])
    assert len(snippets) == len(links) == 600


def test_only_relevant_results_state_a_gold_answer(sample: Any) -> None:
    stated = []
    for question, line in sample:
        if question["metadata"]["kind"] not in ("single_hop", "bridge"):
            continue
        answers = "|".join(re.escape(answer) for answer in question["golden_answers"])
        gold = re.compile(rf"(?<!\w)(?:{answers})(?!\w)", re.IGNORECASE)
        for result, share in zip(line["results"], line["quality"], strict=True):
            states = bool(gold.search(f"{result['title']} {result['snippet']}"))
            if share == "relevant":
                stated.append(states)
            else:
                assert not states, result
    # The others state it in other words, as "April 26" and the year in different places.
    assert sum(stated) / len(stated) > 0.9
