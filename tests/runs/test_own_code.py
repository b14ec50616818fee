"""A reader, a source, a model, a task and a metric of one's own, named as ``module:object``."""

import json
from pathlib import Path

from tests.data.published import write
from tests.support.cli import madke

MODULE = """
import madke


def read(path):
    for number, line in enumerate(path.read_text().splitlines()):
        question, answer = line.split("\\t")
        yield madke.Question(id=f"c{number}", question=question, answers=(answer,), task="own_code:Colour")


def parrot(messages):
    return "I read it. The answer is " + ("red." if "RED" in str(messages) else "blue.")


class Almanac:
    name, description = "almanac", "an almanac of colours"

    def search(self, queries, k):
        sky = madke.Passage(source="almanac", key="1", title="Sky", text="The sky is RED.", score=1.0, rank=0)
        return [madke.Hits(passages=(sky,)) for _ in queries]


@madke.metric("warm", binary=True)
def warm(answer, question):
    return float(answer == "red")


class Colour(madke.BaseTask):
    name = "colour"
    instructions = "Answer with one of: red, green, blue."
    metrics = ("match", warm)
    examples = (
        {"question": "Which colour has grass?", "reasoning": "Chlorophyll.", "answer": "green"},
        {"question": "Which colour has blood?", "reasoning": "It carries iron.", "answer": "red"},
    )
"""


def test_all_five_play_one_run_from_the_command_line(tmp_path: Path) -> None:
    write(tmp_path / "own_code.py", MODULE)
    write(tmp_path / "colours.tsv", "What colour is the evening sky?\tred\nWhat colour is the noon sky?\tblue\n")
    own = ("--dataset", "own_code:read", "--task", "own_code:Colour", "--model", "own_code:parrot")
    more = ("--sources", "almanac=own_code:Almanac", "--protocol", "rag", "--out", "run")
    done = madke("run", "colours.tsv", *own, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "transcripts.jsonl").read_text().splitlines()
    answers = [(each["id"], each["answer"], each["pool"][0]["source"]) for each in map(json.loads, lines)]
    assert sorted(answers) == [("c0", "red", "almanac"), ("c1", "red", "almanac")]
    scored = madke("score", "run", "--task", "own_code:Colour", "--json", cwd=tmp_path)
    assert json.loads(scored.stdout)["metrics"]["warm"]["value"] == 1.0
