"""Runs side by side, and logs of other tools: which questions are compared, what counts as right, what is shown."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import StageUsage, Transcript
from madke.report.comparison import compare_logs, logs_table, paired_table, question_table
from madke.report.tables import plain_table
from madke.report.verdict import log_finding
from madke.scoring.logs import Log, read_log, read_logs
from tests.data.published import write
from tests.support.cli import madke
from tests.support.run_folder import write_run
from tests.support.transcripts import compared, transcript

BAIKAL = "Lake Baikal"
HOSTILE = "[bold red]x[/] \x1b[31mred\x1b[0m \u202eabc\n--- round 9 ---\n== forged"


def answered(id_: str, answer: str | None, **changes: Any) -> Transcript:
    return transcript(id_, said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)


def run(*answers: str | None, **changes: Any) -> list[Transcript]:
    return [answered(f"q{n}", answer, **changes) for n, answer in enumerate(answers)]


def test_any_value_of_the_runs_is_tested_and_a_misspelt_one_is_refused() -> None:
    comparison = compared({"a": run(BAIKAL, "x"), "b": run("x", BAIKAL)})
    assert [test.metric for test in comparison.tests(["cons_judge"])] == ["cons_judge"]
    with pytest.raises(UserError, match="no run has the metric 'emm'; available:"):
        comparison.tests(["emm"])


def test_a_note_says_that_calls_differ() -> None:
    runs = {name: run(BAIKAL, usage={"speak": StageUsage(calls=n)}) for name, n in (("a", 10), ("b", 11), ("c", 12))}
    assert compared(runs).notes == ["Unequal cost, in calls per question: a 10.0, b 11.0, c 12.0."]
    # 1 of 11 is less than a tenth. Predictions from files have no cost.
    assert compared({"a": runs["a"], "b": runs["b"], "d": run(BAIKAL, usage={})}).notes == []


@pytest.mark.parametrize(
    ("left", "right", "differs"),
    [
        (answered("q0", "pike", golds=()), answered("q0", "the Pike", golds=()), False),
        (answered("q0", "x"), answered("q0", "y"), True),
        (answered("q0", BAIKAL), answered("q0", "x"), True),
        (answered("q0", None), answered("q0", None), False),
        (answered("q0", None), answered("q0", None, status="failed"), True),
    ],
)
def test_runs_differ_where_answers_or_their_rightness_do(left: Transcript, right: Transcript, differs: bool) -> None:
    (row,) = compared({"a": [left], "b": [left], "c": [right]}).questions
    assert row.differs is differs


def test_answers_have_their_marks_and_text_of_others_cannot_forge_a_line() -> None:
    entry = replace(answered(HOSTILE, HOSTILE, golds=(HOSTILE,)), question=HOSTILE, stop_reason=HOSTILE)
    other = replace(entry, answer=None, status="abstained")
    text = plain_table(question_table(compared({HOSTILE: [entry], "b": [other]}).questions), width=400)
    assert "+ [bold red]x[/]" in text
    assert "- no answer (1)" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.strip().startswith(("--- round 9", "== forged")) for line in text.splitlines())


# Logs of Inspect, of lm-eval, and any JSON Lines

LOGS = Path(__file__).parent / "logs"
"""What lm-eval 0.4.13 and Inspect 0.3.285 wrote about twelve sample questions, and a model that was a script."""


def log(name: str, marks: str) -> Log:
    """Right (+) and wrong answers; a space is a question that the log lacks."""
    right = {f"q{n}": float(mark == "+") for n, mark in enumerate(marks) if mark != " "}
    return Log(name=name, path=Path(name), right=right, cost={})


def sample(id_: Any, value: Any, epoch: int = 1) -> dict[str, Any]:
    usage = {"openai/m": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}}
    scores = {"match": {"value": value, "answer": "x"}, "second": {"value": 0.5}}
    return {"id": id_, "epoch": epoch, "target": "x", "scores": scores, "model_usage": usage}


def test_an_inspect_log_zipped_and_as_json(tmp_path: Path) -> None:
    samples = [sample("q0", "C"), sample("q1", "I"), sample("q1", "C", 2), sample(2, 0.25), sample("q3", "N")]
    failed = {"id": "q4", "epoch": 1, "scores": None, "error": {"message": "no"}}
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as whole:
        whole.writestr("header.json", "{}")
        for n, each in enumerate([*samples, failed]):
            whole.writestr(f"samples/{n}.json", json.dumps(each))
    (tmp_path / "a.json").write_text(json.dumps({"version": 2, "samples": [*samples, failed]}))
    for name in ("a.eval", "a.json"):
        found = read_log(tmp_path / name)
        assert found.right == {"q0": 1.0, "q1": 0.5, "2": 0.25, "q3": 0.0}
        assert found.cost == {"tokens": 50}


def test_samples_of_lm_eval_by_their_first_filter_and_metric(tmp_path: Path) -> None:
    records = [
        {"doc_id": n, "doc": {}, "filter": each, "metrics": ["exact_match"], "exact_match": value}
        for n, value in enumerate([1.0, 0.0])
        for each, value in (("strict", value), ("flexible", 1.0))
    ]
    found = read_log(write(tmp_path / "samples_nq_2026.jsonl", records))
    assert found.right == {"0": 1.0, "1": 0.0}


def test_json_lines_with_right_or_with_an_answer_and_a_gold(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"id": "a", "right": True, "calls": 2, "tokens": 30, "cost": 0.5},
        {"id": "b", "right": 0, "calls": 3, "tokens": 10, "cost": 0.25},
        {"id": "c", "answer": "It was built in 1902.", "gold": "1902"},
        {"id": "d", "answer": "Lake Chad", "gold": ["Lake Baikal", "Baikal"]},
        {"id": "e", "answer": None, "gold": "x"},
    ]
    found = read_log(write(tmp_path / "mine.jsonl", records))
    assert found.right == {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 0.0}
    assert found.cost == {"calls": 5, "tokens": 40, "cost": 0.75}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"id": "a", "right": "perhaps"}, "a.jsonl:1: found 'perhaps', expected right or wrong, or a share"),
        ({"id": "a", "answer": "x"}, "a.jsonl:1: expected 'id' with 'right', or with .*, found 'id', 'answer'"),
        ({"name": "a"}, "a.jsonl:1: expected 'id' with 'right', .* lm-eval's 'doc_id', found 'name'"),
        ({"doc_id": 1, "metrics": ["f1"]}, "a.jsonl:1: expected 'metrics', and a value for the first of them"),
    ],
)
def test_a_line_that_lacks_something_is_refused_with_its_number(tmp_path: Path, record: Any, expected: str) -> None:
    with pytest.raises(UserError, match=expected.replace("(", r"\(")):
        read_log(write(tmp_path / "a.jsonl", [record]))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, text, expected in (
        ("a.eval", "no zip", "not a log of Inspect"),
        ("b.json", '{"results": []}', "no samples"),
        ("c.jsonl", "", "holds no question with a result"),
    ):
        with pytest.raises(UserError, match=expected):
            read_log(write(tmp_path / name, text))


def test_logs_that_lm_eval_wrote() -> None:
    logs = read_logs(sorted(LOGS.glob("*/samples_*.jsonl")))
    assert [each.name for each in logs] == [f"{size}/samples_short_questions.jsonl" for size in ("large", "small")]
    assert [sum(each.right.values()) for each in logs] == [9, 6]
    assert [*logs[0].right] == [f"a-{n:03}" for n in range(1, 13)], "ids of the dataset, not positions"


def test_a_log_that_inspect_wrote_is_joined_with_those_of_lm_eval() -> None:
    pytest.importorskip("inspect_ai")
    logs = read_logs([*LOGS.glob("*.eval"), *LOGS.glob("large/*.jsonl")])
    (test,) = compare_logs(logs)
    assert logs[0].name == "short_5qbQXBcHS4KcbxALxp9RpY.eval"
    assert logs[0].cost == {"tokens": 288}
    assert (test.n, test.left_out, test.difference.value) == (12, 0, 0)


def sentence(left: str, right: str, margin: float = 0.1) -> str:
    (test,) = compare_logs([log("a", left), log("b", right)])
    return log_finding(test, margin)


def test_the_sentences() -> None:
    half, whole = "+" * 20 + "-" * 20, "+" * 40
    assert sentence(half, whole) == "b beats a by 50.0 points, 95 % 31.1 to 64.1, p < 0.0001, n = 40."
    assert sentence("+" * 200, "-" * 7 + "+" * 193).endswith("; equal within 10 points.")
    equal = sentence("+-" * 100, "+-" * 100)
    assert equal.startswith("No difference found between b and a: 0.0 points, 95 % ")
    assert equal.endswith("; equal within 10 points.")
    ahead = sentence(half, "-" + "+" * 22 + "-" * 17)
    assert ahead.startswith("No difference found between b and a: b is ahead by 5.0 points, 95 % ")
    assert ahead.endswith("; to show a difference of this size needs n = 267 more.")


def test_questions_are_joined_and_each_pair_is_corrected() -> None:
    logs = [log("a", "++++++++"), log("b", "------- "), log("c", "+++++++-")]
    tests = compare_logs(logs)
    assert [(each.n, each.left_out) for each in tests] == [(7, 1), (8, 0), (7, 1)]
    assert tests[0].p_holm == pytest.approx(3 * tests[0].p)
    assert any(note.startswith("Up to 1 question is excluded") for note in paired_table(tests).notes)
    assert [row[0].text for row in logs_table(logs).rows] == ["a", "b", "c"]
    with pytest.raises(UserError, match="shares no question with a: its first id is 'x', there it is 'q0'"):
        compare_logs([logs[0], Log(name="x", path=Path("x"), right={"x": 1.0}, cost={})])


def test_the_command_compares_logs_and_runs(tmp_path: Path) -> None:
    right = [transcript(f"q{n}", said=["Lake Baikal"], consensus=None, answer="Lake Baikal") for n in range(4)]
    run = write_run(tmp_path / "run", *right)
    file = write(tmp_path / "logs" / "mine.jsonl", [{"id": f"q{n}", "right": n > 1} for n in range(4)])
    done = madke("compare", run, file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No difference found between run and mine.jsonl: run is ahead by 50.0 points, 95 % ")
    record = json.loads(madke("compare", run, file, "--json", cwd=tmp_path).stdout)
    assert record["tests"][0]["n"] == 4
    assert [each["name"] for each in record["logs"]] == ["run", "mine.jsonl"]
