"""What people see of a run while it goes on."""

import io
import re
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from madke.cli.progress import counter, run_progress
from madke.core.events import RoundStarted, RunProgress


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> Any:
        return True


BAR, REST = "\u2501" * 30, "\u2500" * 30


def terminal_of(monkeypatch: pytest.MonkeyPatch, columns: int = 160) -> Any:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
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
        assert capsys.readouterr().err == "questions: 5/10, cost 0.5, 3.0 calls/s, 4 in flight\n"
        now[0] = 62.0
        # As many as are under way at once must have ended: the first to end are the shortest.
        listen(replace(STATE, done=4, in_flight=5))
        assert capsys.readouterr().err == "questions: 6/10, cost 0.5, 3.0 calls/s, 5 in flight\n"
        now[0] = 93.0
        listen(replace(STATE, done=4))
        assert capsys.readouterr().err == "questions: 6/10, 6 min left, cost 0.5, 3.0 calls/s, 4 in flight\n"
        listen(RunProgress(done=8, total=10, resumed=2, failed=1, failed_calls=7, at=20.0))
    assert capsys.readouterr() == ("", "questions: 10/10, 1 failed, 7 calls failed\n")


BUSY = RunProgress(done=45, total=120, resumed=3, calls=300, at=100.0, cost=0.0123, in_flight=16, failed=2)
LARGE = RunProgress(done=12_345, total=20_000, calls=123_456, at=1000.0, cost=123.4, in_flight=512)


def frames(shown: str) -> list[str]:
    """What stood in the line, one state after the other."""
    return [part for part in re.split(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n]", shown) if part.strip()]


@pytest.mark.parametrize(
    ("columns", "busy", "large"),
    [
        (
            120,
            f"questions {BAR[:12]}{REST[:18]} 48/120, 30 s left, cost 0.0123, 2 failed, 3.0 calls/s, 16 in flight",
            f"questions {BAR[:18]}{REST[:12]} 12,345/20,000, 13 s left, cost 123.4, 123.5 calls/s, 512 in flight",
        ),
        (
            80,
            f"questions {BAR[:4]}{REST[:6]} 48/120, 30 s left, cost 0.0123, 2 failed, 3.0 calls/s",
            f"questions {BAR[:6]}{REST[:4]} 12,345/20,000, 13 s left, cost 123.4, 123.5 calls/s",
        ),
        (
            60,
            f"questions {BAR[:4]}{REST[:6]} 48/120, 30 s left, cost 0.0123",
            f"questions {BAR[:6]}{REST[:4]} 12,345/20,000, 13 s left, cost 123.4",
        ),
        (40, f"questions {BAR[:4]}{REST[:6]} 48/120, 30 s left", "questions 12,345/20,000, 13 s left"),
    ],
)
def test_a_run_is_one_line_on_a_terminal_of_any_width(
    columns: int, busy: str, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state, expected in ((BUSY, busy), (LARGE, large)):
        terminal = terminal_of(monkeypatch, columns)
        now = [0.0]
        monkeypatch.setattr("madke.cli.progress.time.monotonic", lambda now=now: now[0])
        monkeypatch.setattr("madke.cli.progress._TERMINAL_SECONDS", 0.01)
        with run_progress() as listen:
            listen(replace(state, done=state.done // 2))
            now[0] = 10.0 if state is LARGE else 9.5
            listen(state)
            end = time.perf_counter() + 5
            while frames(terminal.getvalue())[-1] != expected and time.perf_counter() < end:
                time.sleep(0.005)
            assert frames(terminal.getvalue())[-1] == expected
        shown = terminal.getvalue()
        assert " left" not in frames(shown)[-1]  # what has ended takes no more time
        assert max(map(len, frames(shown))) <= columns
        assert shown.removesuffix("\x1b[?25h").endswith("\n")
        assert shown.count("\n") == 1  # redrawn in place
        assert shown.count("\x1b[?25h") > shown.count("\x1b[?25l")  # the cursor is seen meanwhile, too


@pytest.mark.parametrize("where", ["terminal", "file"])
def test_a_text_cannot_steer_the_terminal(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = terminal_of(monkeypatch) if where == "terminal" else None
    counter("\x1b]0;owned\x07 [red]arm[/red]")(1, 1)
    text = stream.getvalue() if stream else capsys.readouterr().err
    assert "]0;owned [red]arm[/red]" in text
    assert "\x1b]0" not in text
