"""Quotes and citations of passages, which code looks up: in every stance, and in the summary of a text."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import CitationCheck
from madke.engine.citations import (
    MIN_QUOTE,
    citations_in,
    cited_sentences,
    look_up,
    looked_up,
    merge_citations,
    normalize_quote,
)
from madke.engine.parse.answer import parse_citations
from madke.engine.parse.decisions import parse_quotes
from tests.conftest import passage
from tests.support.debates import asked, play, shown

TEXTS = {
    0: "Lake Baikal is the deepest lake in the world, at 1,642 metres. It holds a fifth of the fresh water.",
    1: "Lake Tanganyika is the sec-\nond deepest lake. Its ﬁsh ﬂourish, ﬁshermen\u2019s catch — “dagaa” — is dried.",
    2: "東京は日本の首都であり、 最大の都市です。人口は約１４００万人です。",
    3: "The well-known co-operative opened in 1994 and ended with the words",
    4: "of its founder, who never returned to the northern shore.",
    5: "Байкал является самым глубоким озером планеты.",
}

PLANTED = {
    "word for word": ("Lake Baikal is the deepest lake in the world", 0, "found", (0,)),
    "other case and spaces": ("lake  baikal is the\ndeepest LAKE", 0, "found", (0,)),
    "without a passage": ("Lake Baikal is the deepest lake in the world", None, "found", (0,)),
    "ligatures": ("Its fish flourish", 1, "found", (1,)),
    "curly quotes and dashes": ('fishermen\'s catch - "dagaa" - is dried', 1, "found", (1,)),
    "hyphenated at a line break": ("is the second deepest lake", 1, "found", (1,)),
    "a hyphen less": ("The wellknown cooperative opened", 3, "found", (3,)),
    "CJK part, digits": ("最大の都市です。人口は約1400万人", 2, "found", (2,)),
    "invisible characters": ("Lake\u200b Baikal is\u00ad the deepest", 0, "found", (0,)),
    "Cyrillic look-alikes": ("L\u0430ke B\u0430ik\u0430l is the deepest lake", 0, "approximate", (0,)),
    "a slip of the pen": ("It holds a fifth of the fresch water", 0, "approximate", (0,)),
    "an article less": ("Lake Baikal is deepest lake in the world", 0, "approximate", (0,)),
    "another passage": ("Lake Tanganyika is the second deepest lake", 0, "misattributed", (1,)),
    "a passage that was never shown": ("It holds a fifth of the fresh water", 99, "misattributed", (0,)),
    "stitched with an ellipsis": ("Lake Baikal is the deepest ... a fifth of the fresh water", 0, "stitched", (0,)),
    "stitched without a sign": ("Lake Baikal is the deepest lake. Its fish flourish", 0, "stitched", (0, 1)),
    "over two passages": ("ended with the words of its founder, who never returned", 3, "stitched", (3, 4)),
    "fabricated": ("Lake Baikal froze over completely in 1890", 0, "not_found", ()),
    "another name": ("Lake Victoria is the deepest lake in the world", 0, "not_found", ()),
    "another small word": ("Lake Baikal was the deepest lake in the world", 0, "not_found", ()),
    "another number": ("the deepest lake in the world, at 1,742 metres", 0, "not_found", ()),
    "a negation more": ("Lake Baikal is not the deepest lake in the world", 0, "not_found", ()),
    "a negation less": ("who returned to the northern shore", 4, "not_found", ()),
    "within words": ("ake Baikal is the deepest lak", 0, "not_found", ()),
    "too short": ("deepest lak", 0, "too_short", ()),
}


@pytest.mark.parametrize(("quote", "passage", "status", "found_in"), PLANTED.values(), ids=PLANTED)
def test_a_planted_quote_is_classified(quote: str, passage: int | None, status: str, found_in: tuple[int, ...]) -> None:
    assert look_up(quote, passage, TEXTS) == (status, found_in)


def test_a_text_of_nearly_equal_words_is_looked_up_at_once() -> None:
    quote, text = " ".join(["abcdefgh"] * 200), " ".join(["abcdefgi"] * 2_000)
    begun = process_time()
    assert look_up(quote, 0, {0: text}).status == "not_found"
    assert process_time() - begun < 1


@given(st.text(max_size=400), st.integers(0, 300), st.integers(MIN_QUOTE, 80))
def test_words_cut_out_of_a_passage_are_found_in_it(text: str, start: int, length: int) -> None:
    words = normalize_quote(text).split()
    first, *more = words[start % max(1, len(words)) :] or [""]
    # Whole words: a part of a word is no quote, however long the word is.
    quote = f"{first} {' '.join(more)}"[: max(length * 2, len(first) + 1)].rsplit(" ", 1)[0]
    status = look_up(quote, 0, {0: text}).status
    assert status in ("found", "too_short", "stitched") or not any(c.isalnum() for c in quote)


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_raises(quote: str, text: str) -> None:
    look_up(quote, 0, {0: text})
    parse_quotes(quote + text)
    parse_citations(text, {0, 1})


REPLIES = {
    "after it": ('He says "the lake is deep" [3].', [("the lake is deep", 3)]),
    "after it, in words": ('It is "the deepest" (passage 2).', [("the deepest", 2)]),
    "before it": ('Passage 2 says: "The lake is deep." Then more.', [("The lake is deep.", 2)]),
    "the nearer one": ('[4] differs. [1] says "deep" and [2] "flat" [0].', [("deep", 1), ("flat", 0)]),
    "none": ('They call it "deep".', [("deep", None)]),
    "other marks": ("«tief» [1], „flach“ [2], 「深い」[0]", [("tief", 1), ("flach", 2), ("深い", 0)]),
    "a quoted line of another debater": ('> Debater 1: "the lake is deep" [3]\nNo.', []),
}


@pytest.mark.parametrize(("text", "quotes"), REPLIES.values(), ids=REPLIES)
def test_a_quote_takes_the_number_next_to_it(text: str, quotes: list[tuple[str, int | None]]) -> None:
    assert [tuple(quote) for quote in parse_quotes(text)] == quotes


def test_only_numbers_that_were_shown_are_citations() -> None:
    assert parse_citations("First [1][3], then [2, 5-6] and [Baikal]. See [9].", {1, 2, 3, 5, 6}) == (1, 3, 2, 5, 6)


# The task ``text``: answers of several sentences, with the citations of each.

QUESTION = Question(id="x", question="How deep are the deepest lakes?", task="text", answers=("1,642 m", "1,470 m"))
PASSAGES = {
    "Baikal": "Lake Baikal in Siberia is 1,642 m deep.",
    "Tanganyika": "Lake Tanganyika is 1,470 m deep.",
    "Zebra": "Zebras live in herds.",
}
BAIKAL = "Lake Baikal is 1,642 m deep [0]."
TANGANYIKA = "Lake Tanganyika is 1,470 m deep [1]."


def test_sentences_joined_are_the_text_and_know_what_they_cite() -> None:
    text = 'It is deep. [0] "So" is that [1, 2]. Nobody knows\nLast line [3-4]. 很深。[5] 很大。'
    found = list(cited_sentences(text))
    assert "".join(each.text for each in found) == text
    assert [each.citations for each in found] == [(0,), (1, 2), (), (3, 4), (5,), ()]
    assert citations_in(text) == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        (BAIKAL, BAIKAL),
        ("Baikal has 1,642 metres [0][7].", "Baikal has 1,642 metres [0]."),
        ("Baikal is the deepest [2]. Zebras live there [2].", "Baikal is the deepest. Zebras live there [2]."),
        ("It was [0].", "It was [0]."),
    ],
)
def test_a_citation_of_another_passage_or_of_one_about_something_else_is_removed(text: str, checked: str) -> None:
    passages = {n: f"{title}\n{passage}" for n, (title, passage) in enumerate(PASSAGES.items())}
    assert looked_up(text, QUESTION.question, passages) == checked


@pytest.mark.parametrize(
    ("summary", "text", "check"),
    [
        (f"{BAIKAL} {TANGANYIKA}", f"{BAIKAL} {TANGANYIKA}", CitationCheck()),
        ("Baikal: 1,642 m [0][1].", "Baikal: 1,642 m [0].", CitationCheck(removed=(1,), lost=(1,))),
        ("Lake Baikal is 1,642 m deep.", BAIKAL, CitationCheck(restored=(0,), lost=(1,))),
        (f"{TANGANYIKA} Zebras agree [2].", f"{TANGANYIKA} Zebras agree.", CitationCheck(removed=(2,), lost=(0,))),
        ("They are Baikal [0] and Tanganyika [1].", "They are Baikal [0] and Tanganyika [1].", CitationCheck()),
    ],
)
def test_a_summary_cites_what_the_stances_cite(summary: str, text: str, check: CitationCheck) -> None:
    assert merge_citations(summary, QUESTION.question, [BAIKAL, TANGANYIKA]) == (text, check)


LONG = {
    "spaces": "Baikal is deep" + " " * 100_000 + "and cold [2].",
    "stops": "Baikal is deep [2]" + "." * 100_000 + "x",
    "many sentences": " ".join(
        f"Lake number {n} is deep and holds much of the water of the world [0]." for n in range(200)
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_citations_of_long_hostile_text_are_checked_in_reasonable_time(text: str) -> None:
    assert "[2]" not in looked_up(text, QUESTION.question, {0: BAIKAL})
    assert "[2]" not in merge_citations(text, QUESTION.question, [LONG["many sentences"]] * 2)[0]


def debating(request: ChatRequest) -> str:
    said = {"select": "Selected: [0] [1]", "judge": "Verdict: SAME", "summarize": f"{BAIKAL} Zebras agree [2]."}
    return said.get(request.purpose.stage, f"{BAIKAL} {TANGANYIKA}")


def test_the_summarizer_of_a_debate_adds_no_citation() -> None:
    pool = KnowledgePool(passages=tuple(passage("wiki", title, title, text) for title, text in PASSAGES.items()))
    done, model = play("madke", debating, question=QUESTION, pool=pool)
    assert done.status == "ok"
    assert done.answer == done.final.text == f"{BAIKAL} Zebras agree."
    assert done.final.citations == CitationCheck(removed=(2,), lost=(1,))
    agreement = done.agreement
    assert agreement is not None
    assert (agreement.outcome, agreement.by, agreement.cited, agreement.dissent) == ("consensus", "judge", (0,), ())
    assert [(each.supporters, each.passages) for each in agreement.positions] == [(("Debater 1", "Debater 2"), (0, 1))]
    (judge,) = asked(model, stage="judge")
    assert "The answer is" not in shown(judge)


@pytest.mark.parametrize(
    ("protocol", "settings", "reason"),
    [
        ("madke", {"function": "mad"}, "a vote"),
        ("madke", {"early_stop": "agreement"}, "agreement"),
        ("madke", {"order": "madc"}, "order = madc"),
        ("madke", {"marker": "brackets"}, "marker = brackets"),
        ("liang", {}, "a judge that decides"),
    ],
)
def test_a_protocol_that_compares_answers_refuses_texts(protocol: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as refused:
        play(protocol, debating, question=QUESTION, settings=settings)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
