"""A call store that is damaged: what can be read of it is kept, and the user is told."""

import asyncio
import logging
import multiprocessing
import shutil
import sqlite3
from contextlib import closing

import pytest

from madke.core.chat import Completion, Usage
from madke.core.errors import UserError
from madke.llm import CallStore
from madke.llm.store import call_key, recovery
from tests.support.chat_requests import chat_request, purpose

PAGE = 4096
CALLS = 150
LONG = "A line of a long prompt. " * 400
"""Longer than two pages."""


def request(n):
    return chat_request(f"{LONG}{n % 7}\nQuestion {n}?", about=purpose(question=f"q{n}"))


def completion(n):
    return Completion(text=f"Reply {n}, " + "because. " * 40, usage=Usage(prompt_tokens=n))


def fill(store, numbers):
    """Add calls, each in a transaction of its own."""
    for n in numbers:
        add(store, n, request(n))


def add(store, n, asked, payer=""):
    asyncio.run(store.write(call_key("m", asked), "m", asked, completion(n), payer=payer))


@pytest.fixture
def path(tmp_path):
    """A store of 60 calls that was closed."""
    with CallStore(tmp_path / "calls.sqlite") as store:
        fill(store, range(CALLS))
    return tmp_path / "calls.sqlite"


def killed(path):
    """What a process that was killed leaves: the file and its log, without a checkpoint."""
    copy = path.with_name("copy")
    copy.mkdir()
    with CallStore(path) as store:
        fill(store, range(CALLS, CALLS + 10))
        for part in path.parent.glob("calls.sqlite*"):
            if not part.name.endswith("-shm"):
                shutil.copy(part, copy)
    return copy / "calls.sqlite"


def overwrite(path, at, content):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def right(store):
    """The numbers of the calls that the store answers, which must all be right."""
    calls = list(store.recorded())
    numbers = [int(call.purpose.question[1:]) for call in calls]
    assert [call.completion for call in calls] == [completion(n) for n in numbers]
    for n, call in zip(numbers, calls, strict=True):
        whole = call.messages == request(n).messages
        assert whole or any("it was damaged]" in message.content for message in call.messages)
    assert all(store.find(call_key("m", request(n))) == completion(n) for n in numbers)
    return numbers


def recovered(path, caplog):
    """The numbers of the calls after a recovery, of which the user was told."""
    with caplog.at_level(logging.WARNING), CallStore(path) as store:
        numbers = right(store)
        fill(store, [1000])
    said = caplog.records[-1].getMessage()
    assert f"{path} was damaged: {len(numbers)} calls could be read and are kept" in said
    assert said.endswith(f"the damaged file is now {path}.damaged-1")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with CallStore(path) as store:
        assert len(list(store.recorded())) == len(numbers) + 1
    assert not {"calls.sqlite.damaged", "calls.sqlite.recovered", "calls.sqlite.recovering"} & {
        each.name for each in path.parent.iterdir()
    }
    return numbers


def leaves(path):
    """Numbers of the pages that hold rows of calls, but for the first page."""
    content = path.read_bytes()
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    return [n for n, page in enumerate(pages) if n and page[0] == 13 and b'{"purpose":' in page]


def test_a_header_of_zeros_loses_nothing(path, caplog):
    before = path.read_bytes()
    overwrite(path, 0, bytes(100))
    damaged = path.read_bytes()
    assert recovered(path, caplog) == list(range(CALLS))
    assert path.with_name("calls.sqlite.damaged-1").read_bytes() == damaged != before


def test_a_first_page_of_zeros_loses_nothing(path, caplog):
    overwrite(path, 0, bytes(PAGE))
    assert recovered(path, caplog) == list(range(CALLS))


def test_a_file_that_was_cut_off_keeps_what_is_left(path, caplog):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * 2 // 3 // PAGE * PAGE - 100)
    kept = recovered(path, caplog)
    assert CALLS // 3 < len(kept) < CALLS


def test_a_text_of_all_prompts_that_is_damaged_costs_no_answer(path, caplog):
    content = path.read_bytes()
    overwrite(path, content.index(b"Be brief."), b"Be frank.")
    with CallStore(path) as store, pytest.raises(UserError, match="is damaged"):
        list(store.recorded())
    assert recovered(path, caplog) == list(range(CALLS))
    with CallStore(path) as store:
        said = {call.messages[0].content for call in store.recorded() if call.purpose.question != "q1000"}
    assert said == {"[text 1 of the call store is lost: it was damaged]"}


def test_a_page_of_garbage_is_noticed_when_it_is_read_and_costs_its_calls_only(path, caplog):
    overwrite(path, leaves(path)[1] * PAGE, b"\xa5" * PAGE)
    with CallStore(path) as store, pytest.raises(UserError, match=r"is damaged .* the same command again recovers"):
        list(store.recorded())
    kept = recovered(path, caplog)
    assert CALLS * 2 // 3 < len(kept) < CALLS


@pytest.mark.parametrize(
    ("n", "written", "flipped_to"),
    [
        pytest.param(17, b"Reply 17, because", b"Reply 71, because", id="a letter of a reply"),
        pytest.param(23, b'{"prompt_tokens":23}', b'{"prompt_tokens":99}', id="a figure"),
    ],
)
def test_what_was_altered_is_noticed_and_never_an_answer(n, written, flipped_to, path, caplog):
    content = path.read_bytes()
    overwrite(path, content.index(written), flipped_to)
    with CallStore(path) as store, pytest.raises(UserError, match="is damaged"):
        store.find(call_key("m", request(n)))
    assert recovered(path, caplog) == [each for each in range(CALLS) if each != n]


def test_garbage_in_the_log_of_a_killed_process_keeps_what_the_file_has(path, caplog):
    path = killed(path)
    log = path.with_name("calls.sqlite-wal")
    garbage = b"\xff" * log.stat().st_size
    log.write_bytes(garbage)
    assert recovered(path, caplog) == list(range(CALLS))
    assert path.with_name("calls.sqlite.damaged-1-wal").read_bytes() == garbage


def test_calls_in_the_log_are_recovered_with_the_damaged_file(path, caplog):
    path = killed(path)
    overwrite(path, 0, bytes(100))
    recovery.note_damage(path)
    assert recovered(path, caplog) == list(range(CALLS + 10))


def test_a_log_that_ends_in_garbage_gives_its_good_beginning(path, caplog):
    path = killed(path)
    log = path.with_name("calls.sqlite-wal")
    overwrite(log, log.stat().st_size // 2, b"\xff" * PAGE)
    recovery.note_damage(path)
    kept = recovered(path, caplog)
    assert CALLS < len(kept) < CALLS + 10
    assert kept == list(range(len(kept)))


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_never_gives_a_wrong_answer(path, seed, caplog):
    from random import Random

    random = Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(20):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    for _ in range(2):
        try:
            with CallStore(path) as store:
                right(store)
        except UserError as error:
            assert "is damaged" in str(error)
    with CallStore(path) as store:
        assert len(right(store)) >= CALLS * 3 // 4


def test_a_store_that_another_process_has_open_is_not_recovered(path):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=keep_open, args=(path, theirs))
    process.start()
    assert ours.recv() == "open"
    overwrite(path, 0, bytes(100))
    damaged = path.read_bytes()
    with pytest.raises(UserError, match="is open elsewhere"):
        CallStore(path)
    assert path.read_bytes() == damaged
    ours.send("close")
    process.join()


def keep_open(path, pipe):
    with CallStore(path):
        pipe.send("open")
        pipe.recv()


def test_a_store_that_this_process_has_open_is_not_recovered(path):
    with CallStore(path):
        recovery.note_damage(path)
        with pytest.raises(UserError, match="is open elsewhere"):
            CallStore(path)
    CallStore(path).close()


@pytest.mark.parametrize("step", ["hardlink_to", "replace", "unlink"])
def test_a_recovery_that_is_killed_is_finished_by_the_next_opening(path, step, monkeypatch, caplog):
    path = killed(path)
    recovery.note_damage(path)

    class Killed(BaseException):
        pass

    original = getattr(type(path), step)

    def die(self, *arguments, **options):
        result = original(self, *arguments, **options)
        if self.name != "calls.sqlite.recovering":
            raise Killed
        return result

    with monkeypatch.context() as patched:
        patched.setattr(type(path), step, die)
        with pytest.raises(Killed):
            CallStore(path)
    assert recovered(path, caplog) == list(range(CALLS + 10))


def test_a_store_without_a_call_that_can_be_read_is_left_alone(path):
    overwrite(path, PAGE, b"\xff" * (path.stat().st_size - PAGE))
    damaged = path.read_bytes()
    with pytest.raises(UserError, match="is damaged"), CallStore(path) as store:
        list(store.recorded())
    with pytest.raises(UserError, match="no call in it can be read"):
        CallStore(path)
    assert path.read_bytes() == damaged


def test_equal_damage_twice_keeps_both_files(path, caplog):
    overwrite(path, 0, bytes(100))
    recovered(path, caplog)
    overwrite(path, 0, bytes(100))
    with CallStore(path) as store:
        assert len(list(store.recorded())) == CALLS + 1
    assert path.with_name("calls.sqlite.damaged-2").is_file()


def test_a_full_event_loop_hears_of_damage(path):
    """Damage met by one of many calls under way is one error for all, not a hang."""
    overwrite(path, leaves(path)[0] * PAGE, b"\xa5" * PAGE)

    async def many():
        with CallStore(path) as store:
            writes = (store.write(str(n), "m", request(n), completion(n)) for n in range(9))
            await asyncio.gather(*writes, return_exceptions=True)
            list(store.recorded())

    with pytest.raises(UserError, match="is damaged"):
        asyncio.run(many())


SOME = 200
"""Calls of a store that is damaged at random."""


def short_request(n):
    shared = "A line that all prompts share, and that is long enough to be a piece of its own."
    return chat_request(f"{shared}\nQuestion {n}?\n" + f"Passage {n}. " * 9, about=purpose(question=f"q{n}"))


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory):
    """The bytes of a store of some hundred calls."""
    path = tmp_path_factory.mktemp("whole") / "calls.sqlite"
    with CallStore(path) as store:
        for n in range(SOME):
            add(store, n, short_request(n), payer="me")
    return path.read_bytes()


def flipped(content, random, bits, end=None):
    for _ in range(bits):
        content[random.randrange(end or len(content))] ^= 1 << random.randrange(8)


def zeroed(content, random):
    for _ in range(3):
        at = random.randrange(len(content) // PAGE) * PAGE
        content[at : at + PAGE] = bytes(PAGE)


def cut(content, random):
    del content[random.randrange(len(content) // 4, len(content)) :]


HARM = {
    "5 bits": lambda content, random: flipped(content, random, 5),
    "50 bits": lambda content, random: flipped(content, random, 50),
    "300 bits": lambda content, random: flipped(content, random, 300),
    "the first two pages": lambda content, random: flipped(content, random, 20, 2 * PAGE),
    "the header": lambda content, random: flipped(content, random, 2, 100),
    "pages of zeros": zeroed,
    "cut off": cut,
}


def as_a_run_does(path):
    """Open the store, read all of it, look up every call and make those that are missing; how many were there."""
    with CallStore(path) as store:
        store.paid()
        numbers = []
        for call in store.recorded():
            numbers.append(n := int(call.purpose.question[1:]))
            assert call.completion == completion(n)
            told = zip(call.messages, short_request(n).messages, strict=True)
            assert all(said == sent or "it was damaged]" in said.content for said, sent in told)
        for n in range(SOME):
            found = store.find(call_key("m", short_request(n)), payer="me")
            assert found in (None, completion(n))
            if found is None:
                add(store, n, short_request(n), payer="me")
    return len(numbers)


@pytest.mark.parametrize("harm", HARM)
def test_a_run_goes_on_after_random_harm_with_the_same_command_given_once_more(whole_store, harm, tmp_path, caplog):
    from random import Random

    for seed in range(40 // len(HARM) + 1):
        content = bytearray(whole_store)
        HARM[harm](content, Random(f"{harm} {seed}"))
        path = tmp_path / f"{seed}.sqlite"
        path.write_bytes(content)
        try:
            there = as_a_run_does(path)
        except UserError as error:
            assert "is damaged" in str(error)
            there = as_a_run_does(path)
            assert f"{there} calls could be read and are kept" in caplog.text
        assert there
        assert as_a_run_does(path) >= SOME


@pytest.mark.parametrize("bit", range(7))
def test_a_piece_whose_id_is_damaged_is_never_another_text(whole_store, bit, tmp_path):
    """Its own hash does not tell: only the index of hashes does."""
    path = tmp_path / "calls.sqlite"
    path.write_bytes(whole_store)
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT id, hash FROM pieces WHERE CAST(text AS TEXT) LIKE 'Reply 117,%'"
        ((one, stored),) = db.execute(query).fetchall()
    content = bytearray(whole_store)
    # A leaf's cell: bytes of the row, its id (two bytes from 128 on), of the header, no id, hash and text, the hash.
    at = content.index(b"Reply 117,") - len(stored)
    assert content[at : at + len(stored)] == stored
    id_of_two_bytes = bytes([0x80 | one >> 7, one & 0x7F])
    where = content.rindex(id_of_two_bytes, at - 8, at)
    content[where + 1] ^= 1 << bit
    path.write_bytes(content)
    for _ in range(2):
        try:
            as_a_run_does(path)
        except UserError as error:
            assert "is damaged" in str(error)
    assert as_a_run_does(path) >= SOME


@pytest.mark.parametrize("content", [b"notes " * 9, b"SQLite format 3\0" + bytes(50)])
def test_a_file_of_a_few_bytes_is_refused_with_what_to_do(tmp_path, content):
    path = tmp_path / "calls.sqlite"
    path.write_bytes(content)
    with pytest.raises(UserError, match="if it was the store of a run, move it away: its calls are lost"):
        CallStore(path)
    assert path.read_bytes() == content
