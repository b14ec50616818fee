"""A protocol folder of one's own: the example of prompts/README.md runs; what is wrong in a folder is one line."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.engine.variant import load_variant
from tests.support.cli import madke, refused

STANCES = {"Proposer": "I say [Lena].", "Tester": "The weak step is the lake. The answer is [Angara]."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the page shows."""
    page = Path(asset("prompts", "README.md")).read_text(encoding="utf-8")
    folder = tmp_path / "mine" / "second-look"
    folder.mkdir(parents=True)
    pieces = re.findall(r"`second-look/(\S+)`.*?```\w+\n(.*?)```", page, re.DOTALL)
    for name, text in pieces:
        (folder / name).write_text(text, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {"protocol.yaml", "speak.j2", "reply.j2", "reply.tester.j2"}
    return folder


@pytest.fixture
def run(tmp_path: Path, folder: Path) -> list[str | Path]:
    """A command that runs it."""
    question = {"id": "q", "question": "Which river leaves Lake Baikal?", "golden_answers": ["Angara"]}
    (tmp_path / "data.jsonl").write_text(json.dumps(question) + "\n")
    rules = [{"agent": "Proposer", "round": 2, "reply": "You are right: [Angara]."}]
    rules += [{"agent": agent, "reply": said} for agent, said in STANCES.items()]
    (tmp_path / "script.yaml").write_text(json.dumps(rules))
    model = f"scripted/{tmp_path / 'script.yaml'}"
    options: list[str | Path] = ["--prompts", folder.parent, "-p", "second-look", "--model", model]
    return ["run", tmp_path / "data.jsonl", *options, "--out", tmp_path / "out"]


def test_the_page_example_debates_as_it_says_and_an_editors_file_makes_no_other_run(
    tmp_path: Path, folder: Path, run: list[str | Path]
) -> None:
    done = madke(*run)
    assert done.returncode == 0, done.stderr
    (transcript,) = map(json.loads, (tmp_path / "out" / "transcripts.jsonl").read_text().splitlines())
    assert (transcript["answer"], transcript["stop_reason"]) == ("Angara", "agreement")
    reads = [[(turn["agent"], turn["reads"]) for turn in entry["turns"]] for entry in transcript["rounds"]]
    assert reads == [
        [("Proposer", []), ("Tester", ["Proposer"])],
        [("Proposer", ["Tester"]), ("Tester", ["Proposer"])],
    ]
    assert sum(used["calls"] for used in transcript["usage"].values()) == 4

    (folder / ".reply.j2.swp").write_bytes(b"\xff")
    assert madke(*run).returncode == 0


def test_a_wrong_folder_is_refused_before_anything_is_written(
    tmp_path: Path, folder: Path, run: list[str | Path]
) -> None:
    (folder / "speak.j2").unlink()
    assert "speak.j2: missing" in refused(*run)
    assert not (tmp_path / "out").exists()


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def begun(new: str) -> Callable[[str], str]:
    """The template with a beginning of its user message."""
    return replaced("{% block user %}\n", "{% block user %}\n" + new)


WRONG: list[tuple[str, Callable[[str], str | bytes], str]] = [
    ("protocol.yaml", lambda text: text + "rouns: 2\n", "unknown parameter 'rouns'; did you mean 'rounds'?"),
    ("protocol.yaml", replaced("latest", "last_round"), "needs reads.peers = latest or history"),
    ("protocol.yaml", replaced("prompt: tester", "prompt: judge"), "has no template <stage>.judge.j2"),
    ("protocol.yaml", replaced("early_stop: agreement", "early_stop: judge"), "judge.j2: missing"),
    ("protocol.yaml", lambda text: "rounds: \x1b", "protocol.yaml: is not YAML"),
    ("protocol.yaml", lambda text: "rounds: " + "[" * 1000, "protocol.yaml: is not YAML"),
    ("reply.j2", replaced("Keep it", "{{ verdict }} Keep it"), "unknown placeholder 'verdict'"),
    ("reply.j2", replaced("answer_form", "form"), "reply.j2: needs a template 'form.j2'"),
    ("reply.j2", replaced("block user", "block users"), "has no {% block user %}"),
    ("speak.j2", lambda text: '{% extends "speak.j2" %}', "speak.j2: cannot be rendered: maximum recursion"),
    ("speak.j2", lambda text: '{% extends "answerer_speak.j2" %}{% block usr %}{% endblock %}', "has a block 'usr'"),
    ("speak.j2", lambda text: "caf\u00e9".encode("latin-1"), "is not UTF-8 text"),
    # What would fail in the middle of a debate, if it were not rendered before.
    ("speak.j2", lambda text: text + "{% block user %}{{ question.golds.first }}{% endblock %}", "cannot be rendered"),
    ("reply.j2", begun("{{ 1 / 0 }}"), "reply.j2: cannot be rendered: division by zero"),
    ("reply.j2", begun("{{ own.upper() }}"), "reply.j2: cannot be rendered"),
    ("reply.j2", begun('{% include "more.j2" %}'), "unknown placeholder 'missing'"),
    ("reply.j2", begun('{% include "faulty.j2" %}'), "reply.j2:2: is not a template: faulty.j2: No filter"),
]


@pytest.mark.parametrize(("name", "change", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_what_is_wrong_in_a_folder_is_one_line(
    folder: Path, name: str, change: Callable[[str], str | bytes], said: str
) -> None:
    (folder / "more.j2").write_text("{% if not options %}{{ missing }}{% endif %}")
    (folder / "faulty.j2").write_text("\n{{ round | nothing }}")
    text = (folder / name).read_text()
    changed = change(text)
    assert changed != text
    (folder / name).write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(UserError) as error:
        load_variant("second-look", folder.parent)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
