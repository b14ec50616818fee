"""``madke study``: four arms over one pool, the plan first, resumed by the same command."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from madke.runs.directory import read_run, read_transcripts
from tests.data.published import write
from tests.support.cli import madke, refused
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import openai_server
from tests.support.terminal import typed_at_terminal

ARMS = ["alone", "rag", "debate", "votes"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two questions, and a folder of documents that is named like a built-in source."""
    write_dataset(tmp_path, 2)
    write(tmp_path / "wiki" / "lakes.txt", "Lake Baikal is 1,642 metres deep, in every survey of lakes.")
    return tmp_path


def arms(folder: Path) -> dict[str, Any]:
    return {path.name: list(read_transcripts(path)) for path in (folder / "arms").iterdir()}


def test_it_plans_the_arms_and_their_price_and_starts_nothing(folder: Path) -> None:
    (folder / "prices.yaml").write_text("openai/m: {prompt: 1, completion: 2}\n")
    planned = ("study", "questions.jsonl", "wiki", "--model", "openai/m", "--prices", "prices.yaml", "--plan")
    done = madke(*planned, "--with", "views", cwd=folder)
    assert done.returncode == 0, done.stderr
    names = [*ARMS, "views"]
    rows = [row for row in map(str.split, done.stdout.splitlines()) if row and row[0] in names]
    rows = rows[-len(names) :]  # after the words about the arms
    assert [row[0] for row in rows] == names
    assert all(float(row[-1]) > 0 for row in rows)
    assert "Debaters of votes: 5 to 16, to cost as much as the run it is compared with." in done.stdout
    assert "sources: wiki (./wiki)\n" in done.stdout
    assert "A gain of 10 points takes about 285 questions to show" in " ".join(done.stdout.split())
    assert not (folder / "runs").exists()


def test_documents_that_are_missing_and_questions_that_the_sample_lacks_are_refused(folder: Path) -> None:
    study = ("study", "questions.jsonl")
    assert "no such file or folder; expected documents" in refused(*study, "nowhere", cwd=folder)
    assert "a source is given by its name as --sources google" in refused(*study, "google", cwd=folder)
    assert "leave out one" in refused(*study, "wiki", "--sources", "wiki", cwd=folder)
    assert "would be the shipped sample" in refused(*study, "--yes", cwd=folder)
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_no_to_the_question_starts_nothing(folder: Path) -> None:
    words = ("study", "questions.jsonl", "wiki", "--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1")
    for _ in range(2):  # it asks again
        lines, status = typed_at_terminal("n\n", *words, cwd=folder)
        assert lines[-2].endswith("Start? [Y/n]: madke: not started")  # a person's Enter ends the question's line
        assert status == 1


@pytest.mark.slow
def test_all_arms_read_one_pool_votes_cost_what_the_debate_does_and_nothing_is_paid_twice(folder: Path) -> None:
    with openai_server(debating) as server:
        command = ("study", "questions.jsonl", "wiki", "--model", "openai/m", "--base-url", server.url)
        done = madke(*command, "--yes", cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        asked = len(server.requests)
        again = madke(*command, cwd=folder)
        assert (again.returncode, len(server.requests)) == (0, asked), again.stderr
    out = folder / "runs" / "study-questions"
    found = arms(out)
    assert sorted(found) == sorted(ARMS)
    assert read_run(out / "arms" / "debate").source_specs == {"wiki": "./wiki"}
    pools = {name: [[entry.key for entry in each.pool] for each in held] for name, held in found.items()}
    assert pools["alone"] == [[], []]
    assert pools["rag"] == pools["debate"] == pools["votes"] != [[], []]
    calls = {name: sum(each.total.calls for each in held) for name, held in found.items()}
    assert calls["alone"] == calls["rag"] == 2
    assert calls["votes"] == pytest.approx(calls["debate"], abs=1)
    page = (out / "report.html").read_text(encoding="utf-8")
    verdict = " ".join(done.stdout.partition("\n\n")[0].split())
    assert verdict.startswith("Not decided: ")
    assert verdict in unescape(page).replace("\N{NO-BREAK SPACE}", " ")
    record = json.loads(madke(*command, "--json", cwd=folder).stdout)
    assert (record["verdict"], record["lines"][0]) == ("open", verdict)
