"""The citations of texts: checked by code in every stance and in the summary."""

from __future__ import annotations

from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import CitationCheck
from madke.engine.citations import citations_in, cited_sentences, looked_up, merge_citations
from tests.support.debates import asked, play, shown

QUESTION = Question(id="x", question="How deep are the deepest lakes?", task="text", answers=("1,642 m", "1,470 m"))
POOL = KnowledgePool(
    passages=tuple(
        Passage(source="w", key=key, title=key, text=text, score=1, rank=rank)
        for rank, (key, text) in enumerate(
            [
                ("Baikal", "Lake Baikal in Siberia is 1,642 m deep."),
                ("Tanganyika", "Lake Tanganyika is 1,470 m deep."),
                ("Zebra", "Zebras live in herds."),
            ],
            start=1,
        )
    )
)
BAIKAL = "Lake Baikal is 1,642 m deep [0]."
TANGANYIKA = "Lake Tanganyika is 1,470 m deep [1]."


def debating(summary: str, texts: dict[str, str] | None = None, verdicts: str = "SAME") -> Any:
    def reply(request: ChatRequest) -> str:
        match request.purpose.stage:
            case "select":
                return "Selected: [0] [1]"
            case "judge":
                return f"Verdict: {verdicts}"
            case "summarize":
                return summary
        return (texts or {}).get(request.purpose.agent, f"{BAIKAL} {TANGANYIKA}")

    return reply


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
        ("Nothing is cited here.", "Nothing is cited here."),
    ],
)
def test_a_citation_of_another_passage_or_of_one_about_something_else_is_removed(text: str, checked: str) -> None:
    passages = {n: f"{p.title}\n{p.text}" for n, p in enumerate(POOL.passages)}
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


HOSTILE = {
    "spaces": "Baikal is deep" + " " * 100_000 + "and cold [0].",
    "stops": "Baikal is deep [2]" + "." * 100_000 + "x",
    "many sentences": " ".join(
        f"Lake number {n} is deep and holds much of the water of the world [0]." for n in range(200)
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_citations_of_long_hostile_text_are_checked_in_reasonable_time(text: str) -> None:
    assert "[2]" not in looked_up(text, QUESTION.question, {0: BAIKAL})
    assert "[2]" not in merge_citations(text, QUESTION.question, [HOSTILE["many sentences"]] * 2)[0]


def test_the_summarizer_of_a_debate_adds_no_citation() -> None:
    done, model = play("madke", debating(f"{BAIKAL} Zebras agree [2]."), question=QUESTION, pool=POOL)
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
        ("madke", {"early_stop": "stability"}, "stability"),
        ("madke", {"order": "madc"}, "order = madc"),
        ("madke", {"marker": "brackets"}, "marker = brackets"),
        ("gated", {}, "agreement"),
        ("reconcile", {}, "reads.grouped"),
        ("liang", {}, "a judge that decides"),
    ],
)
def test_a_protocol_that_compares_answers_refuses_texts(protocol: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as refused:
        play(protocol, debating(""), question=QUESTION, settings=settings)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
