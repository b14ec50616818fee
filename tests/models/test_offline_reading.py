"""What the offline reader sees in a question and in a sentence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.models.offline.candidates import candidates
from madke.models.offline.language import analyse, normal, roughly_same, split_sentences, tidy


@pytest.mark.parametrize(
    ("question", "kind", "focus"),
    [
        ("who wrote the book", "person", "a person"),
        ("Which zoologist kept bees?", "person", "zoologist kept bees"),
        ("When was the canal opened?", "date", "a date"),
        ("In what year was the canal opened?", "year", "year"),
        ("How many rivers are there?", "number", "rivers"),
        ("In which city was the architect who built it born?", "place", "city"),
        ("Ann Low, who sang in Malta, was born where?", "place", "a place"),
        ("What is the name of the fight song of the club?", "name", "fight song"),
        ("Is tin a metal?", "yes_no", ""),
    ],
)
def test_what_a_question_asks_for(question: str, kind: str, focus: str) -> None:
    asked = analyse(question)

    assert (asked.kind, asked.focus) == (kind, focus)


@pytest.mark.parametrize(
    ("question", "things"),
    [
        ("Who is older, Ann Low or Peter Grant?", ("Ann Low", "Peter Grant")),
        ("Which canal is longer, the Kiel Canal or the Panama Canal?", ("Kiel Canal", "Panama Canal")),
        ("Which of these was first: Emma or Persuasion?", ("Emma", "Persuasion")),
        ("Is it true or false", ()),
    ],
)
def test_the_two_things_of_a_comparison(question: str, things: tuple[str, ...]) -> None:
    assert analyse(question).either == things


def test_a_candidate_in_the_place_of_the_question_word() -> None:
    assert analyse("who wrote the book?").hypothesis("Ann Low") == "Ann Low wrote the book"


@pytest.mark.parametrize(
    ("sentence", "kind", "span"),
    [
        ("It was built by Ann Low of Malta.", "name", "Ann Low of Malta"),
        ("It was built by Ann Low of Malta.", "part", "Ann Low"),
        ("It opened on 3 May 1921.", "date", "3 May 1921"),
        ("It opened on May 3, 1921.", "date", "May 3, 1921"),
        ("He moved there in 794.", "year", "794"),
        ("It holds 2.5 million rivets.", "number", "2.5 million"),
        ("It has thirty-two rooms.", "number", "thirty-two"),
        ('The play "A Quiet House" was a success.', "quoted", "A Quiet House"),
        ("Jupiter is a gas giant.", "phrase", "gas giant"),
    ],
)
def test_candidates_of_a_sentence(sentence: str, kind: str, span: str) -> None:
    assert (kind, span) in [(found.kind, found.text) for found in candidates(sentence)]


@given(st.text(max_size=200))
def test_spans_stand_where_they_say(text: Any) -> None:
    for span in candidates(text):
        assert 0 <= span.start <= span.end <= len(text)
        assert span.text in text[span.start : span.end]


def test_sentences_are_not_cut_at_initials() -> None:
    assert split_sentences("J. R. Low met Dr. Grant. They left.") == ["J. R. Low met Dr. Grant.", "They left."]


def test_tokenised_text_is_tidied() -> None:
    assert (
        tidy("The park ( opened in 1921 ) , holds 3 , 500 people .") == "The park (opened in 1921), holds 3,500 people."
    )


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("the Danube", "Danube River", True),
        ("eleven", "11 players", True),
        ("A", "A", True),
        ("A", "B", False),
        ("1912", "1907", False),
        ("York", "the city and county of New York", False),
        ("", "", False),
    ],
)
def test_sameness_of_answers(left: str, right: str, expected: bool) -> None:
    assert roughly_same(left, right) is expected


@given(st.text(max_size=60))
def test_an_answer_is_the_same_as_itself(text: Any) -> None:
    assert roughly_same(text, text) is bool(normal(text))
