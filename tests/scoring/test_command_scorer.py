"""Scorers behind a command: a number an item, or one line that says why not; nothing hangs or is left running."""

import asyncio
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from madke._util.child_process import CommandScorer, ScorerItem
from madke.core.errors import UserError


@pytest.fixture
def scorer(tmp_path: Path) -> Callable[[str], CommandScorer]:
    """A function that makes a scorer from the body of a script."""

    def make(body: str) -> CommandScorer:
        script = tmp_path / "a scorer.py"
        script.write_text(f"import json, os, sys\n{body}")
        return CommandScorer(f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")

    return make


def items(*candidates: str) -> list[ScorerItem]:
    return [ScorerItem(source="Quelle", candidate=candidate, references=("a spring",)) for candidate in candidates]


def test_each_item_gets_its_number_in_order(scorer: Callable[[str], CommandScorer]) -> None:
    lengths = "for line in sys.stdin: print(len(json.loads(line)['candidate']), flush=True)"
    texts = ("abc", "a", "ab\ncd", "\ud83d", "\u2028\x00", "")
    assert scorer(lengths).scores(items(*texts)) == [3.0, 1.0, 5.0, 1.0, 2.0, 0.0]
    in_json = "print(json.dumps({'score': len(json.load(sys.stdin)['references'][0])}), '\\r\\n')"
    assert scorer(in_json).scores(items("x")) == [8.0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print(1)", "printed 1 lines for 2 items; expected one number per item"),
        ("print('0.5\\nnan')", "line 2 of its output is 'nan'; expected a finite number"),
        ("print('[' * 100000 + '\\n1')", "line 1 of its output is '[[["),
        ("raise SystemError('no checkpoint\\n')", "ended with status 1; its last line on stderr: 'SystemError"),
        ("sys.stdout.buffer.write(b'\\xff\\n1')", "line 1 of its output is"),
    ],
)
def test_what_is_no_number_for_each_item_is_one_line(
    scorer: Callable[[str], CommandScorer], body: str, said: str
) -> None:
    with pytest.raises(UserError) as raised:
        scorer(body).scores(items("a", "b"))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program --gpus 0", "scorer 'no-such-program --gpus 0': cannot be started: No such file"),
        ("'unclosed", "No closing quotation; expected a command line"),
        ("  ", "expected a command line, found an empty string"),
    ],
)
def test_a_command_that_cannot_be_run(command: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        CommandScorer(command).scores(items("a"))


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(UserError, match="printed 0 lines for 1 items"):
        CommandScorer(f"{shlex.quote(sys.executable)} -c pass ; touch {made} $(touch {made})").scores(items("a"))
    assert not made.exists()


def test_only_keys_that_the_command_repeats_are_hidden(
    scorer: Callable[[str], CommandScorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    for body in ("sys.exit('false: ' + os.environ['OPENAI_API_KEY'])", "print(os.environ['OPENAI_API_KEY'])"):
        with pytest.raises(UserError) as raised:
            scorer(body).scores(items("a"))
        assert "secret" not in str(raised.value)
        assert "***" in str(raised.value)
    with pytest.raises(UserError, match="it is false"):
        scorer("sys.exit('it is false')").scores(items("a"))


@pytest.fixture
def lingering(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A command whose own child does not end, and the reading end of a pipe that only this child holds open."""
    pipe, script = tmp_path / "pipe", tmp_path / "linger.sh"
    os.mkfifo(pipe)
    script.write_text('( printf x; exec sleep 600 ) > "$1" &\nwait\n')
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield f"sh {shlex.quote(str(script))} {shlex.quote(str(pipe))}", held
    os.close(held)


def all_of(held: int) -> bytes:
    """What was written into the pipe; it returns when nobody is left who could write."""
    os.set_blocking(held, True)
    with os.fdopen(os.dup(held), "rb") as file:
        return file.read()


def test_a_command_that_takes_too_long_is_killed_with_its_children(lingering: tuple[str, int]) -> None:
    command, held = lingering
    with pytest.raises(UserError, match="did not end within 1 s"):
        CommandScorer(command, timeout=1).scores(items("a"))
    assert all_of(held) == b"x"


def test_a_command_ends_with_the_one_who_started_it(lingering: tuple[str, int]) -> None:
    command, held = lingering
    score = "from madke._util.child_process import CommandScorer, ScorerItem\n"
    score += f"CommandScorer({command!r}).scores([ScorerItem(source='', candidate='x', references=())])"
    with subprocess.Popen([sys.executable, "-c", score]) as process:
        select.select([held], [], [])  # the command's own child runs
        process.kill()
    assert all_of(held) == b"x"


def test_cancelling_kills_the_command_with_its_children(lingering: tuple[str, int]) -> None:
    command, held = lingering

    async def cancel_once_it_runs() -> None:
        runs = asyncio.Event()
        asyncio.get_running_loop().add_reader(held, runs.set)
        task = asyncio.create_task(CommandScorer(command).ascores(items("a")))
        await runs.wait()
        asyncio.get_running_loop().remove_reader(held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_once_it_runs())
    assert all_of(held) == b"x"


def test_no_items_start_nothing() -> None:
    scorer = CommandScorer("no-such-program")
    assert scorer.scores([]) == []
    assert asyncio.run(scorer.ascores([])) == []


def test_a_large_batch_with_much_said_on_both_sides_does_not_stand_still(
    scorer: Callable[[str], CommandScorer],
) -> None:
    chatty = "for line in sys.stdin:\n    print('x' * 1000, file=sys.stderr)\n    print(len(line))"
    found = scorer(chatty).scores(items(*["y" * 2000] * 1000))
    assert len(found) == 1000
    assert len(set(found)) == 1
