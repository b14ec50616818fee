"""``madke serve`` before 200 clients at once: what gets lost, memory over all debates, CPU time against ``madke run``.

Server and run are processes of their own, with the same questions, source and endpoint, which takes 50 ms a call. CPU
time is compared because clients and endpoint share the cores with the server. Both take turns, and the least of each
counts: a machine that does something else as well makes CPU time longer, and not always equally.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from eval.benchmarks.measure import Setting, anonymous_memory, duration, ended, report, size
from eval.benchmarks.runs import CALLS_EACH, CONCURRENCY, MODEL, server
from madke.core.knowledge import Hits, Passage

CLIENTS, DEBATES, QUICK = 200, 2_000, 20
TURNS = 4
"""Of server and run. Memory is measured the first time after one: caches are full then."""
LATENCY, OVERHEAD, GROWTH = 0.05, 1.2, 30e6
ANSWER = "Lake Baikal"
_ENVIRONMENT = {**os.environ, "OPENAI_API_KEY": "none"}
_PASSAGES = tuple(
    Passage(source="wiki", key=str(n), title=f"Lake {n}", text="A lake of some depth. " * 20, score=1.0, rank=n)
    for n in range(10)
)


class Lakes:
    """A source that costs nothing."""

    name = "lakes"
    description = "ten generated passages"
    fingerprint = "1"

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """The same passages for every query."""
        return [Hits(passages=_PASSAGES[:k])] * len(queries)


LAKES = Lakes()


def serve(setting: Setting) -> None:
    """Ask all questions as clients, then run them."""
    count, turns = (QUICK, 1) if setting.quick else (DEBATES, TURNS)
    questions = [f"Which lake is the deepest, in survey {number}?" for number in range(count)]
    part = count // turns
    right, served, memory, costs, alone_costs = 0, 0.0, [], [], []
    with (
        server(LATENCY) as url,
        tempfile.TemporaryDirectory(dir=setting.folder) as temporary,
        _running_server(Path(temporary) / "served", url) as (process, port),
    ):
        data = Path(temporary) / "questions.jsonl"
        records = ({"id": str(n), "question": q, "golden_answers": [ANSWER]} for n, q in enumerate(questions))
        data.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        start = _run(data, Path(temporary) / "one", url, limit=1)
        right += asyncio.run(_ask(port, questions[:1]))  # imports, and the run is opened
        for turn in range(turns):
            asked = questions[max(1, turn * part) : (turn + 1) * part]
            began, cpu = time.perf_counter(), _cpu(process)
            right += asyncio.run(_ask(port, asked))
            served += time.perf_counter() - began
            costs.append((_cpu(process) - cpu) / len(asked))
            memory.append(anonymous_memory(process))
            alone_costs.append((_run(data, Path(temporary) / f"run-{turn}", url, limit=part) - start) / (part - 1))
    each, alone, grown = min(costs), min(alone_costs), memory[-1] - memory[0]
    shown = f"{right:,} of {count:,} answers right, {CLIENTS} clients at once, {duration(served)}"
    report("serve", shown, aim="none lost", met=right == count)
    ours, theirs = f"{duration(each)} a debate of {CALLS_EACH} calls", f"{duration(alone)} in madke run"
    report("serve, CPU", ours, theirs, each / alone, f"at most {OVERHEAD}", each <= OVERHEAD * alone)
    ours, theirs = f"{size(memory[-1])} after {count:,} debates", f"{size(memory[0])} after {part:,}"
    report("serve, memory", ours, theirs, memory[-1] / memory[0], f"below {size(GROWTH)} of growth", grown < GROWTH)


@contextmanager
def _running_server(out: Path, url: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server."""
    command = [sys.executable, "-m", "madke", "serve", "--out", str(out), "--port", "0", "--protocols", "madke"]
    command += ["-m", MODEL, "--sources", f"lakes={__name__}:LAKES", "--concurrency", str(CONCURRENCY)]
    command += ["--base-url", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_ENVIRONMENT) as process:
        try:
            assert process.stderr is not None
            yield process.pid, int(process.stderr.readline().rsplit(":", 1)[1].removesuffix("/v1\n"))
        finally:
            process.terminate()


def _run(data: Path, out: Path, url: str, *, limit: int) -> float:
    """CPU seconds of ``madke run`` without scores and report."""
    script = f"""
import asyncio, madke
from pathlib import Path
from madke.runs.runner import execute
from madke.runs.spec import resolve
sources = "lakes={__name__}:LAKES"
request = madke.RunRequest(questions={str(data)!r}, model={MODEL!r}, sources=sources, limit={limit})
options = madke.RunOptions(base_url={url!r}, concurrency={CONCURRENCY})
meter = asyncio.run(execute(resolve(request), Path({str(out)!r}), options))
assert (meter.done, meter.failed) == ({limit}, 0)
"""
    with subprocess.Popen([sys.executable, "-c", script], env=_ENVIRONMENT) as process:
        return ended(process)


def _cpu(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _ask(port: int, questions: Sequence[str]) -> int:
    """The number of right answers to all questions, by clients that keep their connections."""
    left, right = iter(questions), 0

    async def client() -> None:
        nonlocal right
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as http:
            for question in left:
                asked = {"model": "madke", "messages": [{"role": "user", "content": question}]}
                reply = (await http.post("/v1/chat/completions", json=asked)).json()
                right += "choices" in reply and reply["choices"][0]["message"]["content"].startswith(ANSWER)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CLIENTS, len(questions))):
            group.create_task(client())
    return right
