"""Claims and choices."""

import pytest

from madke.core.question import Question
from madke.tasks import TASKS

CLAIM = Question(id="c", question="?", task="claim")
CHOICE = Question(id="m", question="?", task="choice", choices=("red", "blue"))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("SUPPORTED.", "SUPPORTS"),
        ("refuted", "REFUTES"),
        ("NOT_ENOUGH_INFO", "NOT ENOUGH INFO"),
        ("**Not enough information**", "NOT ENOUGH INFO"),
        ("Insufficient evidence.", "NOT ENOUGH INFO"),
        ("The claim is refuted.", "REFUTES"),
        ("not supported", None),
        ("does not refute", None),
        ("SUPPORTS or REFUTES", None),
        ("", None),
    ],
)
def test_a_label_is_read_whatever_its_form_and_nothing_else_is(text: str, label: str | None) -> None:
    assert TASKS["claim"].read(text, CLAIM) == label


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("(b)", "B"),
        ("**B**", "B"),
        ('"B".', "B"),
        ("Answer: B", "B"),
        ("The correct option is (B)", "B"),
        ("B) blue", "B"),
        ("**(B) blue**", "B"),
        ("b. blue", "B"),
        ("B (blue)", "B"),
        ("blue (B)", "B"),
        ("Option B \u2014 blue", "B"),
        ("red", "A"),
        ("C", None),
        ("a blue one", None),
        ("A or B", None),
    ],
)
def test_a_letter_is_read_where_there_is_such_an_option(text: str, letter: str | None) -> None:
    assert TASKS["choice"].read(text, CHOICE) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [("15.6", "B"), ("156", "A"), ("15.6.", "B"), ("-156", "C"), ("The Vatican", "D"), ("1.56", None)],
)
def test_an_options_own_text_is_told_from_another_number_of_the_same_digits(text: str, letter: str | None) -> None:
    question = Question(id="n", question="?", task="choice", choices=("156", "15.6", "-156", "the Vatican."))
    assert TASKS["choice"].read(text, question) == letter
