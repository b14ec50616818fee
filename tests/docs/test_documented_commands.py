"""Every command and Python block of the README, docs/ and SKILL.md runs, but those that need what a machine may lack.

A page's blocks run in order in one folder, with the offline model or a loopback server in place of any other. A block
under ``<!-- needs a key -->`` is not run; its options are checked like all others. ``title="NAME"`` makes a block a
file; ``text title="Output"`` is what the block before it prints.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from madke.cli import app
from tests.docs.blocks import LANGUAGES, NEEDS, SHELL, Block, blocks, madke_calls, missing
from tests.docs.page_runner import CHECKOUT, PageRunner, model_reply
from tests.support.openai_server import openai_server

GENERATED = {"api.md", "cli.md", "protocols.md"}
HAND_WRITTEN = sorted(page for page in (CHECKOUT / "docs").glob("*.md") if page.name not in GENERATED)
PAGES = [CHECKOUT / "README.md", CHECKOUT / "madke" / "SKILL.md", *HAND_WRITTEN]


def parsed(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


def runnable(page: Path) -> list[Block]:
    return [block for block in parsed(page) if not block.needs]


def is_run(block: Block) -> bool:
    return block.language in (*SHELL, "python") or block.is_file


@pytest.mark.slow  # its quick check is that every verb and option exists
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(map(is_run, runnable(page)))], ids=lambda page: page.stem
)
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    with openai_server(model_reply) as server:
        runner = PageRunner(tmp_path, server.url)
        printed = ""
        for block in runnable(page):
            if block.is_output:
                line = missing(block.text.splitlines(), printed)
                assert line is None, f"{page.name}:{block.line}: not printed: {line!r}; printed was\n{printed[-3000:]}"
            elif is_run(block):
                try:
                    printed = runner.run(block)
                except AssertionError as error:
                    pytest.fail(f"{page.name}:{block.line}: {error}", pytrace=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_of_known_kinds(page: Path) -> None:
    found = parsed(page)
    fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.lstrip().startswith("```")]
    assert len(fences) == 2 * len(found)
    assert [(block.line, block.language) for block in found if block.language not in LANGUAGES] == []
    assert [(block.line, block.needs) for block in found if block.needs and block.needs not in NEEDS] == []
    for block in found:
        if block.language == "python":
            ast.parse(block.text)


@pytest.fixture(scope="module")
def command_line() -> Any:
    return typer.main.get_command(app.app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_verbs_and_options_exist(page: Path, command_line: Any) -> None:
    shell = [block for block in parsed(page) if block.language in SHELL]
    wrong = [
        (block.line, word) for block in shell for call in madke_calls(block) for word in unknown(call, command_line)
    ]
    assert wrong == []


def unknown(call: Any, command: Any) -> Iterator[Any]:
    """The words of a call of madke that are no verb or option."""
    verbs = True
    for word in call:
        options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            if word.partition("=")[0] not in options:
                yield word
        elif verbs and hasattr(command, "commands"):
            if word not in command.commands:
                yield word
                return
            command = command.get_command(None, word)
        else:
            verbs = False
