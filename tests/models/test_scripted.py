"""A model whose replies are a script."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Completion
from madke.core.errors import UserError
from madke.models.scripted import ScriptedChat
from tests.support.chat_requests import chat_request, purpose


def ask(model: ScriptedChat, **about: Any) -> Completion:
    return asyncio.run(model.complete(chat_request(about=purpose(**about))))


@pytest.mark.parametrize("replies", [[], {"judge": "[Yes]"}, lambda request: None])
def test_what_the_script_does_not_hold_fails_and_names_the_purpose(replies: Any) -> None:
    said = ask(ScriptedChat(replies), agent="Ann", round=3)
    assert said.outcome == "failed"
    for word in ("'speak'", "'Ann'", "round 3", "'q1'"):
        assert word in str(said.error)


RULES = """\
- {stage: judge, round: 1, reply: "[No]"}
- stage: judge
  reply: "[Yes]"
- question: q7
  agent: B
  reply: seven
- reply: |
    anything else
"""


def from_text(folder: Path, text: str) -> ScriptedChat:
    (folder / "script.yaml").write_text(text, encoding="utf-8")
    return ScriptedChat.from_file(folder / "script.yaml")


def test_the_first_rule_that_matches_answers_and_an_edited_script_is_another_model(tmp_path: Path) -> None:
    model = from_text(tmp_path, RULES)
    assert ask(model, stage="judge", round=1).text == "[No]"
    assert ask(model, stage="judge", round=2).text == "[Yes]"
    assert ask(model, question="q7", agent="B").text == "seven"
    assert ask(model, question="q7", agent="C").text == "anything else\n"
    assert model.name.startswith("scripted/script.yaml#")
    assert model.name == from_text(tmp_path, RULES).name
    assert model.name != from_text(tmp_path, RULES + "- reply: more\n").name


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("- reply: a\n- stage: x\n", ":2: ", "reply: Field required"),
        ("- reply: a\n\n- reply: b\n  rond: 1\n", ":4: ", "'1.rond'"),
        ("- reply: \x00\n", ": ", "not YAML"),
    ],
)
def test_a_bad_script_is_said_with_file_and_line(tmp_path: Path, text: str, where: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(tmp_path, text)
    assert f"script.yaml{where}" in str(caught.value)
    assert what in str(caught.value)
