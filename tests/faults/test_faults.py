"""Everything a server can do wrong to one call of a run: retried or not as it should be, counted, never an answer.

Three questions are debated against a server on the loopback. Exactly one call is hit: the first time that a debater of
question q1 speaks. The transcripts of the others must be those of a run without faults.
"""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from madke.core.chat import retry_seed
from madke.core.transcript import to_json
from madke.models.openai_client import OpenAIChat
from madke.models.pipeline import CallPipeline, RetryPolicy
from madke.models.transport import MAX_REPLY, Transport
from madke.runs import runner
from madke.runs import spec as run_spec
from madke.runs.directory import read_transcripts
from madke.runs.request import RunOptions, RunRequest
from madke.runs.runner import execute
from madke.runs.spec import resolve
from tests.support.dataset import debating, stage_of, write_dataset
from tests.support.openai_server import LastWords, chat, error, openai_server

HIT = "q1"
QUESTIONS = 3
ATTEMPTS = 3
TRAP = "Lake Ladoga"
"""The answer in everything that must never become one."""

wire = pytest.mark.parametrize("transport", ["aiohttp", pytest.param("httpx", marks=pytest.mark.slow)])


@dataclass(frozen=True)
class Wrong:
    """What the server does to a call, and what should come of it."""

    reply: object
    """A reply of the server, or a function of it that makes one."""
    reason: str
    """Words in the reason that the transcript gives, where the call fails for good."""
    timeout: float = 20.0


KEY = "sk-faults-31415926"


def reset(server: Any) -> NoReturn:
    raise ConnectionResetError


def hang(server: Any) -> Any:
    server.stopping.wait(30)
    return chat(f"The answer is [{TRAP}].")


def drip(server: Any) -> Any:
    def pieces() -> Iterator[Any]:
        while not server.stopping.wait(0.05):
            yield b" "

    return 200, {}, pieces()


def flood(server: Any) -> Any:
    def pieces() -> Iterator[Any]:
        while not server.stopping.is_set():
            yield b" " * (1 << 20)

    return 200, {}, pieces()


HALF = (200, {"Content-Length": "9000"}, json.dumps(chat(f"The answer is [{TRAP}].")[2]))

BROKEN = {
    "reset": Wrong(reset, "connection failed"),
    "half-a-body": Wrong(HALF, "connection failed"),
    "closed-when-idle": Wrong(LastWords(), "connection failed"),
    "not-http": Wrong(LastWords(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "connection failed"),
    "hang": Wrong(hang, "in time", timeout=1.5),
    "slow-drip": Wrong(drip, "in time", timeout=1.5),
}
"""What the transports have to notice; it may pass."""

PASSING = {
    "429": Wrong(error(429, f"The answer is [{TRAP}]."), "HTTP 429"),
    "429-retry-after": Wrong(error(429, "slow down", {"Retry-After": "0.05"}), "HTTP 429"),
    "500": Wrong(error(500, f"The answer is [{TRAP}]."), "HTTP 500"),
    "invalid-json": Wrong((200, {}, f'{{"choices": [{{"message": {{"content": "[{TRAP}]'), "not JSON"),
    "error-with-200": Wrong(error(200, f"The answer is [{TRAP}]."), "without a reply"),
    "finish-reason-error": Wrong(chat(f"The answer is [{TRAP}].", finish_reason="error"), "without a reply"),
}
"""What a server says that may pass."""

EMPTY = {
    "empty": Wrong(chat(""), "empty"),
    "only-reasoning": Wrong(chat(f"<think>It is [{TRAP}]</think>"), "hidden reasoning"),
}
"""Replies without text: they are asked for again, with another seed."""

LASTING = {
    "401": Wrong(error(401, f"No key for [{TRAP}]"), "HTTP 401"),
    "no-quota": Wrong(error(429, f"Pay for [{TRAP}]", code="insufficient_quota"), "HTTP 429"),
    "only-reasoning-at-length": Wrong(chat(f"<think>It is [{TRAP}]", finish_reason="length"), "max_tokens"),
    "the-key": Wrong(chat(f"The answer is [{TRAP}]. Bearer {KEY}"), "API key"),
    "refusal": Wrong(chat(None, refusal=f"I will not say [{TRAP}]."), "refused"),
    "content-filter": Wrong(chat(f"The answer is [{TRAP}].", finish_reason="content_filter"), "filter"),
    "retry-after-a-year": Wrong(error(429, "quota", {"Retry-After": str(365 * 86400)}), "wait longer than 120 s"),
    "endless-reply": Wrong(flood, f"longer than {MAX_REPLY:,} bytes"),
}
"""What the same request would meet again."""


def is_hit(body: Any) -> Any:
    return stage_of(body) == "speak" and f"survey {HIT[1:]}?" in body["messages"][-1]["content"]


def seeds_of(body: Any) -> Any:
    return [body["seed"], *(retry_seed(body["seed"], attempt) for attempt in range(2, 2 + ATTEMPTS))]


def debated(
    folder: Any, monkeypatch: pytest.MonkeyPatch, *, wrong: Any = None, times: int = 0, transport: Transport = "aiohttp"
) -> Any:
    """One run. Transcripts by id, how often the hit call was asked, and the server's record."""
    questions, pools = write_dataset(folder, QUESTIONS)
    lock = threading.Lock()
    hits: list[int] = []

    def is_wrong(body: Any) -> Any:
        with lock:
            # The other debater's first call differs in its seed, and further attempts take seeds that follow from it.
            if wrong is None or not is_hit(body) or (hits and body["seed"] not in seeds_of(hits[0])):
                return False
            hits.append(body)
            return len(hits) <= times

    def reply(body: Any, n: Any) -> Any:
        if is_wrong(body):
            return wrong.reply(server) if callable(wrong.reply) else wrong.reply
        return debating(body, n)

    async def no_sleep(seconds: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with openai_server(reply) as server:
        model = OpenAIChat("m", base_url=server.url, transport=transport, timeout=wrong.timeout if wrong else 20.0)
        policy = RetryPolicy(attempts=ATTEMPTS, rejections=ATTEMPTS)
        monkeypatch.setattr(run_spec, "open_model", lambda *_, **__: model)
        monkeypatch.setattr(runner, "CallPipeline", partial(CallPipeline, retries=policy, sleep=no_sleep))
        spec = resolve(RunRequest(questions=questions, model="openai/m", pools=pools))
        asyncio.run(execute(spec, folder / "out", RunOptions(concurrency=3)))
        transcripts = {t.id: json.loads(to_json(t)) for t in read_transcripts(folder / "out")}
        return transcripts, len(hits), server


def without(transcript: Any, *names: Any) -> Any:
    """The transcript without these fields of its stages' usage; seconds are never compared."""
    stages = {
        stage: {name: value for name, value in used.items() if name not in ("seconds", *names)}
        for stage, used in transcript["usage"].items()
    }
    return {**transcript, "usage": stages}


def total(transcript: Any, name: Any) -> Any:
    return sum(used[name] for used in transcript["usage"].values())


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The transcripts of a run without faults."""
    with pytest.MonkeyPatch.context() as patch:
        transcripts, _, _ = debated(tmp_path_factory.mktemp("calm"), patch)
    assert {t["status"] for t in transcripts.values()} == {"ok"}
    return transcripts


def assert_others_are_calm(transcripts: Any, calm: Any) -> None:
    assert transcripts.keys() == calm.keys()
    for name in calm.keys() - {HIT}:
        assert without(transcripts[name]) == without(calm[name])


def assert_repeated_once(transcripts: Any, asked: Any, calm: Any) -> None:
    assert_others_are_calm(transcripts, calm)
    assert asked == 2
    assert (total(transcripts[HIT], "retries"), total(transcripts[HIT], "failed")) == (1, 0)
    assert without(transcripts[HIT], "retries") == without(calm[HIT], "retries")


def assert_failed_for_good(transcripts: Any, asked: Any, calm: Any, *, reason: Any, attempts: Any) -> None:
    assert_others_are_calm(transcripts, calm)
    hit = transcripts[HIT]
    assert asked == attempts
    assert (total(hit, "retries"), total(hit, "failed")) == (attempts - 1, 1)
    (failed,) = [turn["stance"] for turn in hit["rounds"][0]["turns"] if turn["stance"]["status"] == "failed"]
    assert failed["answer"] is None
    assert reason in failed["error"]
    assert hit["degraded"]
    assert hit["answer"] != TRAP


@pytest.mark.slow
@wire
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_connection_is_repeated_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any, name: Any, transport: Any
) -> None:
    transcripts, asked, server = debated(tmp_path, monkeypatch, wrong=BROKEN[name], times=1, transport=transport)
    assert_repeated_once(transcripts, asked, calm)
    if name == "closed-when-idle":
        ports = [seen.port for seen in server.requests]
        speaking = [n for n, seen in enumerate(server.requests) if is_hit(seen.body)]
        assert ports[speaking[0]] in ports[: speaking[0]]  # on a connection that had served before


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_repeated_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any, name: Any
) -> None:
    transcripts, asked, _ = debated(tmp_path, monkeypatch, wrong=PASSING[name], times=1)
    assert_repeated_once(transcripts, asked, calm)


@pytest.mark.parametrize("name", EMPTY)
def test_a_reply_without_text_is_asked_for_again_with_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any, name: Any
) -> None:
    transcripts, asked, server = debated(tmp_path, monkeypatch, wrong=EMPTY[name], times=1)
    assert_others_are_calm(transcripts, calm)
    hit = transcripts[HIT]
    assert (asked, total(hit, "retries"), total(hit, "failed"), hit["degraded"]) == (2, 1, 0, False)
    assert TRAP not in json.dumps(hit)
    speaking = [seen.body for seen in server.requests if is_hit(seen.body)]
    assert len({body["seed"] for body in speaking}) == len(speaking) == 3
    paid = sum(used["prompt_tokens"] for used in hit["usage"].values())
    assert paid == 20 * (total(hit, "calls") + 1)  # the empty reply is paid for too


@pytest.mark.parametrize("name", ["reset", "not-http", *PASSING, *EMPTY])
def test_what_does_not_pass_is_given_up_after_the_last_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any, name: Any
) -> None:
    wrong = {**BROKEN, **PASSING, **EMPTY}[name]
    transcripts, asked, _ = debated(tmp_path, monkeypatch, wrong=wrong, times=99)
    attempts = 2 if wrong.reason == "hidden reasoning" else ATTEMPTS
    assert_failed_for_good(transcripts, asked, calm, reason=wrong.reason, attempts=attempts)


@pytest.mark.parametrize("name", LASTING)
def test_what_will_not_pass_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any, name: Any
) -> None:
    transcripts, asked, _ = debated(tmp_path, monkeypatch, wrong=LASTING[name], times=99)
    assert_failed_for_good(transcripts, asked, calm, reason=LASTING[name].reason, attempts=1)


def test_a_reply_cut_at_its_length_is_text_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: Any
) -> None:
    cut = Wrong(chat(f"The answer is [{TRAP}", finish_reason="length"), "")
    transcripts, asked, _ = debated(tmp_path, monkeypatch, wrong=cut, times=99)
    assert_others_are_calm(transcripts, calm)
    hit = transcripts[HIT]
    assert (asked, total(hit, "failed"), total(hit, "retries")) == (1, 0, 0)
    stances = [turn["stance"] for turn in hit["rounds"][0]["turns"]]
    assert [stance["answer"] for stance in stances if stance["status"] == "cut"] == [None]
    assert hit["answer"] != TRAP
    assert re.search(TRAP, json.dumps(hit["rounds"][0]))
