"""The summary of the report page as people use it, in Debian's Chromium, offline."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from madke.core.transcript import Deferral, Final
from madke.report.html import write_report
from tests.report.run_folders import debate, write_run
from tests.support.browser import browser, expect, needs_browser

pytestmark = needs_browser

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
FAILED = Final(by="summarizer", status="failed", error="no connection to the server")
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def lakes(right: int, *, of: int = 40) -> Any:
    """Debates of which the first ``right`` are right, one abstains and one failed."""
    played = [debate(f"n{n:02}", [RIGHT if n < right else WRONG] * 2) for n in range(of - 2)]
    failed = debate("failed", [RIGHT, RIGHT], status="failed", answer=None, final=FAILED)
    return [*played, debate("abstained", [RIGHT, RIGHT], answer=None), failed]


def stop(run: Any, at: str) -> None:
    """As if the command had stopped here, with 60 questions to debate."""
    record = json.loads((run / "run.json").read_text())
    record["spec"]["questions"] = {f"n{n:02}": f"{n}" for n in range(60)}
    record["sessions"] = [{**(record["sessions"] or [{}])[-1], "ended": at}]
    (run / "run.json").write_text(json.dumps(record))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("summary")
    few, many = write_run(folder / "a few right answers", lakes(5)), write_run(folder / "many", lakes(30))
    middle = write_run(folder / "middle", lakes(12))
    stopped = write_run(folder / "stopped", lakes(30, of=42))
    stop(stopped, "--max-cost")
    gone = write_run(
        folder / "gone", [debate(f"n{n}", [RIGHT], status="failed", answer=None, final=FAILED) for n in range(3)]
    )
    reason = Deferral(reason="the answers differ", answer=RIGHT, score=0.2)
    deferred = debate("deferred", [RIGHT, WRONG], status="deferred", answer=None, deferral=reason)
    left = write_run(folder / "left", [debate("n0", [RIGHT, RIGHT]), deferred])
    made = {"three": [few, many, middle], "stopped": [stopped, few], "gone": [gone], "left": [left]}
    for name, runs in made.items():
        write_report(runs, folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with browser() as launched:
        made = launched.new_context(offline=True, has_touch=True)
        made.set_default_timeout(5000)
        yield made


@pytest.fixture(scope="module")
def shared(context: Any) -> Any:
    return context.new_page()


@pytest.fixture
def opened(shared: Any, pages: Any) -> Iterator[Any]:
    """Open a page at an address. No error may come of anything that a test does there."""
    troubles: list[str] = []
    shared.on("pageerror", lambda error: troubles.append(str(error)))

    def load(name: str = "three", address: str = "#summary", size: Any = DESK) -> Any:
        shared.set_viewport_size(size)
        shared.goto("about:blank")
        shared.goto(f"{(pages / f'{name}.html').as_uri()}{address}")
        shared.wait_for_selector("html.ready")
        shared.mouse.move(0, 0)
        return shared

    yield load
    shared.emulate_media(media="screen", color_scheme="light")
    assert troubles == []


def heading(page: Any, name: str) -> Any:
    return page.locator("#scores + figure th").filter(has_text=re.compile(f"^{re.escape(name)}$"))


def names(page: Any) -> Any:
    return page.locator("#scores + figure tbody th").all_inner_texts()


def test_the_finding_comes_first_then_chart_scores_and_questions_and_the_rest_is_folded(opened: Any) -> None:
    page = opened()
    expect(page.locator(".finding")).to_contain_text("many (")
    expect(page.locator(".finding")).to_contain_text("n = 39")
    order = (".finding", "#chart", "#scores", "#questions", "#tests")
    parts = [page.locator(each).bounding_box()["y"] for each in order]
    assert parts == sorted(parts)
    assert page.locator("#summary > details:not([open])").count() == page.locator("#summary > details").count() >= 4
    expect(page.locator("#tests table").first).to_be_hidden()
    page.locator("#tests > summary").click()
    expect(page.locator("#tests")).to_contain_text("a few right answers · middle")
    expect(page.locator("#tests")).to_contain_text("many · middle")
    expect(opened(address="#tests").locator("#tests table").first).to_be_visible()


def test_the_chart_draws_shares_with_intervals_and_names_them_as_text(opened: Any) -> None:
    page = opened()
    rows = page.locator("#chart li:not(.axis)")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text(re.compile(r"many\s+76\.9\s+61\.7 to 87\.4"))
    track, bar, interval = (rows.nth(1).locator(each).bounding_box() for each in (".track", "i", "b"))
    assert bar["width"] / track["width"] == pytest.approx(30 / 39, abs=0.005)
    assert (interval["x"] - track["x"]) / track["width"] == pytest.approx(0.617, abs=0.005)
    assert (interval["x"] + interval["width"] - track["x"]) / track["width"] == pytest.approx(0.874, abs=0.005)
    colour = "getComputedStyle(document.querySelector('#chart i')).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light


def test_the_best_value_of_each_column_is_bold(opened: Any) -> None:
    page = opened()
    bold = page.locator("#scores + figure td.best")
    assert {each.locator("xpath=..").locator("th").inner_text() for each in bold.all()} >= {"many"}
    first = page.locator("#scores + figure tbody tr").nth(1).locator("td").first
    expect(first).to_have_css("font-weight", "700")
    expect(page.locator("#scores + figure")).to_contain_text("Bold: the highest value of the column.")


def test_a_table_is_sorted_by_its_headings_with_pointer_and_keyboard(opened: Any) -> None:
    page = opened()
    correct, arm = heading(page, "correct (match) %"), heading(page, "arm")
    first = ["a few right answers", "many", "middle"]
    expect(correct).to_have_attribute("aria-sort", "none")
    correct.locator("button").click()
    expect(correct).to_have_attribute("aria-sort", "descending")
    assert names(page) == ["many", "middle", "a few right answers"]
    correct.locator("button").press("Enter")
    expect(correct).to_have_attribute("aria-sort", "ascending")
    assert names(page) == ["a few right answers", "middle", "many"]
    arm.locator("button").press("Space")
    expect(arm).to_have_attribute("aria-sort", "ascending")
    expect(correct).to_have_attribute("aria-sort", "none")
    arm.locator("button").press("Space")
    assert names(page) == first[::-1]
    arm.locator("button").press("Space")
    expect(arm).to_have_attribute("aria-sort", "none")
    assert names(page) == first


@pytest.mark.parametrize(
    ("row", "column", "count"),
    [("many", "correct (match) %", 30), ("middle", "failed", 1), ("many", "rounds", 40), ("middle", "Co2 %", 12)],
)
def test_a_figure_opens_its_debates(opened: Any, row: str, column: str, count: int) -> None:
    page = opened()
    place = page.locator("#scores + figure thead th").all_inner_texts().index(column)
    line = page.locator("#scores + figure tbody tr").filter(has=page.get_by_role("rowheader", name=row, exact=True))
    line.locator("th, td").nth(place).get_by_role("link").click()
    expect(page.locator("#count")).to_have_text(f"{count} of 40 debates")
    expect(page.get_by_role("combobox", name="Run", exact=True)).to_have_value(row)


def test_the_summary_counts_questions_and_leads_to_them(opened: Any) -> None:
    page = opened()
    entry = page.locator("#entry")
    expect(entry.get_by_role("link")).to_contain_text(
        [
            "18 questions on which the two best runs, many and middle, differ",
            "25 questions on which runs differ",
            "10",
            "5",
        ]
    )
    entry.get_by_role("link", name="10 questions that no run has right").click()
    expect(page.locator("#count")).to_have_text("10 of 40 questions")
    page = opened("gone")
    expect(entry.get_by_role("link")).to_have_text(["3 debates", "3 failed"])
    entry.get_by_role("link", name="3 failed").click()
    expect(page.locator("#count")).to_have_text("3 of 3 debates")


def test_an_incomplete_run_says_so_in_headline_banner_and_chart(opened: Any) -> None:
    page = opened("stopped")
    expect(page.locator("#summary > h1")).to_have_text("2 runs incomplete")
    expect(page.locator(".banner li").first).to_contain_text("Incomplete: stopped, 42 of 60 (stopped at --max-cost;")
    expect(page.locator("#chart li").first).to_contain_text("42 of 60")
    expect(page.locator(".banner")).to_contain_text("1 of 42 debates failed and are excluded from scores.")


def test_a_run_whose_debates_all_failed_gives_the_cause_and_no_table_of_dashes(opened: Any) -> None:
    page = opened("gone")
    expect(page.locator(".finding")).to_contain_text("all 3 debates failed")
    expect(page.locator(".banner")).to_contain_text("all 3 debates failed: 3 x no connection to the server")
    expect(page.locator("#scores, #chart")).to_have_count(0)
