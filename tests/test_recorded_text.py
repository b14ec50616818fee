"""What is measured on recorded text: the pages of ``eval/judge.py`` and ``eval/matcher.py``."""

import gzip
import json
from pathlib import Path
from typing import Any

from eval.judge import SHIPPED, Pair, Relation, table
from tests.support.cli import script

SCRIPT = Path(__file__).parents[1] / "eval" / "matcher.py"
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


def pair(id_: str, relation: Relation, *answers: str) -> Pair:
    one, two = answers
    return Pair(
        id=id_,
        place="kept",
        task="short_answer",
        question="Which lake is the deepest?",
        answers=(one, two),
        texts=(one, two),
        relation=relation,
    )


def test_a_judge_is_compared_with_the_known_relation_of_each_pair_and_of_those_that_the_matcher_leaves_to_it() -> None:
    known = [
        (pair("spelling", "same", "Lake Baikal", "Baikal"), "SAME"),
        (pair("words", "same", "Lake Baikal", "the lake in Siberia"), "They name one lake.\nSAME"),
        (pair("lakes", "different", "Lake Baikal", "Lake Chad"), "Verdict: DIFFERENT"),
        (pair("misjudged", "different", "Lake Baikal", "Tanganyika"), "SAME"),
        (pair("numbers", "different", "1642", "1653"), "DIFFERENT"),
        (pair("unread", "different", "Lake Baikal", "Lake Victoria"), "SAME or DIFFERENT"),
    ]
    replies = [{"pair": each.id, "way": SHIPPED, "reply": reply} for each, reply in known]
    found = table("small", {each.id: each for each, _ in known}, replies)
    assert "| answers, one word | report | 2 of 2 | 2 of 4 | 1 of 1 | 1 of 3 | 1 of 2 [9, 91] % |" in found


def item(answer: str, right: bool | None, improper: bool = False) -> dict[str, Any]:
    judged = {f"answer_{name}": answer for name in SYSTEMS} | {f"judge_{name}": right for name in SYSTEMS}
    return {"question": "who?", "golden_answer": "John F. Kennedy/JFK", "improper": improper, **judged}


def test_the_page_compares_matchers_on_the_second_half(tmp_path: Path) -> None:
    items = [item("Nixon", False), item("JFK", True), item("John Kennedy", True), item("Nixon", None, improper=True)]
    for name in ("NQ_1800", "TQ_1000"):
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(items).encode()))
    done = script(SCRIPT, "--data", tmp_path, "--out", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    held_out = (tmp_path / "page.md").read_text(encoding="utf-8").partition("## With a grader")[0]
    row = next(line for line in held_out.splitlines() if line.startswith("| NQ | fid |"))
    # One proper question of two: EM misses "John Kennedy"; the baseline, same and accepts do not.
    nothing, everything = "0.0 / 0.0 / **0.0**", "100.0 / 100.0 / **100.0**"
    assert row.split(" | ")[2:] == [
        *("1", "1", "100 %", nothing, everything, nothing, everything, everything, everything),
        "20.7 to 100.0 |",
    ]
