"""What is shown on a terminal cannot steer it: no escape sequence, control character or bidi override gets through."""

import ast
import json
import logging
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import madke as package
from madke._util.terminal import LogHandler, printable, printable_json
from madke.cli.app import run_command_line
from madke.core.transcript import PoolEntry, StageUsage
from tests.support.cli import command, madke
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


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_printable_leaves_nothing_that_steers(text: Any) -> None:
    assert not steering(printable(f"before {text} after"))
    assert printable(f"\n{text}\t").startswith("\n")


@pytest.mark.parametrize("text", [*HOSTILE.values(), "\ud800 half", "plain ü 日本語\n\t"])
def test_json_for_a_terminal_says_the_same(text: Any) -> None:
    line = printable_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert not steering(line)
    assert json.loads(line) == {text: [text]}


def test_a_log_line_neither_steers_nor_tells_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828\n")
    record = logging.LogRecord("httpx2", logging.INFO, "x", 1, "GET http://u:sk-canary-2718281828@h %s", (ALL,), None)
    LogHandler().emit(record)
    line = capsys.readouterr().err
    assert line.startswith("httpx2: GET ")
    assert not steering(line)
    assert "canary" not in line


def test_a_run_says_nothing_that_steers(tmp_path: Path) -> None:
    """Over hostile data, with a script that says hostile things."""
    data = tmp_path / "questions.jsonl"
    lines = [{"id": f"{n}{ALL}", "question": f"Which {ALL}?", "golden_answers": [f"{ALL}x"]} for n in range(3)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    passages = [{"source": "wiki", "key": ALL, "title": f"T{ALL}", "text": f"t {ALL}", "url": f"https://x/{ALL}"}]
    pools = [
        {"id": q["id"], "question": q["question"], "passages": passages, "partial": {"google": ALL}} for q in lines
    ]
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in pools))
    # The last question has no reply, so that its failure is listed.
    rules = [{"question": q["id"], "reply": f"{ALL} [0] [No] the answer is [{ALL}y]"} for q in lines[:2]]
    (tmp_path / "script.json").write_text(json.dumps(rules))
    command = ("run", data, "--pools", tmp_path / "pools.jsonl", "--model", f"scripted/{tmp_path / 'script.json'}")
    done = madke(*command, "--out", tmp_path / "out", cwd=tmp_path)
    assert (tmp_path / "out" / "report.html").exists(), done.stderr
    assert not steering(done.stdout + done.stderr)


def test_a_bug_whose_message_is_hostile_does_not_steer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from madke.cli import app

    def broken(**_: Any) -> NoReturn:
        raise ZeroDivisionError(f"a bug {ALL} sk-canary-2718281828")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828")
    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as ended:
        app.run_command_line()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "Traceback" in said
    assert "a bug" in said
    assert "canary" not in said
    assert not steering(said)


IN_A_NAME = ALL.replace("/", "")
"""As part of a file's name."""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Files that a stranger sent: two run directories, an index, prompts, sources and a recipe, hostile throughout."""
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
    for name in ("a", "b"):
        write_run(folder / f"{name}{IN_A_NAME}", debate, models={f"role{ALL}": f"m{ALL}"})
    broken = write_run(folder / f"broken{IN_A_NAME}")
    (broken / "run.json").write_text("{}")

    index = folder / f"index{IN_A_NAME}"
    index.mkdir()
    (index / "manifest.json").write_text(json.dumps({ALL: ALL}))
    variant = folder / "prompts" / "mine"
    variant.mkdir(parents=True)
    text = json.dumps(f"somebody{ALL}")
    (variant / "protocol.yaml").write_text(f"source: {text}\nfunction: alone\ndebaters: 1\n")
    (variant / "speak.j2").write_text("{% block system %}s{% endblock %}{% block user %}u{% endblock %}")
    (folder / "sources.yaml").write_text(json.dumps({f"mine{ALL}": {"index": f"nowhere{ALL}"}}))
    questions = [{"id": "q", "question": f"Which {ALL}?", "golden_answers": ["x"]}]
    (folder / f"data{IN_A_NAME}.jsonl").write_text(json.dumps(questions[0]) + "\n")
    recipe = {
        "title": f"t{ALL}",
        "source": f"s{ALL}",
        "about": ALL,
        "base": {"protocol": "standard"},
        "arms": {"a": {}},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    (folder / "script.json").write_text(json.dumps([{"reply": f"{ALL} [0] [No] the answer is [{ALL}y]"}]))
    return folder


STRANGERS = {
    "report": ("report", "A", "B", "--question", f"q{ALL}"),
    "report of a question that is not there": ("report", "A", "--question", "x"),
    "report as a page": ("report", "A", "--out", "PAGE"),
    "verbose": ("--verbose", "score", "A"),
    "score as JSON": ("score", "A", "--json"),
    "score with details": ("score", "A", "B", "--details"),
    "score by dataset": ("score", "A", "--by-dataset"),
    "score of a broken run": ("score", "BROKEN"),
    "compare": ("compare", "A", "B"),
    "compare as JSON": ("compare", "A", "B", "--json"),
    "annotate": ("annotate", "sample", "A", "--out", "SHEET"),
    "index info": ("index", "info", "INDEX"),
    "index search": ("index", "search", "INDEX", "q"),
    "protocols": ("protocols", "--prompts", "prompts"),
    "protocols as JSON": ("protocols", "--prompts", "prompts", "--json"),
    "protocols show": ("protocols", "show", "mine", "--prompts", "prompts"),
    "doctor": ("doctor",),
    "ask a source": ("ask", "q", "--sources", f"mine{ALL}"),
    "ablate": ("ablate", "recipe.yaml", "--data", "DATA", "--out", "EXPERIMENT", "--plan"),
    "run": ("run", "DATA", "--protocol", "standard", "--out", "OUT", "--plan"),
    "datasets": ("datasets", "show", ALL),
    "a missing file": ("run", f"no such {ALL.replace(chr(0), '')}"),
    "an unknown option": ("run", "x", f"--{ALL}"),
    "an unknown protocol": ("ask", "q", "--protocol", f"p{ALL}"),
    "an unknown model": ("ask", "q", "--model", f"m{ALL}/x"),
    "a bad source": ("ask", "q", "--sources", f"s{ALL}=nowhere{ALL}"),
    "ask": ("ask", f"Which {ALL}?", "--sources", "none", "--model", "scripted/script.json"),
    "ask as JSON": ("ask", f"Which {ALL}?", "--sources", "none", "--model", "scripted/script.json", "--json"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "doctor" else ()) for name in STRANGERS]
)
def test_what_a_stranger_sent_does_not_steer(
    stranger: Any, name: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {
        "A": stranger / f"a{IN_A_NAME}",
        "B": stranger / f"b{IN_A_NAME}",
        "BROKEN": stranger / f"broken{IN_A_NAME}",
        "INDEX": stranger / f"index{IN_A_NAME}",
        "DATA": stranger / f"data{IN_A_NAME}.jsonl",
        **{place: stranger / f"{place}{IN_A_NAME}" for place in ("PAGE", "SHEET", "EXPERIMENT", "OUT")},
    }
    # In this process, which is faster; doctor starts a Java of its own.
    words = [str(places.get(word, word)) for word in STRANGERS[name]]
    if name == "doctor":
        done = madke(*words, cwd=stranger)
        said = done.stdout + done.stderr
    else:
        monkeypatch.chdir(stranger)
        monkeypatch.setattr(sys, "argv", ["madke", *words])
        with pytest.raises(SystemExit):
            run_command_line()
        said = "".join(capsys.readouterr())
    assert said.strip()
    assert "Traceback" not in said, said[-2000:]
    assert not steering(said)


SOURCE = {path: path.read_text(encoding="utf-8") for path in Path(package.__file__).parent.rglob("*.py")}
STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")


def prints(text: Any) -> Iterator[Any]:
    """Calls that write to the terminal, or make something that does."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        last = called.rpartition(".")[2]
        to_stream = last in ("write", "writelines") and any(f"sys.{stream}" in called for stream in STREAMS)
        if to_stream or called in ("print", "rich.print", "pprint", "os.write") or last in FORBIDDEN_CALLS:
            yield called


FORBIDDEN_CALLS = ("echo", "secho", "Console", "StreamHandler", "print_exc", "print_json", "basicConfig")


def test_only_one_place_prints() -> None:
    found = {path.name: called for path, text in SOURCE.items() if (called := sorted(prints(text)))}
    # basicConfig gets its handler from terminal.py, whose console is captured.
    assert found == {"app.py": ["logging.basicConfig"], "terminal.py": ["Console", "sys.stderr.write"]}


@pytest.mark.slow
def test_text_that_the_encoding_lacks_is_replaced_and_json_says_the_same(stranger: Any) -> None:
    ascii_only: dict[str, Any] = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    asked = ("ask", "Zürich, 日本?", "--sources", "none", "--protocol", "standard")
    done = madke(*asked, **ascii_only)
    assert done.returncode == 0, done.stderr
    assert "Z?rich, ??" in done.stdout
    done = madke(*asked, "--json", **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["question"] == "Zürich, 日本?"


OUTPUTS = [("datasets",), ("datasets", "--json")]
"""Commands that print through the console, and as plain text."""


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_a_reader_that_leaves_ends_the_command_quietly(words: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    assert redirected(words, write) == (141, "")


@pytest.mark.parametrize("words", [*OUTPUTS, ("--help",)], ids=" ".join)
def test_an_output_that_cannot_be_written_is_one_true_line(words: Any) -> None:
    status, said = redirected(words, os.open("/dev/full", os.O_WRONLY))
    assert status == 2
    assert said.count("\n") == 1
    assert said.startswith("madke: ")
    assert "No space left" in said or "disk is full" in said


@pytest.mark.parametrize("words", [*OUTPUTS, ("--help",)], ids=" ".join)
def test_a_closed_output_is_one_true_line(words: Any) -> None:
    shell = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command(*words)], capture_output=True, text=True)
    assert (shell.returncode, shell.stderr) == (2, "madke: standard output cannot be written: it is closed\n")


@pytest.mark.slow
def test_no_file_takes_the_number_of_a_closed_stream(stranger: Any, tmp_path: Path) -> None:
    """A run without standard streams writes what one with them writes."""
    words = ("run", stranger / f"data{IN_A_NAME}.jsonl", "--protocol", "standard", "--sources", "none", "--out")
    closed = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command(*words, tmp_path / "closed")])
    assert closed.returncode == 2
    assert madke(*words, tmp_path / "open").returncode == 0
    lines = [json.loads((tmp_path / name / "transcripts.jsonl").read_text()) for name in ("closed", "open")]
    assert [line["answer"] for line in lines[:1]] == [line["answer"] for line in lines[1:]]
    assert (tmp_path / "closed" / "report.html").exists()


def redirected(words: Any, output: Any) -> Any:
    done = subprocess.run(command(*words), stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(output)
    return done.returncode, done.stderr
