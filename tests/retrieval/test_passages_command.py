"""``madke index passages`` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from madke.cli.index import passages
from madke.core.errors import UserError
from madke.retrieval.indexes.corpus import read_corpus
from tests.support.dump import articles, write_dump


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(passages)
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_counts_are_shown_and_the_same_command_finds_nothing_to_do(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "d.xml.bz2", articles(14, paragraphs=2))

    first = run(dump, "--out", tmp_path / "out", "--processes", 1)
    again = run(dump, "--out", tmp_path / "out", "--processes", 1)

    assert (first.exit_code, again.exit_code) == (0, 0)
    passages = len(list(read_corpus(tmp_path / "out")))
    for words in (["pages", "14"], ["articles", "12"], ["redirects", "2"], ["passages", str(passages)]):
        assert words in [line.split() for line in first.stdout.splitlines()]
    assert f"{passages} passages in 1 file" in first.stdout
    assert "already finished" not in first.stdout
    assert again.stdout.startswith(f"{tmp_path / 'out'}: already finished\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "ray", "--processes", "2"], "--processes needs --engine local"),
        ([], r"none\.xml: no such dump file"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(options: list[str], message: str, tmp_path: Path) -> None:
    result = run(tmp_path / "none.xml", "--out", tmp_path / "out", *options)

    assert isinstance(result.exception, UserError)
    assert result.exception.args
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=message):
        raise result.exception
