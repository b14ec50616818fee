"""Answers without a marker, and long ones after one. Modelled on what small models write."""

import pytest

from madke.core.question import Question
from madke.engine.parse import Marker, Parsed, answer_of
from madke.tasks import TASKS

OPEN = "Which city hosts the game?"
YES_NO = "Were both houses built before 1900?"


def read(
    text: str, question: str = OPEN, *, task: str = "short_answer", marker: Marker = "brackets", cut: bool = False
) -> Parsed[str | None]:
    return answer_of(text, TASKS[task], Question(id="q", question=question, task=task), marker, cut=cut)


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("Paris", "Paris", "short"),
        ("Paris.", "Paris", "short"),
        ("**Olympic Stadium**", "Olympic Stadium", "short"),
        ('"The Old Mill"', "The Old Mill", "short"),
        ("(Bern)", "Bern", "short"),
        ("1924", "1924", "short"),
        ("about 42 km", "about 42 km", "short"),
        ("No.", "No", "short"),
        ("I compared both towns and their halls.\n\nSt. Gallen", "St. Gallen", "short_line"),
        ("The text names one hall.\n**Olympic Stadium**", "Olympic Stadium", "short_line"),
        ("The text names one hall.\nBern\nConfidence: 0.8", "Bern", "short_line"),
        ("The text names one hall.\n[Bern]", "Bern", "last"),
    ],
)
def test_a_short_reply_or_last_line_is_the_answer(text: str, answer: str, rule: str) -> None:
    found = read(text)
    assert (found.value, found.status, found.rule) == (answer, "ok", rule)


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("The hall is in Bern.", "The hall is in Bern", "whole"),
        ("The answer is Bern.", "Bern", "stated"),
        ("The answer is the old hall by the lake.", "the old hall by the lake", "stated"),
        ("Bern", "Bern", "short"),
        ("I do not know.", None, "declined"),
        ("[answer]", None, "placeholder"),
        ('The answer is "The answer is"', None, "placeholder"),
        ('The answer is "The answer is "The answer is', None, "placeholder"),
        ("The answer is in the first sentence.", None, "none"),
        ("The answer is in Passage 3.", None, "none"),
        ("The hall is in Bern.\nIt has two towers and a clock.", None, "none"),
        ("The hall " + "of the old town " * 8, None, "none"),
        ("...", None, "none"),
    ],
)
def test_a_reply_of_one_sentence_is_the_answer_where_nothing_else_was_asked_for(
    text: str, answer: str | None, rule: str
) -> None:
    found = read(text, marker="alone")
    assert (found.value, found.rule) == (answer, rule)


def test_a_whole_sentence_that_is_cut_off_or_names_no_option_is_not_read() -> None:
    assert read("The hall is in the town of Bern and", marker="alone", cut=True).value is None
    assert read("The hall is in Bern.", task="choice", marker="alone").value is None


@pytest.mark.parametrize(
    "text",
    [
        "The table of the games of 1924 shows Norway as the best team",
        "The hall is in Bern.",
        "Norway won.",
        "There are two halls:\n- Bern\n- Basel",
        "There are two halls:\n1. Bern\n2. Basel",
        "Bern\nBasel",
        "The hall:",
        "Which hall?",
        "# Answer",
        "Hope this helps!",
        "I think Bern.",
        "They differ.",
        "as the text in front of me tells us",
    ],
)
def test_a_sentence_a_list_or_a_remark_is_not_guessed_at(text: str) -> None:
    assert (read(text).value, read(text).status) == (None, "unmarked")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("No, the second one was built in 1911.", "No"),
        ("Yes, both are older.", "Yes"),
        ("**Yes**, both are older.", "Yes"),
        ("The first is of 1880 and the second of 1890.\nYes, both are older.", "Yes"),
        ("Answer: Yes, both are older.", "Yes"),
        ("Yes, the first is. But the second is of 1911.\nNo, not both.", None),
        ("No doubt they are old.", None),
        ("Yes and no.", None),
    ],
)
def test_a_sentence_answers_a_yes_no_question_with_its_first_word(text: str, answer: str | None) -> None:
    assert read(text, YES_NO).value == answer


def test_a_yes_before_a_sentence_is_not_the_answer_to_another_question() -> None:
    assert read("Yes, the hall is in the city of Bern.").status == "unmarked"


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Is the zebra a horse?", True),
        ("Were both houses built before 1900?", True),
        ("Isn't it old?", True),
        ("Did it rain or not?", True),
        ("Is the Nile or the Amazon longer?", False),
        ("Which of them is older?", False),
        ("Island in the north?", False),
        ("In 1900, was it old?", False),
    ],
)
def test_a_yes_no_question_begins_with_an_auxiliary(question: str, asks: bool) -> None:
    assert TASKS["short_answer"].asks_yes_or_no(Question(id="q", question=question)) is asks
    assert TASKS["claim"].asks_yes_or_no(Question(id="q", question=question)) is False


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('Answer: In the third part of "The Mill".', 'In the third part of "The Mill"'),
        ("Answer: it was moved to Bern", "it was moved to Bern"),
        (
            "Answer: The table of the games of 1924 shows that Norway has the best team of all in that year.",
            "The table of the games of 1924 shows that Norway has the best team of all in that year",
        ),
        (
            "Answer: the great old hall in the north of the city of Bern, which was built for the fair of 1911.",
            "the great old hall in the north of the city of Bern",
        ),
        ("The answer is [Rome], I thought.\nBut the text says more.\nAnswer: Bern", "Bern"),
        ("**Answer:** Bern", "Bern"),
        ("Answer: [Bern]", "Bern"),
        ("Answer: (Bern)", "Bern"),
        (r"Answer: \boxed{Bern}", "Bern"),
        ("Final answer: **Bern**.", "Bern"),
    ],
)
def test_what_follows_answer_is_the_answer_whatever_its_length(text: str, answer: str) -> None:
    assert read(text).value == answer


def test_a_translation_after_answer_is_the_whole_line() -> None:
    text = "He left the old house on the hill, because it was cold. Nobody saw him go; it was night."
    assert read(f"Answer: {text}", task="translation").value == text


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Answer: I do not know.", "abstained"),
        ("Unknown", "abstained"),
        ("No idea.", "abstained"),
        ("I have read all of the texts that were given.", "unmarked"),
        ("Answer: ...", "echoed"),
        ("[answer]", "echoed"),
    ],
)
def test_declining_is_not_the_same_as_saying_nothing_readable(text: str, status: str) -> None:
    assert (read(text).value, read(text).status) == (None, status)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It lies in the north. Answer: The Republic of Ger", None),
        ("It lies in the north.\nThe Republic of Ger", None),
        ("Answer: Germany.", "Germany"),
        ("The answer is [Germany]", "Germany"),
        ("The answer is [Germany]. I could say mo", "Germany"),
    ],
)
def test_free_text_at_the_end_of_a_reply_that_was_cut_off_is_not_read(text: str, answer: str | None) -> None:
    assert read(text, cut=True).value == answer
