"""``madke ablate`` against a server on the loopback: what is asked, what is shared, and what survives a kill."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from madke.runs.directory import read_run, read_transcripts
from tests.support.cli import madke, refused, started
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import error, openai_server

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


def arguments(folder: Any, server: Any, *more: Any, recipe: Any = RECIPE, n: int = 3) -> Any:
    named = [source for source in ("wiki", "google") if source in recipe]
    questions, pools = write_dataset(folder, n, sources=named)
    file = folder / "recipe.yaml"
    file.write_text(recipe)
    endpoint = ("--model", "openai/m", "--base-url", server.url)
    frozen = ("--pools", pools) if named else ()
    return ("ablate", file, "--data", questions, *frozen, *endpoint, "--out", folder / "out", *more)


def arms(folder: Any) -> Any:
    return {path.name: list(read_transcripts(path)) for path in (folder / "out" / "arms").iterdir()}


def logical(transcripts: Any) -> Any:
    return sum(used.calls for transcript in transcripts for used in transcript.usage.values())


def paid(transcripts: Any) -> Any:
    return sum(used.paid for transcript in transcripts for used in transcript.usage.values())


def test_arms_share_every_call_that_is_the_same(tmp_path: Path) -> None:
    with openai_server(debating) as server:
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
    made = sum(map(logical, found.values()))
    assert asked == sum(map(paid, found.values())) < made
    # 2 + 2 + 1 calls for each of three questions, and the summary too where the debate ended there.
    shared = logical(found["wiki-three"]) - paid(found["wiki-three"])
    assert shared >= 3 * 5
    assert "published" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert all(part in page for part in ('href="#summary">Sources</a>', "gpt-9", "other model"))
    assert read_run(tmp_path / "out" / "arms" / "wiki-one").sources.keys() == {"wiki"}


@pytest.mark.slow
def test_the_plan_bounds_what_is_then_asked_and_starts_nothing(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        planned = madke(*arguments(tmp_path, server, "--plan", "--json"))
        assert planned.returncode == 0, planned.stderr
        assert not server.requests
        assert not (tmp_path / "out").exists()
        done = madke(*arguments(tmp_path, server))
        assert done.returncode == 0, done.stderr
    found = arms(tmp_path)
    for plan in json.loads(planned.stdout):
        assert plan["debates"] == 3
        assert plan["least"]["calls"] <= logical(found[plan["name"]]) <= plan["most"]["calls"], plan
        # What debaters say may be the same by chance, and is then shared too.
        assert paid(found[plan["name"]]) <= plan["most"]["paid"], plan
    one = next(plan for plan in json.loads(planned.stdout) if plan["name"] == "wiki-one")
    # 2nr + 1, and the judge's call where there is doubt
    assert (one["least"]["calls"], one["most"]["calls"]) == (3 * 5, 3 * 6)


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    with openai_server(debating) as server:
        assert madke(*arguments(calm, server)).returncode == 0
        asked_calmly = len(server.requests)
    reached = threading.Event()

    def noticing(body: Any, n: Any) -> Any:
        if n == asked_calmly // 2:
            reached.set()
        return debating(body, n)

    with openai_server(noticing) as server:
        with started(*arguments(tmp_path, server, "--concurrency", 1)) as process:
            assert reached.wait(60)
            process.send_signal(signal.SIGKILL)
        killed_after = len(server.requests)
        done = madke(*arguments(tmp_path, server))
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
    assert killed_after < asked_calmly
    assert asked <= asked_calmly + 1  # the call in flight
    answers = [{name: {t.id: t.answer for t in ts} for name, ts in arms(where).items()} for where in (calm, tmp_path)]
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_it_stops_when_the_money_is_spent_and_goes_on_with_more(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("openai/m: {prompt: 1000, completion: 1000}")
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
    assert all(len(transcripts) == 3 for transcripts in arms(tmp_path).values())


@pytest.mark.slow
def test_an_arm_can_be_as_dear_as_another(tmp_path: Path) -> None:
    recipe = """
title: Equal cost
source: a test
arms:
  - {name: madke, protocol: madke, sources: wiki}
  - {name: one, protocol: rag, sources: wiki}
  - {name: calls, protocol: self-consistency, sources: wiki, match_cost: {arm: madke, by: calls, unit: one}}
"""
    with openai_server(debating) as server:
        done = madke(*arguments(tmp_path, server, recipe=recipe))
        assert done.returncode == 0, done.stderr
        again = madke(*arguments(tmp_path, server, recipe=recipe))
    found = arms(tmp_path)
    assert logical(found["one"]) == 3
    assert logical(found["calls"]) / 3 == round(logical(found["madke"]) / 3)
    assert "Debaters of calls: 5 to 16, to cost as much as the run it is compared with." in done.stdout
    # What the arms have cost is known now.
    assert "to cost as much" not in again.stdout


@pytest.mark.slow
def test_a_failed_debate_is_tried_again_and_does_not_keep_a_vote_of_equal_cost_from_starting(tmp_path: Path) -> None:
    recipe = """
title: Equal cost
source: a test
arms:
  - {name: one, protocol: rag, sources: wiki}
  - {name: dear, protocol: rag, sources: wiki, set: {debaters: 1}, seed: 1}
  - {name: vote, protocol: self-consistency, sources: wiki, match_cost: {arm: dear, by: calls, unit: one}}
  - {name: free, protocol: rag, sources: wiki, seed: 2}
"""
    broken = threading.Event()

    def filtered(body: Any, n: Any) -> Any:
        if not broken.is_set() and "survey 1?" in str(body["messages"]):
            return error(400, "content filter")
        return debating(body, n)

    with openai_server(filtered) as server:
        done = madke(*arguments(tmp_path, server, recipe=recipe))
        assert done.returncode == 1, done.stderr
        assert set(arms(tmp_path)) == {"one", "dear", "vote", "free"}
        broken.set()
        done = madke(*arguments(tmp_path, server, recipe=recipe))
    assert done.returncode == 0, done.stderr
    assert {name: len(found) for name, found in arms(tmp_path).items()} == dict.fromkeys(
        ("one", "dear", "vote", "free"), 3
    )


def test_files_with_the_same_ids_and_the_same_name_are_refused(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        command = arguments(tmp_path, server)
        data = command[command.index("--data") + 1]
        assert "3 questions" not in (said := refused(*command, "--data", data))
        assert "2 questions have the id 'questions/q0'" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("reference:", "referense:"), "unknown key 'referense'"),
        (("reference: wiki-three", "reference: wiki-four"), "no arm 'wiki-four'"),
        (("rounds: 3", "rounds: three"), "arm 'wiki-three'"),
    ],
)
def test_wrong_recipes_are_refused(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    with openai_server(debating) as server:
        assert expected in refused(*arguments(tmp_path, server, recipe=RECIPE.replace(*change)))
    assert not (tmp_path / "out").exists()


def test_a_limit_without_a_price_is_refused_before_anything_is_asked_or_written(tmp_path: Path) -> None:
    with openai_server(debating) as server:
        assert "needs the price of 'openai/m'" in refused(*arguments(tmp_path, server, "--max-cost", 1))
        assert not server.requests
    assert not (tmp_path / "out").exists()


def test_table_4_refuses_a_source_that_is_no_textbook(tmp_path: Path) -> None:
    question = {"id": "1", "question": "Which?", "options": {"A": "a", "B": "b"}, "answer": "A"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    for name in ("notes", "textbooks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text("The heart has four chambers.")

    def planned(sources: str) -> Any:
        data = ("--data", tmp_path / "q.jsonl", "--sources", sources)
        return madke("ablate", "madke-table-4", *data, "--plan", cwd=tmp_path)

    web = planned("wiki=./notes,textbooks=./notes")
    assert web.returncode == 2
    assert "source 'textbooks' of this recipe: found" in web.stderr
    assert planned("wiki=./notes,textbooks=./textbooks").returncode == 0
    missing = planned("wiki=./notes,google=./textbooks")
    assert (missing.returncode, "add textbooks=INDEX" in missing.stderr) == (2, True)
