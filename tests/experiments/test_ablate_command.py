"""``madke ablate`` against a server on the loopback: what is asked, what is shared, and what survives a kill."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from madke.core.transcript import Transcript
from madke.runs.directory import read_run, read_transcripts
from tests.data.published import write
from tests.support.cli import madke, refused, started
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import OpenAIServer, Reply, error, openai_server

RECIPE = """
title: Sources
source: a test
base: {protocol: madke}
grid:
  knowledge:
    wiki: {sources: wiki}
    both: {sources: "wiki,google"}
  rounds:
    one: {set: {rounds: 1}}
    three: {set: {rounds: 3}}
reference: wiki-three
published:
  gpt-9: {wiki-three: {all: {em: 0.5}}}
"""
QUESTIONS = 3


def arguments(folder: Path, server: OpenAIServer, *more: object, recipe: str = RECIPE) -> tuple[object, ...]:
    named = [source for source in ("wiki", "google") if source in recipe]
    questions, pools = write_dataset(folder, QUESTIONS, sources=named)
    file = write(folder / "recipe.yaml", recipe)
    endpoint = ("--model", "openai/m", "--base-url", server.url)
    frozen = ("--pools", pools) if named else ()
    return ("ablate", file, "--data", questions, *frozen, *endpoint, "--out", folder / "out", *more)


def arms(folder: Path) -> dict[str, list[Transcript]]:
    return {path.name: list(read_transcripts(path)) for path in (folder / "out" / "arms").iterdir()}


def answers(folder: Path) -> dict[str, dict[str, str | None]]:
    return {name: {t.id: t.answer for t in transcripts} for name, transcripts in arms(folder).items()}


def logical(transcripts: list[Transcript]) -> int:
    return sum(each.total.calls for each in transcripts)


def paid(transcripts: list[Transcript]) -> int:
    return sum(each.total.paid for each in transcripts)


def test_arms_share_every_call_that_is_the_same_and_the_plan_bounds_what_is_asked(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        planned = madke(*arguments(tmp_path, server, "--plan", "--json"))
        assert planned.returncode == 0, planned.stderr
        assert not server.requests
        assert not (tmp_path / "out").exists()
        done = madke(*arguments(tmp_path, server))
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
    found = arms(tmp_path)
    assert set(found) == {"wiki-one", "wiki-three", "both-one", "both-three"}
    # Round 1 of three rounds is the whole of one round: selections, stances and verdict are asked once.
    first_rounds = {name: [t.rounds[0] for t in sorted(ts, key=lambda t: t.id)] for name, ts in found.items()}
    assert first_rounds["wiki-one"] == first_rounds["wiki-three"]
    # Another pool makes other prompts.
    assert paid(found["both-one"]) > 0
    assert asked == sum(map(paid, found.values())) < sum(map(logical, found.values()))
    # 2 + 2 + 1 calls for each question, and the summary too where the debate ended there.
    assert logical(found["wiki-three"]) - paid(found["wiki-three"]) >= QUESTIONS * 5
    assert "published" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert all(part in page for part in ('href="#summary">Sources</a>', "gpt-9", "other model"))
    assert read_run(tmp_path / "out" / "arms" / "wiki-one").sources.keys() == {"wiki"}

    plans = {plan["name"]: plan for plan in json.loads(planned.stdout)}
    for name, plan in plans.items():
        assert plan["debates"] == QUESTIONS
        assert plan["least"]["calls"] <= logical(found[name]) <= plan["most"]["calls"], plan
        # What debaters say may be the same by chance, and is then shared too.
        assert paid(found[name]) <= plan["most"]["paid"], plan
    # 2nr + 1, and the judge's call where there is doubt
    assert (plans["wiki-one"]["least"]["calls"], plans["wiki-one"]["most"]["calls"]) == (QUESTIONS * 5, QUESTIONS * 6)


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_pays_nothing_twice_and_is_replayed(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    with openai_server(debating) as server:
        assert madke(*arguments(calm, server)).returncode == 0
        asked_calmly = len(server.requests)
    reached = threading.Event()

    def noticing(body: dict[str, Any], n: int) -> Reply:
        if n == asked_calmly // 2:
            reached.set()
        return debating(body, n)

    with openai_server(noticing) as server:
        command = arguments(tmp_path, server)
        with started(*command, "--concurrency", 1) as process:
            assert reached.wait(60)
            process.send_signal(signal.SIGKILL)
        killed_after = len(server.requests)
        done = madke(*command)
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
    assert killed_after < asked_calmly
    assert asked <= asked_calmly + 1  # the call in flight
    assert answers(calm) == answers(tmp_path)

    for folder in (tmp_path / "out" / "arms").iterdir():
        (folder / "transcripts.jsonl").unlink()
    replayed = madke(*command, "--replay")  # the server is gone
    assert replayed.returncode == 0, replayed.stderr
    assert answers(calm) == answers(tmp_path)


@pytest.mark.slow
def test_it_stops_when_the_money_is_spent_and_goes_on_with_more(tmp_path: Path) -> None:
    prices = write(tmp_path / "prices.yaml", "openai/m: {prompt: 1000, completion: 1000}")
    with openai_server(debating) as server:
        command = arguments(tmp_path, server, "--prices", prices, "--concurrency", 1)
        done = madke(*command, "--max-cost", 0.5)
        assert done.returncode == 1
        assert "--max-cost is reached" in done.stderr
        assert 0 < len(server.requests) < 40
        before = len(server.requests)
        again = madke(*command, "--max-cost", 0.5)
        assert (again.returncode, len(server.requests)) == (1, before), again.stderr
        assert madke(*command).returncode == 0
    assert {len(transcripts) for transcripts in arms(tmp_path).values()} == {QUESTIONS}


EQUAL_COST = """
title: Equal cost
source: a test
base: {sources: wiki}
arms:
  - {name: one, protocol: rag}
  - {name: dear, protocol: madke}
  - {name: vote, protocol: self-consistency, match_cost: {arm: dear, by: calls, unit: one}}
"""


@pytest.mark.slow
def test_an_arm_is_as_dear_as_another_in_which_a_debate_failed_and_is_tried_again(tmp_path: Path) -> None:
    broken = True

    def filtered(body: dict[str, Any], n: int) -> Reply:
        hit = broken and "survey 1?" in str(body["messages"])
        return error(400, "content filter") if hit else debating(body, n)

    with openai_server(filtered) as server:
        command = arguments(tmp_path, server, recipe=EQUAL_COST)
        first = madke(*command)
        assert first.returncode == 1, first.stderr
        assert "Debaters of vote: 5 to 16, to cost as much as the run it is compared with." in first.stdout
        dear = [each.total.calls for each in arms(tmp_path)["dear"] if each.status != "failed"]
        broken = False
        second = madke(*command)
    assert second.returncode == 0, second.stderr
    assert "to cost as much" not in second.stdout, "what the arms have cost is known now"
    found = arms(tmp_path)
    assert {name: len(transcripts) for name, transcripts in found.items()} == dict.fromkeys(found, QUESTIONS)
    assert logical(found["one"]) == QUESTIONS
    assert logical(found["vote"]) / QUESTIONS == round(sum(dear) / len(dear))


ARMS = """
title: Lakes
source: a test
reference: second
arms:
  - {name: first, protocol: cot, seed: 1}
  - {name: second, protocol: cot, seed: 2}
  - {name: third, protocol: standard, seed: 3}
"""


def test_an_arm_that_cannot_run_leaves_the_others_and_the_reference_is_tested_against_them(tmp_path: Path) -> None:
    strange = write(tmp_path / "out" / "arms" / "second" / "notes.txt", "mine")
    with openai_server(debating) as server:
        needing = ARMS + "  - {name: fourth, protocol: mad, first_round: {arm: second}}\n"
        done = madke(*arguments(tmp_path, server, recipe=needing))
        assert done.returncode == 1, done.stderr
        assert "arm 'second' is not finished: " in done.stderr
        assert "holds 'notes.txt' but no run" in done.stderr
        assert "arm 'fourth' is not finished: it needs arm second" in done.stderr
        ran = {folder.name for folder in (tmp_path / "out" / "arms").iterdir() if (folder / "run.json").exists()}
        assert ran == {"first", "third"}
        assert (tmp_path / "out" / "report.html").exists()
        strange.unlink()
        done = madke(*arguments(tmp_path, server, recipe=ARMS))
        assert done.returncode == 0, done.stderr
    assert "Paired tests" not in done.stdout  # they are in the report
    tests = json.loads(madke("compare", tmp_path / "out", "--json").stdout)["tests"]
    tested = [(each["left"], each["right"]) for each in tests if each["metric"] == "em"]
    assert tested == [("second", "first"), ("second", "third"), ("first", "third")]


def test_what_is_refused_asks_and_writes_nothing(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        command = arguments(tmp_path, server)
        data = command[command.index("--data") + 1]
        assert "2 questions have the id 'questions/q0'" in refused(*command, "--data", data)
        assert "needs the price of 'openai/m'" in refused(*command, "--max-cost", 1)
        misspelt = arguments(tmp_path, server, "--plan", recipe=RECIPE.replace("reference:", "referense:"))
        assert "unknown key 'referense'" in refused(*misspelt)
        assert not server.requests
    assert not (tmp_path / "out").exists()


def test_table_4_refuses_a_source_that_is_no_textbook(tmp_path: Path) -> None:
    question = {"id": "1", "question": "Which?", "options": {"A": "a", "B": "b"}, "answer": "A"}
    questions = write(tmp_path / "q.jsonl", question)
    for name in ("notes", "textbooks"):
        write(tmp_path / name / "one.txt", "The heart has four chambers.")

    plan = ("ablate", "madke-table-4", "--data", questions, "--plan", "--sources")
    web = madke(*plan, "wiki=./notes,textbooks=./notes", cwd=tmp_path)
    assert (web.returncode, "source 'textbooks' of this recipe: found" in web.stderr) == (2, True)
    assert madke(*plan, "wiki=./notes,textbooks=./textbooks", cwd=tmp_path).returncode == 0
    assert "add textbooks=INDEX" in refused(*plan, "wiki=./notes,google=./textbooks", cwd=tmp_path)
