"""The prompts and raw replies on the page, from a run's call store or from that of an experiment."""

from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion
from madke.report.html import write_report
from tests.report.test_page import data_of

QUESTIONS = [madke.Question(id="q1", question="Which lake is the deepest?", answers=("Lake Baikal",))]


class Speaking:
    """Says its stage and round."""

    name = "speaking"

    async def complete(self, request: ChatRequest) -> Completion:
        said = f"In {request.purpose.stage} {request.purpose.round} I say so. The answer is Lake Baikal."
        return Completion(text=said)


@pytest.fixture(autouse=True)
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.report.html.figures.available", lambda: False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return madke.run(QUESTIONS, protocol="mad", settings={"rounds": 2}, model=Speaking(), out=tmp_path / "run").path


def calls_in(page: Path, run: int = 0) -> list[Any]:
    """Stage, agent, round, messages, reply and outcome of each call of a run's only debate."""
    data = data_of(page.read_text(encoding="utf-8"))
    texts = data.get("prompts-0", [])
    found = data["debates-0"][run]["calls"]
    return [
        (stage, agent, number, [(role, texts[n]) for role, n in messages], texts[reply], outcome)
        for stage, agent, number, _, messages, reply, outcome in found
    ]


def write(*runs: Path) -> Path:
    page = runs[0].parent / "page.html"
    write_report(runs, page)
    return page


def test_each_call_has_its_messages_and_its_raw_reply(run: Path) -> None:
    found = calls_in(write(run))
    assert [(stage, number) for stage, _, number, *_ in found] == [("speak", 1)] * 3 + [("reply", 2)] * 3
    assert {agent for _, agent, *_ in found} == {"Debater 1", "Debater 2", "Debater 3"}
    *_, messages, reply, outcome = found[0]
    assert [role for role, _ in messages] == ["system", "user"]
    assert "Which lake is the deepest?" in messages[1][1]
    assert (reply, outcome) == ("In speak 1 I say so. The answer is Lake Baikal.", "ok")


def test_without_the_store_and_on_very_large_pages_there_are_none(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as small:
        small.setattr("madke.report.page_data.MOST_DEBATES", 0)
        assert calls_in(write(run)) == []
    (run / "calls.sqlite").unlink()
    assert calls_in(write(run)) == []
    (run / "calls.sqlite").write_text("no store")
    assert calls_in(write(run)) == []


@pytest.mark.slow
def test_a_click_shows_them(run: Path) -> None:
    from tests.support.browser import browser, expect

    with browser() as launched:
        page = launched.new_page(viewport={"width": 390, "height": 844})
        page.goto(f"{write(run).as_uri()}#run/q1")
        turn = page.locator(".turn").nth(1)
        expect(turn.locator(".call")).to_have_count(0)
        turn.get_by_text("Prompt and raw reply").click()
        expect(turn.locator(".call .message").nth(1)).to_contain_text("Which lake is the deepest?")
        expect(turn.locator(".message.raw")).to_have_text("In speak 1 I say so. The answer is Lake Baikal.")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
