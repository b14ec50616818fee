"""The report page as people use it, in Debian's Chromium, offline: a few whole journeys."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.transcript import Final, Remark, Selection, Transcript
from madke.models.scripted import ScriptedChat
from madke.report.html import write_report
from tests.report.run_folders import PASSAGES, debate, write_run
from tests.support.browser import expect, needs_browser, one_page

pytestmark = needs_browser

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
HOSTILE = (
    "<script>window.hacked = 1</script></script><img src=x onerror='window.hacked = 1'>"
    "{{7*7}} [Yes] \u2028 \u202eabc\u202c \x1b[31m [0] " + "w" * 300
)
MARKUP = "beta <img src=x onerror='window.hacked=1'>"
"""A folder's name, which stands in tables, charts, figures and controls."""
COUNT = 130
"""Questions: more than the page draws at first."""
FAILED = Final(by="summarizer", status="failed", error="no connection to the server")
PHONE, DESKTOP = (390, 844), (1280, 900)


def lakes(run: str) -> list[Transcript]:
    """Alpha errs on every tenth question, beta on every fifth, gamma on the first two."""
    wrong = {"alpha": {*range(0, COUNT, 10)}, MARKUP: {*range(0, COUNT, 5)}, "gamma": {0, 1}}[run]
    made = [debate(f"n{n:03}", [WRONG if n in wrong else RIGHT] * 2) for n in range(COUNT)]
    if run == "alpha":
        made[3:6] = [
            corrected("n003"),
            debate("n004", [RIGHT, RIGHT], answer=None),
            debate("n005", [RIGHT, RIGHT], status="failed", answer=None, final=FAILED),
        ]
    return [*made, attack("</script>/?#")] if run == "gamma" else made


def corrected(id_: str) -> Transcript:
    """A debate that corrects its answer, with all that the page shows of one."""
    played = debate(id_, [WRONG, RIGHT], [RIGHT, RIGHT])
    first, second = played.rounds
    speaker, other = first.turns
    said = replace(speaker.stance, text='As [0] says: "Lake Baikal is 1,642 metres deep." Heliotropes grow there.')
    speaker = replace(speaker, stance=said, selection=Selection(ids=(0, 1), text="I select [0]."))
    first = replace(first, turns=(speaker, other), remarks=(Remark(role="sceptic", text="How deep is it?"),))
    return replace(played, rounds=(first, second), metadata={"dataset": "lakes", "gold_passages": ["baikal-1"]})


def attack(id_: str) -> Transcript:
    """A debate whose texts would run a script."""
    final = Final(by="summarizer", text=HOSTILE)
    hostile: Any = {"question": HOSTILE, "choices": (HOSTILE,), "final": final, "pool_partial": {HOSTILE: HOSTILE}}
    played = debate(id_, [HOSTILE, HOSTILE], golds=(HOSTILE,), **hostile)
    (only,) = played.rounds
    return replace(played, rounds=(replace(only, remarks=(Remark(role=HOSTILE, text=HOSTILE),)),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``three.html`` of three runs, ``stopped.html`` of an incomplete one, ``gone.html`` of one that failed."""
    made = tmp_path_factory.mktemp("report")
    hostile = [{"source": "wiki", "key": "baikal-1", "title": HOSTILE, "text": HOSTILE, "url": "javascript:hacked=1"}]
    alpha, beta = (write_run(made / name, lakes(name)) for name in ("alpha", MARKUP))
    gamma = write_run(made / "gamma", lakes("gamma"), passages=PASSAGES[:1] + hostile)
    played = [debate(f"n{n:02}", [RIGHT, RIGHT]) for n in range(42)]
    stopped = write_run(made / "stopped", played, questions={f"n{n:02}": "0" for n in range(60)})
    failed = [debate(f"n{n}", [RIGHT], status="failed", answer=None, final=FAILED) for n in range(3)]
    write_report([alpha, beta, gamma], made / "three.html")
    write_report([stopped, alpha], made / "stopped.html")
    write_report([write_run(made / "gone", failed)], made / "gone.html")
    return made


@pytest.fixture(scope="module")
def shared_page() -> Iterator[Any]:
    with one_page() as made:
        yield made


@pytest.fixture
def opened(shared_page: Any, folder: Path) -> Iterator[Any]:
    """Open a page at an address. No error and no request may come of anything that a test does there."""
    page, troubles = shared_page

    def load(address: str = "#summary", *, of: str = "three", size: tuple[int, int] = DESKTOP) -> Any:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.goto("about:blank")
        page.goto(f"{(folder / of).as_uri()}.html{address}")
        page.wait_for_selector("html.ready")
        page.mouse.move(0, 0)
        return page

    yield load
    assert page.evaluate("window.hacked") is None
    assert troubles == []


def counted(page: Any, text: str) -> None:
    expect(page.locator("#count")).to_have_text(text)


def heading(page: Any) -> Any:
    return page.get_by_role("heading", level=2)


def combobox(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name, exact=True)


def test_the_summary_shows_finding_chart_and_scores_and_leads_to_the_debates(opened: Any) -> None:
    page = opened()
    expect(page.locator("main .finding").first).to_contain_text("gamma (98.5 % correct by match) is highest of 3 runs")
    key = page.locator(".key li")
    expect(key).to_have_count(3)
    beta = re.compile(r"B\s*beta <img .*2 calls\s+80\.0\s+72\.3 to 86\.0")
    expect(key.nth(1)).to_contain_text(beta, use_inner_text=True)
    combobox(page, "Cost of a question").select_option("tokens")
    expect(key.nth(1)).to_contain_text("1,100 tokens")
    expect(page.locator("#chart > .plot:visible i")).to_have_count(3)
    assert page.locator("#figures img").count() == 0, "the runs differ in nothing but their names"

    table = page.locator("#scores + figure")
    correct = table.locator("th").filter(has_text="correct (match) %").locator("button")
    correct.click()
    assert table.locator("tbody th").all_inner_texts() == ["gamma", "alpha", MARKUP]
    correct.press("Enter")
    assert table.locator("tbody th").all_inner_texts() == [MARKUP, "alpha", "gamma"]
    expect(table.locator("td.best").first).to_have_css("font-weight", "700")
    table.get_by_role("link", name="alpha", exact=True).click()
    counted(page, f"{COUNT} of {COUNT} debates")
    expect(combobox(page, "Run")).to_have_value("alpha")
    page.go_back()
    page.locator("#entry").get_by_role("link", name="questions on which runs differ").click()
    expect(combobox(page, "Questions")).to_have_value("differ")


def test_incomplete_and_failed_runs_say_so_first(opened: Any) -> None:
    page = opened(of="stopped")
    expect(page.locator("header h1")).to_have_text("2 runs incomplete")
    expect(page.locator(".banner li").first).to_contain_text("Incomplete: stopped, 42 of 60 (killed;")
    expect(page.locator(".key li").first).to_contain_text("42 of 60")
    page = opened(of="gone")
    expect(page.locator(".finding")).to_contain_text("all 3 debates failed")
    expect(page.locator(".banner")).to_contain_text("all 3 debates failed: 3 x no connection to the server")
    expect(page.locator("#scores, #chart")).to_have_count(0)


def test_a_row_of_the_matrix_opens_a_debate_and_so_does_each_cell(opened: Any) -> None:
    page = opened("#debates?show=differ")
    rows = page.locator("#cells > [role=row]")
    counted(page, f"27 of {COUNT + 1} questions")
    # Anywhere in the row: the debate of the best run.
    box = rows.nth(1).bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + box["height"] - 6)
    expect(heading(page)).to_contain_text("survey n004")
    expect(page.locator(".crumbs")).to_contain_text("gamma")
    page.go_back()
    cell = rows.nth(2).locator("[data-column='1']")
    expect(cell).to_have_attribute("title", f"{MARKUP}: wrong, {WRONG}")
    cell.click()
    expect(page.locator(".crumbs")).to_contain_text("beta <img")
    expect(page.locator(".steps .facts")).to_have_text("3 of 27")
    page.get_by_role("link", name="Next").click()
    expect(heading(page)).to_contain_text("n010")
    page.go_back()
    page.go_back()
    expect(cell).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(":focus")).to_have_attribute("title", "alpha: abstained")
    page.keyboard.press("Enter")
    expect(heading(page)).to_contain_text("survey n004")


def test_columns_sort_and_filter_and_rows_come_as_they_are_scrolled_to(opened: Any) -> None:
    page = opened("#debates?show=all")
    rows = page.locator("#cells > [role=row]")
    expect(rows).to_have_count(60)
    page.locator("#more").scroll_into_view_if_needed()
    expect(rows).to_have_count(120)
    page.get_by_role("button", name="alpha").press("Enter")
    assert page.evaluate("location.hash") == "#debates?show=all&sort=wrong%3Aalpha"
    expect(rows.nth(1)).to_contain_text("survey n010")
    combobox(page, "Outcome in alpha").select_option("right")
    counted(page, f"{COUNT - 15} of {COUNT + 1} questions")
    combobox(page, f"Outcome in {MARKUP}").select_option("wrong")
    counted(page, f"12 of {COUNT + 1} questions")
    page = opened(page.evaluate("location.hash"))
    counted(page, f"12 of {COUNT + 1} questions")


def test_the_list_of_a_run_is_filtered_searched_and_used_by_keyboard(opened: Any) -> None:
    page = opened("#debates?run=alpha")
    rows = page.locator("#rows > li")
    for outcome, count in {"corrected": 1, "failed": 1, "abstained": 1, "wrong": 13}.items():
        combobox(page, "Outcome").select_option(outcome)
        counted(page, f"{count} of {COUNT} debates")
    combobox(page, "Outcome").select_option("")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#by-q")).to_be_focused()
    page.keyboard.type("HELIOTROPE")
    counted(page, f"1 of {COUNT} debates, 1 of them in debates or passages")
    expect(rows.first.locator(".excerpt mark")).to_have_text("Heliotrope")
    page.get_by_role("searchbox").fill("survey n00")
    counted(page, f"10 of {COUNT} debates")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    expect(rows.nth(1).get_by_role("link")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(heading(page)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(heading(page)).to_contain_text("survey n002")
    page.keyboard.press("Escape")
    expect(rows.nth(2).get_by_role("link")).to_be_focused()
    page.get_by_role("searchbox").fill("no such lake")
    expect(page.get_by_text("No debate matches")).to_be_visible()


def test_a_debate_is_read_with_its_passages_and_quotes(opened: Any) -> None:
    page = opened("#alpha/n003")
    chosen = page.locator(".passage.chosen").first
    expect(chosen.locator(".chips")).to_contain_text("Debater 1rounds 1, 2")
    turn = page.locator(".turn").first
    expect(turn.locator("h4 .mark")).to_have_class("mark wrong")
    expect(page.get_by_text("Judge: no consensus")).to_be_visible()
    expect(page.locator(".aside", has_text="sceptic remarks")).to_contain_text("How deep is it?")
    number, card = turn.locator("> .prose").get_by_role("button", name="[0]", exact=True), turn.locator(".here")
    number.click()
    expect(card).to_be_focused()
    expect(card).to_contain_text("★ gold")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    expect(page.locator(".result")).to_contain_text("1,100 tokens")
    page.locator("#debate").get_by_text("Tokens by stage").click()
    expect(page.locator("#debate").get_by_role("cell", name="1,000")).to_be_visible()

    # On a phone the pool is a drawer.
    page = opened("#alpha/n003", size=PHONE)
    drawer, button = page.locator("#pool"), page.get_by_role("button", name="Pool: 3 passages, 3 chosen, 1 gold")
    expect(drawer).to_be_hidden()
    button.press("Enter")
    expect(drawer.get_by_role("button", name="close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(button).to_be_focused()


def test_nothing_is_wider_than_the_window(opened: Any) -> None:
    for address in ("", "#debates?show=all", "#debates?run=gamma", "#alpha/n003", "#gamma/%3C%2Fscript%3E%2F%3F%23"):
        page = opened(address)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        for width in (360, 390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width, address


def test_hostile_text_is_shown_as_text_and_does_nothing(opened: Any) -> None:
    page = opened("#debates?run=gamma&q=hacked")
    page.locator("#rows > li").first.click()
    expect(heading(page)).to_contain_text("<script>window.hacked = 1</script>")
    page.locator(".prose .pick").first.click()
    shown = page.locator("#debate").inner_text()
    assert shown.count("</script><img src=x onerror='window.hacked = 1'>{{7*7}} [Yes]") > 5
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", shown)
    assert page.locator("#debate img, #debate script, #debate a[href^=javascript]").count() == 0


def test_a_click_shows_prompts_and_raw_replies_if_the_store_is_there(opened: Any, folder: Path) -> None:
    question = madke.Question(id="q1", question="Which lake is the deepest?", answers=(RIGHT,))
    model = ScriptedChat(lambda request: f"I {request.purpose.stage} so. The answer is Lake Baikal.")
    run = madke.run([question], protocol="mad", settings={"rounds": 2}, model=model, out=folder / "run").path
    write_report([run], folder / "calls.html")
    turn = opened("#run/q1", of="calls").locator(".turn").nth(1)
    expect(turn.locator(".call")).to_have_count(0)
    turn.get_by_text("Prompt and raw reply").click()
    expect(turn.locator(".call .message").nth(1)).to_contain_text("Which lake is the deepest?")
    expect(turn.locator(".message.raw")).to_have_text("I speak so. The answer is Lake Baikal.")
    (run / "calls.sqlite").unlink()
    write_report([run], folder / "calls.html")
    expect(opened("#run/q1", of="calls").get_by_text("Prompt and raw reply")).to_have_count(0)


def contrasts(page: Any) -> list[float]:
    """Contrast of each text colour with each ground (WCAG 2.2)."""
    names = ("ink", "soft", "right", "wrong", "partly", "abstained", "failed", "selected", "gold", "accent")
    script = """(name) => {
      const probe = Object.assign(document.createElement("i"), { style: `color: var(--${name})` });
      document.body.append(probe);
      return getComputedStyle(probe).color.match(/\\d+/g).map(Number);
    }"""

    def luminance(name: str) -> float:
        parts = [part / 255 for part in page.evaluate(script, name)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    pairs = [sorted((luminance(text), luminance(ground))) for text in names for ground in ("paper", "raised")]
    return [(lighter + 0.05) / (darker + 0.05) for darker, lighter in pairs]


def test_every_colour_is_readable_in_light_and_dark(opened: Any) -> None:
    page = opened()
    assert min(contrasts(page)) >= 4.5
    page.emulate_media(color_scheme="dark")
    assert min(contrasts(page)) >= 4.5
