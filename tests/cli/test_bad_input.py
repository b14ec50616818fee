"""Bad input: one line on stderr that says where and what, exit status 2, nothing written."""

import json
from pathlib import Path

import pytest

from tests.data.published import write
from tests.support.cli import refused
from tests.support.dataset import write_dataset

GOOD = {
    "id": "q0",
    "question": "Which river is the only one that flows out of Lake Baikal?",  # of the sample
    "golden_answers": ["Lake Baikal"],
}


def test_a_broken_dataset(tmp_path: Path) -> None:
    write(tmp_path / "data.jsonl", f"{json.dumps(GOOD)}\n\n{{")
    assert "data.jsonl:3: is not JSON" in refused("run", "data.jsonl", "--out", "out", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


BEST_OF = ("--set", "function=best_of")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--limit", "0"), "--limit"),
        (("--task", "clam"), "unknown task 'clam'; did you mean 'claim'?"),
        (("--base-url", "http://localhost:1"), "--base-url is for openai/NAME"),
        (("--sources", "google=serper"), "SERPER_API_KEY"),
        (("--sources", "wikki"), "unknown source 'wikki'; did you mean 'wiki'?"),
        (("--sources", "wiki=nowhere"), "no such folder or file 'nowhere'"),
        (("--cast", "debater-3=human"), "unknown role 'debater-3'; did you mean 'Debater"),
        (("--cast", "human"), "expected ROLE=MODEL"),
        (("--set", "debaters=[{name: Ada, model: 'os:getcwd'}, {name: Bo}]"), "names code as the model of Ada"),
        (("--set", "reads.peers=latest"), "reads.peers = latest needs sequential talk"),
        (BEST_OF, "needs an answer scorer; pass its command with --answer-scorer"),
        ((*BEST_OF, "--answer-scorer", "no-such-program x"), "there is no program 'no-such-program'"),
        (("--answer-scorer", "cat"), "--answer-scorer: this protocol asks no answer scorer"),
        (("--set", "first_round_given=true"), "needs first-round stances; pass their file with madke run"),
        (("--first-round", "."), "is not a run directory"),
    ],
)
def test_a_broken_option(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    write(tmp_path / "data.jsonl", GOOD)
    assert said in refused("run", "data.jsonl", "--out", "out", *options, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_pool_file_that_does_not_fit(tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 2)
    run = ("run", questions, "--pools", pools, "--out", tmp_path / "out")
    said = refused(*run, "--sources", "textbooks")
    assert "holds nothing from source 'textbooks', only from google, wiki" in said
    assert "with a pool file no source is searched" in refused(*run, "--sources", "wiki=x")
    assert "the protocol has no knowledge" in refused(*run, "--sources", "none")
    first, second = pools.read_text().splitlines(keepends=True)
    write(pools, first)
    assert "has no pool for question 'q1'" in refused(*run)
    write(pools, first + second.replace("Which lake is the deepest", "Who"))
    assert "was built for 'Who, in survey 1?'" in refused(*run)
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 1)
    thesis = write(tmp_path / "thesis" / "thesis.tex", "precious").parent
    for given in (["--pools", pools], ["--sources", f"wiki={pools}"]):
        assert "holds 'thesis.tex' but no run" in refused("run", questions, *given, "--out", thesis)
    assert "is not a run directory" in refused("score", thesis)
    assert [path.name for path in thesis.iterdir()] == ["thesis.tex"]
