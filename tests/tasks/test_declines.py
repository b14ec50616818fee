"""What says that there is no answer is none: no vote, no agreement."""

import pytest

from madke.core.question import Question
from madke.tasks import TASKS
from tests.support.plain import play, signed

QUESTION = Question(id="q", question="Which lake is the deepest?")


@pytest.mark.parametrize(
    "said",
    ["I do not know", "I don't know the answer.", "N/A", "cannot be determined", "not given in the knowledge",
     "unknown", "no answer",
     "It cannot be determined from the passages", "insufficient information", "I can't tell, since ..."],
)  # fmt: skip
def test_words_that_decline_are_no_answer(said: str) -> None:
    assert TASKS["short_answer"].read(said, QUESTION) is None
    assert TASKS["math"].read(said, QUESTION) is None


@pytest.mark.parametrize("said", ["none", "no", "Unknown Pleasures", "I Don't Know What You Came to Do", "Nobody", "0"])
def test_answers_that_look_like_it_are_answers(said: str) -> None:
    assert TASKS["short_answer"].read(said, QUESTION) == said


def test_a_translation_may_say_so() -> None:
    assert TASKS["translation"].read("I do not know.", QUESTION) == "I do not know."


def test_debaters_who_all_decline_do_not_agree() -> None:
    transcript, _ = play(signed("I do not know"), stop="agreement")
    assert (transcript.stop_reason, transcript.status, transcript.answer) == ("rounds", "abstained", None)
