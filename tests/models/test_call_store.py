"""Each call is stored before it is used, and stored calls answer."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import UserError
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore, call_key
from tests.support.chat_requests import chat_request, purpose, said_by
from tests.support.pipelines import stored

GOOD = Completion(text="1,642 m", usage=Usage(prompt_tokens=9, completion_tokens=4), seconds=0.5, attempts=2)
BAD = Completion(outcome="failed", error="HTTP 500: no")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with CallStore(tmp_path / "calls.sqlite") as opened:
        yield opened


def test_the_same_call_is_made_once_and_is_paid_for_the_run_that_made_it_and_for_no_other(store: Any) -> None:
    model = ScriptedChat([GOOD])
    own = stored(model, store, payer="one")
    other = stored(model, store, payer="two")
    assert said_by(own, chat_request(), chat_request()) == [GOOD, GOOD]
    assert said_by(other, chat_request()) == [replace(GOOD, paid=False)]
    assert model.calls == 1


def test_calls_that_differ_in_anything_are_two() -> None:
    fields: dict[str, Any] = {"temperature": 0.6, "max_tokens": 65, "stop": ("END",), "seed": 1}
    purposes = {"question": "q2", "stage": "select", "agent": "B", "round": 2, "sample": 1, "repeat": 1}
    requests = [chat_request(), chat_request("Another question?")]
    requests += [chat_request(system="Be long."), chat_request(system=None)]
    requests += [chat_request(**{name: value}) for name, value in fields.items()]
    requests += [chat_request(about=purpose(**{name: value})) for name, value in purposes.items()]
    keys = {call_key("m", request) for request in requests}
    assert len(keys | {call_key("n", chat_request())}) == len(requests) + 1


def test_the_key_of_a_call_never_changes() -> None:
    request = chat_request("Z\u00fcrich \ud83d?", stop=("END",), seed=7, temperature=1)
    assert call_key("openai/m", request) == "c880e1f881164daea0c9d5a724b80b0bf6733d64f1d99a9ab9fe03480e38abfb"


def test_only_a_good_outcome_answers_and_replay_returns_the_last_one_without_a_call(store: Any) -> None:
    model = ScriptedChat([BAD, "better"])
    said = said_by(stored(model, store), chat_request(), chat_request(), chat_request())
    assert [completion.text for completion in said] == ["", "better", "better"]
    refused = Completion(text="I'd rather not.", outcome="refused", error="the model refused")
    other = chat_request("Why?")
    said_by(stored(ScriptedChat([BAD, refused]), store), other, other)
    silent = ScriptedChat([])
    assert said_by(stored(silent, store, replay=True), other) == [refused]
    assert (model.calls, silent.calls) == (2, 0)


def test_what_replay_misses_is_a_failed_completion(store: Any) -> None:
    model = ScriptedChat(["never"])
    (said,) = said_by(stored(model, store, replay=True), chat_request())
    assert (said.outcome, said.error, said.paid) == ("failed", "not in the call store", False)
    assert model.calls == 0
    assert list(store.calls()) == []


def test_everything_is_recorded_in_order_and_as_it_was(store: Any) -> None:
    texts = ["lone \ud83d surrogate, Zürich\n", "", "\n\n\n", "a" * 60 + "\n", "x\r\ny\u2028z\n" * 9, "\0"]
    requests = [chat_request(text, about=purpose(agent=f"{n}")) for n, text in enumerate(texts)]
    completions = [BAD, *(replace(GOOD, text=text) for text in texts[1:])]
    said_by(stored(ScriptedChat(completions), store), *requests)
    for call, request, completion in zip(store.calls(), requests, completions, strict=True):
        assert call == (request.purpose, request.messages, completion, "scripted")


def rows(store: CallStore, table: str) -> int:
    """What another process sees."""
    with closing(sqlite3.connect(store.path)) as db:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_a_text_that_many_prompts_share_is_stored_once(store: Any) -> None:
    pool = "A long pool of passages. " * 400
    said_by(stored(ScriptedChat(["yes"] * 20), store), *[chat_request(str(i), system=pool) for i in range(20)])
    assert rows(store, "texts") == 20 + 1


def test_equal_calls_at_the_same_time_become_one(store: Any) -> None:
    async def slow(request: Any) -> Completion:
        await asyncio.sleep(0)
        return GOOD

    model = ScriptedChat(slow)

    async def both() -> list[Completion]:
        # Two wrappers, as two roles or two arms have them.
        return await asyncio.gather(*(stored(model, store).complete(chat_request()) for _ in range(2)))

    said = asyncio.run(both())
    assert model.calls == 1
    assert [completion.paid for completion in said] == [True, False]
    assert len(list(store.calls())) == 1


def test_a_call_that_is_cancelled_leaves_nothing_and_others_ask_for_themselves(store: Any) -> None:
    async def hang_then_answer(request: Any) -> Completion:
        if model.calls == 1:
            await asyncio.Event().wait()
        return GOOD

    model = ScriptedChat(hang_then_answer)

    async def cancel_the_first() -> Completion:
        first, second = (asyncio.create_task(stored(model, store).complete(chat_request())) for _ in range(2))
        await asyncio.sleep(0)
        assert model.calls == 1
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert list(store.calls()) == []
        return await second

    assert asyncio.run(cancel_the_first()) == GOOD
    assert len(list(store.calls())) == 1


@pytest.mark.parametrize(
    ("pragma", "words"),
    [
        ("application_id = 7", "is an SQLite file but not a call store of madke"),
        ("user_version = 2", "is a call store in format 2, expected 3; move it away"),
    ],
)
def test_a_file_of_another_program_or_format_is_refused_and_left_alone(tmp_path: Path, pragma: str, words: str) -> None:
    path = tmp_path / "calls.sqlite"
    CallStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA {pragma}")
    before = path.read_bytes()
    with pytest.raises(UserError, match=rf"calls\.sqlite: {words}"):
        CallStore(path)
    assert path.read_bytes() == before


def test_a_call_is_in_the_file_before_it_is_answered(store: Any) -> None:
    model = stored(ScriptedChat(["yes"] * 9), store)

    async def seen_by_others(n: int) -> int:
        await model.complete(chat_request(str(n)))
        return rows(store, "calls")

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*map(seen_by_others, range(9)))

    assert set(asyncio.run(all_at_once())) == {9}


def test_a_call_that_is_cancelled_while_it_is_written_is_not_lost(store: Any) -> None:
    async def cancel() -> None:
        async def answer(request: Any) -> Any:
            asyncio.current_task().cancel()  # takes effect where the call next waits: for the file
            return GOOD

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(stored(ScriptedChat(answer), store).complete(chat_request()))

    asyncio.run(cancel())
    assert said_by(stored(ScriptedChat([]), store), chat_request()) == [GOOD]
