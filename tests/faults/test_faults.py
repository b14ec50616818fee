"""Everything a server can do wrong to a call of a run: retried or not as it should be, counted, never an answer.

Each fault hits one call of a question of its own: the first time that a debater speaks. All else must be as in a run
without faults. The last test's server fails at nearly a third of all requests.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from madke.core.chat import retry_seed
from madke.core.transcript import Transcript, to_json
from madke.models import limiter
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
from tests.support.openai_server import LastWords, OpenAIServer, chat, error, openai_server

ATTEMPTS = 3
TRAP = "Lake Ladoga"
"""The answer in everything that must never become one."""

KEY = "sk-faults-31415926"


@dataclass(frozen=True)
class Fault:
    """What the server does to a call."""

    reply: object
    """A reply of the server, or a function of it that makes one."""
    reason: str
    """Words in the reason that the transcript gives, where the call fails for good."""

    def answer(self, server: OpenAIServer) -> Any:
        return self.reply(server) if callable(self.reply) else self.reply


def reset(server: OpenAIServer) -> NoReturn:
    raise ConnectionResetError


def hang(server: OpenAIServer) -> Any:
    server.stopping.wait(30)
    return chat(f"The answer is [{TRAP}].")


def drip(server: OpenAIServer) -> Any:
    def pieces() -> Iterator[bytes]:
        while not server.stopping.wait(0.05):
            yield b" "

    return 200, {}, pieces()


def flood(server: OpenAIServer) -> Any:
    def pieces() -> Iterator[bytes]:
        while not server.stopping.is_set():
            yield b" " * (1 << 20)

    return 200, {}, pieces()


HALF = (200, {"Content-Length": "9000"}, json.dumps(chat(f"The answer is [{TRAP}].")[2]))

BROKEN = {
    "reset": Fault(reset, "connection failed"),
    "half a body": Fault(HALF, "connection failed"),
    "closed when idle": Fault(LastWords(), "connection failed"),
    "not HTTP": Fault(LastWords(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "connection failed"),
    "hang": Fault(hang, "in time"),
    "slow drip": Fault(drip, "in time"),
}
"""What the transports have to notice; it may pass."""

PASSING = {
    "429": Fault(error(429, f"The answer is [{TRAP}]."), "HTTP 429"),
    "429 with Retry-After": Fault(error(429, "slow down", {"Retry-After": "0.05"}), "HTTP 429"),
    "500": Fault(error(500, f"The answer is [{TRAP}]."), "HTTP 500"),
    "invalid JSON": Fault((200, {}, f'{{"choices": [{{"message": {{"content": "[{TRAP}]'), "not JSON"),
    "error with 200": Fault(error(200, f"The answer is [{TRAP}]."), "without a reply"),
}
"""What a server says that may pass."""

EMPTY = {
    "empty": Fault(chat(""), "empty"),
    "only reasoning": Fault(chat(f"<think>It is [{TRAP}]</think>"), "hidden reasoning"),
}
"""Replies without text: they are asked for again, with another seed."""

LASTING = {
    "401": Fault(error(401, f"No key for [{TRAP}]"), "HTTP 401"),
    "only reasoning at length": Fault(chat(f"<think>It is [{TRAP}]", finish_reason="length"), "max_tokens"),
    "the key": Fault(chat(f"The answer is [{TRAP}]. Bearer {KEY}"), "API key"),
    "refusal": Fault(chat(None, refusal=f"I will not say [{TRAP}]."), "refused"),
    "Retry-After of a year": Fault(error(429, "quota", {"Retry-After": str(365 * 86400)}), "wait longer than 120 s"),
    "endless reply": Fault(flood, f"longer than {MAX_REPLY:,} bytes"),
}
"""What the same request would meet again."""

QUESTIONS = 10
"""One for each fault of a run, and at least one that nothing happens to."""


def executed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    reply: Callable[[OpenAIServer, dict[str, Any], int], Any],
    *,
    questions: int = QUESTIONS,
    attempts: int | None = None,
    timeout: float = 20.0,
    transport: Transport = "aiohttp",
    **options: Any,
) -> tuple[dict[str, Transcript], OpenAIServer]:
    """One command without its waits; the transcripts of the run after it by id, and the server's record."""

    async def no_sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    data, pools = write_dataset(folder, questions)
    retries = RetryPolicy(attempts=attempts, rejections=attempts) if attempts else RetryPolicy()
    with openai_server(lambda body, n: reply(server, body, n)) as server:
        model = OpenAIChat("m", base_url=server.url, transport=transport, timeout=timeout)
        model.name = "openai/m"  # a server has another port each time
        monkeypatch.setattr(run_spec, "open_model", lambda *_, **__: model)
        monkeypatch.setattr(runner, "CallPipeline", partial(CallPipeline, retries=retries, sleep=no_sleep))
        spec = resolve(RunRequest(questions=data, model="openai/m", pools=pools))
        asyncio.run(execute(spec, folder / "out", RunOptions(**options)))
    return {transcript.id: transcript for transcript in read_transcripts(folder / "out")}, server


class FaultyRun:
    """A run whose server debates, but each fault hits ``times`` attempts of one call of its question."""

    def __init__(
        self, faults: Mapping[str, Fault], folder: Path, monkeypatch: pytest.MonkeyPatch, *, times: int, **options: Any
    ) -> None:
        self.faults, self._times, self._lock = [*faults.items()], times, threading.Lock()
        self.attempts: list[list[int]] = [[] for _ in faults]
        """The seeds of each call that is hit."""
        given = {"attempts": ATTEMPTS, "concurrency": 3, **options}
        found, self.server = executed(folder, monkeypatch, self._reply, **given)
        self.transcripts = [json.loads(to_json(found[f"q{number}"])) for number in range(QUESTIONS)]

    def _reply(self, server: OpenAIServer, body: dict[str, Any], n: int) -> Any:
        for number, (_, fault) in enumerate(self.faults):
            if speaks(body, number) and self._is_hit(self.attempts[number], body["seed"]):
                return fault.answer(server)
        return debating(body, n)

    def _is_hit(self, seeds: list[int], seed: int) -> bool:
        with self._lock:
            # The other debater's first call differs in its seed, and further attempts take seeds that follow from it.
            if seeds and seed not in (seeds[0], *(retry_seed(seeds[0], 1 + attempt) for attempt in range(1, 9))):
                return False
            seeds.append(seed)
            return len(seeds) <= self._times


def speaks(body: dict[str, Any], number: int) -> bool:
    """Whether a debater speaks about that question."""
    return stage_of(body) == "speak" and f"survey {number}?" in body["messages"][-1]["content"]


def without(transcript: Any, *names: str) -> Any:
    """The transcript without these fields of its stages' usage; seconds are never compared."""
    stages = {
        stage: {name: value for name, value in used.items() if name not in ("seconds", *names)}
        for stage, used in transcript["usage"].items()
    }
    return {**transcript, "usage": stages}


def total(transcript: Any, name: str) -> int:
    return sum(used[name] for used in transcript["usage"].values())


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The transcripts of a run without faults."""
    with pytest.MonkeyPatch.context() as patch:
        transcripts = FaultyRun({}, tmp_path_factory.mktemp("calm"), patch, times=0).transcripts
    assert {each["status"] for each in transcripts} == {"ok"}
    return transcripts


Faulty = Callable[..., FaultyRun]


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    return partial(FaultyRun, folder=tmp_path, monkeypatch=monkeypatch)


def assert_others_are_calm(run: FaultyRun, calm: Any) -> None:
    untouched = range(len(run.faults), QUESTIONS)
    assert untouched
    assert [without(run.transcripts[n]) for n in untouched] == [without(calm[n]) for n in untouched]


def assert_repeated_once(run: FaultyRun, calm: Any) -> None:
    assert_others_are_calm(run, calm)
    for (name, _), attempts, hit, as_calm in zip(run.faults, run.attempts, run.transcripts, calm, strict=False):
        assert (len(attempts), total(hit, "retries"), total(hit, "failed")) == (2, 1, 0), name
        assert without(hit, "retries") == without(as_calm, "retries"), name


def assert_failed_for_good(run: FaultyRun, calm: Any, expected: Mapping[str, int]) -> None:
    """``expected``: fault -> number of attempts."""
    assert_others_are_calm(run, calm)
    for (name, fault), attempts, hit in zip(run.faults, run.attempts, run.transcripts, strict=False):
        assert len(attempts) == expected[name], name
        assert (total(hit, "retries"), total(hit, "failed")) == (expected[name] - 1, 1), name
        (failed,) = [turn["stance"] for turn in hit["rounds"][0]["turns"] if turn["stance"]["status"] == "failed"]
        assert failed["answer"] is None, name
        assert fault.reason in failed["error"], name
        assert hit["degraded"], name
        assert hit["answer"] != TRAP, name


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
def test_a_broken_connection_is_repeated_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch, faulty: Faulty, calm: Any, transport: Transport
) -> None:
    monkeypatch.setattr(limiter, "_WHOLE", 2.5)  # times the timeout, for a reply that drips
    # One call after the other, so each goes over a connection that has served before.
    run = faulty(BROKEN, times=1, transport=transport, timeout=1.0, concurrency=1)
    assert_repeated_once(run, calm)
    requests, idle = run.server.requests, [*BROKEN].index("closed when idle")
    ports = [seen.port for seen in requests]
    first = next(n for n, seen in enumerate(requests) if speaks(seen.body, idle))
    assert ports[first] in ports[:first]


def test_what_may_pass_is_repeated_and_nothing_else_changes(faulty: Faulty, calm: Any) -> None:
    assert_repeated_once(faulty(PASSING, times=1), calm)


def test_a_reply_without_text_is_asked_for_again_with_another_seed(faulty: Faulty, calm: Any) -> None:
    run = faulty(EMPTY, times=1)
    assert_others_are_calm(run, calm)
    for attempts, hit in zip(run.attempts, run.transcripts, strict=False):
        assert len(attempts) == len({*attempts}) == 2
        assert (total(hit, "retries"), total(hit, "failed"), hit["degraded"]) == (1, 0, False)
        assert TRAP not in json.dumps(hit)
        assert total(hit, "prompt_tokens") == 20 * (total(hit, "calls") + 1), "the empty reply is paid for too"


def test_what_does_not_pass_is_given_up_after_the_last_attempt(faulty: Faulty, calm: Any) -> None:
    faults = {name: BROKEN[name] for name in ("reset", "not HTTP")} | PASSING | EMPTY
    run = faulty(faults, times=99)
    assert_failed_for_good(run, calm, {**dict.fromkeys(faults, ATTEMPTS), "only reasoning": 2})


def test_what_will_not_pass_is_not_repeated(faulty: Faulty, calm: Any) -> None:
    run = faulty(LASTING, times=99)
    assert_failed_for_good(run, calm, dict.fromkeys(LASTING, 1))


def test_a_reply_cut_at_its_length_is_text_without_an_answer(faulty: Faulty, calm: Any) -> None:
    cut = Fault(chat(f"The answer is [{TRAP}", finish_reason="length"), "")
    run = faulty({"cut": cut}, times=99)
    assert_others_are_calm(run, calm)
    hit = run.transcripts[0]
    assert (len(run.attempts[0]), total(hit, "failed"), total(hit, "retries")) == (1, 0, 0)
    stances = [turn["stance"] for turn in hit["rounds"][0]["turns"]]
    assert [stance["answer"] for stance in stances if stance["status"] == "cut"] == [None]
    assert hit["answer"] != TRAP
    assert TRAP in json.dumps(hit["rounds"][0])


WAYS = (*PASSING.values(), *EMPTY.values(), BROKEN["reset"])


@pytest.mark.slow
def test_most_questions_are_answered_and_the_same_command_answers_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    def unreliable(server: OpenAIServer, body: dict[str, Any], n: int) -> Any:
        """Whether a request fails depends on it and on how often it came."""
        request = json.dumps(body)
        seen[request] += 1
        chance = Random(f"{seen[request]} {request}")
        return debating(body, n) if chance.random() >= 0.3 else chance.choice(WAYS).answer(server)

    first, _ = executed(tmp_path, monkeypatch, unreliable, questions=25, concurrency=8)
    assert len(first) == 25
    assert sum(each.status == "ok" for each in first.values()) >= 23
    assert sum(used.retries for each in first.values() for used in each.usage.values()) > 0.2 * seen.total()

    second, _ = executed(tmp_path, monkeypatch, unreliable, questions=25, concurrency=8)
    assert [each.status for each in second.values()] == ["ok"] * 25
    assert not any(TRAP in (each.answer or "") for each in second.values())
