"""The examples of the package's page run as written, with the import changed."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from madke.lemmas import DebateResult, DebateRound
from tests.support.openai_server import OpenAIServer, chat, openai_server


@pytest.fixture
def page(shared_data: Path) -> dict[str, str]:
    """Heading -> text below it."""
    (file,) = (shared_data.parent / "seeds").glob("004*.txt")
    headings = [
        "Same-model debate",
        "Cross-model debate (stronger)",
        "Custom personas",
        "With or without a judge",
        "Cost model",
        "Result shape",
    ]
    pieces = re.split("^(" + "|".join(map(re.escape, headings)) + ")$", file.read_text(), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def code(text: str) -> str:
    """The Python at the end of a section, the prose before it left out."""
    lines = text.strip().splitlines()
    for n in range(len(lines)):
        program = "\n".join(lines[n:])
        try:
            ast.parse(program)
        except SyntaxError:
            continue
        return re.sub(r"^from lemmas\b", "from madke", program, flags=re.MULTILINE)
    raise AssertionError(text)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OpenAIServer, Any, dict[str, Any]]]:
    """What the page's programs take for granted: a key, a server, the two clients."""
    with openai_server(lambda body, n: chat("Marbury v. Madison" if n % 2 else "Brown v. Board")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        import openai

        from tests.lemmas.test_adapters import AnthropicDouble, text

        claude = AnthropicDouble(text("CLAUDE: because"))
        make = openai.OpenAI
        with ExitStack() as opened:  # The page's programs do not close their clients.
            monkeypatch.setattr(openai, "OpenAI", lambda: opened.enter_context(make()))
            yield server, claude, {"OpenAI": openai.OpenAI, "Anthropic": lambda: claude}


def execute(program: str, names: dict[str, Any]) -> DebateResult:
    exec(compile(program, "the page", "exec"), names)
    return names["r"]


def test_same_model(
    page: dict[str, str], scene: tuple[OpenAIServer, Any, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    server, _, names = scene
    program = code(page["Same-model debate"])
    assert "from madke import debate" in program
    found = execute(program, names)
    assert len(server.requests) == 9
    assert {request.body["temperature"] for request in server.requests} == {0.7}
    assert capsys.readouterr().out == f"{found.final}\nwinner: {found.winner_label}\n"


def test_cross_model_with_a_judge(page: dict[str, str], scene: tuple[OpenAIServer, Any, dict[str, Any]]) -> None:
    server, claude, names = scene
    found = execute("from madke import debate\n" + code(page["Cross-model debate (stronger)"]), names)
    assert (len(server.requests), len(claude.asked)) == (4, 3)
    assert server.requests[-1].body["model"] == "gpt-4o"
    assert list(found.rounds[2].drafts) == ["OPENAI", "CLAUDE"]


def test_custom_personas(page: dict[str, str], scene: tuple[OpenAIServer, Any, dict[str, Any]]) -> None:
    server, _, names = scene
    execute(code(page["Same-model debate"]), names)
    found = execute(code(page["Custom personas"]), names)
    assert found.winner_label == "MATHEMATICIAN"
    first, second = server.requests[9:11]
    assert "pure mathematician" in first.body["messages"][0]["content"]
    assert "practicing engineer" in second.body["messages"][0]["content"]


def test_result_shape(page: dict[str, str]) -> None:
    classes = [node for node in ast.parse(code(page["Result shape"])).body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == ["DebateResult", "DebateRound"]
    for node, ours in zip(classes, (DebateResult, DebateRound), strict=True):
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
        assert len(fields) == len(node.body)
        shown = [(ast.unparse(field.target), ast.unparse(field.annotation)) for field in fields]
        assert [(field.name, field.type) for field in dataclasses.fields(ours)][: len(shown)] == shown
