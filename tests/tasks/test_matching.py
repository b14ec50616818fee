"""When two short answers are the same."""

import gzip
import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from madke.core.question import Question
from madke.tasks import TASKS

TASK = TASKS["short_answer"]


def same(a: str, b: str) -> bool:
    return TASK.same(a, b, Question(id="q", question="?"))


ASKED = Question(id="q", question="?")

SAME = [
    # spelling
    ("São Paulo", "Sao Paulo"),
    ("theatre", "Theater"),
    ("cats", "cat"),
    ("churches", "church"),
    ("Rock 'n' Roll", "rock and roll"),
    ("Paris (France)", "Paris"),
    ("U.S.", "US"),
    ("International Whaling Commission", "IWC"),
    ("A", "a."),
    # numbers
    ("twenty-one", "21"),
    ("1.5 million", "1,500,000"),
    ("twenty-first", "21st"),
    ("No. 5", "5"),
    ("4-inch", "4 in"),
    ("World War I", "World War One"),
    ("Henry VIII", "Henry the Eighth"),
    # dates
    ("July 20, 1969", "20 July 1969"),
    ("July 20th, 1969", "1969-07-20"),
    ("March 2016", "2016"),
    ("2001-02", "the 2001\u20132002 season"),
    # names
    ("Sir Edmund Hillary", "Edmund Hillary"),
    ("Dr. Martin Luther King Jr.", "Martin Luther King"),
    ("John F. Kennedy", "John Kennedy"),
    ("Kennedy", "John F. Kennedy"),
    ("J. R. R. Tolkien", "John Ronald Reuel Tolkien"),
    ("M. Curie", "Marie Curie"),
    ("Bill Clinton", "William Clinton"),
    ("Clinton, Bill", "Bill Clinton"),
    ("Paul McCartney", "James Paul McCartney"),
    ("Beethoven", "Ludwig van Beethoven"),
    ("Joan of Arc", "St. Joan of Arc"),
    # titles of works, organisations
    ("The Republic of Ireland", "Ireland"),
    # places
    ("Albany, New York", "Albany"),
    ("Springfield, Illinois", "Springfield, IL, USA"),
    ("the Danube River", "Danube"),
    # sentences
    ("The capital of Hungary is Budapest.", "Budapest"),
    # yes and no
    ("Yes, they are", "yes"),
    ("no", "No, 5 of them did not"),
    ("true", "Yes."),
    # lists
    ("red, green and blue", "Blue, Red, Green"),
    ("Simon & Garfunkel", "Paul Simon and Art Garfunkel"),
]

DIFFERENT = [
    ("Edmund Hillary, Tenzing Norgay", "Edmund Hillary"),
    ("Germany, France, Belgium", "Germany"),
    ("cat or dog", "cat and dog"),
    ("no", "No. 5"),
    ("yes", "no"),
    ("Yes Man", "yes"),
    ("A+", "A-"),
    ("C", "C++"),
    ("-5", "5"),
    ("Hepatitis A", "Hepatitis B"),
    ("A3", "3"),
    ("3-2", "2-3"),
    ("plan B", "a plan"),
    ("World War I", "World War II"),
    ("July 20, 1969", "July 21, 1969"),
    ("1500 BC", "1500 AD"),
    ("George W. Bush", "George H. W. Bush"),
    ("John Adams", "Samuel Adams"),
    ("Theo van Gogh", "Vincent van Gogh"),
    ("Henry of England", "England"),
    ("Battle of Hastings", "Battle of Bosworth"),
    ("Gulf of Mexico", "Mexico"),
    ("Every Breath You Take", "Breath You Take"),
    ("The Lord of the Rings", "Lord of the Flies"),
    ("Toy Story", "Toy Story 2"),
    ("Portland, Oregon", "Oregon"),
    ("vice president", "president"),
    ("Springfield, Illinois", "Springfield, Missouri"),
    ("afferent", "efferent"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_forms_of_one_answer_are_the_same(one: str, other: str) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_answers_that_name_different_things_are_not_the_same(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


@pytest.mark.parametrize("text", ["A", "+", "The The", "It", "C#", "#", "303", "\u00bd", "\u4e2d\u56fd"])
def test_short_and_odd_answers_are_read_and_match_themselves(text: str) -> None:
    assert TASK.read(f" {text}\n", ASKED) == text
    assert same(text, text)


@pytest.mark.parametrize("text", ["", " \n", "...", "-", "**", '""', "?!"])
def test_marks_alone_are_no_answer(text: str) -> None:
    assert TASK.read(text, ASKED) is None


PIECES = "the A Sir John F. Kennedy , and or not yes No. 5 21st twenty one hundred May 1969 (x) I % - / +"
ANSWERS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES.split()), max_size=8).map(" ".join)


@given(ANSWERS, ANSWERS)
@example("0", "\u00b2")
@example("'s", "'")
@example("A", "a a")
def test_any_two_texts_can_be_compared_in_either_order(one: str, other: str) -> None:
    assert same(one, other) == same(other, one)
    assert same(one, one)
    assert isinstance(TASK.accepts(one, Question(id="q", question=other, answers=(other, one))), bool)


HOSTILE = {
    "brackets": "(" * 200_000,
    "items": "a, " * 70_000,
    "digits": "9" * 200_000,
    "thousands": "1," * 100_000,
    "number words": "one hundred and " * 15_000,
    "initials": "A. " * 70_000 + "bc",
    "marks": "a" + "\u0301" * 200_000,
    "negations": "is not " * 30_000,
    "years": "1999-" * 40_000,
    "ligatures": "\ufdfa" * 1_000,
    "units": "5 km" * 50_000,
    "prices": "$1,1" * 50_000,
    "digits of a price": "$" + "1," * 100_000,
    "degrees": "5 \u00b0" * 50_000,
    "rates": "5 m/m/" * 30_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_long_hostile_text_is_compared_in_reasonable_time(text: str) -> None:
    assert same(text, text)
    assert not same(text, "Edmund Hillary")
    assert not TASK.accepts(text, Question(id="q", question="?", answers=("Edmund Hillary", "5 May 2010")))


@pytest.fixture
def judged_short_answers(shared_data: Path) -> list[list[tuple[str, bool]]]:
    """By question of EVOUNA: (answer, whether a person found it right), answers of at most six words."""
    by_question = []
    for name in ("NQ_1800", "TQ_1000"):
        with gzip.open(shared_data / "recorded" / "evouna" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            for item in json.load(file):
                systems = [key.removeprefix("answer_") for key in item if key.startswith("answer_")]
                answers = [(item[f"answer_{s}"], item[f"judge_{s}"]) for s in systems if not item["improper"]]
                by_question.append([(text, right) for text, right in answers if len(text.split()) <= 6])
    return by_question


def test_people_who_call_one_right_and_the_other_wrong_do_not_see_the_same_answer(
    judged_short_answers: list[list[tuple[str, bool]]],
) -> None:
    found: dict[bool, list[bool]] = {True: [], False: []}
    for answers in judged_short_answers:
        for (one, one_right), (other, other_right) in combinations(answers, 2):
            if one_right or other_right:
                found[one_right == other_right].append(same(one, other))
    assert len(found[True]) > 600
    assert sum(found[True]) / len(found[True]) > 0.75
    assert sum(found[False]) / len(found[False]) < 0.06
