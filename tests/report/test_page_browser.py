"""The report page as people use it, in Debian's Chromium, offline."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from madke.core.transcript import Final
from madke.report.html import write_report
from tests.report.run_folders import PASSAGES, debate, write_run
from tests.support.browser import browser, expect, needs_browser

pytestmark = needs_browser

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"
HOSTILE = (
    "<script>window.hacked = 1</script></script><img src=x onerror='window.hacked = 1'>"
    "{{7*7}} [Yes] \u2028 \u202eabc\u202c \x1b[31m " + "w" * 300
)
MARKUP = "<img src=x onerror='window.hacked=1'>"
"""A folder's name, which stands in tables, figures and controls."""
CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]")


LENGTHY = "a reply " * 100_000


def hostile() -> Any:
    """A debate in which everything that comes from outside is hostile."""
    made = debate("</script>/?#", [HOSTILE, HOSTILE], golds=(HOSTILE,), final=Final(by="summarizer", text=HOSTILE))
    return debate(made.id, [HOSTILE, HOSTILE], golds=(HOSTILE,), question=HOSTILE, choices=(HOSTILE,), final=made.final)


def lakes(answer: Any) -> Any:
    """Ninety debates and more, so that the list has more than it draws at first."""
    return [debate(f"n{n:02}", [answer, answer]) for n in range(80)] + [
        debate("corrected", [WRONG, WRONG], [RIGHT, RIGHT]),
        debate("collapsed", [RIGHT, RIGHT], [WRONG, WRONG]),
        debate("divided", [RIGHT, WRONG], consensus=False, question="Is Baikal or Tanganyika the deepest?"),
        debate("abstained", [RIGHT, RIGHT], answer=None),
        debate("failed", [RIGHT, RIGHT], status="failed", answer=None),
        debate("degraded", [RIGHT, RIGHT], degraded=True),
        debate("rivers", [RIGHT, RIGHT], dataset="rivers"),
        debate("again", [RIGHT, RIGHT]),
        debate("again", [WRONG, WRONG], repeat=1),
        debate("lengthy", [RIGHT, RIGHT], final=Final(by="summarizer", answer=RIGHT, text=LENGTHY)),
        debate("elsewhere", [RIGHT, RIGHT], usage={}),
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("report")
    passages = [
        {"source": "wiki", "key": "baikal-1", "title": HOSTILE, "text": HOSTILE, "url": "javascript:window.hacked=1"}
    ]
    paths = [
        write_run(folder / "good run", lakes(RIGHT)),
        write_run(folder / MARKUP, lakes(WRONG), passages=PASSAGES[:2]),
        write_run(folder / "hostile", [hostile()], passages=passages),
    ]
    (folder / MARKUP / "pools.jsonl").unlink()
    write_report(paths, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    with browser() as made:
        yield made


@pytest.fixture
def opened(launched: Any, report: Any) -> Iterator[Any]:
    """Open the page at an address within it. No error and no request may come of anything that a test does there."""
    troubles, contexts = [], []

    def load(address: str = "", **options: Any) -> Any:
        contexts.append(launched.new_context(offline=True, **{"viewport": {"width": 1280, "height": 800}, **options}))
        contexts[-1].set_default_timeout(5000)
        page = contexts[-1].new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or troubles.append(request.url))
        page.goto(f"{report.as_uri()}{address}")
        page.wait_for_selector("html.ready")
        return page

    yield load
    for context in contexts:
        context.close()
    assert troubles == []


GOOD, BAD = "good%20run", quote(MARKUP)


def rows(page: Any) -> Any:
    return page.locator("#rows > li")


def combobox(page: Any, name: Any) -> Any:
    return page.get_by_role("combobox", name=name, exact=True)


def wide(page: Any) -> Any:
    """How many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def lightness(page: Any) -> Any:
    """Of the page's ground, up to 765."""
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_it_opens_with_scores_and_figures(opened: Any) -> None:
    page = opened()
    expect(page.get_by_role("heading", name="3 runs")).to_be_visible()
    table = page.get_by_role("region", name="Scores")
    expect(table.get_by_role("rowheader", name=MARKUP)).to_be_visible()
    page.locator("#figures > summary").click()
    expect(page.locator("#figures svg").first).to_be_visible()
    expect(page.locator("#debate")).to_be_hidden()


@pytest.mark.parametrize(
    ("outcome", "count"),
    [
        ("right", 87),
        ("wrong", 2),
        ("corrected", 1),
        ("collapsed", 2),
        ("divided", 1),
        ("abstained", 1),
        ("failed", 1),
        ("degraded", 1),
    ],
)
def test_debates_are_filtered_by_how_they_came_out(opened: Any, outcome: str, count: int) -> None:
    page = opened(f"#debates?run={GOOD}")
    combobox(page, "Outcome").select_option(outcome)
    expect(page.locator("#count")).to_have_text(f"{count} of 91 debates")
    expect(rows(page)).to_have_count(min(count, 60))


def test_search_finds_all_words_in_questions_answers_and_texts(opened: Any) -> None:
    # Only the last counts are waited for: matches in texts join the others after a moment.
    page = opened(f"#debates?run={GOOD}")
    search = page.get_by_role("searchbox")
    search.fill("tanganyika DEEPEST")
    expect(page.locator("#count")).to_have_text("91 of 91 debates, 88 of them in debates or passages")
    search.fill("tanganyika is or")
    expect(page.locator("#count")).to_have_text("2 of 91 debates, 1 of them in debates or passages")
    search.fill("no such lake")
    expect(page.get_by_text("No debate matches")).to_be_visible()


def test_a_debate_is_read_from_question_to_tokens(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}&outcome=corrected")
    rows(page).first.click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Which lake is the deepest, in survey corrected?")
    chosen = page.locator(".passage.chosen").first
    expect(chosen).to_contain_text("Lake Baikal is 1,642 metres deep.")
    expect(chosen.locator(".chips")).to_have_text("chosen by Debater 1rounds 1, 2")
    first = page.locator(".round").first.locator(".turn").first
    expect(first).to_contain_text("In round 1 I say [Lake Tanganyika].")
    expect(first.locator(".mark")).to_have_class("mark wrong")
    expect(page.get_by_text("Judge: no consensus")).to_be_visible()
    expect(page.get_by_text("Judge: consensus")).to_be_visible()
    expect(page.locator(".golds")).to_contain_text("Lake Baikal")
    expect(page.locator(".result")).to_contain_text("1,100 tokens")
    page.locator("#debate").get_by_text("Tokens by stage").click()
    expect(page.locator("#debate").get_by_role("cell", name="1,000")).to_be_visible()
    page.go_back()
    expect(page.locator("#count")).to_have_text("1 of 91 debates")


def test_it_is_used_by_keyboard_alone(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("survey n0")
    expect(rows(page)).to_have_count(10)
    page.keyboard.press("ArrowDown")
    expect(rows(page).nth(0).get_by_role("link")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(rows(page).nth(1).get_by_role("link")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_contain_text("survey n01")
    expect(page.get_by_role("heading", level=2)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", level=2)).to_contain_text("survey n03")
    page.keyboard.press("Escape")
    expect(page.locator("#count")).to_have_text("10 of 91 debates")
    expect(rows(page).nth(3).get_by_role("link")).to_be_focused()


@pytest.mark.parametrize(
    "address", ["", "#debates", f"#{GOOD}/corrected?with={BAD}", "#hostile/%3C%2Fscript%3E%2F%3F%23"]
)
def test_nothing_is_wider_than_a_phone(opened: Any, address: str) -> None:
    page = opened(address, viewport={"width": 360, "height": 740})
    assert wide(page) == 0


def test_colours_follow_the_system_until_they_are_chosen(opened: Any) -> None:
    page = opened(color_scheme="dark")
    assert lightness(page) < 200
    button = page.get_by_role("button", name="Colours")
    button.click()
    assert lightness(page) > 600
    page.reload()
    page.wait_for_selector("html.ready")
    expect(button).to_contain_text("Light")
    assert lightness(page) > 600


def test_hostile_text_is_shown_as_text_and_does_nothing(opened: Any) -> None:
    page = opened("#debates?run=hostile")
    rows(page).first.click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("<script>window.hacked = 1</script>")
    shown = page.locator("#debate").inner_text()
    assert shown.count("</script><img src=x onerror='window.hacked = 1'>{{7*7}} [Yes]") > 5
    assert not CONTROLS.search(shown)
    assert page.locator("#debate img, #debate script, #debate a[href^=javascript]").count() == 0
    expect(page.locator(".passage .origin").first).to_contain_text("javascript:window.hacked=1")
    assert page.evaluate("window.hacked") is None
