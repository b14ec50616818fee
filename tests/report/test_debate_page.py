"""The page's view of one debate and of up to four side by side, in Debian's Chromium, offline."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from madke.core.transcript import CitationCheck, Final, PoolEntry, Selection, Stance, Verdict
from madke.report.html import write_report
from tests.report.run_folders import debate, write_run
from tests.support.browser import expect, needs_browser, one_page

pytestmark = needs_browser

HOSTILE = "<mark>x</mark><img src=x onerror='window.hacked = 1'> [0] {{7*7}} \u202eabc\u202c " + "w" * 200
QUOTE = "The lake holds more than a fifth of the fresh surface water of the earth, says the “survey”."
PASSAGES = [
    {
        "source": "wiki",
        "key": "baikal-1",
        "title": "Lake Baikal",
        "text": f"Baikal is in Siberia. {QUOTE} It freezes in winter. Its water is clear, and its fish are famous.",
    },
    {
        "source": "wiki",
        "key": "tanganyika-1",
        "title": "Lake Tanganyika",
        "text": "Tanganyika is the second deepest lake of the world. It lies in a valley.",
    },
    {
        "source": "google",
        "key": "https://lakes.example/a-very-long-address-without-any-space-" + "x" * 80,
        "title": "Deep lakes",
        "text": f"Somebody else wrote: {QUOTE}",
        "url": "https://lakes.example/deep",
        "date": "2024-05-01",
    },
    {
        "source": "wiki",
        "key": "zh",
        "title": "贝加尔湖",
        "text": "贝加尔湖位于西伯利亚。它是世界上最深的湖泊。湖水很清。",
    },
    {
        "source": "wiki",
        "key": "he",
        "title": "ימת באיקל",
        "text": "באיקל הוא אגם בסיביר. זהו האגם העמוק ביותר בעולם כולו.",
    },
    {
        "source": "google",
        "key": "hostile",
        "title": HOSTILE,
        "text": f"{HOSTILE}. It is not so.",
        "url": "javascript:1",
    },
]
RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def told(made: Any, *texts: Any, ids: Any = (0, 1)) -> Any:
    """The debate with these texts of stances in reading order, selections of ``ids``, and the pool of this file."""
    entries = [
        PoolEntry(n=n, source=each["source"], key=each["key"], title=each["title"]) for n, each in enumerate(PASSAGES)
    ]
    given = iter(texts)
    rounds = []
    for entry in made.rounds:
        turns = []
        for turn in entry.turns:
            text = next(given, turn.stance.text)
            stance = text if isinstance(text, Stance) else replace(turn.stance, text=text)
            turns.append(replace(turn, stance=stance, selection=Selection(ids=ids, text="I select [0] and [1].")))
        rounds.append(replace(entry, turns=tuple(turns)))
    metadata = {"dataset": "lakes", "gold_passages": ["baikal-1", "zh"]}
    return replace(made, rounds=tuple(rounds), pool=tuple(entries), metadata=metadata)


def debates() -> list[Any]:
    failed = Stance(status="failed", error="TimeoutError: no reply in 60 s")
    long = "I think about it.\n\n" + "\n".join(f"{n}. A step of my long argument, as in [0]." for n in range(400))
    choices = tuple(f"{letter} is a choice of {'many ' * 12}words" for letter in "ABCD")
    du = debate("du", [RIGHT, WRONG, WRONG], [RIGHT, WRONG, RIGHT], [RIGHT] * 3, pool=False)
    sides, verdict = debate("sides", [RIGHT, WRONG], [RIGHT, WRONG]), Verdict(consensus=True, side="Debater 2")
    return [
        told(
            debate("plain", [WRONG, RIGHT], [RIGHT, RIGHT]),
            'As [0] says: "the lake holds   more than a fifth of\nthe fresh surface water of the earth, says '
            'the "survey".\n'
            "Knowledge 1 and [0, 2] and [17] say more.\nThe answer is [Lake Tanganyika].",
            "It lies in a valley, and Tanganyika is the second deepest lake. [1]",
            "I change my mind, because of [0].",
        ),
        told(
            debate("three", [RIGHT, None, WRONG], [RIGHT, RIGHT, WRONG], consensus=False),
            "I say so.",
            "I cannot tell.",
            failed,
        ),
        replace(du, rounds=tuple(replace(entry, verdict=None) for entry in du.rounds)),
        told(debate("long", [RIGHT, WRONG], question="Why is this lake deep? " * 45, choices=choices), long, long),
        told(
            debate("zh", ["贝加尔湖", "贝加尔湖"], question="哪个湖泊最深"),
            "文中说它是世界上最深的湖泊。[3]",
            ids=(3,),
        ),
        told(debate("he", ["באיקל", "באיקל"]), "לפי [4]: זהו האגם העמוק ביותר בעולם כולו.", ids=(4,)),
        told(debate("hostile", [HOSTILE, HOSTILE], golds=(HOSTILE,), question=HOSTILE), HOSTILE, HOSTILE, ids=(5, 0)),
        told(debate("number", ["1", "1"], golds=("1",)), "Look at [0]. The answer is [1]."),
        replace(sides, rounds=(sides.rounds[0], replace(sides.rounds[1], verdict=verdict))),
        cited_text(told(debate("text", [RIGHT, WRONG]))),
        told(debate("only-here", [RIGHT, RIGHT])),
    ]


def cited_text(made: Any) -> Any:
    """The debate with a summary that cites a passage, and a number that no passage has."""
    text = "Baikal freezes in winter. [0] It is deep. [17]"
    final = Final(by="summarizer", answer=text, text=text, citations=CitationCheck())
    return replace(made, answer=text, final=final)


def test_citations_of_a_final_text_open_their_passage(opened: Any) -> None:
    page = opened("text")
    numbers = page.locator(".who.line button.pick")
    assert numbers.all_inner_texts() == ["[0]"]
    numbers.click()
    expect(page.get_by_role("group", name="Passage 0")).to_contain_text("It freezes in winter.")


NAMES = ["first", "second", "third", "fourth", "fifth", "<i>sixth"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("debates")
    paths = []
    for n, name in enumerate(NAMES):
        made = debates() if n == 0 else debates()[:-1]
        if n == 1:
            # The second run has another pool: the passages of the web are missing, so the others have other numbers.
            kept = [each for each in PASSAGES if each["source"] == "wiki"]
            pool = tuple(
                PoolEntry(n=place, source=each["source"], key=each["key"], title=each["title"])
                for place, each in enumerate(reversed(kept))
            )
            made = [replace(each, pool=pool) if each.pool else each for each in made]
            made[0] = replace(made[0], rounds=made[0].rounds[:1], stop_reason="budget")
        paths.append(write_run(folder / name, made, passages=PASSAGES))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("madke.report.html.figures.available", lambda: False)
        write_report(paths, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def shared_page() -> Iterator[tuple[Any, list[str]]]:
    """One page for all tests, and the troubles of the page: errors, and requests that it must not make."""
    with one_page() as made:
        yield made


@pytest.fixture
def opened(shared_page: Any, report: Any) -> Iterator[Any]:
    """Open a debate of the first run, next to other runs."""
    page, troubles = shared_page

    def load(id_: str, *beside: str, size: tuple[int, int] = (1280, 900), scheme: str = "light") -> Any:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)
        page.goto("about:blank")
        query = "&".join(f"with={quote(name)}" for name in beside)
        page.goto(f"{report.as_uri()}#first/{id_}?{query}")
        page.wait_for_selector("html.ready")
        return page

    yield load
    assert troubles == []


PHONE = (390, 844)
IDS = ["plain", "three", "du", "long", "zh", "he", "hostile", "number"]


def test_a_debate_with_several_answers_has_a_map(opened: Any) -> None:
    page = opened("plain")
    part = page.locator(".conflicts")
    part.locator("summary").click()
    told = [re.sub(r"\s+", " ", line.inner_text()) for line in part.locator("li").all()]
    assert told[0].startswith("✓ Lake Baikal") or "Lake Baikal" in told[0]
    assert "Debater 2 in rounds 1, 2" in told[0]
    assert any(line.startswith("Passages differ: Lake Baikal [0] against Lake Tanganyika [1]") for line in told)
    assert any(line.startswith("Debater 1 changed in round 2: Lake Tanganyika → Lake Baikal") for line in told)
    part.locator("button").first.click()
    expect(part).to_contain_text("Baikal is in Siberia.")
    assert opened("zh").locator(".conflicts").count() == 0


@pytest.mark.parametrize("size", [PHONE, (768, 1024), (1088, 800), (1280, 900)])
def test_nothing_is_wider_than_the_window(opened: Any, size: tuple[int, int]) -> None:
    outside = """() => [...document.querySelectorAll("#debate *")]
      .filter((each) => each.checkVisibility() && !each.closest(".scroll, .unseen"))
      .filter((each) => each.getBoundingClientRect().right > innerWidth + .5
        || each.getBoundingClientRect().left < -.5)
      .map((each) => each.outerHTML.slice(0, 200))"""
    for id_ in IDS if size in (PHONE, (1280, 900)) else ("three", "hostile"):
        for beside in ([], NAMES[1:4] if size[0] < 1000 else NAMES[1:2]):
            page = opened(id_, *beside, size=size)
            page.evaluate("for (const each of document.querySelectorAll('#debate details')) each.open = true")
            assert page.evaluate(outside) == [], (id_, beside)
            assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def box(place: Any) -> Any:
    return place.first.bounding_box()


def test_quoted_sentences_are_highlighted_in_the_passages_that_the_debater_chose(opened: Any) -> None:
    page = opened("plain")
    marks = page.locator("#pool mark")
    # Whatever the spaces and quotation marks; a whole sentence of five words; a run of seven words.
    assert marks.all_inner_texts() == [
        QUOTE,
        "Tanganyika is the second deepest lake of the world.",
        "It lies in a valley.",
    ]
    expect(marks.first).to_have_attribute("title", "quoted by Debater 1 in round 1")
    expect(marks.nth(2)).to_have_attribute("title", "quoted by Debater 2 in round 1")
    assert page.locator("#pool .passage").nth(2).locator("mark").count() == 0  # Nobody chose it.
    for id_, said in (("zh", "它是世界上最深的湖泊。"), ("he", "זהו האגם העמוק ביותר בעולם כולו.")):
        opened(id_)
        assert marks.all_inner_texts() == [said]


def test_a_number_opens_its_passage_in_place_by_mouse(opened: Any) -> None:
    page = opened("plain")
    turn = page.locator(".turn").first
    number, card = turn.locator("> .prose").get_by_role("button", name="[0]", exact=True), turn.locator(".here")
    number.click()
    expect(card).to_have_count(1)
    expect(card).to_be_focused()
    expect(card).to_be_in_viewport(ratio=1)
    expect(card).to_contain_text("Its water is clear, and its fish are famous.")
    expect(card).to_contain_text("★ gold")
    expect(card.locator("mark")).to_have_text(QUOTE)
    expect(number).to_have_attribute("aria-expanded", "true")
    line = turn.locator("> .prose > .line").first
    assert 0 <= box(card)["y"] - box(line)["y"] - box(line)["height"] < 20
    number.click()
    expect(card).to_have_count(0)
    expect(number).to_be_focused()
    turn.locator(".selection").get_by_role("button", name="[1]").click()
    expect(card).to_contain_text("It lies in a valley.")
    card.get_by_role("button", name="close").click()
    expect(card).to_have_count(0)


def test_on_a_phone_the_pool_is_a_drawer(opened: Any) -> None:
    page = opened("plain", size=PHONE)
    pool, button = page.locator("#pool"), page.get_by_role("button", name="Pool: 6 passages, 2 chosen, 2 gold")
    expect(pool).to_be_hidden()
    button.press("Enter")
    expect(pool).to_be_visible()
    expect(pool.get_by_role("button", name="close")).to_be_focused()
    assert box(pool)["x"] >= 0
    assert box(pool)["x"] + box(pool)["width"] <= 390
    page.keyboard.press("Escape")
    expect(pool).to_be_hidden()
    expect(button).to_be_focused()
    expect(page.locator(".turn").first).to_be_visible()
    button.click()
    page.mouse.click(5, 400)
    expect(pool).to_be_hidden()
    button.click()
    pool.get_by_role("button", name="close").click()
    expect(pool).to_be_hidden()


def test_two_to_four_runs_are_chosen_among_any_number(opened: Any) -> None:
    page = opened("plain")
    page.get_by_text("5 other runs").click()
    names = page.locator(".names .run")
    for n, name in enumerate(NAMES[1:4], start=2):
        page.get_by_role("link", name=f"side by side with {name}").click()
        expect(names).to_have_text(["first", *NAMES[1:n]])
        expect(page.get_by_role("link", name=f"close {name}")).to_be_focused()
    expect(page.locator(".others").get_by_text("4 runs at most")).to_have_count(2)
    page.reload()
    expect(names).to_have_text(NAMES[:4])
    page.get_by_role("link", name="close third").click()
    expect(names).to_have_text(["first", "second", "fourth"])
    page.get_by_role("link", name="side by side with <i>sixth").click()
    expect(names).to_have_text(["first", "second", "fourth", "<i>sixth"])
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=2)).to_contain_text("survey three")
    expect(names).to_have_count(4)
    page.go_back()
    page.go_back()
    expect(names).to_have_text(["first", "second", "fourth"])


def test_runs_side_by_side_share_one_pool(opened: Any) -> None:
    page = opened("plain", "second")
    pool = page.locator("#pool")
    expect(pool.locator(".passage")).to_have_count(6)
    # The runs number these passages differently; only the first run has the third one.
    expect(pool.locator(".passage").first.locator(".chips .run")).to_have_text(["first [0]", "second [3]"])
    expect(pool.locator(".passage").nth(2).locator(".number")).to_be_empty()
    expect(pool.locator(".passage").nth(2).locator(".chips .run")).to_have_text(["first [2]"])
    # [0] of the second run is its own passage 0.
    second = page.locator(".round").first.locator(".lane").nth(1)
    second.locator(".prose").get_by_role("button", name="[0]", exact=True).click()
    expect(second.locator(".here .title")).to_have_text("ימת באיקל")


def test_hostile_text_is_shown_as_text(opened: Any) -> None:
    page = opened("hostile", "second")
    page.locator(".prose .pick").first.click()
    shown = page.locator("#debate").inner_text()
    assert shown.count("<mark>x</mark><img src=x onerror='window.hacked = 1'>") > 8
    assert "\u202e" not in shown
    assert page.locator("#debate img, #debate mark mark, #debate a[href^=javascript]").count() == 0
    assert "x" not in page.locator("#debate mark").all_inner_texts()
    assert page.evaluate("window.hacked") is None
