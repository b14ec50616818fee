import asyncio
import io
import threading
from typing import Any, NoReturn

import pytest

from madke.core.chat import Message, Usage
from madke.llm.human import HumanChat, ask_terminal
from tests.support.chat_requests import chat_request


def ask(model: Any, request: Any = None) -> Any:
    return asyncio.run(model.complete(request or chat_request()))


def test_a_person_reads_the_prompt_and_answers() -> None:
    shown = []
    said = ask(HumanChat(lambda text: shown.append(text) or "1,642 m [1642]"))
    assert (said.text, said.outcome, said.usage) == ("1,642 m [1642]", "ok", Usage())
    (text,) = shown
    assert "A: speak, round 1" in text
    assert "How deep is Lake Baikal?" in text


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    shown = []
    ask(HumanChat(lambda text: shown.append(text) or "ok"), chat_request("\x1b]0;title\x07\x1b[2J\u202eweb text"))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown[0])
    assert "web text" in shown[0]


def test_a_long_system_message_is_shown_briefly_and_a_user_message_whole() -> None:
    shown = []
    request = chat_request("u" * 900, system="s" * 900)
    ask(HumanChat(lambda text: shown.append(text) or "ok"), request)
    assert "u" * 900 in shown[0]
    assert "s" * 201 not in shown[0]


def test_own_earlier_words_are_shown_as_such() -> None:
    shown = []
    messages = (Message(role="user", content="And now?"), Message(role="assistant", content="It is Baikal."))
    ask(HumanChat(lambda text: shown.append(text) or "ok"), chat_request(messages=messages))
    assert "You said: It is Baikal." in shown[0]


def leave(text: Any) -> NoReturn:
    raise EOFError


def test_a_person_who_leaves_is_a_failed_call() -> None:
    said = ask(HumanChat(leave))
    assert (said.outcome, said.error) == ("failed", "the person left")


def test_a_person_who_says_nothing_is_an_empty_reply() -> None:
    assert ask(HumanChat(lambda text: " ")).outcome == "empty"


def test_a_bug_in_asking_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(HumanChat(lambda text: str(1 / 0)))


def test_the_loop_goes_on_while_the_person_thinks_and_questions_come_one_at_a_time() -> None:
    thinking, answered = [], threading.Event()

    def think(text: Any) -> Any:
        thinking.append(text)
        assert answered.wait(10)
        return "done"

    async def two() -> Any:
        model = HumanChat(think)
        tasks = [asyncio.create_task(model.complete(chat_request(str(i)))) for i in range(2)]
        while not thinking:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        asked_at_once = len(thinking)
        answered.set()
        await asyncio.gather(*tasks)
        return asked_at_once

    assert asyncio.run(two()) == 1
    assert len(thinking) == 2


@pytest.mark.parametrize(
    ("typed", "reply"), [("one\ntwo\n\nnot read\n", "one\ntwo"), ("one\ntwo", "one\ntwo"), ("\n", "")]
)
def test_an_empty_line_or_the_end_of_input_ends_a_reply(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, reply: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert ask_terminal("The prompt") == reply
    shown = capsys.readouterr()
    assert "The prompt" in shown.err
    assert shown.out == ""


def test_no_input_at_all_is_a_person_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(EOFError):
        ask_terminal("The prompt")
