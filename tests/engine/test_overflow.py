"""Prompts that are longer than the model's context window: the call fails, or the oldest and the least is left out."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript, Truncation
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import CallStore, ScriptedChat, Stored
from madke.tasks import TASKS
from tests.conftest import passage
from tests.support.plain import (
    QUESTION,
    PlainPrompts,
    given_turn,
    play,
    prompts,
    protocol,
    read_by,
    signed,
    tokens,
)

EIGHTY = tuple(given_turn(f"S{n}", "Oslo") for n in range(80))
ALONE: dict[str, Any] = {"first_round_given": True, "debaters": 1, "sees": {"own": "none"}}


def window(fits: Callable[..., Any], replies: Callable[..., Any] | None = None) -> ScriptedChat:
    """A model that finds a prompt too long unless ``fits`` accepts the signatures in it, or its whole text."""
    said = replies or signed()

    def reply(request: ChatRequest) -> str | Completion:
        text = request.messages[-1].content if len(request.messages) == 2 else str(request.messages[1:])
        if fits(text):
            return said(request)
        return Completion(outcome="too_long", error="the prompt does not fit")

    return ScriptedChat(reply)


def at_most(stances: int) -> Callable[..., Any]:
    return lambda text: len(tokens(text)) <= stances


def test_by_default_a_prompt_that_is_too_long_fails_its_turn() -> None:
    transcript, model = play(model=window(at_most(70)), turns=EIGHTY, **ALONE)
    stance = transcript.rounds[1].turns[0].stance
    assert (stance.status, stance.error, stance.truncated) == ("failed", "the prompt does not fit", None)
    assert (transcript.status, transcript.degraded, model.calls) == ("failed", True, 1)


@pytest.mark.parametrize("room", [79, 70, 41, 10, 1, 0])
def test_the_stances_read_first_are_dropped_until_the_prompt_fits(room: int) -> None:
    transcript, model = play(model=window(at_most(room)), turns=EIGHTY, overflow="drop", **ALONE)
    (turn,) = transcript.rounds[1].turns
    last = tokens(prompts(model)[-1])
    assert last == [f"S{n}@1" for n in range(80 - len(last), 80)]
    assert room >= len(last) >= room * 7 // 8
    assert turn.stance.truncated == Truncation(stances=80 - len(last))
    assert (transcript.status, transcript.answer) == ("ok", "Lake Baikal")
    # Eighths of what is left: even from eighty stances to none in a bounded number of attempts.
    assert model.calls <= 27


def test_what_was_too_long_is_one_logical_call_that_succeeded() -> None:
    transcript, model = play(model=window(at_most(65)), turns=EIGHTY, overflow="drop", **ALONE)
    used = transcript.usage["reply"]
    assert model.calls == 3
    assert (used.calls, used.failed, used.retries) == (1, 0, 0)
    assert not transcript.degraded


def test_nothing_is_cut_where_the_prompt_fits() -> None:
    transcript, model = play(model=window(at_most(80)), turns=EIGHTY, overflow="drop", **ALONE)
    assert transcript.rounds[1].turns[0].stance.truncated is None
    assert model.calls == 1


def test_where_nothing_is_left_to_drop_the_call_fails_with_the_models_reason() -> None:
    transcript, model = play(model=window(lambda text: False), turns=EIGHTY, overflow="drop", **ALONE)
    stance = transcript.rounds[1].turns[0].stance
    assert (stance.status, stance.error, stance.truncated) == (
        "failed",
        "the prompt does not fit",
        Truncation(stances=80),
    )
    assert "S79@1" not in prompts(model)[-1]
    assert transcript.usage["reply"].failed == 1


def test_of_a_history_the_oldest_goes_first_and_what_is_newest_stays() -> None:
    sees = {"peers": "history", "own": "last"}
    transcript, model = play(model=window(at_most(4)), rounds=4, sees=sees, overflow="drop")
    assert read_by_last(model, "B", 3) == ["B@2", "C@1", "A@2", "C@2"]
    assert read_by_last(model, "B", 4) == ["B@3", "C@2", "A@3", "C@3"]
    assert [turn.stance.truncated for turn in transcript.rounds[3].turns] == [Truncation(stances=3)] * 3


def read_by_last(model: ScriptedChat, agent: str, round_n: int) -> list[str]:
    """What the debater was shown at the attempt that succeeded."""
    return tokens(prompts(model, "reply", round_n, agent)[-1])


def test_a_chats_history_is_shortened_like_a_text() -> None:
    sees = {"form": "chat", "peers": "history", "own": "history"}
    transcript, model = play(model=window(at_most(5)), rounds=3, sees=sees, overflow="drop")
    assert read_by_last(model, "A", 3) == ["B@1", "C@1", "A@2", "B@2", "C@2"]
    assert transcript.rounds[2].turns[0].stance.truncated == Truncation(stances=1)


def test_groups_lose_the_stances_that_are_dropped() -> None:
    turns = tuple(given_turn(f"S{n}", "Oslo" if n % 2 else "Bern") for n in range(8))
    settings = {**ALONE, "sees": {"own": "none", "grouped": True}}
    transcript, model = play(model=window(lambda text: text.count("S") <= 9), turns=turns, overflow="drop", **settings)
    # A stance is named as a peer, in its own text and in its group.
    assert transcript.rounds[1].turns[0].stance.truncated == Truncation(stances=5)
    groups = [line for line in prompts(model)[-1].splitlines() if line.startswith("group")]
    assert groups == ["group Bern: S6", "group Oslo: S5, S7"]


def test_of_anonymous_stances_that_are_alike_as_many_are_left_in_a_group_as_were_not_dropped() -> None:
    turns = tuple(given_turn(f"S{n}", "Oslo", "same@1 [Oslo]") for n in range(8))
    settings = {**ALONE, "sees": {"own": "none", "grouped": True, "anonymous": True}}
    _, model = play(model=window(at_most(3)), turns=turns, overflow="drop", **settings)
    assert "group Oslo: somebody, somebody, somebody\n" in prompts(model)[-1]


POOL = KnowledgePool(
    passages=tuple(
        passage(source, f"{source}-{rank}", f"{source} {rank}", "text", rank=rank)
        for source in ("wiki", "google")
        for rank in range(3)
    )
)
WHOLE: dict[str, Any] = {"knowledge": {"select": "all"}, "pool": POOL}


def test_when_no_stance_is_left_the_lowest_ranked_passages_are_dropped() -> None:
    model = window(lambda text: len(tokens(text)) + text.count("passage") <= 3)
    transcript, _ = play(model=model, overflow="drop", sees={"own": "none"}, **WHOLE)
    first, second = (entry.turns[0].stance.truncated for entry in transcript.rounds)
    # Ranks count within a source; of equal ranks the later number goes first.
    assert first == Truncation(passages=(5, 2, 4))
    assert second == Truncation(stances=2, passages=(5, 2, 4))
    assert "passage 0: wiki 0 text\npassage 1: wiki 1 text\npassage 3: google 0 text" in prompts(model, "speak", 1)[-1]


def test_a_debaters_own_stance_of_the_round_before_is_never_dropped() -> None:
    _, model = play(model=window(at_most(1)), overflow="drop", sees={"own": "last"})
    assert read_by_last(model, "B", 2) == ["B@1"]


def test_a_passage_that_was_cut_from_a_selection_cannot_be_selected() -> None:
    model = window(lambda text: text.count("passage") <= 4, signed(select="Knowledge [0], [1] and [5] help."))
    transcript, _ = play(model=model, overflow="drop", rounds=1, knowledge={"select": "adaptive"}, pool=POOL)
    selection = transcript.rounds[0].turns[0].selection
    assert (selection.ids, selection.truncated) == ((0, 1), Truncation(passages=(5, 2)))
    assert "passage 5" not in prompts(model, "speak", 1)[0]


JUDGED: dict[str, Any] = {"stop": "judge", "finish": "summarizer", "overflow": "drop"}


def test_a_judge_loses_history_but_never_the_last_round() -> None:
    said = signed(judge="[No]", summarize="[Oslo]")
    model = window(lambda text: "A@1" not in text or "A@2" not in text, said)
    transcript, _ = play(model=model, judge_sees="history", **JUDGED)
    assert transcript.rounds[1].verdict.truncated == Truncation(stances=1)
    assert tokens(prompts(model, "judge", 2)[-1]) == ["B@1", "C@1", "A@2", "B@2", "C@2"]

    model = window(lambda text: len(tokens(text)) < 3, said)
    transcript, _ = play(model=model, judge_sees="history", **JUDGED)
    assert transcript.rounds[1].verdict.error == "the prompt does not fit"
    assert transcript.rounds[1].verdict.consensus is None
    assert tokens(prompts(model, "judge", 2)[-1]) == ["A@2", "B@2", "C@2"]


@pytest.mark.parametrize("overflow", ["fail", "drop"])
def test_a_last_round_that_no_summarizer_can_read_fails_the_question(overflow: str) -> None:
    said = signed(judge="[Yes]", summarize="[Oslo]")
    model = window(lambda text: len(tokens(text)) < 3, said)
    transcript, _ = play(model=model, **{**JUDGED, "overflow": overflow})
    assert (transcript.status, transcript.answer) == ("failed", None)
    assert transcript.final.error == "the prompt does not fit"


def test_a_digest_that_does_not_fit_is_recorded_and_left_out() -> None:
    model = window(lambda text: len(tokens(text)) < 3, signed(digest="sum"))
    transcript, _ = play(model=model, talk={"later": "simultaneous_with_summary"}, overflow="drop")
    assert transcript.rounds[0].digest.error == "the prompt does not fit"
    assert read_by(model, "A", 2) == ["A@1"]


def test_a_debate_that_was_shortened_can_be_resumed_and_replayed(tmp_path: Path) -> None:
    rules = protocol(overflow="drop", **ALONE)

    def played(model: Stored) -> Transcript:
        task = TASKS[QUESTION.task]
        return asyncio.run(
            hold_debate(
                Scene(QUESTION, rules, {"Debater 1": model}, task=task, prompts=PlainPrompts(), first_round=EIGHTY)
            )
        )

    with CallStore(tmp_path / "calls.sqlite") as store:
        model = window(at_most(65))
        first = played(Stored(model, store))
        assert model.calls == 3
        # The refusals are asked again, what was answered is not.
        resumed = played(Stored(model, store))
        assert model.calls == 5
        replayed = played(Stored(ScriptedChat([]), store, replay=True))
    assert first.rounds == resumed.rounds == replayed.rounds
