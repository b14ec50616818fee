"""What ``sees`` lets a debater read stands in its prompt, in every variant whose debaters read each other."""

from typing import Any

import pytest

from madke.core.chat import ChatRequest
from tests.support.debates import asked, play, shown

VARIANTS = (
    "chateval",
    "lemmas",
    "mad",
    "madc",
    "madke",
    "gated",
    "madke-live",
    "madke-reference",
    "per-document",
    "reconcile",
)
NAMES = ("Ada", "Bo", "Cy")


def third_round(variant: str, **sees: Any) -> str:
    """What Bo is shown in round 3, where all speak at once and always disagree."""

    def reply(request: ChatRequest) -> str:
        agent, n = request.purpose.agent, request.purpose.round
        return f"I am {agent} in round {n}: the answer is [{agent} {n}]."

    settings = {
        "debaters": [{"name": name} for name in NAMES],
        "knowledge": None,
        "rounds": 3,
        "talk": {},
        "order": "fixed",
        "marker": "brackets",
        "stop": "never",
        "sees": sees,
    }
    _, model = play(variant, reply, settings=settings)
    (request,) = asked(model, agent="Bo", round=3, stage="reply")
    return shown(request)


def stances(prompt: str) -> list[tuple[str, int]]:
    return [(name, n) for n in (1, 2, 3) for name in NAMES if f"I am {name} in round {n}:" in prompt]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("sees", "expected"),
    [
        ({"peers": "last_round", "own": "last"}, [("Ada", 2), ("Bo", 2), ("Cy", 2)]),
        ({"peers": "last_round", "own": "none"}, [("Ada", 2), ("Cy", 2)]),
        ({"peers": "none", "own": "last"}, [("Bo", 2)]),
        ({"peers": "history", "own": "last"}, [("Ada", 1), ("Cy", 1), ("Ada", 2), ("Bo", 2), ("Cy", 2)]),
        ({"peers": "last_round", "own": "history"}, [("Bo", 1), ("Ada", 2), ("Bo", 2), ("Cy", 2)]),
        ({"peers": "history", "own": "history"}, [(name, n) for n in (1, 2) for name in NAMES]),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_whose_stances_stand_in_the_prompt(variant: str, sees: dict[str, str], expected: list[tuple[str, int]]) -> None:
    prompt = third_round(variant, **sees)
    assert stances(prompt) == expected
    assert prompt.count("I am Bo in round 2:") == (sees["own"] != "none"), "shown once, whichever way"


@pytest.mark.parametrize("variant", VARIANTS)
def test_answers_alone(variant: str) -> None:
    prompt = third_round(variant, peers="answers", own="none")
    assert stances(prompt) == []
    assert [f"{name} answered: {name} 2\n" in prompt for name in NAMES] == [True, False, True]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("grouped", [True, False])
def test_no_names(variant: str, grouped: bool) -> None:
    prompt = third_round(variant, anonymous=True, grouped=grouped, own="none")
    assert stances(prompt) == [("Ada", 2), ("Cy", 2)]
    assert prompt.count("Another agent wrote:\n> I am ") == 2
    assert prompt.count("1 of the others gives this answer: ") == (2 if grouped else 0)
