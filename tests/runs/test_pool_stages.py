"""Query stages and rerankers of runs, pool files and single questions, with scripted models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import Unfinished, UserError
from madke.core.knowledge import Hits, Passage
from madke.engine.settings import Knowledge
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore
from madke.retrieval.pools.pool_file import read_pools
from madke.runs.pools import build_pool_file, calls_beside
from madke.runs.record import read_run
from madke.runs.request import RunOptions
from tests.support.openai_server import Reply, openai_server

QUESTIONS = [madke.Question(id=f"q{n}", question=f"Question {n}?", answers=("a",)) for n in range(3)]
DEBATE = {"select": "Selected: [0]", "speak": "The answer is [a].", "reply": "The answer is [a]."}
DEBATE |= {"judge": '{"settled": "yes"}', "summarize": "The answer is [a]."}


class Lakes:
    """Five passages per query, named by it; a query with a word of ``failing`` fails."""

    name, description, fingerprint = "wiki", "lakes", "1"

    def __init__(self, failing: str = "none of them") -> None:
        self.batches: list[list[str]] = []
        self._failing = failing

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.batches.append([*queries])
        return [Hits(error="down") if self._failing in query else self._hits(query) for query in queries]

    def _hits(self, query: str) -> Hits:
        return Hits(
            passages=tuple(
                Passage(source="wiki", key=f"{query} {n}", title="T", text=f"{n} of {query}", score=5.0 - n, rank=n)
                for n in range(5)
            )
        )


def retriever(**replies: str) -> ScriptedChat:
    def reply(request: ChatRequest) -> Completion | None:
        text = {**DEBATE, **replies}.get(request.purpose.stage)
        return None if text is None else Completion(text=text, usage=Usage(prompt_tokens=10, completion_tokens=5))

    return ScriptedChat(reply)


def run(out: Path, model: Any, knowledge: dict[str, Any], source: Any = None, **more: Any) -> Any:
    settings = dict(knowledge)
    return madke.run(
        QUESTIONS,
        model=model,
        sources=[source or Lakes()],
        settings={"rounds": 1, **settings},
        out=out,
        **more,
    )


def pools(out: Path) -> dict[str, Any]:
    return {line["id"]: line for line in map(json.loads, (out / "pools.jsonl").read_text().splitlines())}


def keys(transcript: Any) -> list[tuple[str, int | None]]:
    return [(entry.key, entry.before) for entry in transcript.pool]


def test_a_run_with_a_listwise_reranker_debates_over_the_reranked_pool(tmp_path: Path) -> None:
    model = retriever(rerank="Ranking: [4] > [3] > [2] > [1] > [0]")
    done = run(tmp_path / "out", model, {"rerank": {"model": "llm", "from": 5, "keep": 2}})

    first = next(iter(done.transcripts()))
    assert keys(first) == [("Question 0? 4", 4), ("Question 0? 3", 3)]
    used = first.usage["rerank"]
    assert (used.calls, used.paid, used.prompt_tokens, used.completion_tokens) == (1, 0, 10, 5)
    (held,) = pools(tmp_path / "out")["q0"]["reranked"]
    assert held["model"] == "llm"
    assert held["by"] == "scripted"
    assert [(each["key"][-1], each["before"], each["after"]) for each in held["passages"]][:2] == [
        ("4", 4, 0),
        ("3", 3, 1),
    ]
    prompt = next(each for each in model.requests if each.purpose.stage == "rerank").messages[-1].content
    assert "Knowledge 4 - T: 4 of Question 0?" in prompt
    with CallStore(tmp_path / "out" / "calls.sqlite") as store:
        stages = [call.purpose.stage for call in store.recorded()]
    assert stages.count("rerank") == 3  # the run's own store: its cost is the run's
    assert madke.score(done).usage["rerank"].calls == 3
    assert read_run(tmp_path / "out").models["retriever"] == "scripted"


def test_further_queries_are_searched_in_one_batch_and_joined(tmp_path: Path) -> None:
    source = Lakes()
    model = retriever(decompose="[Search: one]\n[Search: two]")
    done = run(tmp_path / "out", model, {"query": "decompose", "per_source": 2}, source)

    assert source.batches[0] == ["Question 0?", "Question 1?", "Question 2?"]
    assert sorted(source.batches[1]) == ["one"] * 3 + ["two"] * 3
    first = next(iter(done.transcripts()))
    assert [entry.key for entry in first.pool] == ["Question 0? 0", "one 0"]
    assert first.retrieval.queries == ("one", "two")
    assert first.usage["decompose"].calls == 1
    # An arm without the stage reads the same file.
    plain = madke.run(
        QUESTIONS,
        model=retriever(),
        sources="wiki",
        settings={"rounds": 1},
        pools=tmp_path / "out" / "pools.jsonl",
        out=tmp_path / "plain",
    )
    first = next(iter(plain.transcripts()))
    assert [entry.key for entry in first.pool] == [f"Question 0? {n}" for n in range(5)]
    assert first.retrieval is None
    assert "decompose" not in first.usage


@pytest.mark.parametrize(
    ("knowledge", "replies", "stage", "why"),
    [
        ({"query": "rewrite"}, {"rewrite": "I would search the web."}, "rewrite", "the reply holds no query"),
        ({"query": "rewrite"}, {}, "rewrite", "the script has no reply"),
        ({"query": "rewrite"}, {"rewrite": "[Search: broken]"}, "rewrite", "a search failed: wiki: down"),
        ({"rerank": "llm"}, {"rerank": "All are good."}, "rerank", "the reply holds no ranking"),
        ({"rerank": "llm"}, {}, "rerank", "the script has no reply"),
    ],
)
def test_a_stage_that_fails_leaves_the_pool_of_the_question_and_is_counted(
    knowledge: dict[str, Any],
    replies: dict[str, str],
    stage: str,
    why: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = run(tmp_path / "out", retriever(**replies), knowledge, Lakes(failing="broken"))

    for transcript in done.transcripts():
        assert [entry.key for entry in transcript.pool] == [f"{transcript.question} {n}" for n in range(5)]
        assert why in transcript.retrieval.failed[stage]
        assert transcript.status == "ok"
    assert f"3 of 3 pools: {stage} failed" in caplog.text
    assert madke.score(done).parse_failures[stage].value == 1.0


def test_a_resumed_run_and_a_replay_make_no_call_of_a_stage(tmp_path: Path) -> None:
    knowledge = {"rerank": "llm", "query": "rewrite"}
    replies = {"rerank": "Ranking: [1] > [0]", "rewrite": "[Search: lakes]"}
    run(tmp_path / "out", retriever(**replies), knowledge)
    before = (tmp_path / "out" / "transcripts.jsonl").read_bytes()
    silent = ScriptedChat({})
    run(tmp_path / "out", silent, knowledge)
    run(tmp_path / "out", silent, knowledge, options=RunOptions(replay=True))
    assert (tmp_path / "out" / "transcripts.jsonl").read_bytes() == before
    assert not silent.requests


def by_last_digit(body: dict[str, Any], n: int) -> Reply:
    """The passage of rank 4 is best; the fifth request and later ones fail."""
    scores = [float(text.split("\n")[1][0]) for text in body["documents"]]
    results = [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]
    return 200, {}, {"results": results, "usage": {"total_tokens": 1000}}


def build(out: Path, url: str, questions: Any = None, **options: Any) -> Any:
    content = {"sources": ["wiki"], "rerank": {"model": f"small@{url}", "from": 5}}
    knowledge = Knowledge.model_validate(content)
    return build_pool_file(questions or QUESTIONS, [Lakes()], 5, out, knowledge, options=RunOptions(**options))


def test_a_pool_file_keeps_scores_so_that_arms_need_no_reranker(tmp_path: Path) -> None:
    out = tmp_path / "pools.jsonl"
    with openai_server(by_last_digit) as server:
        build(out, server.url)
        build(out, server.url)  # the same command again
        assert len(server.requests) == len(QUESTIONS)
        name = f"small@{server.url}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pools.calls.sqlite", "pools.jsonl"]
    for keep in (1, 3):
        done = madke.run(
            QUESTIONS,
            model=retriever(),
            sources="wiki",
            pools=out,
            settings={"rounds": 1, "rerank": {"model": name, "from": 4, "keep": keep}},
            out=tmp_path / f"keep-{keep}",
        )
        first = next(iter(done.transcripts()))
        assert [before for _, before in keys(first)] == [3, 2, 1][:keep]
        assert first.usage["rerank"].prompt_tokens == 1000  # counted as the cost of the arm, and not paid again
        assert first.usage["rerank"].paid == 0


@pytest.mark.parametrize("price", ["{prompt: 1000, completion: 0}", "{search: 1000}"])  # 1 for each request
def test_max_cost_stops_a_build_and_a_higher_one_goes_on(tmp_path: Path, price: str) -> None:
    out, prices = tmp_path / "pools.jsonl", tmp_path / "prices.yaml"
    prices.write_text(f"small: {price}\n")
    with openai_server(by_last_digit) as server:
        with pytest.raises(UserError, match="--max-cost needs the price of 'small'"):
            build(out, server.url, max_cost=1.5)
        with pytest.raises(Unfinished, match="--max-cost; the same command goes on, with a higher limit"):
            build(out, server.url, max_cost=1.5, prices=prices, concurrency=1)
        assert len(server.requests) == 2
        assert not out.exists()
        build(out, server.url, max_cost=9, prices=prices, concurrency=1)
        assert len(server.requests) == 3
    assert len(read_pools(out)) == 3
    with CallStore(calls_beside(out)) as store:
        usage = store.paid()["", "small"].usage
        assert (usage.prompt_tokens, usage.searches) == (3000, 3)
