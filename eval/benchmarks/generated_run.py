"""A MADKE run over generated questions against the benchmarks' server, and the same calls without us around them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from eval.benchmarks.measure import Setting, generated_corpus
from madke.core.chat import ChatRequest, Completion
from madke.core.knowledge import KnowledgePool, Passage
from madke.data import read_dataset
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.indexing.corpus import read_corpus
from madke.llm import close, open_model
from madke.runs.job import resolved
from madke.runs.options import RunOptions
from madke.runs.request import RunRequest
from madke.runs.run_pools import RunPools
from madke.runs.runner import execute
from madke.tasks import get_task
from madke.variants import load_variant

CALLS_EACH = 6
"""Calls of a question whose debaters agree in round 1: two select, two speak, a judge, a summarizer."""

MODEL = "openai/m"
_EACH_SOURCE = 5

POOL = KnowledgePool(
    passages=tuple(
        Passage(source="wiki", key=str(n), title=f"Lake {n}", text="A lake of some depth. " * 20, score=1.0, rank=n)
        for n in range(10)
    )
)
"""For those who measure something else than knowledge."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Generated questions, with a pool of ten different passages of 100 words for each."""

    questions: Path
    pools: Path
    count: int


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What some calls took."""

    calls: int
    seconds: float
    cpu: float
    """Seconds of this process, all its threads."""

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds

    @property
    def cpu_each(self) -> float:
        """CPU seconds a call."""
        return self.cpu / self.calls


@contextmanager
def server(latency: float = 0.0) -> Iterator[str]:
    """The base URL of a server, in a process of its own, that takes ``latency`` seconds for a call."""
    command = [sys.executable, "-m", "eval.benchmarks.server", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


@contextmanager
def transport(name: Literal["aiohttp", "httpx"]) -> Iterator[None]:
    """The transport of every client that is opened in this process meanwhile."""
    before = os.environ.get("MADKE_TRANSPORT")
    os.environ["MADKE_TRANSPORT"] = name
    try:
        yield
    finally:
        del os.environ["MADKE_TRANSPORT"]
        if before is not None:
            os.environ["MADKE_TRANSPORT"] = before


def generated_data(setting: Setting, count: int) -> Data:
    """So many questions and their pools, in the setting's folder."""
    folder = setting.folder
    data = Data(questions=folder / f"questions-{count}.jsonl", pools=folder / f"pools-{count}.jsonl", count=count)
    passages = read_corpus(generated_corpus(folder, 2 * _EACH_SOURCE * count))
    with data.questions.open("w") as questions, data.pools.open("w") as pools:
        for number in range(count):
            asked = {"id": str(number), "question": f"Which lake is the deepest, in survey {number}?"}
            print(json.dumps({**asked, "golden_answers": ["Lake Baikal"]}), file=questions)
            found = [
                {"source": source, "key": passage.id, "title": passage.title, "text": passage.text, "rank": rank}
                for source in ("wiki", "google")
                for rank, passage in enumerate(islice(passages, _EACH_SOURCE))
            ]
            print(json.dumps({**asked, "passages": found, "partial": {}}), file=pools)
    return data


def run(data: Data, url: str, folder: Path, *, concurrency: int, replay: bool = False) -> Taken:
    """What ``madke run`` does with the questions, from its pool file to the transcripts; scores and report left out."""
    job = resolved(RunRequest(questions=data.questions, model=MODEL, pools=data.pools))
    options = RunOptions(base_url=url, concurrency=concurrency, replay=replay)
    began, cpu = time.perf_counter(), time.process_time()
    meter = asyncio.run(execute(job, folder, options))
    taken = Taken(calls=data.count * CALLS_EACH, seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)
    assert (meter.done, meter.failed) == (data.count, 0)
    assert meter.calls == (0 if replay else taken.calls)
    return taken


def requests_of(data: Data) -> list[ChatRequest]:
    """The requests of that run, from debates with a model that answers at once."""
    questions, variant = read_dataset(data.questions), load_variant("madke")
    pools = RunPools(data.pools, variant.protocol.knowledge, questions)
    model = _Recorder()
    cast = dict.fromkeys(variant.protocol.roles, model)

    async def all_debates() -> None:
        for question in questions:
            task = get_task(question.task)
            await hold_debate(
                Scene(question, variant.protocol, cast, pools.of(question), task=task, prompts=variant, seed=0)
            )

    asyncio.run(all_debates())
    return model.requests


def bare(requests: Sequence[ChatRequest], url: str, *, concurrency: int) -> Taken:
    """The requests alone, through the same client, so many at a time."""
    left = iter(requests)

    async def loop() -> None:
        model = open_model(MODEL, base_url=url)

        async def work() -> None:
            for request in left:
                await model.complete(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
        await close(model)

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(loop())
    return Taken(calls=len(requests), seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)


class _Recorder:
    """Says what the server says, and keeps what it was asked."""

    name = MODEL

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        replies = {"select": "The most helpful is [0].", "judge": "Verdict: [SAME]"}
        return Completion(text=replies.get(request.purpose.stage, "The answer is [Lake Baikal]."))
