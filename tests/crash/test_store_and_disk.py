"""A call store on a disk that is full, and in a folder that nobody may write to."""

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from madke._util.files import write_file
from madke.core.chat import Completion
from madke.core.errors import UserError
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore
from tests.crash.conftest import freeze
from tests.support.chat_requests import chat_request
from tests.support.pipelines import stored
from tests.support.small_disk import fill_up


def long_reply(n: Any) -> Any:
    return Completion(text=f"{n}: {Random(n).randbytes(16_000).hex()}")


def test_a_full_disk_reaches_every_call_that_waits_and_nothing_is_lost_that_was_stored(small_disk: Path) -> None:
    path = small_disk / "calls.sqlite"
    with CallStore(path) as store:
        asyncio.run(stored(ScriptedChat([long_reply(0)]), store).complete(chat_request("0")))
        filler = fill_up(small_disk, 100_000)
        model = stored(ScriptedChat([long_reply(n) for n in range(1, 9)]), store)

        async def at_once() -> Any:
            calls = [model.complete(chat_request(str(n))) for n in range(1, 9)]
            return await asyncio.gather(*calls, return_exceptions=True)

        said = asyncio.run(at_once())
        assert all(isinstance(each, UserError) and "the disk is full" in str(each) for each in said)
        filler.unlink()
        asyncio.run(stored(ScriptedChat([long_reply(9)]), store).complete(chat_request("9")))
        assert [call.completion for call in store.calls()] == [long_reply(0), long_reply(9)]
    with CallStore(path) as store:
        assert [call.completion for call in store.calls()] == [long_reply(0), long_reply(9)]


@pytest.mark.parametrize("there", [True, False], ids=["store", "no-store"])
def test_a_read_only_folder_is_one_error(read_only: Any, there: bool) -> None:
    if there:
        CallStore(read_only / "calls.sqlite").close()
    freeze(read_only)
    with pytest.raises(UserError, match="must exist and be writable"):
        CallStore(read_only / "calls.sqlite")


@pytest.mark.parametrize("name", ["device", "pipe"])
def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.devnull)  # a link, so that a fault cannot replace the machine's own device
    with pytest.raises(UserError, match="cannot be written: it is a folder, a device, a pipe or a socket"):
        write_file(tmp_path / name, b"text")
    assert not (tmp_path / name).is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"device", "pipe"}
