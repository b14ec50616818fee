"""A person at the terminal is a chat model: who reads the prompt and types the reply."""

import asyncio
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from madke.models.chat_models import ASK_REPLY, HumanChat
from tests.support.chat_requests import chat_request
from tests.support.terminal import typed_at_terminal

QUESTIONS = "Query,answer\nWhich river leaves Lake Baikal?,Angara\nWhich lake is deep?,Baikal\n"
PEER = """
- {stage: speak, reply: "The answer is [Ob]."}
- {stage: judge, reply: "Verdict: [DIFFERENT]"}
- {stage: summarize, reply: "The answer is [Ob]."}
"""


def test_the_prompt_is_shown_whole_and_answered_in_lines(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\none\ntwo\n\n"))
    said = asyncio.run(HumanChat().complete(chat_request("u" * 900 + "\x1b[2J", system="s" * 900)))
    assert (said.text, said.outcome) == ("one\ntwo", "ok")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "u" * 900 in "".join(shown.err.split())
    assert "s" * 900 in "".join(shown.err.split())
    assert shown.err.count(ASK_REPLY) == 2
    assert "\x1b" not in shown.err


def test_the_loop_goes_on_while_a_person_answers_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["one", "", "two", ""])
    thinking, crowd, loop_goes_on = threading.Lock(), threading.Event(), threading.Event()

    def think() -> str:
        if not thinking.acquire(blocking=False):
            crowd.set()
        assert loop_goes_on.wait(10)
        assert not crowd.wait(0.05), "two questions at once"
        thinking.release()
        return next(lines)

    monkeypatch.setattr("builtins.input", think)

    async def two() -> list[str]:
        model = HumanChat()
        tasks = [asyncio.create_task(model.complete(chat_request(str(n)))) for n in range(2)]
        while not thinking.locked():
            await asyncio.sleep(0)
        loop_goes_on.set()
        return [said.text for said in await asyncio.gather(*tasks)]

    assert asyncio.run(two()) == ["one", "two"]


@pytest.mark.slow
def test_a_person_leaves_with_ctrl_d_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(QUESTIONS, encoding="utf-8")
    (tmp_path / "peer.yaml").write_text(PEER, encoding="utf-8")
    command = "run q.csv --sources none --model scripted/peer.yaml --cast debater-2=human --set rounds=1 --out run"
    seen, status = typed_at_terminal("Seen.\nThe answer is [Angara].\n\n\x04", *command.split(), cwd=tmp_path)
    assert status == 130
    assert "interrupted; the same command resumes" in " ".join(seen)
    seen, status = typed_at_terminal("The answer is [Baikal].\n\n", *command.split(), cwd=tmp_path)
    assert status == 0
    assert "Which river" not in " ".join(seen)
    first = json.loads((tmp_path / "run" / "transcripts.jsonl").read_text(encoding="utf-8").splitlines()[0])
    stance = first["rounds"][0]["turns"][1]["stance"]
    assert (stance["text"], stance["answer"]) == ("Seen.\nThe answer is [Angara].", "Angara")
