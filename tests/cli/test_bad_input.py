"""Bad input: one line on stderr that says where and what, exit status 2, nothing written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import refused
from tests.support.dataset import write_dataset

GOOD = {
    "id": "q0",
    "question": "Which river is the only one that flows out of Lake Baikal?",  # of the sample
    "golden_answers": ["Lake Baikal"],
}


def lines(*items: Any) -> Any:
    return "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lines(*[{**GOOD, "id": f"q{n}"} for n in range(6)], '{"id": "q6", "question": '), "data.jsonl:7: is not JSON"),
        (lines(GOOD, {"id": "q1"}), "data.jsonl:2: expected a field 'question', 'query' or 'prompt', found 'id'"),
        (lines({**GOOD, "task": "clam"}), "data.jsonl:1: unknown task 'clam'; did you mean 'claim'?"),
        (lines({**GOOD, "question": ["x"]}), "data.jsonl:1: 'question' is ['x']; expected a text"),
        (lines({**GOOD, "golden_answers": {}}), "data.jsonl:1: 'golden_answers' is {}; expected a text"),
        (
            lines({**GOOD, "choices": ["a", "b"], "golden_answers": ["C"]}),
            "'golden_answers' is 'C'; expected a letter from A to B",
        ),
        (lines({**GOOD, "task": "claim"}), "'Lake Baikal' of a claim is not one of SUPPORTS"),
        (lines([1]), "data.jsonl:1: expected a JSON object, found a list"),
        (lines({**GOOD, "question": "\ud83d"}), "contains a lone surrogate"),
        ("", "the file contains no question"),
    ],
)
def test_a_broken_dataset(tmp_path: Path, content: Any, said: str) -> None:
    (tmp_path / "data.jsonl").write_text(content)
    assert said in refused("run", "data.jsonl", "--out", "out", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "clam"], "unknown task 'clam'; did you mean 'claim'?"),
        (["--protocol", "makde"], "unknown protocol 'makde'; did you mean 'madke'?"),
        (["--model", "opneai/gpt"], "unknown model 'opneai'; did you mean 'openai'?"),
        (["--model", "openai/gpt"], "OPENAI_API_KEY is not set"),
        (["--base-url", "http://localhost:1"], "--base-url is for openai/NAME"),
        (["--sources", "google=serper"], "SERPER_API_KEY"),
        (["--sources", "wikki"], "unknown source 'wikki'; did you mean 'wiki'?"),
        (["--sources", "wiki=nowhere"], "no such folder or file 'nowhere'"),
        (["--cast", "debater-3=human"], "unknown role 'debater-3'; did you mean 'Debater"),
        (["--cast", "human"], "expected ROLE=MODEL"),
        (["--set", "rounds=many"], "rounds: Input should be a valid integer"),
        (["--set", "round=2"], "unknown parameter 'round'"),
        (["--set", "debaters=[{nam: Ada}]"], "debaters.0.nam"),
        (
            ["--set", "select=some"],
            "select: Input should be 'adaptive', 'all', 'one_each', 'views' or 'none'",
        ),
        (["--set", "reads.peers=latest"], "reads.peers = latest needs sequential talk"),
        (["--set", "order=madcc"], "order.by: Input should be 'fixed'"),
        (["--set", "function=best_of"], "needs an answer scorer; pass its command with --answer-scorer"),
        (["--answer-scorer", "cat"], "--answer-scorer: this protocol asks no answer scorer"),
        (
            ["--set", "function=best_of", "--answer-scorer", "no-such-program x"],
            "there is no program 'no-such-program'",
        ),
        (["--set", "function=best_of", "--answer-scorer", "'"], "No closing quotation; expected a command line"),
        (
            ["--set", "first_round_given=true"],
            "needs first-round stances; pass their file with madke run --first-round FILE",
        ),
        (["--first-round", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--first-round", "."], "is not a run directory"),
        (
            ["--first-round", "none.jsonl", "--set", "rounds=1"],
            "first_round_given needs rounds >= 2: the given stances are round 1",
        ),
        (["--pools", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_a_broken_option(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "data.jsonl").write_text(lines(GOOD))
    assert said in refused("run", "data.jsonl", "--out", "out", *options, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda records: records[:1], [], "has no pool for question 'q1'"),
        (lambda records: [records[0], {**records[1], "question": "Who?"}], [], "was built for 'Who?'"),
        (lambda records: [records[0], records[0]], [], "pools.jsonl:2: id 'q0' is already on line 1"),
        (lambda records: [records[0], {"id": "q1"}], [], "pools.jsonl:2: question: Field required"),
        (
            lambda records: records,
            ["--sources", "textbooks"],
            "holds nothing from source 'textbooks', only from google, wiki",
        ),
        (lambda records: records, ["--sources", "wiki=x"], "with a pool file no source is searched"),
        (lambda records: records, ["--sources", "none"], "the protocol has no knowledge"),
    ],
)
def test_a_pool_file_that_does_not_fit(
    tmp_path: Path, change: Callable[..., Any], options: list[str], said: str
) -> None:
    questions, pools = write_dataset(tmp_path, 2)
    pools.write_text(lines(*change([json.loads(line) for line in pools.read_text().splitlines()])))
    assert said in refused("run", questions, "--pools", pools, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 1)
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("precious")
    for given in (["--pools", pools], ["--sources", f"wiki={pools}"]):
        assert "holds 'thesis.tex' but no run" in refused("run", questions, *given, "--out", thesis)
    assert "is not a run directory" in refused("score", thesis)
    assert "is not a run directory" in refused("report", thesis)
    assert [path.name for path in thesis.iterdir()] == ["thesis.tex"]
