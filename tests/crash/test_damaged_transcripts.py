"""Every line of ``transcripts.jsonl`` is checked when a run is resumed or scored: damage is named, with the cure."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.errors import UserError
from madke.core.transcript import to_json
from madke.runs.directory import RunDirectory, read_outcomes, read_run, read_transcripts, seal, unseal
from madke.runs.request import RunOptions
from tests.support.cli import madke, refused
from tests.support.dataset import debating, run_command
from tests.support.openai_server import openai_server
from tests.support.run_folder import write_run
from tests.support.transcripts import transcript

DEBATE = transcript("q", said=["a"], consensus=None, answer="a")
RECORD = to_json(DEBATE)
LINE = seal(RECORD)


@given(st.integers(0, len(LINE) - 2), st.integers(1, 255))
def test_no_byte_of_a_line_changes_unnoticed(at: int, change: int) -> None:
    damaged = LINE[:at] + bytes([LINE[at] ^ change]) + LINE[at + 1 :]
    with pytest.raises(ValueError, match="checksum"):
        unseal(damaged)


def test_damage_is_named_with_its_line_and_its_cure_by_each_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = out / "transcripts.jsonl"
    with openai_server(debating) as server:
        command = run_command(tmp_path, server.url, n=2)
        assert madke(*command).returncode == 0
        paid = len(server.requests)
        whole = file.read_bytes()
        first, second = whole.splitlines(keepends=True)
        # Still valid JSON, with another answer.
        file.write_bytes(first + second.replace(b'"status":"ok"', b'"status":"oK"', 1))
        told = f"madke: {file}:2: is not a transcript: its checksum does not fit its text; delete this line, then run"
        for each in (command, ("score", out), ("report", out)):
            assert refused(*each).startswith(told)

        file.write_bytes(first + second[:-50])  # cut off by a kill
        resumed = madke(*command)
    assert resumed.returncode == 0, resumed.stderr
    assert len(server.requests) == paid
    answers = [json.loads(line)["answer"] for line in whole.splitlines()]
    assert sorted(each.answer for each in read_transcripts(out)) == sorted(answers)


@pytest.mark.parametrize("line", [b"{}\n", b"\n", b"\x00\xff\n", seal(b'{"id": "q"}'), RECORD + b"\n"])
def test_a_complete_line_that_cannot_be_read_is_named(tmp_path: Path, line: bytes) -> None:
    file = write_run(tmp_path, DEBATE, DEBATE) / "transcripts.jsonl"
    file.write_bytes(file.read_bytes() + line)
    for read in (lambda: read_outcomes(file), lambda: read_transcripts(tmp_path)):
        with pytest.raises(UserError, match=r"transcripts.jsonl:3: is not a transcript: .+; delete this line"):
            list(read())


def test_a_line_that_is_not_complete_is_dropped_by_the_next_command(tmp_path: Path) -> None:
    run = write_run(tmp_path, DEBATE)
    file = run / "transcripts.jsonl"
    file.write_bytes(LINE + LINE[:-1])
    assert list(read_transcripts(run)) == [DEBATE]
    with RunDirectory(run) as directory:
        directory.resume(RunOptions())
        assert directory.done == {("q", 0)}
    assert file.read_bytes() == LINE


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("[" * 100_000, "does not describe a run"),
        ('{"config": {}, "files": {}}', "has format 1, but this version of madke reads format 2"),
    ],
    ids=["deep lists", "former format"],
)
def test_a_description_that_is_not_one_of_a_run_is_refused(tmp_path: Path, description: str, said: str) -> None:
    write_run(tmp_path, DEBATE)
    (tmp_path / "run.json").write_text(description)
    with pytest.raises(UserError, match=said):
        read_run(tmp_path)
