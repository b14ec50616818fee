"""What people see of a run while it goes on."""

import asyncio
import io
import sys
from typing import Any

import pytest

from madke.cli.progress import counter, run_progress, showing, status_line
from madke.core.events import RoundStarted, RunProgress


class Terminal(io.StringIO):
    def isatty(self) -> Any:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    return stream


STATE = RunProgress(done=3, total=10, resumed=2, calls=30, at=10.0, cost=0.5, in_flight=4)


def test_a_run_is_one_plain_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("madke.cli.progress.time.monotonic", lambda: now[0])
    with run_progress() as listen:
        listen(STATE)
        listen(RoundStarted(question="q", n=1))
        assert capsys.readouterr().err == ""
        now[0] = 31.0
        listen(STATE)
        listen(STATE)
        assert capsys.readouterr().err == "5/10 questions, 3.0 calls/s, 4 in flight, cost 0.5\n"
        listen(RunProgress(done=8, total=10, resumed=2, failed=1, failed_calls=7, at=20.0))
    ended = "10/10 questions, 0.0 calls/s, 0 in flight, 7 calls and 1 questions failed\n"
    assert capsys.readouterr() == ("", ended)


def test_a_run_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with run_progress() as listen:
        listen(STATE)
    shown = terminal.getvalue()
    assert " 5/10" in shown
    assert "3.0 calls/s, 4 in flight, cost 0.5" in shown
    assert shown.removesuffix("\x1b[?25h").endswith("\n")
    assert shown.count("\x1b[?25h") > shown.count("\x1b[?25l")  # the cursor is seen meanwhile, too


def test_a_run_that_tells_nothing_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress():
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["terminal", "file"])
def test_a_text_cannot_steer_the_terminal(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = terminal_of(monkeypatch) if where == "terminal" else None

    async def shown() -> None:
        async with showing(lambda: "\x1b]0;owned\x07 [red]arm[/red]"):
            pass

    asyncio.run(shown())
    text = stream.getvalue() if stream else capsys.readouterr().err
    assert "]0;owned [red]arm[/red]" in text
    assert "\x1b]0" not in text


def test_a_count_ends_with_its_total(capsys: pytest.CaptureFixture[str]) -> None:
    show = counter("retrieved")
    for done in range(4):
        show(done, 3)
    assert capsys.readouterr().err == "retrieved: 3/3\n"


def test_a_count_that_begins_again_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    show = counter("passages")
    show(7, None)
    show(7, 7)
    show(1, 7)
    show(7, 7)
    assert terminal.getvalue().count("passages") >= 2


def test_status_lines_leave_nothing_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with status_line() as show:
        show("12 pages")
    assert "12 pages" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased
