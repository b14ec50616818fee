"""A server that fails at nearly a third of all requests, in eight ways: a run gets its answers all the same."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from madke.models.openai_client import OpenAIChat
from madke.models.pipeline import CallPipeline
from madke.runs import runner
from madke.runs import spec as run_spec
from madke.runs.directory import read_transcripts
from madke.runs.request import RunOptions, RunRequest
from madke.runs.runner import execute
from madke.runs.spec import resolve
from tests.faults.test_faults import hang, reset
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import Reply, chat, error, openai_server

QUESTIONS = 40
FAULTS = 0.3


WAYS: tuple[Callable[[Any], Reply], ...] = (
    lambda server: error(429, "busy"),
    lambda server: error(500, "broken"),
    reset,
    hang,
    lambda server: (200, {}, '{"choices": ['),
    lambda server: (200, {"Content-Type": "text/html"}, "<html>The answer is [Lake Ladoga].</html>"),
    lambda server: chat(""),
    lambda server: chat(None),
)


class Faulty:
    """Debates, but fails at a share of the requests; which ones depends on the request and on how often it came."""

    def __init__(self) -> None:
        self.share = FAULTS
        self.server = None
        self.asked = 0
        self._seen: Counter[Any] = Counter()
        self._lock = threading.Lock()

    def reply(self, body: Any, n: Any) -> Any:
        request = json.dumps(body)
        with self._lock:
            self.asked += 1
            self._seen[request] += 1
            chance = Random(f"{self._seen[request]} {request}")
        if chance.random() >= self.share:
            return debating(body, n)
        return chance.choice(WAYS)(self.server)


def run(folder: Any, faulty: Any, monkeypatch: pytest.MonkeyPatch, **again: Any) -> Any:
    """One command; the transcripts of the run after it, by id."""

    async def no_sleep(seconds: Any) -> None:
        await asyncio.sleep(0)

    questions, pools = write_dataset(folder, QUESTIONS)
    with openai_server(faulty.reply) as server:
        faulty.server = server
        model = OpenAIChat("m", base_url=server.url, timeout=2.0)
        model.name = "openai/m"  # a server has another port each time
        monkeypatch.setattr(run_spec, "open_model", lambda *_, **__: model)
        monkeypatch.setattr(runner, "CallPipeline", partial(CallPipeline, sleep=no_sleep))
        spec = resolve(RunRequest(questions=questions, model="openai/m", pools=pools))
        asyncio.run(execute(spec, folder / "out", RunOptions(concurrency=8, **again)))
    return {t.id: t for t in read_transcripts(folder / "out")}


@pytest.mark.slow
def test_nearly_all_questions_are_answered_and_the_same_command_answers_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = Faulty()
    first = run(tmp_path, faulty, monkeypatch)
    assert len(first) == QUESTIONS
    assert sum(t.status == "ok" for t in first.values()) >= 38
    retries = sum(used.retries for t in first.values() for used in t.usage.values())
    assert retries > 0.2 * faulty.asked

    second = run(tmp_path, faulty, monkeypatch)
    assert [t.status for t in second.values()] == ["ok"] * QUESTIONS
    assert not any("Ladoga" in (t.answer or "") for t in second.values())

    degraded = {name for name, t in second.items() if t.degraded}
    faulty.share, faulty.asked = 0.0, 0
    third = run(tmp_path, faulty, monkeypatch, retry_degraded=True)
    assert not any(t.degraded for t in third.values())
    assert {name for name in second if second[name] != third[name]} == degraded
    # Each lost a call or two; what hangs on those is asked anew, the rest comes from the store.
    assert len(degraded) <= faulty.asked <= 10 * len(degraded)
