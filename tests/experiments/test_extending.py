"""More questions than before: arms go on with them, and nothing is asked or paid twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.experiments.experiment import ablate
from madke.models.store import CallStore
from madke.runs.directory import read_run, read_transcripts
from madke.runs.request import RunOptions
from tests.support.cli import madke
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import openai_server

RECIPE = """
title: Lakes
source: a test
base: {sources: wiki}
arms:
  - {name: madke, protocol: madke, set: {rounds: 2}}
  - {name: one, protocol: rag}
  - {name: vote, protocol: self-consistency, match_cost: {arm: madke, unit: one}}
  - {name: after, protocol: madke, set: {rounds: 2}, first_round: {arm: madke, order: reversed}}
"""


class Lakes:
    """A source of the caller's, which remembers what it was asked."""

    name = "wiki"
    description = "lakes of a test"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def search(self, queries: Any, k: Any) -> Any:
        self.asked += queries
        found = Passage(source="wiki", key="b", title="Lakes", text="Baikal is the deepest.", score=1.0, rank=0)
        return [Hits(passages=(found,)) for _ in queries]


@pytest.fixture
def lakes(tmp_path: Path) -> Any:
    write_dataset(tmp_path, 6, sources=["wiki"])
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def bills(out: Any) -> Any:
    with CallStore(out / "calls.sqlite") as store:
        return {payer: bill.calls for (payer, _), bill in store.paid().items()}


def outcomes(folder: Any) -> Any:
    return {
        t.id: (t.answer, [turn.stance.text for r in t.rounds for turn in r.turns]) for t in read_transcripts(folder)
    }


@pytest.mark.slow
def test_a_larger_limit_pays_only_for_the_further_questions_and_keeps_what_is_there(lakes: Any) -> None:
    """Also where an arm has as many debaters as another costs, or takes over its first round."""
    with openai_server(debating) as server:
        more = ("--data", lakes / "questions.jsonl", "--pools", lakes / "pools.jsonl", "--model", "openai/m")
        command = ("ablate", lakes / "recipe.yaml", *more, "--base-url", server.url)
        assert madke(*command, "--out", lakes / "out", "--limit", 2).returncode == 0
        asked = len(server.requests)
        arms = lakes / "out" / "arms"
        before = {folder.name: outcomes(folder) for folder in arms.iterdir()}
        pools = (lakes / "out" / "pools.jsonl").read_bytes()
        done = madke(*command, "--out", lakes / "out", "--limit", 5)
        assert done.returncode == 0, done.stderr
        after = {folder.name: outcomes(folder) for folder in arms.iterdir()}
        assert len(server.requests) == sum(bills(lakes / "out").values()) > asked
    assert {name: len(found) for name, found in after.items()} == dict.fromkeys(before, 5)
    assert {name: {id_: found[id_] for id_ in before[name]} for name, found in after.items()} == before
    assert (lakes / "out" / "pools.jsonl").read_bytes().startswith(pools)
    assert len((lakes / "out" / "pools.jsonl").read_text().splitlines()) == 5
    assert {*read_run(arms / "after").first_round} == {f"q{n}" for n in range(5)}


def ablated(lakes: Any, source: Any, **more: Any) -> Any:
    return ablate(
        lakes / "recipe.yaml",
        lakes / "questions.jsonl",
        out=lakes / "out",
        model=lambda messages: "The answer is [Lake Baikal].",
        sources={"wiki": source},
        **more,
    )


def test_sources_are_asked_for_the_further_questions_alone(lakes: Any) -> None:
    first, second, third = Lakes(), Lakes(), Lakes()
    ablated(lakes, first, limit=2)
    done = ablated(lakes, second, limit=4)
    ablated(lakes, third, limit=4)
    assert [len(source.asked) for source in (first, second, third)] == [2, 2, 0]
    assert not set(first.asked) & set(second.asked)
    assert {name: scores.questions for name, scores in done.scores.items()} == dict.fromkeys(done.arms, 4)
    assert not done.unfinished


def test_fewer_questions_or_others_are_refused(lakes: Any) -> None:
    ablated(lakes, Lakes(), limit=3)
    with pytest.raises(UserError, match=r"3 questions, not 2 \(--limit, or the data\)"):
        ablated(lakes, Lakes(), limit=2)
    lines = [json.loads(line) for line in (lakes / "questions.jsonl").read_text().splitlines()]
    lines[0]["golden_answers"] = ["Lake Vostok"]
    (lakes / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match="its question 'q0' differs"):
        ablated(lakes, Lakes(), limit=3)


def test_pool_files_may_grow_but_not_change(lakes: Any) -> None:
    file = lakes / "pools.jsonl"
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:2]))
    ablated(lakes, Lakes(), pools=[file], limit=2)
    file.write_text("".join(whole))
    source = Lakes()
    ablated(lakes, source, pools=[file], limit=3)
    assert not source.asked
    file.write_text("".join(whole).replace("1,642", "1,643"))
    with pytest.raises(UserError, match="--pools differs"):
        ablated(lakes, Lakes(), pools=[file], limit=3)


def test_a_program_in_an_event_loop_gets_scores_and_events(lakes: Any) -> None:
    import asyncio

    heard: list[Any] = []

    async def notebook() -> Any:
        return ablated(lakes, Lakes(), limit=2, listen=heard.append, options=RunOptions(concurrency=2))

    done = asyncio.run(notebook())
    assert [*done.arms] == ["madke", "one", "vote", "after"]
    assert all(scores.total.calls for scores in done.scores.values())
    kinds = {type(event).__name__ for event in heard}
    assert {"SourceOpened", "PoolProgress", "PoolsReady", "PoolReady", "DebateFinished", "RunProgress"} <= kinds
