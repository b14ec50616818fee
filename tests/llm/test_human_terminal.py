"""A person at a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from madke.data.questions import id_of
from madke.llm.human import ASK_ANSWER, ASK_PASSAGES, ASK_REASONS

WIDTH = 60
RIVER, LAKE = "Which river leaves Lake Baikal?", "Which lake is deep?"
COMMAND = """run q.csv --pools pools.jsonl --sources docs --model scripted/peer.yaml --cast debater-2=human
    --set rounds=1 --out run"""
PEER = """
- {stage: select, reply: "Selected: [0]"}
- {stage: speak, reply: "The answer is [Ob]."}
- {stage: judge, reply: "Verdict: [DIFFERENT]"}
- {stage: summarize, reply: "The answer is [Ob]."}
"""


def at_terminal(arguments: Sequence[str], steps: Sequence[tuple[str, str]], folder: Path) -> tuple[str, int]:
    """Run madke in a terminal: wait for each text, type the other. Returns all output and the exit status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    command = [sys.executable, "-m", "madke", *arguments]
    program = subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment()
    )
    os.close(theirs)
    seen, place, until = "", 0, time.monotonic() + 60
    for wanted, typed in [*steps, ("", "")]:
        while (wanted not in seen[place:] if wanted else True) and time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                try:
                    seen += os.read(ours, 65536).decode()
                except OSError:  # the program has ended
                    break
        place = seen.index(wanted, place) + len(wanted)
        if typed:
            os.write(ours, typed.encode())
    os.close(ours)
    return seen.replace("\r\n", "\n"), program.wait(10)


def environment() -> dict[str, str]:
    here = str(Path(__file__).parents[2])
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"PYTHONPATH": here}


def write_inputs(folder: Path) -> None:
    (folder / "q.csv").write_text(f"Query,answer\n{RIVER},Angara\n{LAKE},Baikal\n", encoding="utf-8")
    (folder / "peer.yaml").write_text(PEER, encoding="utf-8")
    passage = {"source": "docs", "title": "T", "score": 1}
    with (folder / "pools.jsonl").open("w", encoding="utf-8") as file:
        for text in (RIVER, LAKE):
            passages = [
                passage | {"key": f"{n}", "text": f"The Angara {n} leaves the lake. " * 9, "rank": n} for n in range(2)
            ]
            file.write(json.dumps({"id": id_of(text), "question": text, "passages": passages}) + "\n")


@pytest.mark.slow
def test_a_person_leaves_with_ctrl_d_and_comes_back(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    first = [
        (ASK_PASSAGES, "9\n"),
        (ASK_PASSAGES, "0 1\n"),
        (ASK_ANSWER, "\n"),
        (ASK_ANSWER, "Angara\n"),
        (ASK_REASONS, "Seen.\n\n"),
    ]
    seen, status = at_terminal(COMMAND.split(), [*first, (ASK_PASSAGES, "\x04")], tmp_path)
    assert status == 130
    assert "interrupted after 1 of 2 questions; the same command resumes" in " ".join(seen.split())
    assert "question from `Query`, answers from `answer`, ids made from the text" in " ".join(seen.split())
    dialogue = seen[seen.index("--- Debater 2") : seen.index("madke: interrupted")]
    assert max(map(len, dialogue.splitlines())) < WIDTH + len(ASK_REASONS)
    assert max(len(line) for line in dialogue.splitlines() if not line.startswith("Your")) <= WIDTH
    assert "Debater 1 (round 1):\n    The answer is [Ob]." in dialogue
    seen, status = at_terminal(
        COMMAND.split(), [(ASK_PASSAGES, "\n"), (ASK_ANSWER, "Baikal\n"), (ASK_REASONS, "\n")], tmp_path
    )
    assert status == 0
    assert RIVER not in seen
