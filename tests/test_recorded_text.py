"""What is measured on recorded text: ``eval/parser.py`` as a user runs it, and the table of ``eval/judge.py``."""

import gzip
import json
from pathlib import Path

from eval.judge import SHIPPED, Pair, Relation, table
from tests.support.cli import script

SCRIPT = Path(__file__).parent.parent / "eval" / "parser.py"


def test_the_page_counts_what_was_read_rightly_wrongly_and_not_at_all(tmp_path: Path) -> None:
    traces = [
        {"transcript": f"Thought 1: so it is.\nAction 1: {said}", "info": {"answer": told}}
        for said, told in (("Finish[REFUTES]", "REFUTES"), ("Finish[REFUTES]", "SUPPORTS"), ("Search[x]", "SUPPORTS"))
    ]
    with gzip.open(tmp_path / "react_fever_250.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, traces)))
    out = tmp_path / "parser.md"
    out.write_text("# Page\n<!-- table -->\nold\n<!-- end of table -->\nThe end.\n")

    script(SCRIPT, "--data", tmp_path, "--out", out)

    written = out.read_text()
    assert "| FEVER ReAct, labels | 3 | 1 | 1 | 1 |" in written
    assert "old" not in written
    assert written.endswith("<!-- end of table -->\nThe end.\n")


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
