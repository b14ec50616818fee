"""Lines on terminals: they wrap between words, and never inside a path."""

import sys
from pathlib import Path
from typing import Any

import pytest

from madke._util.terminal import say, say_wrapped


def test_lines_next_to_tables_wrap_between_words_on_a_terminal(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{'x' * 69} 95 % of them."
    say_wrapped(text, label="found", indent=7)
    assert capsys.readouterr().out == f"found  {text}\n"  # a script reads one line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    say_wrapped(text, label="found", indent=7)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"found  {'x' * 69}"
    assert second == "       95\N{NO-BREAK SPACE}% of them."


def test_a_path_on_a_terminal_is_never_split_and_text_in_front_keeps_its_indent(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder of the spring term" / ("with a long name " * 4).strip()
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "argv", ["madke", "run", f"--out={folder / 'run'}"])
    monkeypatch.setenv("COLUMNS", "80")
    say(f"report: {folder / 'run' / 'report.html'}: 12 debates\n  2 x {'word ' * 20}")
    first, second, third, *rest = capsys.readouterr().out.splitlines()
    assert (first, second, third) == ("report:", f"{folder / 'run' / 'report.html'}:", "12 debates")
    assert [line[:3] for line in rest] == ["  2", "  w"]
    say_wrapped(f"Java at {folder / 'run'}", label="java", indent=23)
    assert capsys.readouterr().out.splitlines() == [f"{'java':<23}Java at", f"{'':23}{folder / 'run'}"]
    say_wrapped("one of many words " * 9, label="endpoint", indent=23)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
