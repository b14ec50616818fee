"""Calls a second of a whole run against a bare loop on the same client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval.benchmarks.measure import Setting
from madke.core.chat import ChatModel, ChatRequest, Message, Purpose
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.llm import CallStore, Limiter, close, open_model
from madke.runs.batch import run_batch
from madke.runs.cast import guarded
from madke.runs.config import RunConfig
from madke.runs.directory import RunDirectory, RunFiles
from madke.runs.meter import Meter
from madke.variants import load_variant

QUESTIONS = 300
QUICK = 30
CALLS_EACH = 6
CONCURRENCY = 32
POOL = KnowledgePool(
    passages=tuple(
        Passage(source="wiki", key=str(n), title=f"Lake {n}", text="A lake of some depth. " * 20, score=1.0, rank=n)
        for n in range(10)
    )
)


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a benchmark server in a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "eval.benchmarks.server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


async def bare(url: str, calls: int) -> float:
    """Seconds for so many calls of the client alone, ``CONCURRENCY`` at a time."""
    model = open_model("openai/m", base_url=url)
    text = "\n".join(passage.text for passage in POOL.passages)
    messages = (Message(role="system", content="Be brief."), Message(role="user", content=text))
    left = iter(range(calls))

    async def work() -> None:
        for n in left:
            purpose = Purpose(question=str(n), stage="speak", agent="a", round=1)
            await model.complete(ChatRequest(messages=messages, purpose=purpose, temperature=0.5, max_tokens=64))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())
    seconds = time.perf_counter() - started
    await close(model)
    return seconds


async def whole(url: str, questions: int, folder: Path) -> float:
    """Seconds for a MADKE run over so many questions, call store and transcripts included."""
    variant = load_variant("madke")
    model: ChatModel = open_model("openai/m", base_url=url)
    asked = [Question(id=str(n), question=f"Which lake is the deepest, in survey {n}?") for n in range(questions)]
    config = RunConfig(
        data="generated",
        data_sha256="",
        questions=tuple(question.id for question in asked),
        variant="madke",
        protocol=variant.protocol,
        prompts_sha256={},
        models={},
        sources={},
        source_specs={},
        pools_sha256=None,
        seed=0,
        repeats=1,
    )
    started = time.perf_counter()
    with RunDirectory(folder) as directory, CallStore(folder / "calls.sqlite") as store:
        directory.begin(config, RunFiles(calls=store.path, pools=None))
        meter = Meter(total=questions)
        models = dict.fromkeys(variant.protocol.roles, model)
        cast = guarded(models, limiter=Limiter(CONCURRENCY), store=store, meter=meter)
        pools = dict.fromkeys((question.id for question in asked), POOL)
        await run_batch(
            asked,
            variant.protocol,
            cast,
            lambda question: pools[question.id],
            prompts=variant,
            directory=directory,
            meter=meter,
            workers=CONCURRENCY,
            seed=0,
        )
    seconds = time.perf_counter() - started
    await close(model)
    assert (meter.calls, meter.failed) == (questions * CALLS_EACH, 0)
    return seconds


def main(setting: Setting) -> None:
    """Measure both and print the ratio."""
    questions = QUICK if setting.quick else QUESTIONS
    calls = questions * CALLS_EACH
    with server() as url, tempfile.TemporaryDirectory() as folder:
        asyncio.run(bare(url, calls // 10))  # warm up imports and connections
        baseline = calls / asyncio.run(bare(url, calls))
        ours = calls / asyncio.run(whole(url, questions, Path(folder) / "run"))
    print(f"throughput: {ours:.0f} calls/s in a run, {baseline:.0f} bare, ratio {ours / baseline:.2f} ({calls} calls)")
