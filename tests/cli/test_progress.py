"""What people see of a run while it goes on."""

import io
import re
import sys
from dataclasses import replace

import pytest

from madke._util.terminal import say
from madke.cli.progress import counter, listening, run_progress
from madke.core.events import PoolProgress, PoolsReady, RoundStarted, RunProgress
from madke.core.knowledge import SourceCounts


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("madke._util.terminal._status", "")
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
        assert capsys.readouterr().err == "questions: 6/10, 10 s left, cost 0.5, 3.0 calls/s, 4 in flight\n"
        listen(RunProgress(done=8, total=10, resumed=2, failed=1, failed_calls=7, at=20.0))
    assert capsys.readouterr() == ("", "questions: 10/10, 1 failed, 7 calls failed\n")


BUSY = RunProgress(done=45, total=120, resumed=3, calls=300, at=100.0, cost=0.0123, in_flight=16, failed=2)


def frames(shown: str) -> list[str]:
    """What stood in the line, one state after the other."""
    return [part for part in re.split(r"\x1b\[K|[\r\n]", shown) if part]


def test_a_run_is_one_line_on_a_terminal_cut_to_its_width_which_no_name_can_steer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = terminal_of(monkeypatch)
    with run_progress() as listen:
        listen(BUSY)
        say("another line", err=True)
    cut = "questions: 48/120, 3 min left, cost 0.0123, 2 failed, 3.0 c"
    last = "questions: 48/120, cost 0.0123, 2 failed, 3.0 calls/s, 16 in flight"
    assert frames(terminal.getvalue()) == [cut, "another line", cut, last]
    counter("\x1b]0;owned\x07 [red]arm[/red]")(1, 1)
    assert "]0;owned [red]arm[/red]" in terminal.getvalue()
    assert "\x1b]0" not in terminal.getvalue()


def test_a_study_names_its_sources_once_and_at_the_end_where_passages_lack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("madke.cli.progress.time.monotonic", lambda: now[0])
    with listening() as listen:
        for found in (20, 20, 19):
            now[0] += 60
            listen(PoolProgress(done=20, total=20))
            listen(PoolsReady(found={"wiki": SourceCounts(asked=20, found=found), "web": SourceCounts(asked=20)}))
        shown = "retrieved: 20/20\nwiki: passages for 20 of 20 questions, 0 failed\n"
        assert capsys.readouterr().err == f"{shown}web: passages for 0 of 20 questions, 0 failed\n"
    assert capsys.readouterr().err == (
        "web: passages for 0 of 60 questions, 0 failed\nwiki: passages for 59 of 60 questions, 0 failed\n"
    )
