"""``madke datasets``: the list, a card, and conversion of published files."""

import json
from pathlib import Path

import pytest

from madke.core.errors import count_of
from madke.data import read_dataset
from madke.data.formats import FORMATS
from tests.data.published import FILES, write
from tests.support.cli import madke, refused


def test_all_are_listed_and_a_card_is_shown() -> None:
    assert "CommonMT" in madke("datasets").stdout
    records = {each["name"]: each for each in map(json.loads, madke("datasets", "--json").stdout.splitlines())}
    assert list(records) == list(FORMATS)
    assert records["ramdocs"]["splits"] == {"test": 500}
    shown = madke("datasets", "show", "mmlu_med").stdout
    assert "choice (choice_accuracy)" in shown
    assert "--limit 595 --sample-seed 0" in shown
    card = json.loads(madke("datasets", "show", "ciar", "--json").stdout)
    assert (card["task"], card["metrics"], card["splits"]) == ("math", ["math_equivalence"], {"all": 50})
    assert card["faults"]


@pytest.mark.parametrize("name", ["hotpotqa", "mmlu", "fever"])
def test_what_is_converted_reads_as_the_published_file(tmp_path: Path, name: str) -> None:
    file, content = FILES[name]
    path = write(tmp_path / file, content)
    done = madke("datasets", "convert", name, path, "--out", tmp_path / "q.jsonl")
    questions = read_dataset(tmp_path / "q.jsonl")
    assert questions == read_dataset(path, dataset=name)
    assert done.stdout == f"{tmp_path / 'q.jsonl'}: {count_of(len(questions), 'question')}\n"


def test_what_cannot_be_done(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", FILES["nq_open"][1])
    out = ("--out", tmp_path / "q.jsonl")
    assert "unknown dataset 'nq'; " in refused("datasets", "show", "nq")
    assert "unknown dataset 'nq-open'; did you mean 'nq_open'?" in refused("datasets", "convert", "nq-open", path, *out)
    assert "Missing argument 'PATH'" in refused("datasets", "convert", "nq_open", *out)
    assert "have no passages" in refused("datasets", "convert", "nq_open", path, *out, "--pools", tmp_path / "p.jsonl")
    assert "to the list" in refused("datasets", "--json", "show", "nq_open")
    own = write(tmp_path / "own.jsonl", {"question": "Which?", "golden_answers": ["Baikal"]})
    assert "give --data PATH without NAME=" in refused("datasets", "convert", "nq_open", own, *out)
    assert {file.name for file in tmp_path.iterdir()} == {"d.jsonl", "own.jsonl"}
