"""The page of the server in Debian's Chromium: ask, watch, cancel, read the transcript."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from madke.core.knowledge import Hits, Passage
from tests.serve.serving import Serving, Shelf, Upstream, endpoint, serving, stage_of, wait_for
from tests.support.browser import browser, expect, needs_browser
from tests.support.openai_server import chat, openai_server

pytestmark = needs_browser
PATIENCE = 20_000
"""Milliseconds; a busy machine is slow."""

Open = Callable[..., Any]
HOSTILE = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script> \u202e{{7*7}}"
QUESTION = "Who wrote book 3?"


class HostileShelf(Shelf):
    """A source whose passages are hostile, one of them long."""

    def search(self, queries: list[str], k: int) -> list[Hits]:
        texts = ("A book has an author. " * 30, HOSTILE, "x" * 400)
        passages = [
            Passage(source="shelf", key=str(n), title=f"Title {n} {HOSTILE}", text=text, score=1.0, rank=n)
            for n, text in enumerate(texts)
        ]
        passages[1] = replace(passages[1], url="javascript:window.hacked=1")
        return [Hits(passages=tuple(passages))] * len(queries)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with pytest.MonkeyPatch.context() as patch, endpoint(seconds=0.15) as running:
        patch.setenv("OPENAI_API_KEY", "upstream-key")
        yield running


@pytest.fixture(scope="module")
def server(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    out = tmp_path_factory.mktemp("page") / "out"
    with serving(out, upstream, sources=HostileShelf(), protocols=("madke", "cot")) as running:
        yield running


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    with browser() as made:
        expect.set_options(timeout=PATIENCE)
        yield made
        expect.set_options(timeout=5000)


@pytest.fixture
def opened(launched: Any, server: Serving) -> Iterator[Open]:
    """Open the page. It reports no error, and makes no request to others."""
    troubles, contexts = [], []

    def load(path: str = "/", at: Serving = server, **options: Any) -> Any:
        contexts.append(launched.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.on("console", lambda message: "status of 40" in message.text or troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: request.url.startswith(at.url) or troubles.append(request.url))
        page.goto(at.url + path)
        page.wait_for_selector("html.ready")
        return page

    yield load
    for context in contexts:
        assert not any(page.evaluate("window.hacked") for page in context.pages)
        context.close()
    assert troubles == []


def asked(page: Any, question: str) -> None:
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def wide(page: Any) -> int:
    """How many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_a_debate_arrives_while_it_goes_on(opened: Open, upstream: Upstream) -> None:
    page = opened()
    before = len(upstream.began)
    with upstream.holding("summarize"):
        asked(page, QUESTION)
        first = page.locator(".turn").first
        expect(first.locator(".selection")).to_have_text("Chose [0]")
        expect(page.locator("#pool .passage.chosen .chips")).to_contain_text("Debater 1round 1")
        expect(first.locator(".given")).to_have_text("Author 3")
        expect(page.get_by_text("Judge: consensus")).to_be_visible()
        expect(page.locator("#state")).not_to_contain_text("Author 3")
    expect(page.locator("#state")).to_have_text("AnswerAuthor 3")
    expect(page.locator(".final")).to_contain_text("Author 3by summarizer")
    assert len(upstream.began) - before == 6


@pytest.mark.parametrize(
    ("n", "leave", "said"),
    [
        (5, lambda page: page.get_by_role("button", name="Cancel").click(), "Cancelled."),
        (16, lambda page: page.reload(), "The page was loaded again."),
    ],
)
def test_a_debate_that_was_left_ends_and_going_on_pays_nothing_twice(
    n: int, leave: Callable[[Any], None], said: str, opened: Open, upstream: Upstream, server: Serving
) -> None:
    page = opened()
    before = len(upstream.began)
    with upstream.holding("debater"):
        asked(page, f"Who wrote book {n}?")
        expect(page.locator(".turn").first.locator(".selection")).to_have_text("Chose [0]")
        wait_for(lambda: len(upstream.began) - before == 4)
        leave(page)
        expect(page.get_by_text(said)).to_be_visible()
        wait_for(lambda: server.debates.running == 0)
    wait_for(lambda: server.is_idle)
    assert len(upstream.began) - before == 4, "no call starts after the client has gone"
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#state")).to_have_text(f"AnswerAuthor {n}")
    assert len(upstream.began) - before == 6, "calls under way were kept"


def test_sources_and_protocols(opened: Open, server: Serving) -> None:
    page = opened()
    page.get_by_role("checkbox", name="shelf").uncheck()
    asked(page, "Who wrote book 8?")
    expect(page.locator("#state")).to_have_text("AnswerAuthor 8")
    expect(page.locator("#pool")).to_have_count(0)
    page.get_by_role("button", name="Ask another").click()
    page.get_by_role("combobox", name="Protocol").select_option("cot")
    asked(page, "Who wrote book 9?")
    expect(page.locator("#state")).to_have_text("AnswerAuthor 9")
    body = {"protocol": "madke", "question": "?", "sources": ["os:listdir"]}
    assert page.request.post(f"{server.url}/page/debates", data=body).status == 400


def test_debates_and_cited_passages_have_addresses(opened: Open, server: Serving) -> None:
    page = opened()
    asked(page, "Who wrote book 15?")
    expect(page.locator("#state")).to_have_text("AnswerAuthor 15")
    page.get_by_role("button", name="Ask another").click()
    page.go_back()
    expect(page.locator("#state")).to_have_text("AnswerAuthor 15")
    href = page.url.removeprefix(server.url)
    assert href.startswith("/debates/")
    page.reload()
    expect(page.locator(".round").first).to_contain_text("Debater 1Author 15")
    expect(page.locator("#by")).to_have_text("madkeopenai/m")
    plain = page.request.get(page.url, headers={"accept": "*/*"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert "Author 15" in plain.text()
    named = opened(f"{href}#1")
    expect(named.locator("#pool .named .number")).to_have_text("[1]")
    assert opened(href.replace("token=", "token=0")).locator("#state").text_content() != "AnswerAuthor 15"


def test_a_key_is_asked_for_and_kept_in_the_tab(opened: Open, upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path / "out", upstream, keys=["secret-1"]) as locked:
        page = opened(at=locked)
        expect(page.get_by_label("Key", exact=True)).to_be_focused()
        for key in ("wrong", "secret-1"):
            page.get_by_label("Key", exact=True).fill(key)
            page.keyboard.press("Enter")
            expect(page.get_by_text("does not know this key")).to_be_visible(visible=key == "wrong")
        seen: list[Any] = []
        page.on("request", lambda request: seen.append(request))
        asked(page, QUESTION)
        expect(page.locator("#state")).to_have_text("AnswerAuthor 3")
        assert {request.headers["authorization"] for request in seen} == {"Bearer secret-1"}
        assert not [request.url for request in seen if "secret" in request.url]
        page.goto(locked.url)
        expect(page.get_by_label("Question")).to_be_visible()
        assert page.evaluate("JSON.stringify(localStorage)").find("secret") == -1
        page.close()


def test_hostile_texts_stay_texts_on_a_phone_too(opened: Open) -> None:
    page = opened(viewport={"width": 390, "height": 844}, has_touch=True)
    assert wide(page) == 0
    expect(page.get_by_label("Question")).to_be_focused()
    page.keyboard.type(f"{HOSTILE} Who wrote book 11?")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_have_text("AnswerAuthor 11")
    expect(page.get_by_role("heading", level=2)).to_contain_text("<img src=x")
    page.get_by_role("button", name="Pool:").tap()
    expect(page.locator("#pool")).to_be_visible()
    expect(page.locator("#pool")).to_contain_text("<script>window.hacked=1</script>")
    assert wide(page) == 0
    assert page.locator("#debate :is(img, script), [href^=javascript]").count() == 0
    policy = page.request.get(page.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


class Divided(Upstream):
    """The debaters of a round give different answers, and the judge sees it."""

    numbers = count()

    def __call__(self, body: Any, n: int) -> Any:
        stage = stage_of(body)
        self.rounds = 10**6  # the judge never finds agreement
        if stage != "debater":
            return super().__call__({**body, "stream": False}, n)
        return chat(f"I know that. The answer is [Author {next(self.numbers) % 2}].")


def test_a_split_is_never_one_bold_answer(opened: Open, tmp_path: Path) -> None:
    divided = Divided()
    with (
        openai_server(divided) as divided.server,
        serving(tmp_path / "out", divided, protocols=("madke",), sources=Shelf()) as split,
    ):
        page = opened(at=split)
        asked(page, "Who wrote book 1?")
        state, agreement = page.locator("#state"), page.locator(".agreement.split")
        expect(state).to_contain_text("No consensus")
        expect(state.locator(".side")).to_have_count(2)
        expect(state.locator(".answer")).to_have_count(0)
        expect(agreement).to_contain_text("Ended with no consensus, found by the judge.")
        expect(agreement.locator("> ul > li")).to_have_count(2)
        weight = page.locator(".final .who .answer").evaluate("each => getComputedStyle(each).fontWeight")
        assert int(weight) <= 400
