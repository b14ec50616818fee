"""MADKE runs over generated questions against a loopback server: calls a second, and memory over a long run."""

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

from eval.benchmarks.measure import Setting, anonymous_memory, duration, generated_corpus, report, size
from madke.core.chat import ChatRequest, Completion
from madke.data import read_dataset
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.chat_models import close, open_model
from madke.retrieval.indexes.corpus import read_corpus
from madke.runs.request import RunOptions, RunRequest
from madke.runs.runner import RunPools, execute
from madke.runs.spec import resolve
from madke.tasks import get_task

CALLS_EACH = 5
"""Calls of a question whose debaters agree in round 1: two select, two speak, a summarizer; no judge is asked."""
MODEL = "openai/m"
CONCURRENCY = 64
_EACH_SOURCE = 5
_RATIO, _OWN_CPU = 0.6, 0.3e-3
_GROWTH, _RESUME, _REPLAY, _STORED = 30e6, 3.0, 3_000.0, 3_000


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
    requests = _requests_of(data)
    runs: list[Taken] = []
    alone: list[Taken] = []
    with server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
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


def memory(setting: Setting) -> None:
    """RssAnon of ``madke run``; bytes of call store a call; a resume with nothing to do; a replay."""
    count, warm = (300, 50) if setting.quick else (20_000, 1_000)
    data = generated_data(setting, count)
    with server() as url, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        out = Path(folder) / "run"
        looks, seconds = _watched(data, url, out)
        store = sum(file.stat().st_size for file in out.glob("calls.sqlite*"))
        _, resumed = _watched(data, url, out)
        fewer = generated_data(setting, warm)
        _run(fewer, url, Path(folder) / "replayed")
        replayed = _run(fewer, url, Path(folder) / "replayed", replay=True)
    # After the last question, scores and report are made.
    during = [(questions, held) for questions, held in looks if warm <= questions < count]
    (questions, first), most = during[0], max(held for _, held in during)
    report(
        "memory",
        f"{size(most)} at most up to question {count:,}",
        f"{size(first)} at question {questions:,}",
        most / first,
        f"below {size(_GROWTH)} of growth",
        most - first < _GROWTH,
    )
    stored = store / (count * CALLS_EACH)
    report("call store", f"{stored:,.0f} bytes a call", aim=f"at most {_STORED:,} bytes a call", met=stored <= _STORED)
    report(
        f"resume of {count:,} finished questions",
        duration(resumed),
        f"{duration(seconds)} for the run",
        resumed / seconds,
        f"below {_RESUME:.0f} s",
        resumed < _RESUME,
    )
    report(
        f"replay of {fewer.count:,} questions",
        f"{replayed.rate:,.0f} calls/s",
        aim=f"at least {_REPLAY:,.0f}",
        met=replayed.rate >= _REPLAY,
    )


def _run(data: Data, url: str, folder: Path, *, replay: bool = False) -> Taken:
    """What ``madke run`` does with the questions, from its pool file to the transcripts; scores and report left out."""
    spec = resolve(RunRequest(questions=data.questions, model=MODEL, pools=data.pools))
    options = RunOptions(base_url=url, concurrency=CONCURRENCY, replay=replay)
    began, cpu = time.perf_counter(), time.process_time()
    meter = asyncio.run(execute(spec, folder, options))
    taken = Taken(calls=data.count * CALLS_EACH, seconds=time.perf_counter() - began, cpu=time.process_time() - cpu)
    assert (meter.done, meter.failed) == (data.count, 0)
    assert meter.calls == (0 if replay else taken.calls)
    return taken


def _requests_of(data: Data) -> list[ChatRequest]:
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


class _Recorder:
    """Replies as the server does, and keeps the requests."""

    name = MODEL

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        replies = {"select": "The most helpful is [0].", "judge": "Verdict: [SAME]"}
        return Completion(text=replies.get(request.purpose.stage, "The answer is [Lake Baikal]."))


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


def _watched(data: Data, url: str, out: Path) -> tuple[list[tuple[int, int]], float]:
    """(transcripts written, bytes of RssAnon) of ``madke run`` a few times a second, and its seconds."""
    named = {"--protocol": "madke", "--model": MODEL, "--base-url": url, "--pools": data.pools, "--out": out}
    options = [str(part) for pair in (*named.items(), ("--concurrency", CONCURRENCY)) for part in pair]
    looks: list[tuple[int, int]] = []
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "madke", "run", str(data.questions), *options]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        written = offset = 0
        while process.poll() is None:
            if (transcripts := out / "transcripts.jsonl").exists():
                with transcripts.open("rb") as file:
                    file.seek(offset)
                    while block := file.read(1 << 20):
                        written += block.count(b"\n")
                        offset += len(block)
            looks.append((written, anonymous_memory(process.pid)))
            time.sleep(0.2 if data.count > 1_000 else 0.01)
        seconds = time.perf_counter() - began
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"madke run failed: {output.read().decode(errors='replace')[-2000:]}")
    return looks, seconds
