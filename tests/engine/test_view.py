"""Who sees whom: topologies, histories, anonymity, answers, the chat form; read off the prompts of whole debates."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.chat import ChatRequest, Completion, Message
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.llm import ScriptedChat
from madke.tasks import TASKS, Task
from tests.support.plain import QUESTION, PlainPrompts, play, prompts, protocol, read_by, signed, tokens

FOUR = [{"name": name} for name in "ABCD"]


def reads(transcript: Transcript, round_n: int) -> dict[str, str]:
    """Debater -> whom it read in a round."""
    return {turn.agent: "".join(turn.reads) for turn in transcript.rounds[round_n - 1].turns}


def test_in_the_first_round_nobody_sees_anybody() -> None:
    transcript, model = play()
    assert [tokens(prompt) for prompt in prompts(model, "speak", 1)] == [[], [], []]
    assert reads(transcript, 1) == {"A": "", "B": "", "C": ""}


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("full", {"A": "BCD", "B": "ACD", "C": "ABD", "D": "ABC"}),
        ("ring", {"A": "BD", "B": "AC", "C": "BD", "D": "AC"}),
        ("star", {"A": "BCD", "B": "A", "C": "A", "D": "A"}),
        ("sparse(1)", {"A": "B", "B": "C", "C": "D", "D": "A"}),
        ([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], {"A": "B", "B": "C", "C": "D", "D": "A"}),
        ("sparse(2)", {"A": "BC", "B": "CD", "C": "AD", "D": "AB"}),
        ("sparse(9)", {"A": "BCD", "B": "ACD", "C": "ABD", "D": "ABC"}),
        ([[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]], {"A": "B", "B": "", "C": "ABD", "D": "AC"}),
    ],
)
def test_a_topology_says_whom_a_debater_reads(topology: list[list[int]] | str, expected: dict[str, str]) -> None:
    transcript, model = play(debaters=FOUR, sees={"topology": topology, "own": "none"})
    assert reads(transcript, 2) == expected
    assert {agent: read_by(model, agent, 2) for agent in expected} == {
        agent: [f"{peer}@1" for peer in peers] for agent, peers in expected.items()
    }


@pytest.mark.parametrize("topology", ["ring", "star", "sparse(1)"])
def test_two_debaters_always_read_each_other(topology: str) -> None:
    transcript, _ = play(debaters=FOUR[:2], sees={"topology": topology})
    assert reads(transcript, 2) == {"A": "B", "B": "A"}


@given(
    matrix=st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
@pytest.mark.parametrize("peers", ["last_round", "history"])
def test_nobody_is_read_against_the_matrix(peers: str, matrix: list[list[bool]]) -> None:
    names = [f"N{n}" for n in range(len(matrix))]
    debaters = [{"name": name} for name in names]
    _, model = play(debaters=debaters, rounds=3, sees={"topology": matrix, "peers": peers, "own": "none"})
    for reader, row in zip(names, matrix, strict=True):
        seen = {token.partition("@")[0] for token in read_by(model, reader, 3)}
        assert seen == {name for name, read in zip(names, row, strict=True) if read and name != reader}


@pytest.mark.parametrize(
    ("sees", "expected"),
    [
        ({"peers": "last_round"}, ["B@2", "A@2", "C@2"]),
        ({"peers": "history"}, ["B@2", "A@1", "C@1", "A@2", "C@2"]),
        ({"peers": "answers"}, ["B@2"]),
        ({"peers": "none"}, ["B@2"]),
        ({"own": "none"}, ["A@2", "C@2"]),
        ({"own": "history"}, ["B@2", "B@1", "B@2", "A@2", "C@2"]),
        ({"peers": "history", "own": "history"}, ["B@2", "A@1", "B@1", "C@1", "A@2", "B@2", "C@2"]),
        ({"peers": "history", "own": "none"}, ["A@1", "C@1", "A@2", "C@2"]),
        ({"peers": "none", "own": "history"}, ["B@2", "B@1", "B@2"]),
        ({"peers": "none", "own": "none"}, []),
    ],
)
def test_what_of_the_others_and_of_itself_a_debater_sees_in_round_three(
    sees: dict[str, str], expected: list[str]
) -> None:
    _, model = play(rounds=3, sees=sees)
    assert read_by(model, "B", 3) == expected


def test_answers_come_without_the_reasoning_that_led_to_them() -> None:
    _, model = play(signed({"A": "Oslo", "B": "Bern", "C": None}), sees={"peers": "answers"})
    (prompt,) = prompts(model, "reply", 2, "B")
    assert "peers A round 1: holds Oslo\npeers C round 1: holds None" in prompt


def test_its_own_history_keeps_its_reasoning_where_of_the_others_only_answers_are_shown() -> None:
    _, model = play(rounds=3, sees={"peers": "answers", "own": "history"})
    (prompt,) = prompts(model, "reply", 3, "B")
    assert "history you round 1: B@1 [Lake Baikal]\nhistory you round 2: B@2" in prompt
    assert "A@" not in prompt


def test_debaters_who_see_nobody_are_asked_anew() -> None:
    transcript, model = play(sees={"peers": "none", "own": "none"})
    assert {request.purpose.stage for request in model.requests} == {"speak"}
    assert {turn.stance.stage for entry in transcript.rounds for turn in entry.turns} == {"speak"}


SEQUENTIAL = {"first": "sequential", "later": "sequential"}


@pytest.mark.parametrize(
    ("talk", "peers", "first", "second"),
    [
        (SEQUENTIAL, "latest", ["A@1"], ["B@1", "A@2", "C@1"]),
        (SEQUENTIAL, "history", ["A@1"], ["B@1", "A@1", "C@1", "A@2"]),
        ({"later": "sequential"}, "latest", [], ["B@1", "A@2", "C@1"]),
        ({"later": "sequential"}, "last_round", [], ["B@1", "A@1", "C@1"]),
        ({"first": "sequential"}, "latest", ["A@1"], ["B@1", "A@1", "C@1"]),
    ],
)
def test_who_speaks_in_turn_sees_what_was_said_this_round(
    talk: dict[str, str], peers: str, first: list[str], second: list[str]
) -> None:
    _, model = play(talk=talk, sees={"peers": peers})
    assert read_by(model, "B", 1) == first
    assert read_by(model, "B", 2) == second


def test_under_a_summary_debaters_read_it_in_place_of_each_other() -> None:
    told = signed(digest=lambda purpose: f"sum of round {purpose.round}")
    transcript, model = play(told, rounds=3, talk={"later": "simultaneous_with_summary"})
    for n in (2, 3):
        (prompt,) = prompts(model, "reply", n, "B")
        assert f"digest: sum of round {n - 1}" in prompt
        assert tokens(prompt) == [f"B@{n - 1}"]
    (second,) = prompts(model, "digest", 2)
    assert tokens(second) == ["A@2", "B@2", "C@2"]
    assert "sum of round 1" in second
    assert [entry.digest and entry.digest.text for entry in transcript.rounds] == [
        "sum of round 1",
        "sum of round 2",
        None,
    ]


def test_under_a_summary_a_debater_may_keep_its_own_history() -> None:
    _, model = play(
        signed(digest="sum"), rounds=3, talk={"later": "simultaneous_with_summary"}, sees={"own": "history"}
    )
    assert read_by(model, "B", 3) == ["B@2", "B@1", "B@2"]


def test_a_first_round_in_turn_is_heard_by_all_though_later_ones_are_summed_up() -> None:
    talk = {"first": "sequential", "later": "simultaneous_with_summary"}
    _, model = play(signed(digest="sum"), talk=talk, sees={"peers": "history"})
    assert read_by(model, "C", 1) == ["A@1", "B@1"]
    assert read_by(model, "C", 2) == ["C@1"]


def test_a_failed_summary_is_not_shown() -> None:
    failed = Completion(outcome="failed", error="the server is gone")
    transcript, model = play(signed(digest=failed), talk={"later": "simultaneous_with_summary"})
    assert transcript.rounds[0].digest.error == "the server is gone"
    assert not any("gone" in prompt or "digest" in prompt for prompt in prompts(model, "reply"))


def failing(agent: str, round_n: int) -> Callable[..., Any]:
    said = signed()

    def reply(request: ChatRequest) -> str | Completion:
        if (request.purpose.agent, request.purpose.round) == (agent, round_n):
            return Completion(outcome="refused", text=f"{agent}@{round_n} will not say [Oslo]")
        return said(request)

    return reply


@pytest.mark.parametrize("peers", ["last_round", "history", "latest"])
def test_a_failed_turn_is_shown_to_nobody_not_even_to_itself(peers: str) -> None:
    talk = {"later": "sequential"} if peers == "latest" else {}
    transcript, model = play(failing("B", 1), rounds=3, talk=talk, sees={"peers": peers, "own": "last"})
    assert not any("B@1" in prompt for prompt in prompts(model))
    assert reads(transcript, 2)["A"] in ("C", "BC")  # in turn, B has spoken again when C's turn comes
    assert transcript.degraded


def test_anonymous_peers_have_no_names() -> None:
    talk = {"later": "sequential"}
    for sees in ({"peers": "last_round", "grouped": True}, {"peers": "history", "own": "history"}, {"peers": "latest"}):
        transcript, model = play(talk=talk, rounds=3, sees={**sees, "anonymous": True})
        lines = [line for prompt in prompts(model, "reply") for line in prompt.splitlines()]
        shown = [line for line in lines if line.startswith(("peers", "history", "group"))]
        assert shown
        assert all(line.split()[1] in ("somebody", "you", "Lake") for line in shown)
        # The record still says who was read.
        assert set(reads(transcript, 3)["A"]) == {"B", "C"}


def test_grouped_peers_are_sorted_by_answer_under_the_tasks_matcher() -> None:
    answers = {"A": "Oslo", "B": "lake baikal", "C": "Lake Baikal", "D": None}
    _, model = play(signed(answers), debaters=FOUR, sees={"grouped": True})
    (prompt,) = prompts(model, "reply", 2, "A")
    assert [line for line in prompt.splitlines() if line.startswith("group")] == ["group lake baikal: B, C"]
    (prompt,) = prompts(model, "reply", 2, "D")
    assert [line for line in prompt.splitlines() if line.startswith("group")] == [
        "group Oslo: A",
        "group lake baikal: B, C",
    ]


CHAT = {"form": "chat", "peers": "history", "own": "history"}


def chat(model: ScriptedChat, agent: str, round_n: int) -> list[tuple[str, ...]]:
    """(role, text) of the messages between the system text and the last user message."""
    (request,) = [r for r in model.requests if (r.purpose.agent, r.purpose.round) == (agent, round_n)]
    return [(message.role, message.content) for message in request.messages[1:]]


def test_a_chat_has_own_turns_as_assistant_and_the_others_as_user() -> None:
    two = [{"name": "A"}, {"name": "B"}]
    _, model = play(signed({"A": "Oslo", "B": "Bern"}), debaters=two, rounds=2, talk=SEQUENTIAL, sees=CHAT)
    ask = "Which lake is the deepest?"
    assert chat(model, "A", 1) == [("user", ask)]
    assert chat(model, "B", 1) == [("user", f"A wrote:\n> A@1 [Oslo]\n\n{ask}")]
    # The question first: many chat templates refuse a chat that the assistant opens.
    other = f"B wrote:\n> B@1 [Bern]\n\n{ask}"
    assert chat(model, "A", 2) == [("user", ask), ("assistant", "A@1 [Oslo]"), ("user", other)]
    assert [role for role, _ in chat(model, "B", 2)] == ["user", "assistant", "user"]


def test_in_a_chat_roles_alternate_whoever_speaks_and_hidden_peers_are_left_out() -> None:
    _, model = play(rounds=3, talk=SEQUENTIAL, sees={**CHAT, "anonymous": True, "topology": "sparse(1)"})
    said = chat(model, "A", 3)
    roles = [role for role, _ in said]
    assert all(left != right for left, right in pairwise(roles))
    assert [token for role, text in said[:-1] for token in tokens(text)] == ["A@1", "B@1", "A@2"]
    assert all(
        line.startswith(("A@", "Another agent wrote:", "> B@"))
        for _, text in said[1:-1]
        for line in text.splitlines()
        if line
    )


def test_the_judge_sees_the_round_or_the_whole_history() -> None:
    for judge_sees, expected in (("last_round", ["A@2", "B@2", "C@2"]), ("history", None)):
        _, model = play(signed(judge="[No]"), stop="judge", judge_sees=judge_sees)
        (prompt,) = prompts(model, "judge", 2)
        assert tokens(prompt) == (expected or ["A@1", "B@1", "C@1", "A@2", "B@2", "C@2"])


def test_closing_stages_see_every_debater_whatever_the_topology() -> None:
    said = signed(judge="[No]", summarize="[Oslo]")
    _, model = play(said, stop="judge", finish="summarizer", sees={"peers": "none", "topology": "sparse(1)"})
    for stage in ("judge", "summarize"):
        assert tokens(prompts(model, stage, 2)[0]) == ["A@2", "B@2", "C@2"]


@pytest.mark.parametrize(("names", "rendered"), [((), 1), (("persona",), 2), (("debater",), 3)])
def test_debaters_who_are_shown_the_same_share_a_prompt(names: tuple[str, ...], rendered: int) -> None:
    seen = []

    class Counting(PlainPrompts):
        def render(
            self,
            stage: str,
            task: Task,
            values: Mapping[str, Any],
            *,
            prompt: str | None = None,
            chat: Sequence[Message] = (),
        ) -> tuple[Message, ...]:
            seen.append(stage)
            return super().render(stage, task, values, prompt=prompt, chat=chat)

        def shows(self, stage: str, *, prompt: str | None = None) -> tuple[str, ...]:
            return ("peers", *names)

    chemist = {"persona": "You are a chemist."}
    rules = protocol(rounds=1, debaters=[{"name": "A"}, {"name": "B"}, {"name": "C", **chemist}])
    model = ScriptedChat(signed())
    cast = dict.fromkeys(rules.roles, model)
    asyncio.run(hold_debate(Scene(QUESTION, rules, cast, task=TASKS["short_answer"], prompts=Counting())))
    assert (len(seen), len(model.requests)) == (rendered, 3)


def test_no_template_sees_the_gold_answers() -> None:
    seen = []

    class Curious(PlainPrompts):
        def render(
            self,
            stage: str,
            task: Task,
            values: Mapping[str, Any],
            *,
            prompt: str | None = None,
            chat: Sequence[Message] = (),
        ) -> tuple[Message, ...]:
            seen.append(values["question"])
            return super().render(stage, task, values, prompt=prompt, chat=chat)

    rules = protocol(stop="judge", finish="summarizer")
    model = ScriptedChat(signed(judge="[No]", summarize="[Oslo]"))
    question = Question(id="q", question="Which?", answers=("Oslo",), metadata={"gold": "Oslo"})
    cast = dict.fromkeys(rules.roles, model)
    asyncio.run(hold_debate(Scene(question, rules, cast, task=TASKS["short_answer"], prompts=Curious())))
    assert {asked.question for asked in seen} == {"Which?"}
    assert not any(asked.answers or asked.metadata for asked in seen)
