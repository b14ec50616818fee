"""A person as a debater: shown what a person needs, asked until it can be read, and quoted as the engine reads it."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.events import DebateFinished
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.llm.human import (
    ASK_ANSWER,
    ASK_PASSAGES,
    ASK_REASONS,
    ASK_REPLY,
    ASK_SAME,
    ASK_SEARCH,
    HumanChat,
    ask_terminal,
)
from madke.runs.job import resolved
from madke.runs.options import DEFAULTS
from madke.runs.request import RunRequest
from tests.support.chat_requests import chat_request

QUESTION = "Which river leaves Lake Baikal?"


class Person:
    """Types the lines for each label in turn, and remembers all that was shown."""

    def __init__(self, **lines: Sequence[str]) -> None:
        labels = {
            "passages": ASK_PASSAGES,
            "search": ASK_SEARCH,
            "answer": ASK_ANSWER,
            "reasons": ASK_REASONS,
            "same": ASK_SAME,
        }
        self._lines = {labels[name]: list(typed) for name, typed in lines.items()}
        self.shown: list[str] = []
        self.model = HumanChat(self.ask, self.shown.append)

    def ask(self, label: str) -> str:
        self.shown.append(label)
        lines = self._lines.get(label)
        return lines.pop(0) if lines else ""

    @property
    def text(self) -> str:
        return "\n".join(self.shown)


class Source:
    name = "docs"
    description = "two passages"

    def search(self, queries: Sequence[str], k: int) -> Any:
        from madke import Hits, Passage

        texts = ("The Angara leaves the lake.", "The Selenga enters \x1b[2Jit.")
        found = [
            Passage(source="docs", key=str(n), title=f"Title {n}", text=text, score=1.0, rank=n)
            for n, text in enumerate(texts)
        ]
        return [Hits(passages=tuple(found)) for _ in queries]


def peer(messages: Any) -> str:
    """A debater, judge and summarizer that is always sure of the Selenga."""
    last = messages[-1]["content"].rpartition("\n\n")[2]
    if "Selected:" in last:
        return "Selected: [1]"
    if "Verdict: SAME" in last:
        return "Verdict: DIFFERENT"
    return "It enters from Mongolia. The answer is [Selenga]."


def debate(person: Person, protocol: str = "madke", role: str = "debater-2", **settings: Any) -> Transcript:
    from madke.api.one_question import events_of

    sources = settings.pop("sources", Source())
    question = settings.pop("question", Question(id="q", question=QUESTION))
    request = RunRequest(
        questions=[question],
        protocol=protocol,
        sources=sources,
        model=peer,
        cast={role: person.model},
        settings=settings,
    )
    job = resolved(request)

    async def play() -> Transcript:
        async for event in events_of(job, DEFAULTS):
            if isinstance(event, DebateFinished):
                return event.transcript
        raise AssertionError

    return asyncio.run(play())


def turns(transcript: Transcript, agent: str) -> list[Any]:
    return [turn for entry in transcript.rounds for turn in entry.turns if turn.agent == agent]


def test_a_whole_debate_of_a_person_and_a_model() -> None:
    person = Person(
        passages=["0 1", ""], answer=["Lena", "Angara"], reasons=["I guess.", "", "Knowledge 0 says so.", ""]
    )
    transcript = debate(person, rounds=2)
    first, second = turns(transcript, "Debater 2")
    assert (first.selection.ids, first.selection.status, first.selection.rule) == ((0, 1), "ok", "selected")
    assert (first.stance.answer, first.stance.text) == ("Lena", "I guess.\nThe answer is Lena.")
    assert (second.selection.ids, second.selection.rule, second.stance.answer) == ((), "no_found", "Angara")
    assert "Reason step by step" not in person.text
    assert person.text.count("The Angara leaves the lake.") == 1
    assert person.text.count("It enters from Mongolia.") == 2  # once a round, live; not again in the next prompt
    assert "\x1b" not in person.text


def test_the_others_are_heard_only_after_the_own_turn() -> None:
    person = Person(answer=["Lena", "Angara"])
    debate(person, rounds=2)
    order = [line for line in person.shown if line in (ASK_ANSWER, "Debater 1 (round 1):", "Debater 1 (round 2):")]
    assert order == [ASK_ANSWER, "Debater 1 (round 1):", ASK_ANSWER, "Debater 1 (round 2):"]
    assert "Judge (round 1): the answers differ" in person.text
    assert "Final answer: Selenga" in person.text


def test_a_person_is_not_told_what_the_protocol_hides() -> None:
    person = Person(answer=["Lena"])
    debate(person, "self-consistency", role="debater-2", sources="none", debaters=2)
    assert "Selenga" not in person.text.replace("Final answer: Selenga", "")


def test_what_cannot_be_read_is_asked_again() -> None:
    person = Person(passages=["7", "one", "0 1", "[1]"], answer=["", "[", "Angara"])
    transcript = debate(person, rounds=1, knowledge={"sources": ["docs"], "max_selected": 1})
    (turn,) = turns(transcript, "Debater 2")
    assert (turn.selection.ids, turn.stance.answer) == ((1,), "Angara")
    assert person.shown.count(ASK_PASSAGES) == 4
    assert person.shown.count(ASK_ANSWER) == 3
    assert "There is no passage '7'. The numbers are 0, 1." in person.text
    assert "You chose 2 passages. Choose up to 1." in person.text
    assert "'[' cannot be read. Type a few words" in person.text


def test_a_question_mark_shows_the_passages_again() -> None:
    person = Person(answer=["?", "Angara"])
    debate(person, rounds=1)
    assert person.text.count("The Angara leaves the lake.") == person.text.count(f"Question: {QUESTION}") == 2


@pytest.mark.parametrize(("typed", "answer"), [(["Lena", "e", "b"], "B"), (["(A)"], "A")])
def test_a_letter_of_a_choice(typed: list[str], answer: str) -> None:
    person = Person(answer=typed)
    question = Question(id="q", question="Which lake?", choices=("Baikal", "Como"))
    (turn,) = turns(debate(person, rounds=1, sources="none", question=question), "Debater 2")
    assert (turn.stance.answer, person.shown.count(ASK_ANSWER)) == (answer, len(typed))
    assert "(B) Como" in person.text


def test_a_claim_and_no_answer() -> None:
    claim = Question(id="q", question="The lake is deep.", task="claim")
    (turn,) = turns(debate(Person(answer=["supports"]), rounds=1, sources="none", question=claim), "Debater 2")
    assert turn.stance.answer == "SUPPORTS"
    (turn,) = turns(debate(Person(answer=["-"], reasons=["No idea."]), rounds=1, sources="none"), "Debater 2")
    assert (turn.stance.answer, turn.stance.status) == (None, "abstained")


def test_reasons_with_another_answer_are_asked_again() -> None:
    person = Person(answer=["Lena"], reasons=["Or, the answer is [Ob] or", "", "Sure.", ""])
    (turn,) = turns(debate(person, rounds=1, sources="none"), "Debater 2")
    assert turn.stance.answer == "Lena"


def test_a_search_of_a_person() -> None:
    person = Person(search=["who [dug] it"], answer=["Angara"])
    (turn,) = turns(debate(person, "madke-live", rounds=1), "Debater 2")
    assert turn.search.query.split() == ["who", "dug", "it"]


def test_a_person_as_judge_and_summarizer() -> None:
    person = Person(same=["maybe", "y"])
    transcript = debate(person, role="judge")
    assert transcript.rounds[0].verdict.consensus is True
    assert person.text.count("It enters from Mongolia.") == 2  # both debaters, once each
    person = Person(answer=["Angara"])
    assert debate(person, role="summarizer", rounds=1).answer == "Angara"


def test_an_unknown_prompt_is_shown_whole_and_answered_in_lines() -> None:
    typed, shown = ["", "", "one", "two", ""], []
    model = HumanChat(lambda label: shown.append(label) or typed.pop(0), shown.append)
    said = asyncio.run(model.complete(chat_request("u" * 900 + "\x1b[2J", system="s" * 900)))
    assert (said.text, said.outcome) == ("one\ntwo", "ok")
    text = "".join("".join(shown).split())
    assert "u" * 900 in text
    assert "s" * 201 not in text
    assert shown.count(ASK_REPLY) == 3
    assert "\x1b" not in text


def leave(label: Any) -> NoReturn:
    raise EOFError


def complete(model: HumanChat, request: ChatRequest | None = None) -> Completion:
    return asyncio.run(model.complete(request or chat_request()))


def test_a_person_elsewhere_who_leaves_is_a_failed_call() -> None:
    said = complete(HumanChat(leave, print))
    assert (said.outcome, said.error) == ("failed", "the person left")


def test_a_bug_in_asking_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        complete(HumanChat(lambda label: str(1 / 0), print))


def test_the_loop_goes_on_while_the_person_thinks_and_questions_come_one_at_a_time() -> None:
    thinking, answered = [], threading.Event()

    def think(label: str) -> str:
        if label == ASK_REPLY:
            thinking.append(label)
            assert answered.wait(10)
            return "done"
        return ""

    async def two() -> int:
        model = HumanChat(think, lambda text: None)
        tasks = [asyncio.create_task(model.complete(chat_request(str(i)))) for i in range(2)]
        while not thinking:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        asked_at_once = len(thinking)
        answered.set()
        await asyncio.gather(*tasks)
        return asked_at_once

    assert asyncio.run(two()) == 1
    assert len(thinking) == 2


def test_the_terminal_writes_labels_to_stderr(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo"))
    assert [ask_terminal("A: "), ask_terminal("B: ")] == ["one", "two"]
    with pytest.raises(EOFError):
        ask_terminal("C: ")
    shown = capsys.readouterr()
    assert (shown.err, shown.out) == ("A: B: C: \n", "")
