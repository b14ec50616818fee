"""``madke pool build`` and ``madke ablate`` with query stages and rerankers, against servers on the loopback."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from tests.support.cli import madke, started
from tests.support.openai_server import Reply, chat, error, openai_server

WEB = {"title": "T", "snippet": "", "link": ""}


def write_inputs(folder: Path, count: int) -> tuple[Path, str]:
    """Questions, and a source with three results for each; results of a rewritten query differ."""
    questions, results = folder / "q.jsonl", folder / "web.jsonl"
    texts = [f"Which lake is deepest, in survey {n}?" for n in range(count)]
    lines = [{"id": f"q{n}", "question": text, "golden_answers": ["Baikal"]} for n, text in enumerate(texts)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [
        {
            "query": query,
            "results": [
                {"title": f"T{n}", "snippet": f"{n} of {query}", "link": f"https://l.example/{query}/{n}"}
                for n in range(3)
            ],
        }
        for query in [*texts, "deep lakes"]
    ]
    results.write_text("".join(json.dumps(line) + "\n" for line in found))
    return questions, f"web={results}"


def retrieving(body: dict[str, Any], n: int) -> Reply:
    prompt = body["messages"][-1]["content"]
    if "Ranking:" in prompt:
        count = len(re.findall(r"^Knowledge \d", prompt, re.MULTILINE))
        return chat("Ranking: " + " > ".join(f"[{place}]" for place in reversed(range(count))))
    return chat("[Search: deep lakes]" if "[Search:" in prompt else "The answer is [Baikal].")


def build(questions: Path, source: str, url: str, out: Path, *more: object) -> tuple[object, ...]:
    stages = ("--query", "rewrite", "--rerank", "llm", "--rerank-from", 3)
    where = ("--model", "openai/m", "--base-url", url, "--concurrency", 4)
    return ("pool", "build", questions, "--sources", source, *stages, *where, "--out", out, *more)


def test_a_plan_prices_the_calls_of_the_stages_and_makes_none(tmp_path: Path) -> None:
    questions, source = write_inputs(tmp_path, 10)
    prices = tmp_path / "prices.yaml"
    prices.write_text("openai/m: {prompt: 0.15, completion: 0.6}\n")  # so low that the whole costs less than a cent
    with openai_server(error(500, "no")) as server:
        done = madke(*build(questions, source, server.url, tmp_path / "p.jsonl", "--plan", "--prices", prices))
    assert done.returncode == 0, done.stderr
    assert not server.requests
    assert not (tmp_path / "p.jsonl").exists()
    (row,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("(pools)")]
    assert row[1:4] == ["10", "20", "20"]  # pools, calls, new calls
    assert float(row[-1]) > 0


def test_a_killed_build_goes_on_without_making_a_finished_call_again(tmp_path: Path) -> None:
    questions, source = write_inputs(tmp_path, 30)
    out, reached = tmp_path / "pools.jsonl", threading.Event()

    def reply(body: dict[str, Any], n: int) -> Reply:
        if n == 25:
            reached.set()
        if n >= 25 and not again:
            time.sleep(60)
        return retrieving(body, n)

    again: list[bool] = []
    with openai_server(reply) as server:
        arguments = build(questions, source, server.url, out)
        with started(*arguments) as running:
            assert reached.wait(60)
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert not out.exists()
        again.append(True)
        done = madke(*arguments)
        assert done.returncode == 0, done.stderr
        prompts = Counter(json.dumps(seen.body["messages"]) for seen in server.requests)
    assert len(prompts) == 60
    assert sum(prompts.values()) - 60 <= 4  # those in flight
    with CallStore(tmp_path / "pools.calls.sqlite") as store:
        assert Counter(call.purpose.stage for call in store.recorded())["rerank"] == 30
    line = json.loads(out.read_text().splitlines()[0])
    assert line["queries"]["rewrite"]["queries"] == ["deep lakes"]
    assert {each.get("query") for each in line["passages"]} == {None, "deep lakes"}
    assert [each["before"] for each in line["reranked"][0]["passages"]] == [2, 1, 0]


RECIPE = """
title: Retrieval
source: a test
base: {protocol: rag, sources: web}
arms:
  - {name: plain}
  - {name: reranked, set: {rerank: {model: llm, from: 3, keep: 1}}}
  - {name: both, set: {query: rewrite, rerank: {model: llm, from: 3, keep: 1}}}
  - {name: one, protocol: cot}
  - {name: as-dear, protocol: self-consistency, match_cost: {arm: both, by: calls, unit: one}}
"""


def test_arms_share_one_frozen_file_and_count_the_calls_of_their_pools(tmp_path: Path) -> None:
    questions, source = write_inputs(tmp_path, 4)
    recipe, out = tmp_path / "r.yaml", tmp_path / "out"
    recipe.write_text(RECIPE.replace("sources: web", f"sources: '{source}'"))
    with openai_server(retrieving) as server:
        where = ("--model", "openai/m", "--base-url", server.url, "--out", out)
        done = madke("ablate", recipe, "--data", questions, *where)
        assert done.returncode == 0, done.stderr
        before = len(server.requests)
        again = madke("ablate", recipe, "--data", questions, *where)
        assert again.returncode == 0, again.stderr
        assert len(server.requests) == before
    arms = {path.name: list(read_transcripts(path)) for path in (out / "arms").iterdir()}
    calls = {name: {sum(used.calls for used in each.usage.values()) for each in found} for name, found in arms.items()}
    assert calls == {"plain": {1}, "reranked": {2}, "both": {3}, "one": {1}, "as-dear": {3}}
    with CallStore(out / "calls.sqlite") as store:
        paid = {payer: bill.calls for (payer, _), bill in store.paid(without=("search",)).items()}
    assert paid["(pools)"] == 12  # a query and two rerankings of each question
    assert len((out / "pools.jsonl").read_text().splitlines()) == 4
    first = {name: next(each for each in found if each.id == "q0") for name, found in arms.items()}
    assert [(entry.key[-1], entry.before) for entry in first["reranked"].pool] == [("2", 2)]
    assert [entry.before for entry in first["plain"].pool] == [None] * 3
    (pools_row,) = [line for line in done.stdout.splitlines() if "(pools)" in line and "12" in line.split()][:1]
    assert pools_row


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--rerank", "nobody"), "unknown reranker 'nobody'; expected llm, hf/NAME_OR_PATH, NAME@URL"),
        (("--rerank", "small@http://127.0.0.1:9"), "cannot be reached"),
        (("--query", "rewrite", "--model", "openai/m", "--max-cost", "1"), "--max-cost needs the price of 'openai/m'"),
    ],
)
def test_bad_stages_are_refused_before_any_search(more: tuple[str, ...], message: str, tmp_path: Path) -> None:
    questions, source = write_inputs(tmp_path, 1)
    done = madke("pool", "build", questions, "--sources", source, *more, "--out", tmp_path / "p.jsonl")
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "p.jsonl").exists()
