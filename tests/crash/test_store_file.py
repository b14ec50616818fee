"""The file of a call store: damaged, in a folder that nobody may write to, or on a disk that is full."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import UserError
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore, call_key
from tests.crash.conftest import freeze
from tests.support.chat_requests import chat_request, purpose
from tests.support.pipelines import stored
from tests.support.small_disk import fill_up

PAGE = 4096
CALLS = 150


def request(n: int) -> ChatRequest:
    random = Random(n % 7)  # does not compress to nothing
    prompt = " ".join(str(random.random()) for _ in range(300))
    return chat_request(f"{prompt}\nQuestion {n}?", about=purpose(question=f"q{n}"))


def completion(n: int) -> Completion:
    return Completion(text=f"Reply {n}, " + "because. " * 40, usage=Usage(prompt_tokens=n))


def fill(store: CallStore, numbers: Iterable[int]) -> None:
    """Add calls, each in a transaction of its own."""
    for n in numbers:
        asyncio.run(store.write(call_key("m", request(n)), "m", request(n), completion(n), payer="me"))


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was closed."""
    path = tmp_path_factory.mktemp("whole") / "calls.sqlite"
    with CallStore(path) as store:
        fill(store, range(CALLS))
    return path


@pytest.fixture
def path(tmp_path: Path, whole_store: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copy(whole_store, tmp_path))


def read_all(store: CallStore) -> list[int]:
    """The numbers of the calls that the store has, which must all be right."""
    store.paid()
    calls = list(store.calls())
    numbers = [int(call.purpose.question[1:]) for call in calls]
    assert [call.completion for call in calls] == [completion(n) for n in numbers]
    for n, call in zip(numbers, calls, strict=True):
        sent = zip(call.messages, request(n).messages, strict=True)
        assert all(told == asked or "was damaged]" in told.content for told, asked in sent)
    for n in range(CALLS):
        assert store.find(call_key("m", request(n)), payer="me") in (None, completion(n))
    return numbers


def as_a_run_does(path: Path) -> int:
    """Open the store, read all of it, look up every call and make those that are missing; their number."""
    with CallStore(path) as store:
        read_all(store)
        missing = [n for n in range(CALLS) if store.find(call_key("m", request(n)), payer="me") is None]
        fill(store, missing)
        return len(missing)


@pytest.mark.parametrize("content", [b"\xa5" * (5 * PAGE), b"", b"SQLite format 3\0" + bytes(PAGE)])
def test_an_unreadable_file_is_set_aside_with_one_line(
    path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path.write_bytes(content)
    with CallStore(path) as store:
        assert read_all(store) == []
    if content:
        assert path.with_name("calls.sqlite.damaged-1").read_bytes() == content
        (line,) = [record.getMessage() for record in caplog.records]
        assert line == f"{path} cannot be read and is now calls.sqlite.damaged-1; its calls are made again"
    assert as_a_run_does(path) == CALLS
    assert as_a_run_does(path) == 0


def test_damage_that_is_met_on_the_way_is_set_aside_at_the_end(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: 2 * PAGE] + b"\xa5" * (len(content) - 3 * PAGE) + content[-PAGE:])
    with pytest.raises(UserError, match=r"is damaged .*; run the command again: the file is set aside"):
        as_a_run_does(path)
    assert path.with_name("calls.sqlite.damaged-1").exists()
    assert as_a_run_does(path) == CALLS


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET prompt_tokens = 99 WHERE id = 18",
        "UPDATE calls SET outcome = 'failed' WHERE id = 18",
        "UPDATE calls SET body = (SELECT body FROM calls WHERE id = 20) WHERE id = 18",
        "UPDATE calls SET key = (SELECT key FROM calls WHERE id = 20) WHERE id = 18",
    ],
)
def test_a_row_with_a_wrong_checksum_is_asked_again_and_never_an_answer(change: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    with CallStore(path) as store:
        assert read_all(store) == [n for n in range(CALLS) if n != 17]
    assert as_a_run_does(path) == 1
    assert as_a_run_does(path) == 0
    assert not path.with_name("calls.sqlite.damaged-1").exists()


def test_a_text_of_a_prompt_that_is_damaged_costs_no_answer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE texts SET body = x'00' WHERE rowid = 2")
    with CallStore(path) as store:
        assert read_all(store) == list(range(CALLS))
        first, second, *_ = store.calls()
    assert first.messages[1].content == "[this text of the call store is lost: the file was damaged]"
    assert second.messages == request(1).messages


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("SQLite format 3\0 notes " * 9)
    with pytest.raises(UserError, match="is not a call store of madke"):
        CallStore(path)
    assert path.read_text().startswith("SQLite format 3")


def flipped(content: bytearray, random: Random) -> None:
    for _ in range(50):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def zeroed(content: bytearray, random: Random) -> None:
    for _ in range(3):
        at = random.randrange(len(content) // PAGE) * PAGE
        content[at : at + PAGE] = bytes(PAGE)


def cut(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content) // 4, len(content)) :]


@pytest.mark.slow
@pytest.mark.parametrize("harm", [flipped, zeroed, cut])
def test_a_run_goes_on_after_random_harm_with_the_same_command_given_once_more(
    whole_store: Path, harm: Callable[[bytearray, Random], None], tmp_path: Path
) -> None:
    for seed in range(4):
        content = bytearray(whole_store.read_bytes())
        harm(content, Random(seed))
        path = tmp_path / f"{seed}.sqlite"
        path.write_bytes(content)
        try:
            as_a_run_does(path)
        except UserError as error:
            if "call store in format" in str(error) or "is not a call store of madke" in str(error):
                continue  # the header says so; nothing is answered from it
            assert "is damaged" in str(error)
            as_a_run_does(path)
        assert as_a_run_does(path) == 0


@pytest.mark.parametrize("there", [True, False], ids=["store", "no-store"])
def test_a_read_only_folder_is_one_error(read_only: Path, there: bool) -> None:
    if there:
        CallStore(read_only / "calls.sqlite").close()
    freeze(read_only)
    with pytest.raises(UserError, match="must exist and be writable"):
        CallStore(read_only / "calls.sqlite")


def test_a_full_disk_reaches_every_call_that_waits_and_nothing_is_lost_that_was_stored(small_disk: Path) -> None:
    path = small_disk / "calls.sqlite"
    replies = [Completion(text=f"{n}: {Random(n).randbytes(16_000).hex()}") for n in range(10)]
    with CallStore(path) as store:
        asyncio.run(stored(ScriptedChat(replies[:1]), store).complete(chat_request("0")))
        filler = fill_up(small_disk, 100_000)
        model = stored(ScriptedChat(replies[1:9]), store)

        async def at_once() -> list[Any]:
            calls = [model.complete(chat_request(str(n))) for n in range(1, 9)]
            return await asyncio.gather(*calls, return_exceptions=True)

        said = asyncio.run(at_once())
        assert all(isinstance(each, UserError) and "the disk is full" in str(each) for each in said)
        filler.unlink()
        asyncio.run(stored(ScriptedChat(replies[9:]), store).complete(chat_request("9")))
    with CallStore(path) as store:
        assert [call.completion for call in store.calls()] == [replies[0], replies[9]]
