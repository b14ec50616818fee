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
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.measure import Setting, anonymous_memory, duration, report, size
from eval.benchmarks.runs import CALLS_EACH, CONCURRENCY, MODEL, server
from madke.core.knowledge import Hits, Passage

CLIENTS = 200
DEBATES = 2_000
TURNS = 4
"""Of server and run. Memory is measured the first time after one: caches are full then."""
QUICK = 20
LATENCY = 0.05
OVERHEAD = 1.2
GROWTH = 30e6
ANSWER = "Lake Baikal"


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
_OPTIONS = ("-m", MODEL, "--sources", f"lakes={__name__}:LAKES", "--concurrency", str(CONCURRENCY))


@dataclass(kw_only=True)
class _Served:
    """What the clients saw."""

    right: int = 0
    other: int = 0
    """Errors and wrong answers."""


def serve(setting: Setting) -> None:
    """Ask all questions as clients, then run them."""
    count, turns = (QUICK, 1) if setting.quick else (DEBATES, TURNS)
    questions = [f"Which lake is the deepest, in survey {number}?" for number in range(count)]
    part = count // turns
    seen, served, memory, costs, alone_costs = _Served(), 0.0, [], [], []
    with (
        server(LATENCY) as url,
        tempfile.TemporaryDirectory(dir=setting.folder) as temporary,
        _running_server(Path(temporary) / "served", url) as (process, port),
    ):
        folder = Path(temporary)
        data = folder / "questions.jsonl"
        records = ({"id": str(n), "question": q, "golden_answers": [ANSWER]} for n, q in enumerate(questions))
        data.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        start = _run(data, folder / "one", url, limit=1)
        asyncio.run(_ask(port, questions[:1], seen))  # imports, and the run is opened
        for turn in range(turns):
            asked = questions[max(1, turn * part) : (turn + 1) * part]
            began, cpu = time.perf_counter(), _cpu(process)
            asyncio.run(_ask(port, asked, seen))
            served += time.perf_counter() - began
            costs.append((_cpu(process) - cpu) / len(asked))
            memory.append(anonymous_memory(process))
            alone_costs.append((_run(data, folder / f"run-{turn}", url, limit=part) - start) / (part - 1))
    each, alone = min(costs), min(alone_costs)
    report(
        "serve",
        f"{seen.right:,} of {count:,} answers right, {seen.other} lost, {CLIENTS} clients at once, {duration(served)}",
        aim="none lost",
        met=(seen.right, seen.other) == (count, 0),
    )
    report(
        "serve, CPU",
        f"{duration(each)} a debate of {CALLS_EACH} calls",
        f"{duration(alone)} in madke run",
        each / alone,
        f"at most {OVERHEAD}",
        each <= OVERHEAD * alone,
    )
    report(
        "serve, memory",
        f"{size(memory[-1])} after {count:,} debates",
        f"{size(memory[0])} after {part:,}",
        memory[-1] / memory[0],
        f"below {size(GROWTH)} of growth",
        memory[-1] - memory[0] < GROWTH,
    )


@contextmanager
def _running_server(out: Path, url: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server."""
    command = [sys.executable, "-m", "madke", "serve", "--out", str(out), "--port", "0", "--protocols", "madke"]
    command += [*_OPTIONS, "--base-url", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_environment()) as process:
        try:
            assert process.stderr is not None
            yield process.pid, int(process.stderr.readline().rsplit(":", 1)[1].removesuffix("/v1\n"))
        finally:
            process.terminate()


def _run(data: Path, out: Path, url: str, *, limit: int) -> float:
    """CPU seconds of ``madke run`` without scores and report."""
    script = (
        "import asyncio, sys; from pathlib import Path; import madke; from madke.runs.spec import resolve\n"
        "from madke.runs.request import RunRequest; from madke.runs.runner import execute\n"
        "data, out, url, limit, sources, concurrency = sys.argv[1:]\n"
        f"request = RunRequest(questions=Path(data), model={MODEL!r}, sources=sources, limit=int(limit))\n"
        "options = madke.RunOptions(base_url=url, concurrency=int(concurrency))\n"
        "meter = asyncio.run(execute(resolve(request), Path(out), options))\n"
        "assert (meter.done, meter.failed) == (int(limit), 0)\n"
    )
    arguments = [str(data), str(out), url, str(limit), _OPTIONS[3], _OPTIONS[5]]
    with subprocess.Popen([sys.executable, "-c", script, *arguments], env=_environment()) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": "none"}


def _cpu(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _ask(port: int, questions: Sequence[str], seen: _Served) -> None:
    """All questions, by clients that keep their connections."""
    left = iter(questions)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for question in left:
            body = json.dumps({"model": "madke", "messages": [{"role": "user", "content": question}]}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            answer = json.loads(await reader.readexactly(length))
            right = "choices" in answer and answer["choices"][0]["message"]["content"].startswith(ANSWER)
            seen.right += right
            seen.other += not right
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CLIENTS, len(questions))):
            group.create_task(client())
