"""The worked example of prompts/README.md, made as the page says, runs; what is wrong in a folder is one line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from madke._util.assets import asset
from tests.support.cli import madke, refused

STANCES = {"Proposer": "I say [Lena].", "Tester": "The weak step is the lake. The answer is [Angara]."}


@pytest.fixture
def variant(tmp_path: Path) -> Path:
    page = Path(asset("prompts", "README.md")).read_text(encoding="utf-8")
    folder = tmp_path / "mine" / "second-look"
    folder.mkdir(parents=True)
    pieces = re.findall(r"`second-look/(\S+)`.*?```\w+\n(.*?)```", page, re.DOTALL)
    for name, text in pieces:
        (folder / name).write_text(text, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {"protocol.yaml", "speak.j2", "reply.j2", "reply.tester.j2"}
    return folder


@pytest.fixture
def run(tmp_path: Path, variant: Path) -> list[str | Path]:
    (tmp_path / "data.jsonl").write_text(
        json.dumps({"id": "q", "question": "Which river leaves Lake Baikal?", "golden_answers": ["Angara"]}) + "\n"
    )
    rules = [{"agent": "Proposer", "round": 2, "reply": "You are right: [Angara]."}]
    rules += [{"agent": agent, "reply": said} for agent, said in STANCES.items()]
    (tmp_path / "script.yaml").write_text(json.dumps(rules))
    model = f"scripted/{tmp_path / 'script.yaml'}"
    options: list[str | Path] = ["--prompts", variant.parent, "-p", "second-look", "--model", model]
    return ["run", tmp_path / "data.jsonl", *options, "--out", tmp_path / "out"]


def test_the_page_example_debates_as_it_says(tmp_path: Path, run: list[str | Path]) -> None:
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


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("protocol.yaml", lambda text: text + "rouns: 2\n", "unknown parameter 'rouns'; did you mean 'rounds'?"),
        ("protocol.yaml", lambda text: text.replace("latest", "last_round"), "needs reads.peers = latest or history"),
        (
            "protocol.yaml",
            lambda text: text.replace("prompt: tester", "prompt: judge"),
            "has no template <stage>.judge.j2",
        ),
        ("protocol.yaml", lambda text: text.replace("name: Tester", "name: Judge"), "reserved name 'judge'"),
        ("protocol.yaml", lambda text: text.replace("early_stop: agreement", "early_stop: judge"), "judge.j2: missing"),
        ("reply.j2", lambda text: text.replace("Keep it", "{{ verdict }} Keep it"), "unknown placeholder 'verdict'"),
        ("reply.j2", lambda text: text.replace("answer_form", "form"), "reply.j2: needs a template 'form.j2'"),
        ("reply.j2", lambda text: text.replace("{% endblock %}", "", 1), "reply.j2"),
        ("reply.j2", lambda text: text.replace("block user", "block users"), "has no {% block user %}"),
        ("speak.j2", lambda text: '{% extends "nothing.j2" %}', "speak.j2: needs a template 'nothing.j2'"),
        ("speak.j2", lambda text: None, "speak.j2: missing"),
    ],
)
def test_what_is_wrong_in_a_folder_is_one_line(
    tmp_path: Path, run: list[str | Path], variant: Path, name: str, change: Callable[..., Any], said: str
) -> None:
    text = change((variant / name).read_text())
    (variant / name).write_text(text) if text is not None else (variant / name).unlink()
    assert said in refused(*run)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("reply.j2", "{{ 1 / 0 }}", "reply.j2: cannot be rendered: division by zero"),
        ("reply.j2", '{{ round + "x" }}', "reply.j2: cannot be rendered"),
        ("reply.j2", '{% include "more.j2" %}', "unknown placeholder 'missing'"),
        ("reply.j2", "{{ own.upper() }}", "reply.j2: cannot be rendered"),
        ("reply.j2", "{{ options[0][1] }}", "reply.j2: cannot be rendered"),
        ("reply.j2", '{{ "%.2f" % peers[0].confidence }}', "reply.j2: cannot be rendered"),
        ("reply.j2", '{% include "reply.j2" %}', "reply.j2: cannot be rendered: maximum recursion"),
        ("speak.j2", "{% block user %}{{ question.golds.first }}{% endblock %}", "cannot be rendered"),
        (
            "reply.j2",
            '{% include "faulty.j2" %}',
            "reply.j2:2: is not a template: faulty.j2: No filter named 'nothing'",
        ),
    ],
)
def test_what_would_fail_in_the_middle_of_a_debate_fails_before_it(
    tmp_path: Path, run: list[str | Path], variant: Path, name: str, text: str, said: str
) -> None:
    (variant / "more.j2").write_text("{% if not options %}{{ missing }}{% endif %}")
    (variant / "faulty.j2").write_text("\n{{ round | nothing }}")
    template = (variant / name).read_text()
    start = "{% block user %}\n"
    (variant / name).write_text(template.replace(start, start + text) if start in template else template + text)
    assert said in refused(*run)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{% extends "speak.j2" %}', "speak.j2: cannot be rendered: maximum recursion"),
        (b'{% extends "answerer_speak.j2" %}{% block usr %}mine{% endblock %}', "has a block 'usr'"),
        (b"{% extends question.question %}", "speak.j2: needs a template"),
        ("caf\u00e9".encode("latin-1"), "is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_usable_template_is_one_line(
    run: list[str | Path], variant: Path, text: bytes, said: str
) -> None:
    (variant / "speak.j2").write_bytes(text)
    assert said in refused(*run)


@pytest.mark.parametrize("text", ["rounds: \x1b", "rounds: 2026-99-99", "rounds: " + "[" * 3000])
def test_a_protocol_that_is_no_yaml_is_one_line(run: list[str | Path], variant: Path, text: str) -> None:
    (variant / "protocol.yaml").write_text(text)
    assert "protocol.yaml: is not YAML" in refused(*run)


def test_an_editors_files_do_not_make_it_another_run(tmp_path: Path, run: list[str | Path], variant: Path) -> None:
    assert madke(*run).returncode == 0
    (variant / ".reply.j2.swp").write_bytes(b"\xff")
    assert madke(*run).returncode == 0
