"""What is shown on a terminal cannot steer it: no escape sequence, control character or bidi override gets through."""

import json
import logging
import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Any, NoReturn

import pytest

from madke._util.terminal import LogHandler, printable, printable_json
from madke.core.transcript import PoolEntry, StageUsage
from tests.support.cli import command, madke
from tests.support.dataset import write_dataset
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

HOSTILE = {
    "clipboard": "\x1b]52;c;aGk=\x07",
    "link": "\x1b]8;;https://evil.example\x1b\\text\x1b]8;;\x1b\\",
    "title": "\x1b]0;owned\x07",
    "colour": "\x1b[31mred\x1b[0m",
    "C1": "\x9b31m\x9d52;c;aGk=\x9c\x90q\x85",
    "bidi": "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "backspaces": "safe\b\b\b\bevil\r\x7f",
    "tags": "\U000e0041\U000e0001",
    "joiners": "a\u200bb\u2060c\ufeff",
    "private": "\ue000\U00100000",
}
ALL = "".join(HOSTILE.values())


def steering(text: Any) -> Any:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in "\n\t"}


@pytest.mark.parametrize("text", [*HOSTILE.values(), "\ud800 half", "plain ü 日本語\n\t"])
def test_text_and_json_for_a_terminal_hold_nothing_that_steers(text: str) -> None:
    assert not steering(printable(f"before {text} after"))
    assert printable(f"\n{text}\t").startswith("\n")
    line = printable_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert not steering(line)
    assert json.loads(line) == {text: [text]}


def test_a_log_line_neither_steers_nor_tells_a_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828\n")
    told = logging.Logger("some.library")
    told.addHandler(LogHandler())
    address = "https://user:pass@h.example/gateway-token-2718281828/v1/models?key=314159265358979"
    told.warning("GET %s failed: sk-canary-2718281828 %s", address, ALL)
    line = capsys.readouterr().err
    assert line.startswith("some.library: GET https://h.example/~cec8f172/v1/models failed: ")
    assert not steering(line)
    assert "canary" not in line


def test_a_bug_whose_message_is_hostile_neither_steers_nor_tells_a_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from madke.cli import app

    def broken(**_: Any) -> NoReturn:
        raise ZeroDivisionError(f"a bug at https://h.example/gateway-token-2718281828/v1 {ALL} sk-canary-2718281828")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828")
    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as ended:
        app.run_command_line()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "Traceback" in said
    assert "a bug at https://h.example/~cec8f172/v1 " in said
    assert "canary" not in said
    assert not steering(said)


IN_A_NAME = ALL.replace("/", "")
"""As part of a file's name."""

RUN, DATA, OUT = f"run{IN_A_NAME}", f"data{IN_A_NAME}.jsonl", f"out{IN_A_NAME}"


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Files that a stranger sent: a run directory, questions, pools, replies and sources, hostile throughout."""
    folder = tmp_path_factory.mktemp("stranger")
    debate = transcript(
        f"q{ALL}",
        said=[ALL, "x"],
        consensus=False,
        answer="x",
        stop_reason=f"rounds{ALL}",
        pool=(PoolEntry(n=0, source=f"s{ALL}", key=ALL, title=ALL),),
        pool_partial={f"source{ALL}": f"reason{ALL}"},
        usage={f"stage{ALL}": StageUsage(calls=2, paid=1, prompt_tokens=3, completion_tokens=4)},
    )
    write_run(folder / RUN, debate, models={f"role{ALL}": f"m{ALL}"})
    (folder / "sources.yaml").write_text(json.dumps({f"mine{ALL}": {"index": f"nowhere{ALL}"}}))
    question = {"question": f"Which {ALL}?", "golden_answers": [f"{ALL}x"]}
    questions = [{"id": "q", **question}, {"id": f"r{ALL}", **question}]
    (folder / DATA).write_text("".join(json.dumps(each) + "\n" for each in questions))
    passage = {"source": "wiki", "key": ALL, "title": f"T{ALL}", "text": f"t {ALL}", "url": f"https://x/{ALL}"}
    pools = [{**each, "passages": [passage], "partial": {"google": ALL}} for each in questions]
    (folder / "pools.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pools))
    reply = f"{ALL} [0] [No] the answer is [{ALL}y]"
    (folder / "script.json").write_text(json.dumps([{"reply": reply}]))
    (folder / "first.json").write_text(json.dumps([{"question": "q", "reply": reply}]))
    return folder


STRANGERS = {
    "report": ("report", RUN, "--question", f"q{ALL}"),
    "verbose": ("--verbose", "score", RUN),
    "ask a source": ("ask", "q", "--sources", f"mine{ALL}"),
    # The second question has no reply, so that its failure is listed.
    "run": ("run", DATA, "--pools", "pools.jsonl", "--model", "scripted/first.json", "--out", OUT),
    "a missing file": ("run", f"no such {ALL.replace(chr(0), '')}"),
    "an unknown option": ("run", "x", f"--{ALL}"),
    "ask": ("ask", f"Which {ALL}?", "--sources", "none", "--model", "scripted/script.json"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_what_a_stranger_sent_does_not_steer(stranger: Path, name: str) -> None:
    done = madke(*STRANGERS[name], cwd=stranger)
    said = done.stdout + done.stderr
    assert said.strip()
    assert "Traceback" not in said, said[-2000:]
    assert not steering(said)


@pytest.mark.slow
def test_text_that_the_encoding_lacks_is_replaced_and_json_says_the_same() -> None:
    ascii_only: dict[str, Any] = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    asked = ("ask", "Zürich, 日本?", "--sources", "none", "--protocol", "standard")
    done = madke(*asked, **ascii_only)
    assert done.returncode == 0, done.stderr
    assert "Z?rich, ??" in done.stdout
    done = madke(*asked, "--json", **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["question"] == "Zürich, 日本?"


OUTPUTS = [("datasets",), ("datasets", "--json"), ("--help",)]
"""Commands that print through the console, as plain text, and before any command runs."""

every_output = pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)


def redirected(words: tuple[str, ...], output: int) -> tuple[int, str]:
    done = subprocess.run(command(*words), stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(output)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", OUTPUTS[:2], ids=" ".join)
def test_a_reader_that_leaves_ends_the_command_quietly(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    assert redirected(words, write) == (141, "")


@every_output
def test_an_output_that_cannot_be_written_is_one_true_line(words: tuple[str, ...]) -> None:
    status, said = redirected(words, os.open("/dev/full", os.O_WRONLY))
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith("madke: ")
    assert "No space left" in said or "disk is full" in said


@every_output
def test_a_closed_output_is_one_true_line(words: tuple[str, ...]) -> None:
    shell = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command(*words)], capture_output=True, text=True)
    assert (shell.returncode, shell.stderr) == (2, "madke: standard output cannot be written: it is closed\n")


@pytest.mark.slow
def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """A run without standard streams writes what one with them writes."""
    questions, _ = write_dataset(tmp_path, 1)
    words = ("run", questions, "--protocol", "standard", "--sources", "none", "--out")
    closed = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command(*words, tmp_path / "closed")])
    assert closed.returncode == 2
    assert madke(*words, tmp_path / "open").returncode == 0
    answers = [json.loads((tmp_path / name / "transcripts.jsonl").read_text())["answer"] for name in ("closed", "open")]
    assert answers[0] == answers[1]
    assert (tmp_path / "closed" / "report.html").exists()
