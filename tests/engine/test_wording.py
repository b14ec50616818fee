"""``--wording``: the structure of the papers' prompts (``tests/golden/paper.txt``), and a file of one's own."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import nothing_found
from madke.engine.variant import load_variant
from madke.engine.wording import wordings_with_prompts
from madke.runs.directory import read_run
from madke.runs.request import RunRequest
from madke.runs.spec import resolve
from madke.tasks import TASKS
from tests.support.cli import madke, refused
from tests.support.dataset import write_dataset
from tests.support.debates import play
from tests.support.openai_server import chat, openai_server


@pytest.mark.parametrize("name", sorted(wordings_with_prompts("paper")))
@pytest.mark.parametrize("task", sorted({*TASKS} - {"text"}))  # texts are compared by no matcher
def test_every_task_can_be_asked_in_the_structure_of_the_paper(name: str, task: str, pool: KnowledgePool) -> None:
    question = Question(id="q", question="Which?", answers=("A",), task=task, choices=("x", "y"))
    options: dict[str, Any] = {"question": question, "pool": pool, "retrieve": nothing_found}
    _, model = play(name, lambda request: "[No]", wording="paper", **options)
    for request in model.requests:
        assert not re.search(r"\{[{%]|\n\n\n", "".join(message.content for message in request.messages))


def test_the_structure_has_madkes_own_words(shared_data: Path) -> None:
    """No eight words in a row are those of a paper, but for what names a form."""
    printed = " ".join(
        " ".join(re.findall(r"\w+", file.read_text().casefold()))
        for file in (shared_data.parent / "seeds").glob("*.txt")
    )
    texts = [
        each if isinstance(each, str) else each.template
        for words in wordings_with_prompts("paper").values()
        for each in words.prompts.values()
    ]
    for text in texts:
        words = re.findall(r"\w+", re.sub(r"\{[{%].*?[%}]\}", " | ", text).casefold())
        assert not [run for n in range(len(words) - 7) if (run := " ".join(words[n : n + 8])) in printed]


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """A file of words for mad: that of ``madke protocols copy``, with one sentence replaced."""
    file = tmp_path / "printed.yaml"
    done = madke("protocols", "copy", "mad", file)
    assert done.returncode == 0, done.stderr
    assert f"use them with --wording {file}" in done.stdout
    file.write_text(file.read_text().replace("Other agents have solved the same problem.", "Kindly read on."))
    return file


def test_a_run_takes_the_words_of_a_file_and_records_it(printed: Path, tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    out = tmp_path / "out"
    with openai_server(lambda body, n: chat("The answer is (Lake Baikal).")) as server:
        given = ("run", questions, "-p", "mad", "--wording", printed, "--model", "openai/m", "--base-url", server.url)
        done = madke(*given, "--out", out)
        assert done.returncode == 0, done.stderr
        sent = [seen.body["messages"] for seen in server.requests]
    assert sum("Kindly read on." in messages[-1]["content"] for messages in sent) == 3
    record = read_run(out)
    assert record.wording == "printed.yaml"
    assert "printed.yaml/mad" in record.prompts_sha256
    assert record.protocol.marker == "parentheses"
    other = refused(*given[:4], "--wording", "paper", *given[6:], "--out", out)
    assert "wording" in other


def test_without_a_wording_nothing_changes() -> None:
    plain, worded_ = (resolve(RunRequest(questions=["?"], protocol="mad", wording=w)).record for w in (None, "paper"))
    assert "wording" not in plain.model_dump()
    assert plain.prompts_sha256 == load_variant("mad").files
    assert (worded_.wording, worded_.protocol.marker) == ("paper", "parentheses")


SPEAK = {"prompts": {"speak": {"user": "?"}}}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"madc": SPEAK}, "has no prompts of mad; it has madc"),
        ({"mad": {"prompts": {"judge": {"user": "?"}}}}, "unknown stage of mad 'judge'"),
        ({"mad": {"prompts": {"speak": {"user": "{{ knowledges }}"}}}}, "unknown placeholder 'knowledges'"),
        ({"mad": {"prompts": {"speak": {"user": "{% if %}"}}}}, "is not a template: speak.j2"),
        ({"mad": {"settings": {"rounds": 0}, **SPEAK}}, "rounds"),
    ],
)
def test_a_wrong_file_is_one_line(content: Any, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as error:
        load_variant("mad").in_words(file)
    assert str(file) in str(error.value)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
