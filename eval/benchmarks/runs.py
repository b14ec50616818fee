"""Calls a second, and our own CPU a call, of a MADKE run over generated questions, against a loopback server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from eval.benchmarks.measure import Setting, duration, generated_corpus, report
from madke.core.chat import ChatRequest
from madke.models.chat_models import close, open_model
from madke.models.scripted import ScriptedChat
from madke.retrieval.indexes.corpus import read_corpus
from madke.runs.request import RunOptions, RunRequest
from madke.runs.runner import execute
from madke.runs.spec import resolve

CALLS_EACH = 5
"""Calls of a question whose debaters agree in round 1: two select, two speak, a summarizer; no judge is asked."""
MODEL = "openai/m"
CONCURRENCY = 64
_EACH_SOURCE = 5
_RATIO, _OWN_CPU = 0.6, 0.3e-3


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
def server() -> Iterator[str]:
    """The base URL of a server in a process of its own."""
    command = [sys.executable, "-m", "eval.benchmarks.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def generated_data(setting: Setting, count: int) -> Data:
    """So many questions and their pools, in the setting's folder."""
    folder = setting.folder
    data = Data(questions=folder / f"questions-{count}.jsonl", pools=folder / f"pools-{count}.jsonl", count=count)
    passages = read_corpus(generated_corpus(folder, 2 * _EACH_SOURCE * count))
    with data.questions.open("w") as questions, data.pools.open("w") as pools:
        for number in range(count):
            question = {"id": str(number), "question": f"Which lake is the deepest, in survey {number}?"}
            print(json.dumps({**question, "golden_answers": ["Lake Baikal"]}), file=questions)
            found = [
                {"source": source, "key": passage.id, "title": passage.title, "text": passage.text, "rank": rank}
                for source in ("wiki", "google")
                for rank, passage in enumerate(islice(passages, _EACH_SOURCE))
            ]
            print(json.dumps({**question, "passages": found, "partial": {}}), file=pools)
    return data


def calls(setting: Setting) -> None:
    """Calls a second, and our own CPU a call, of a run, against a bare loop over the same requests and client."""
    data = generated_data(setting, 30 if setting.quick else 1_000)
    runs: list[Taken] = []
    alone: list[Taken] = []
    with server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        requests = _requests_of(data, Path(folder) / "requests")
        _bare(requests[: len(requests) // 5], url)  # imports
        for number in range(1 if setting.quick else 6):
            runs.append(_run(data, url, Path(folder) / str(number)))
            alone.append(_bare(requests, url))
    rate, bare_rate = max(taken.rate for taken in runs), max(taken.rate for taken in alone)
    client = min(taken.cpu_each for taken in alone)
    own = min(taken.cpu_each for taken in runs) - client
    report(
        "calls a second",
        f"{rate:,.0f} in a run",
        f"{bare_rate:,.0f} bare ({len(requests):,} calls, {CONCURRENCY} at once)",
        rate / bare_rate,
        f"at least {_RATIO}",
        rate / bare_rate >= _RATIO,
    )
    report(
        "our own CPU",
        f"{1000 * own:.2f} ms a call",
        f"{1000 * client:.2f} ms of the client's",
        own / client,
        f"at most {duration(_OWN_CPU)}",
        own <= _OWN_CPU,
    )


def _run(data: Data, url: str, folder: Path) -> Taken:
    """What ``madke run`` does with the questions, from its pool file to the transcripts; scores and report left out."""
    spec = resolve(RunRequest(questions=data.questions, model=MODEL, pools=data.pools))
    options = RunOptions(base_url=url, concurrency=CONCURRENCY)
    began, cpu = time.perf_counter(), time.process_time()
    meter = asyncio.run(execute(spec, folder, options))
    taken = Taken(calls=data.count * CALLS_EACH, seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)
    assert (meter.done, meter.failed, meter.calls) == (data.count, 0, taken.calls)
    return taken


def _requests_of(data: Data, folder: Path) -> list[ChatRequest]:
    """The requests of that run, from one with a model that answers at once, as the server does."""
    replies = {"select": "The most helpful is [0].", "judge": "Verdict: [SAME]"}
    model = ScriptedChat(lambda request: replies.get(request.purpose.stage, "The answer is [Lake Baikal]."))
    asyncio.run(
        execute(resolve(RunRequest(questions=data.questions, model=model, pools=data.pools)), folder, RunOptions())
    )
    return model.requests


def _bare(requests: Sequence[ChatRequest], url: str) -> Taken:
    """The requests alone, through the same client."""
    left = iter(requests)

    async def loop() -> None:
        model = open_model(MODEL, base_url=url)

        async def work() -> None:
            for request in left:
                await model.complete(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(work())
        await close(model)

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(loop())
    return Taken(calls=len(requests), seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)
