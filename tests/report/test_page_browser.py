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


def test_debates_are_filtered_by_run_and_dataset_and_the_address_says_so(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}")
    combobox(page, "Run").select_option(MARKUP)
    combobox(page, "Dataset").select_option("rivers")
    expect(rows(page)).to_have_count(1)
    page.reload()
    expect(page.locator("#count")).to_have_text("1 of 91 debates")
    expect(combobox(page, "Run")).to_have_value(MARKUP)


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


def test_more_rows_come_when_the_end_comes_near(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}")
    expect(rows(page)).to_have_count(60)
    rows(page).last.scroll_into_view_if_needed()
    expect(rows(page)).to_have_count(91)


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


def test_a_long_passage_is_shown_whole_when_asked_for(opened: Any) -> None:
    page = opened(f"#{GOOD}/n00")
    text = page.locator(".passage").nth(2).locator(".text")
    short = text.bounding_box()["height"]
    page.get_by_role("button", name="more").click()
    assert text.bounding_box()["height"] > short


def test_a_very_long_reply_is_folded(opened: Any) -> None:
    page = opened(f"#{GOOD}/lengthy")
    said = page.locator(".final .prose")
    assert len(said.inner_text()) < 4100
    page.locator(".final").get_by_role("button", name="more").click()
    assert len(said.inner_text()) > 700_000
    page.locator(".final").get_by_role("button", name="less").click()
    assert len(said.inner_text()) < 4100


def test_what_an_answer_from_elsewhere_took_is_not_told(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}&q=elsewhere")
    expect(rows(page).first.locator(".facts")).to_be_empty()
    rows(page).first.click()
    expect(page.locator(".result .facts")).to_have_text("from a prediction file")


def test_on_a_phone_words_stack_and_figures_keep_their_size(opened: Any) -> None:
    page = opened("#figures", viewport={"width": 390, "height": 740})
    page.locator("#settings > summary").click()
    stacked = page.locator(".stacked").first
    assert stacked.locator("td").first.bounding_box()["x"] == stacked.locator("th[scope=row]").first.bounding_box()["x"]
    expect(page.locator(".stacked thead").first).to_have_css("position", "absolute")
    box = page.locator(".plot svg").first.bounding_box()
    assert 300 < box["width"] <= box["x"] + box["width"] <= 390
    page = opened(f"#debates?run={GOOD}", viewport={"width": 390, "height": 740})
    named, row = (page.locator(of).first.bounding_box() for of in ("#heads span:not(:empty)", "#rows .asked"))
    assert named["x"] == row["x"]


def test_links_lead_to_debates_and_say_where_there_is_none(opened: Any) -> None:
    page = opened(f"#{GOOD}/again?repeat=1")
    expect(page.locator(".answered .answer")).to_have_text(WRONG)
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.locator(".answered .answer")).to_have_text(RIGHT)
    for address, missing in ((f"{GOOD}/n99", "“n99” of a run “good run”"), ("no/%", "“%” of a run “no”")):
        page = opened(f"#{address}")
        expect(page.get_by_text(f"This page has no debate {missing}")).to_be_visible()


def test_a_debates_address_keeps_the_filter_that_led_to_it(opened: Any) -> None:
    page = opened(f"#debates?run={BAD}&outcome=wrong&q=n0+survey")
    rows(page).first.click()
    expect(page.locator(".steps")).to_contain_text("1 of")
    place = page.locator(".steps .facts").inner_text()
    elsewhere = opened(page.evaluate("location.hash"))
    expect(elsewhere.locator(".steps .facts")).to_have_text(place)
    elsewhere.keyboard.press("Escape")
    expect(elsewhere.get_by_role("combobox", name="Outcome")).to_have_value("wrong")
    expect(elsewhere.get_by_role("searchbox")).to_have_value("n0 survey")
    # Where the filter leaves the debate out, the list is whole.
    page = opened(f"#{GOOD}/n07?outcome=corrected")
    expect(page.locator(".steps .facts")).to_contain_text("of 91")


def test_the_table_of_scores_is_seen_whole_and_nothing_is_cut_in_print(opened: Any) -> None:
    widths = "[...document.querySelectorAll('.table .scroll')].map((each) => [each.scrollWidth, each.clientWidth])"
    scores, *_ = opened().evaluate(widths)
    assert scores[0] <= scores[1]
    page = opened(f"#hostile/{quote(hostile().id, safe='')}")
    page.emulate_media(media="print")
    expect(page.locator(".passage .text").first).to_have_css("overflow", "visible")
    expect(page.get_by_role("button", name="more")).to_be_hidden()
    expect(page.locator(".pick").first).to_be_visible()
    # The width of A4 between a browser's usual margins.
    page = opened(viewport={"width": 718, "height": 1000})
    page.get_by_role("button", name="Colours").click(click_count=2)
    expect(page.locator("#theme")).to_have_text("● Dark")
    page.emulate_media(media="print")
    assert wide(page) == 0
    expect(page.get_by_role("region", name="Scores")).to_have_css("overflow", "visible")
    assert lightness(page) > 600


@pytest.mark.parametrize("query", [f"outcome={quote(MARKUP)}&with=x&dataset=__proto__", "outcome=toString&q=%E0%A4%A"])
def test_an_address_that_asks_for_what_there_is_not_shows_the_whole_list(opened: Any, query: str) -> None:
    page = opened(f"#{GOOD}/n07?{query}")
    expect(page.locator(".steps .facts")).to_have_text("8 of 91")
    assert page.evaluate("window.hacked") is None


def test_the_origin_of_a_passage_has_one_font_size(opened: Any) -> None:
    page = opened(f"#{GOOD}/n07")
    sizes = page.locator(".passage .origin").first.evaluate(
        "(origin) => [origin, ...origin.children].map((each) => getComputedStyle(each).fontSize)"
    )
    assert len(set(sizes)) == 1


def test_two_runs_are_read_side_by_side(opened: Any) -> None:
    page = opened(f"#{GOOD}/n07")
    page.get_by_role("link", name=f"side by side with {MARKUP}").click()
    columns = page.locator(".heads .lane")
    expect(columns).to_have_count(2)
    expect(columns.nth(0).locator(".answered .answer")).to_have_text(RIGHT)
    expect(columns.nth(1).locator(".answered .answer")).to_have_text(WRONG)
    expect(page.locator("#pool")).to_contain_text(f"{MARKUP}: The pool file of this run is missing")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("survey n08")
    expect(columns).to_have_count(2)


def test_the_list_shows_where_two_runs_differ(opened: Any) -> None:
    page = opened(f"#debates?run={GOOD}")
    combobox(page, "Compare with").select_option(MARKUP)
    combobox(page, "Outcome").select_option("differ")
    expect(page.locator("#count")).to_have_text("80 of 91 debates")
    expect(rows(page).first).to_contain_text(WRONG)


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
