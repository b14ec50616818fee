"""``madke report --watch``: a page that follows runs, in this process, in another one, and in Chromium."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import madke
from madke.core.transcript import to_json
from madke.report.html import RELOADS, write_report
from tests.report.run_folders import debate, write_run

LAKE = "Lake Baikal"
QUESTIONS = [
    {"id": f"q{n}", "question": f"Which lake is the deepest ({n})?", "golden_answers": [LAKE]} for n in range(6)
]


def waited(found: Callable[[], Any]) -> None:
    until = time.monotonic() + 60
    while not found():
        assert time.monotonic() < until, "waited for a minute"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_in_another_process_is_followed_from_before_its_start_to_its_end(tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "run" / "report.html"
    command = [sys.executable, "-m", "madke", "report", str(run), "--watch"]
    seen = []

    def model(messages: Any) -> str:
        if "(5)" in str(messages):  # the last question waits for the page of the others
            waited(lambda: page.exists() and RELOADS in page.read_text())
            seen.append(page.read_text())
        return f"Verdict: [SAME]\nThe answer is [{LAKE}]."

    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as watching:
        assert watching.stderr is not None
        assert "no run has begun there yet" in watching.stderr.readline()
        madke.run(QUESTIONS, model=model, out=run, settings={"sources": []}, options=madke.RunOptions(concurrency=1))
        out, _ = watching.communicate(timeout=60)

    assert watching.returncode == 0
    assert "6 of 6 debates; the run has ended" in out
    assert "incomplete" in seen[0]
    assert RELOADS not in page.read_text()


@pytest.mark.slow
def test_the_open_page_reloads_itself_and_keeps_the_place(tmp_path: Path) -> None:
    from tests.support.browser import browser, expect

    debates = [debate(f"n{n:03}", [LAKE, LAKE]) for n in range(200)]
    run, page = write_run(tmp_path / "run", debates[:199]), tmp_path / "report.html"
    write_report([run], page, reload=10)
    with browser() as launched:
        tab = launched.new_context(offline=True).new_page()
        tab.clock.install()
        tab.goto(f"{page.as_uri()}#debates?run=run")
        tab.wait_for_selector("html.ready")
        while tab.locator("#rows > li").count() < 199:
            tab.evaluate("scrollTo(0, document.body.scrollHeight)")
            tab.clock.run_for(50)
        tab.evaluate("scrollTo(0, 6000)")
        with (run / "transcripts.jsonl").open("ab") as file:
            file.write(to_json(debates[-1]) + b"\n")
        write_report([run], page, reload=10)
        tab.clock.run_for(11_000)
        expect(tab.locator("#count")).to_contain_text("200", timeout=15_000)
        tab.wait_for_function("scrollY === 6000")
        assert tab.evaluate("location.hash").startswith("#debates")

        # An open debate stays; the final page does not reload.
        tab.goto(f"{page.as_uri()}#run/n001")
        tab.wait_for_selector("#debate h2")
        tab.clock.run_for(30_000)
        expect(tab.locator("#reload")).to_contain_text("not reloaded")
        write_report([run], page)
        tab.get_by_role("button", name="Reload").click()
        expect(tab.locator("#reload")).to_have_count(0)
        expect(tab.locator("#debate h2")).to_be_visible()
