"""The page's list of debates, its search, and the matrix of question by run, in Debian's Chromium, offline."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.report.html import write_report
from tests.report.run_folders import PASSAGES, debate, write_run
from tests.support.browser import expect, needs_browser, one_page

pytestmark = needs_browser

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
RUNS = ["alpha", "beta & <b>co", "gamma"]
ALPHA, BETA, GAMMA = "alpha", "beta%20%26%20%3Cb%3Eco", "gamma"
COUNT = 300
SAID = "<img src=x onerror=hacked=1> Heliotropes grow in Siberia."
DASH = "\N{EN DASH}"
HELIOTROPE, QUAGGA = 150, 200


def outcome(run: int, n: int) -> str:
    """What a debate comes to: alpha errs on every tenth question, beta on every fifth, gamma in other ways."""
    if run == 2 and n < 4:
        return ("right", "abstained", "failed", "right")[n]
    return "wrong" if n % (5 if run == 1 else 10) == 0 else "right"


def made(run: int, n: int, **changes: Any) -> Any:
    kind = outcome(run, n)
    answer = {"right": RIGHT, "wrong": WRONG}.get(kind)
    if kind == "failed":
        changes["status"] = "failed"
    one = debate(f"q{n:03}", [answer or RIGHT] * 2, answer=answer, golds=(RIGHT, "Baikal"), **changes)
    if n == HELIOTROPE and run == 0:
        object.__setattr__(one.rounds[0].turns[1].stance, "text", SAID)
    return one


def pools(path: Path) -> Path:
    """A pool file in which one question has a passage of its own."""
    lines = []
    for n in range(COUNT):
        passages = [dict(each) for each in PASSAGES]
        if n == QUAGGA:
            passages[1]["text"] += " The quagga drank there, and the heliotrope grew."
        one = made(0, n)
        lines.append(json.dumps({"id": one.id, "question": one.question, "passages": passages}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Pages of three runs, of one run, and of two runs without gold answers."""
    folder = tmp_path_factory.mktemp("lists")
    file = pools(folder / "pools.jsonl")
    paths = []
    for run, name in enumerate(RUNS):
        debates = [made(run, n) for n in range(COUNT if run < 2 else COUNT - 10)]
        if run == 2:
            debates.append(debate("q003", [WRONG] * 2, golds=(RIGHT, "Baikal"), repeat=1))
        paths.append(write_run(folder / name, debates, pools=file))
    unmarked = [
        write_run(folder / name, [debate(id_, [answer] * 2, golds=()) for id_, answer in answers])
        for name, answers in (("left", [("x", RIGHT), ("y", RIGHT)]), ("right", [("x", WRONG), ("y", RIGHT)]))
    ]
    found = {"three": paths, "one": paths[:1], "unmarked": unmarked}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("madke.report.html.figures.available", lambda: False)
        for name, runs in found.items():
            write_report(runs, folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def shared_page() -> Iterator[tuple[Any, list[str]]]:
    """One page for all tests, and its troubles: errors, and requests that it must not make."""
    with one_page() as made:
        yield made


@pytest.fixture
def opened(shared_page: Any, reports: Any) -> Iterator[Any]:
    """Open an address of a page."""
    page, troubles = shared_page

    def load(address: str = "#debates", *, of: str = "three", width: int = 1280) -> Any:
        page.set_viewport_size({"width": width, "height": 844})
        page.goto("about:blank")
        page.goto(f"{(reports / of).as_uri()}.html{address}")
        page.wait_for_selector("html.ready")
        return page

    yield load
    assert page.evaluate("window.hacked") is None
    assert troubles == []


DIFFERING = {n for n in range(COUNT) if len({outcome(run, n) for run in (0, 1, 2) if run < 2 or n < 290}) > 1} | {3}


OF_BEST = {n for n in range(290) if outcome(0, n) != outcome(2, n)} | {3}
"""Where the two runs with the most right answers, gamma and alpha, differ."""


def shown(page: Any) -> list[str]:
    """Ids of the questions whose rows are drawn, from top to bottom."""
    return page.evaluate("""[...document.querySelectorAll("#cells > [role=row]")]
      .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
      .map((row) => row.querySelector(".text").textContent.match(/survey (.+)\\?/)[1])""")


def names(numbers: Any) -> list[str]:
    return [f"q{n:03}" for n in sorted(numbers)]


def cell(page: Any, label: str) -> Any:
    return page.get_by_role("link", name=label, exact=True)


def counted(page: Any, text: str) -> None:
    expect(page.locator("#count")).to_have_text(text)


def searched(page: Any) -> None:
    expect(page.locator("#searching")).to_be_empty()


def rows(page: Any) -> Any:
    return page.locator("#rows > li")


def test_it_opens_on_the_questions_where_the_two_best_runs_differ(opened: Any) -> None:
    page = opened()
    counted(page, f"{len(OF_BEST)} of 300 questions")
    assert shown(page) == names(OF_BEST)
    expect(page.get_by_role("combobox", name="Questions")).to_have_value("best")
    page.get_by_role("combobox", name="Questions").select_option("differ")
    counted(page, f"{len(DIFFERING)} of 300 questions")
    assert shown(page) == names(DIFFERING)[: len(shown(page))]
    expect(page.locator("#list")).to_be_hidden()
    assert page.locator("#legend .mark").all_text_contents() == ["✓right", "✗wrong", f"{DASH}abstained", "!failed"]


def test_a_cell_has_a_sign_a_word_and_a_colour(opened: Any) -> None:
    page = opened("#debates?show=all")
    # Row 0: wrong in alpha and beta. Rows 1 and 2: gamma abstained, and failed. Row 3: two repeats of gamma.
    signs = [row.locator(".cell > *").all_inner_texts() for row in page.locator("#cells > [role=row]").all()[:4]]
    assert signs == [
        [f"✗\n{WRONG}", f"✗\n{WRONG}", "✓", ""],
        ["✓", "✓", DASH, ""],
        ["✓", "✓", "!", ""],
        ["✓"] * 3 + ["✗"],
    ]
    expect(cell(page, f"alpha: wrong, {WRONG}").first).to_be_visible()
    expect(cell(page, "gamma: abstained, repeat 1")).to_have_class("mark abstained")
    kinds = ("right", "wrong", "abstained", "failed")
    colours = [
        page.locator(f"#cells .{kind}").first.evaluate("(each) => getComputedStyle(each).color") for kind in kinds
    ]
    assert len(set(colours)) == 4


def test_a_cell_opens_its_debate_and_back_returns_to_it(opened: Any) -> None:
    page = opened("#debates?show=differ")
    link = page.locator("[data-place='4'][data-column='1']")
    link.click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Which lake is the deepest, in survey q005?")
    expect(page.locator(".crumbs")).to_contain_text(RUNS[1])
    expect(page.locator(".steps .facts")).to_have_text(f"5 of {len(DIFFERING)}")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("q015")
    expect(page.locator(".crumbs")).to_contain_text(RUNS[1])
    page.go_back()
    page.go_back()
    expect(link).to_be_focused()


def test_cells_are_reached_by_keyboard(opened: Any) -> None:
    page = opened("#debates?show=all")
    page.get_by_role("combobox", name="Outcome in gamma").focus()
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("data-place", "0")
    for key in ("ArrowDown", "j", "ArrowRight", "PageDown", "k", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    expect(focused).to_have_attribute("data-place", "11")
    expect(focused).to_have_attribute("data-column", "1")
    page.keyboard.press("End")
    expect(focused).to_have_attribute("data-place", "299")
    expect(focused).to_be_in_viewport()
    page.evaluate("document.getElementById('grid').scrollTo(0, 0)")
    expect(page.locator("[aria-rowindex='2']")).to_be_in_viewport()
    expect(focused).to_have_attribute("data-place", "299")
    page.keyboard.press("ArrowUp")
    expect(focused).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_contain_text("q298")
    page.keyboard.press("Escape")
    expect(focused).to_have_attribute("data-place", "298")


def test_a_column_head_sorts(opened: Any) -> None:
    page = opened("#debates?show=all")
    head, button = page.locator(".head").first, page.get_by_role("button", name="alpha")
    button.press("Enter")
    expect(button).to_be_focused()
    expect(button).to_contain_text("✗ first")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert shown(page)[:5] == names(range(0, 50, 10))
    button.click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert shown(page)[:5] == names(range(1, 6))
    assert page.evaluate("location.hash") == "#debates?show=all&sort=right%3Aalpha"
    button.click()
    expect(head).to_have_attribute("aria-sort", "none")
    # What a run lacks comes last.
    for sort in ("right", "wrong"):
        page = opened(f"#debates?show=all&sort={sort}:gamma")
        page.locator("#cells a").first.press("End")
        assert shown(page)[-1] == "q299"


def test_a_column_head_filters(opened: Any) -> None:
    page = opened("#debates?show=all")
    chosen = page.get_by_role("combobox", name="Outcome in alpha")
    assert chosen.locator("option").all_inner_texts() == [
        "all (300)",
        "✓ right (270)",
        "✗ wrong (30)",
        "not right (30)",
    ]
    chosen.select_option("right")
    expect(chosen).to_be_focused()
    counted(page, "270 of 300 questions")
    page.get_by_role("combobox", name=f"Outcome in {RUNS[1]}").select_option("wrong")
    counted(page, "30 of 300 questions")
    hash_ = page.evaluate("location.hash")
    page = opened(hash_)
    counted(page, "30 of 300 questions")
    assert shown(page)[:3] == ["q005", "q015", "q025"]
    page.get_by_role("combobox", name="Outcome in alpha").select_option("")
    counted(page, "60 of 300 questions")


def test_a_run_is_chosen_and_left_again(opened: Any) -> None:
    page = opened()
    page.get_by_role("combobox", name="Run", exact=True).select_option("gamma")
    counted(page, "291 of 291 debates")
    expect(page.locator("#matrix")).to_be_hidden()
    page.get_by_role("combobox", name="Compare with").select_option("alpha")
    page.get_by_role("combobox", name="Outcome").select_option("differ")
    counted(page, "4 of 291 debates")
    page.get_by_role("combobox", name="Run", exact=True).select_option("all runs")
    counted(page, f"{len(OF_BEST)} of 300 questions")
    expect(page.get_by_role("combobox", name="Compare with")).to_be_hidden()


def test_search_covers_debates_and_passages_and_says_where(opened: Any) -> None:
    page = opened("#debates?run=alpha")
    page.get_by_role("searchbox").fill("HELIOTROPE")
    counted(page, "2 of 300 debates, 2 of them in debates or passages")
    # What models wrote comes before passages.
    expect(rows(page).nth(0)).to_contain_text(f"q{HELIOTROPE}")
    expect(rows(page).nth(0).locator(".excerpt")).to_contain_text(f"Debater 2, round 1: {SAID}")
    expect(rows(page).nth(0).locator("mark")).to_have_text("Heliotrope")
    expect(rows(page).nth(1)).to_contain_text(f"q{QUAGGA}")
    expect(rows(page).nth(1).locator(".excerpt")).to_contain_text("[1]: … quagga drank there, and the heliotrope grew.")
    # Words of a question and of a passage together.
    page.get_by_role("searchbox").fill("quagga survey heliotrope")
    counted(page, "1 of 300 debates, 1 of them in debates or passages")
    page.get_by_role("searchbox").fill("quagga q199")
    searched(page)
    expect(page.get_by_text("No debate matches")).to_be_visible()


def test_a_page_of_one_run_opens_on_its_list(opened: Any) -> None:
    page = opened(of="one")
    counted(page, "300 of 300 debates")
    expect(rows(page).first).to_contain_text("q000")
    expect(page.locator("#matrix")).to_be_hidden()
    expect(page.get_by_role("combobox", name="Run", exact=True)).to_be_hidden()
    page.get_by_role("combobox", name="Outcome").select_option("wrong")
    assert page.evaluate("location.hash") == "#debates?run=alpha&outcome=wrong"
