"""Calls a second, and our own CPU a call, of a MADKE run over generated questions, against a loopback server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from eval.benchmarks.measure import Result, Setting, duration, generated_corpus
from madke.core.chat import ChatRequest
from madke.models.chat_models import close, open_model
from madke.models.scripted import ScriptedChat
from madke.retrieval.indexes.corpus import read_corpus
from madke.runs.request import RunOptions, RunRequest
from madke.runs.runner import execute
from madke.runs.spec import resolve

MODEL = "openai/m"
CONCURRENCY = 64
_EACH_SOURCE = 5
_RATIO, _OWN_CPU = 0.6, 0.3e-3


class Taken(NamedTuple):
    """What some calls took."""

    rate: float
    """Calls a second."""
    cpu: float
    """CPU seconds a call, of all threads of this process."""


def _reply(request: ChatRequest) -> str:
    return "The most helpful is [0]." if request.purpose.stage == "select" else "The answer is [Lake Baikal]."


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


def generated_run(folder: Path, count: int) -> RunRequest:
    """A run over generated questions, with a pool of ten different passages of 100 words for each."""
    files = folder / f"questions-{count}.jsonl", folder / f"pools-{count}.jsonl"
    passages = read_corpus(generated_corpus(folder, 2 * _EACH_SOURCE * count))
    with files[0].open("w") as questions, files[1].open("w") as pools:
        for number in range(count):
            question = {"id": str(number), "question": f"Which lake is the deepest, in survey {number}?"}
            print(json.dumps({**question, "golden_answers": ["Lake Baikal"]}), file=questions)
            found = [
                {"source": source, "key": passage.id, "title": passage.title, "text": passage.text, "rank": rank}
                for source in ("wiki", "google")
                for rank, passage in enumerate(islice(passages, _EACH_SOURCE))
            ]
            print(json.dumps({**question, "passages": found, "partial": {}}), file=pools)
    return RunRequest(questions=files[0], model=MODEL, pools=files[1])


def calls(setting: Setting) -> Iterator[Result]:
    """Calls a second, and our own CPU a call, of a run, against a bare loop over the same requests and client."""
    count = 30 if setting.quick else 1_000
    # It answers at once, as the server does, and keeps the requests.
    recorder = ScriptedChat(_reply)
    runs: list[Taken] = []
    alone: list[Taken] = []
    with server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        request = generated_run(Path(folder), count)
        _run(replace(request, model=recorder), Path(folder) / "recorded", None)
        _bare(recorder.requests[:count], url)  # imports
        for number in range(1 if setting.quick else 6):
            runs.append(_run(request, Path(folder) / str(number), url))
            alone.append(_bare(recorder.requests, url))
    rate, bare_rate = max(taken.rate for taken in runs), max(taken.rate for taken in alone)
    client = min(taken.cpu for taken in alone)
    own = min(taken.cpu for taken in runs) - client
    yield Result(
        "calls a second",
        f"{rate:,.0f} in a run",
        f"{bare_rate:,.0f} bare ({len(recorder.requests):,} calls, {CONCURRENCY} at once)",
        rate / bare_rate,
        f"at least {_RATIO}",
        rate / bare_rate >= _RATIO,
    )
    yield Result(
        "our own CPU",
        f"{1000 * own:.2f} ms a call",
        f"{1000 * client:.2f} ms of the client's",
        own / client,
        f"at most {duration(_OWN_CPU)}",
        own <= _OWN_CPU,
    )


def _run(request: RunRequest, folder: Path, url: str | None) -> Taken:
    """What ``madke run`` does with the questions, from its pool file to the transcripts; scores and report left out."""
    spec = resolve(request)

    async def run() -> int:
        meter = await execute(spec, folder, RunOptions(base_url=url, concurrency=CONCURRENCY))
        assert (meter.failed, meter.left_over) == (0, 0)
        return meter.calls

    return _taken(run())


def _bare(requests: Sequence[ChatRequest], url: str) -> Taken:
    """The requests alone, through the same client."""
    left = iter(requests)

    async def ask() -> int:
        model = open_model(MODEL, base_url=url)

        async def work() -> None:
            for request in left:
                await model.complete(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(work())
        await close(model)
        return len(requests)

    return _taken(ask())


def _taken(work: Coroutine[Any, Any, int]) -> Taken:
    """What it takes; it returns its number of calls."""
    began, cpu = time.perf_counter(), time.process_time()
    made = asyncio.run(work)
    return Taken(made / (time.perf_counter() - began), (time.process_time() - cpu) / made)
