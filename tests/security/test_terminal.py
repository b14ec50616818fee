"""What is shown on a terminal cannot steer it: no escape sequence, control character or bidi override gets through."""

import json
import logging
import unicodedata

import pytest

from madke.cli.console import PrintableFormatter
from madke.terminal import printable, printable_json
from tests.support.cli import madke

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


def steering(text):
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in "\n\t"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_printable_leaves_nothing_that_steers(text):
    assert not steering(printable(f"before {text} after"))
    assert printable(f"\n{text}\t").startswith("\n")


@pytest.mark.parametrize("text", [*HOSTILE.values(), "\ud800 half", "plain ü 日本語\n\t"])
def test_json_for_a_terminal_says_the_same(text):
    line = printable_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert not steering(line)
    assert json.loads(line) == {text: [text]}


def test_a_log_line_neither_steers_nor_tells_a_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828\n")
    record = logging.LogRecord("httpx2", logging.INFO, "x", 1, "GET http://u:sk-canary-2718281828@h %s", (ALL,), None)
    line = PrintableFormatter("%(message)s").format(record)
    assert not steering(line)
    assert "canary" not in line


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run over hostile data, with a script that says hostile things, and what each command says of it."""
    folder = tmp_path_factory.mktemp("hostile")
    data = folder / "questions.jsonl"
    lines = [{"id": f"{n}{ALL}", "question": f"Which {ALL}?", "golden_answers": [f"{ALL}x"]} for n in range(3)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    passages = [{"source": "wiki", "key": ALL, "title": f"T{ALL}", "text": f"t {ALL}", "url": f"https://x/{ALL}"}]
    pools = [
        {"id": q["id"], "question": q["question"], "passages": passages, "partial": {"google": ALL}} for q in lines
    ]
    (folder / "pools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in pools))
    # The last question has no reply, so that its failure is listed.
    rules = [
        {"question": q["id"], "reply": f"{ALL} [0] [No] the answer is [{ALL}y]"} for q in [*lines[:2], {"id": "ask"}]
    ]
    (folder / "script.json").write_text(json.dumps(rules))
    command = ("run", data, "--pools", folder / "pools.jsonl", "--model", f"scripted/{folder / 'script.json'}")
    done = madke(*command, "--out", folder / "out", cwd=folder)
    assert (folder / "out" / "report.html").exists(), done.stderr
    return folder, done, lines


COMMANDS = {
    "score": ("score", "OUT"),
    "score as JSON": ("score", "OUT", "--json"),
    "report": ("report", "OUT", "--question", f"0{ALL}"),
    "compare": ("compare", "OUT", "OUT2"),
    "compare as JSON": ("compare", "OUT", "OUT2", "--json"),
    "a missing file": ("run", f"no such {ALL.replace(chr(0), '')}"),
    "an unknown option": ("run", "x", f"--{ALL}"),
    "an unknown protocol": ("ask", "q", "--protocol", f"p{ALL}"),
    "an unknown model": ("ask", "q", "--model", f"m{ALL}/x"),
    "a bad source": ("ask", "q", "--sources", f"s{ALL}=nowhere{ALL}"),
    "ask": ("ask", f"Which {ALL}?", "--sources", "none", "--model", "SCRIPT"),
    "ask as JSON": ("ask", f"Which {ALL}?", "--sources", "none", "--model", "SCRIPT", "--json"),
    "verbose": ("--verbose", "score", "OUT"),
}


def test_a_run_says_nothing_that_steers(run):
    _, done, _ = run
    assert not steering(done.stdout + done.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_nothing_that_steers(run, name):
    folder, _, _ = run
    places = {"OUT": folder / "out", "OUT2": folder / "out", "SCRIPT": f"scripted/{folder / 'script.json'}"}
    done = madke(*(places.get(word, word) for word in COMMANDS[name]), cwd=folder)
    said = done.stdout + done.stderr
    assert said.strip()
    assert "Traceback" not in said, said[-2000:]
    assert not steering(said)


def test_a_bug_whose_message_is_hostile_does_not_steer(tmp_path, monkeypatch, capsys):
    from madke.cli import app

    def broken(**_):
        raise ZeroDivisionError(f"a bug {ALL} sk-canary-2718281828")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-2718281828")
    monkeypatch.setattr(app, "app", broken)
    monkeypatch.setattr(app, "_register", lambda: None)
    with pytest.raises(SystemExit) as ended:
        app.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "Traceback" in said
    assert "a bug" in said
    assert "canary" not in said
    assert not steering(said)
