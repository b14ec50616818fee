"""Which sentences of a passage a reply quotes: the page's script, on made-up and on recorded text."""

import gzip
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import browser, needs_browser

pytestmark = needs_browser

MARKED = """(cases) => cases.map(([question, reply, passage]) => {
  const nodes = withQuotes(passage, [{ by: "a debater", quotes: quoting(question, reply) }]).flat();
  return nodes.filter((node) => node instanceof Node).map((node) => node.textContent);
})"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    script = files("madke.report").joinpath("page/script")
    with browser() as launched:
        page = launched.new_page()
        for name in ("dom.js", "quotes.js"):
            page.add_script_tag(content=script.joinpath(name).read_text(encoding="utf-8"))
        yield page


ANGARA = "Only one river flows out: the Angara, near Irkutsk."
PASSAGE = f"Lake Baikal is deep. {ANGARA} See also there."


@pytest.mark.parametrize(
    ("reply", "marked"),
    [
        (f"It says: {ANGARA}", [ANGARA]),
        ("It says: “only  one river\nflows out -- the ANGARA, near Irkutsk”", [ANGARA]),
        ("I know that only one river flows out, the Angara.", [ANGARA]),  # a run of seven words
        ("Perhaps one river flows out, the Angara.", [ANGARA]),  # a run of six words
        ("Perhaps a river flows out: the Angara.", []),  # a run of five words
        ("Lake Baikal is deep.", ["Lake Baikal is deep."]),  # a short sentence, whole
        ("See also there.", ["See also there."]),
        ("Lake Baikal is said to be deep.", []),
        ("", []),
    ],
)
def test_a_quoted_sentence_is_marked_and_no_other(page: Any, reply: str, marked: list[str]) -> None:
    assert page.evaluate(MARKED, [["Which river?", reply, PASSAGE]]) == [marked]


def test_words_of_the_question_are_no_quote(page: Any) -> None:
    question = "Who wrote the novel that the film of 1996 is based on?"
    reply = "The novel that the film of 1996 is based on was written by Jane Austen."
    passage = "Some ask who wrote the novel that the film of 1996 is based on."
    assert page.evaluate(MARKED, [[question, reply, passage]]) == [[]]


@pytest.mark.parametrize(
    ("reply", "passage", "marked"),
    [
        ("他说它是世界上最深的湖泊。", "贝加尔湖很大。它是世界上最深的湖泊。", ["它是世界上最深的湖泊。"]),
        (
            "他说大家知道它是世界上最深的湖。",
            "贝加尔湖很大。人们知道它是世界上最深的湖泊。",
            ["人们知道它是世界上最深的湖泊。"],
        ),
        ("世界上的湖泊", "它是世界上最深的湖泊。", []),
        (
            "أعمق بحيرة في العالم هي بايكال اليوم",
            "هذه أعمق بحيرة في العالم هي بايكال. نعم.",
            ["هذه أعمق بحيرة في العالم هي بايكال."],
        ),
        ("The cafe\u0301 is open at noon.", "The caf\u00e9 is open at noon.", ["The caf\u00e9 is open at noon."]),
        (
            "It was n't the first team to win .",
            "It wasn't so. It was n't the first team to win .",
            ["It was n't the first team to win ."],
        ),
    ],
)
def test_other_scripts_and_ways_of_writing(page: Any, reply: str, passage: str, marked: list[str]) -> None:
    assert page.evaluate(MARKED, [["", reply, passage]]) == [marked]


def test_hostile_text_becomes_text(page: Any) -> None:
    hostile = "<img src=x onerror='window.hacked = 1'> is what </mark> the page said \u202e here."
    (marked,) = page.evaluate(MARKED, [["", hostile, hostile]])
    assert marked == [hostile.replace("\u202e", "")]
    assert page.evaluate("window.hacked") is None


def read_lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def fever(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Claim, the thought before the first observation, the observation, and the thought after it."""
    for item in read_lines(folder / "recorded" / "react_fever_250.jsonl.gz"):
        found = re.split(r"(?:Thought|Action|Observation) \d+: ?", item["transcript"])
        if len(found) > 4 and len(found[3]) > 80 and not found[3].startswith("Could not find"):
            yield item["claim"], found[1], found[3], found[4]


def searched(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Question, the text before the first documents, each of them, and the text after them."""
    for item in read_lines(folder / "recorded" / "r1searcher_hotpotqa_250.jsonl.gz"):
        found = re.split(r"<\|begin_of_documents\|>|<\|end_of_documents\|>", item["gen_text_store"])
        if len(found) > 2:
            for document in re.split(r"\n\(\d+\)Title: ", found[1]):
                text = document.split(" Text: ", 1)[-1].strip()
                if len(text) > 80:
                    yield item["question"], found[0], text, found[2]


@pytest.mark.parametrize(("read", "least"), [(fever, 0.30), (searched, 0.18)])
def test_recorded_replies_quote_what_they_have_read_and_hardly_what_they_have_not(
    page: Any, shared_data: Path, read: Any, least: float
) -> None:
    """The figures of docs/report.md. A text before a passage was retrieved cannot quote it."""
    found = list(read(shared_data))
    before = page.evaluate(MARKED, [[question, said, passage] for question, said, passage, _ in found])
    after = page.evaluate(MARKED, [[question, said, passage] for question, _, passage, said in found])
    rates = [sum(map(bool, marked)) / len(found) for marked in (before, after)]
    assert len(found) > 200
    assert rates[0] < 0.02
    assert rates[1] > least
