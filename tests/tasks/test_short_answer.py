"""How a short answer is read."""

import pytest

from madke.core.question import Question
from madke.tasks import TASKS

ASKED = Question(id="q", question="?")


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("**Paris**", "Paris"),
        ('"Paris"', "Paris"),
        ('"Paris."', "Paris"),
        ("**Paris**.", "Paris"),
        ("\u201cParis\u201d", "Paris"),
        ("`Paris`", "Paris"),
        (" Paris.\n", "Paris"),
        ("$1,250.00", "$1,250.00"),
        ("(B) Mercury", "(B) Mercury"),
        ("Washington, D.C.", "Washington, D.C."),
        ("5 p.m.", "5 p.m."),
        ("Sammy Davis Jr.", "Sammy Davis Jr."),
        ("Who Framed Roger Rabbit?", "Who Framed Roger Rabbit?"),
        ('"Yes" and "no"', '"Yes" and "no"'),
        ("A*", "A*"),
        ("*", "*"),
        ("Elvis Presley...", "Elvis Presley..."),
        ("He lives in the U.S.A.", "He lives in the U.S.A."),
        ("...", None),
        ("." * 200_000 + "!", None),
        ("**", None),
        ("[]", None),
    ],
)
def test_an_answer_is_read_without_the_marks_around_it(raw: str, answer: str | None) -> None:
    assert TASKS["short_answer"].read(raw, ASKED) == answer
