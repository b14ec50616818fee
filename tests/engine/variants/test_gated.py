"""``gated``: the matcher before the judge, no debate where round 1 agrees, no verdict on which nothing hangs."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from tests.support.debates import asked, play, shown

THREE = {"debaters": 3, "rounds": 3}
NAMES = ["Debater 1", "Debater 2", "Debater 3"]
SAME = ("Lake Baikal", "the lake baikal", "Lake Baikal")
OTHER = ("Lake Baikal", "Baikal, in Siberia", "Lake Baikal")
"""The same answer to a judge, not to the matcher."""


def holding(by_round: list[Any], judge: str = "[No]") -> Callable[..., Any]:
    """The answers of the three in each round; the last ones stay."""

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        match purpose.stage:
            case "select":
                return "The most helpful is [0]."
            case "judge":
                return judge
            case "summarize":
                return "The final answer is [summed up]."
        answers = by_round[min(purpose.round, len(by_round)) - 1]
        answer = answers[NAMES.index(purpose.agent)]
        said = "is open" if answer is None else f"is [{answer}]"
        return f"{purpose.agent} in round {purpose.round}: the answer {said}."

    return reply


@pytest.mark.parametrize(
    ("by_round", "judge", "calls", "reason", "by"),
    [
        ([SAME], "[No]", 2, "agreement", "agreement"),
        ([OTHER, SAME], "[No]", 4 + 1, "agreement", "agreement"),
        ([OTHER], "[Yes]", 2 + 1 + 1, "consensus", "summarizer"),
        ([OTHER], "[No]", 4 + 1 + 1, "rounds", "summarizer"),
    ],
    ids=["agreed at once", "agreed in round 2", "settled by the judge", "never"],
)
def test_calls_stop_reason_and_final_rule(
    pool: KnowledgePool, by_round: list[tuple[str, ...]], judge: str, calls: int, reason: str, by: str
) -> None:
    transcript, model = play("gated", holding(by_round, judge), pool=pool)
    assert (model.calls, transcript.stop_reason, transcript.final.by) == (calls, reason, by)
    assert transcript.answer == ("Lake Baikal" if by == "agreement" else "summed up")


def test_of_three_each_reads_the_next_one_in_a_circle(pool: KnowledgePool) -> None:
    transcript, model = play("gated", holding([OTHER]), pool=pool, settings=THREE)
    for entry in transcript.rounds:
        for place, turn in enumerate(entry.turns):
            neighbour = NAMES[(place + 1) % 3]
            assert turn.reads == ((neighbour,) if entry.n > 1 else ())
            if entry.n > 1:
                (request,) = asked(model, agent=turn.agent, round=entry.n, stage="reply")
                for name in NAMES:
                    assert (f"{name} in round {entry.n - 1}:" in shown(request)) == (name in (turn.agent, neighbour))
