"""``madke compare``: what a reader and a script get, and what is refused."""

import json

import pytest

from madke.core.transcript import to_json
from tests.support.cli import madke, refused
from tests.support.transcripts import transcript

BAIKAL = "Lake Baikal"


@pytest.fixture
def runs(tmp_path):
    """A function that writes run directories: name -> the answers to q0, q1, ..."""

    def write(**answers):
        directories = []
        for name, given in answers.items():
            folder = tmp_path / name
            folder.mkdir()
            entries = [
                transcript(f"q{n}", said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer)
                for n, answer in enumerate(given)
            ]
            (folder / "transcripts.jsonl").write_bytes(b"".join(to_json(entry) + b"\n" for entry in entries))
            directories.append(folder)
        return directories

    return write


def test_two_runs_as_tables(runs):
    done = madke("compare", *runs(one=[BAIKAL, "x", BAIKAL, "z"], two=[BAIKAL, "y", "x"]))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: " ".join(line.split()) for line in done.stdout.splitlines() if line.strip()}
    assert rows["q0"].endswith("+ Lake Baikal (1) + Lake Baikal (1)")
    assert rows["q1"].endswith("- x (1) - y (1)")
    assert "questions in all runs: 3; shown: 3; only in one: 1" in done.stdout
    assert "66.7 (20.8 to 93.9)" in done.stdout
    assert rows["one"] == "one two 1 1 0 1 0"


def test_what_is_shown_can_be_narrowed_and_everything_is_counted(runs):
    done = madke("compare", *runs(one=[BAIKAL, "x", "y"], two=[BAIKAL, "z", BAIKAL]), "--only-different", "--limit", 1)
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(" q")]
    assert shown == ["q1"]
    assert "questions in all runs: 3; shown: 1\n" in done.stdout
    assert "one two 1 0 1 1 0" in " ".join(done.stdout.split())


def test_runs_that_agree_have_no_row(runs):
    done = madke("compare", *runs(one=[BAIKAL], two=["lake baikal"]), "--only-different")
    assert "questions in all runs: 1; shown: 0" in done.stdout
    assert "q0" not in done.stdout


def test_a_script_gets_one_object_a_question(runs):
    done = madke("compare", *runs(one=[BAIKAL, "x"], two=["x", None]), "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["answers"], second["id"]) == ("q0", [BAIKAL], "q1")
    assert [
        (of["run"], of["answer"], of["correct"], of["rounds"], of["calls"], of["tokens"]) for of in first["runs"]
    ] == [
        ("one", BAIKAL, 1.0, 1, 2, 110),
        ("two", "x", 0.0, 1, 2, 110),
    ]
    assert second["runs"][1]["status"] == "abstained"


def test_the_debates_of_one_question_stand_side_by_side(runs):
    directories = runs(one=[BAIKAL], two=["x"])
    done = madke("compare", *directories, "--question", "q0")
    assert done.returncode == 0, done.stderr
    assert any(line.count("--- round 1 ---") == 2 for line in done.stdout.splitlines())
    as_json = madke("compare", *directories, "--question", "q0", "--json")
    assert json.loads(as_json.stdout)["id"] == "q0"


def test_runs_in_different_folders_are_called_by_their_paths(runs, tmp_path):
    one, two = runs(one=[BAIKAL], two=["x"])
    (tmp_path / "deeper").mkdir()
    moved = two.rename(tmp_path / "deeper" / "one")
    names = [of["run"] for of in json.loads(madke("compare", one, moved, "--json").stdout)["runs"]]
    assert names == [str(one), str(moved)]


def test_what_cannot_be_compared(runs, tmp_path):
    one, two = runs(one=[BAIKAL], two=[BAIKAL])
    other = (two / "transcripts.jsonl").read_text().replace("Which lake", "Which river")
    (two / "transcripts.jsonl").write_text(other)
    assert "no question is in all of one, two; compare runs over the same questions" in refused("compare", one, two)
    assert "no question is in all of one, two" in refused("compare", one, two, "--question", "q0")
    assert f"{tmp_path}: is not a run directory" in refused("compare", one, tmp_path)
    assert f"{one}: holds no question 'q9'" in refused("compare", one, two, "--question", "q9")
    assert "takes two run directories or more, found 1" in refused("compare", one)
    assert "takes two run directories or more, found 1" in refused("compare", one, one)
    for narrowing in (["--limit", 1], ["--only-different"]):
        assert "leave out --limit and --only-different" in refused("compare", one, two, "--question", "q0", *narrowing)
