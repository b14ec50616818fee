"""Who sees whom: topologies, histories, anonymity, answers, the chat form; read off the prompts of whole debates."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from madke.core.chat import Message
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.models.scripted import ScriptedChat
from madke.tasks import TASKS, Task
from tests.support.plain import PlainPrompts, play, prompts, protocol, read_by, signed

FOUR = [{"name": name} for name in "ABCD"]


def reads(transcript: Transcript, round_n: int) -> dict[str, str]:
    """Debater -> whom it read in a round."""
    return {turn.agent: "".join(turn.reads) for turn in transcript.rounds[round_n - 1].turns}


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


SEQUENTIAL = {"first": "sequential", "later": "sequential"}


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
