"""Whether a task accepts an answer, given all golds of its question."""

import sys

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.tasks import TASKS


def accepts(answer: str, *golds: str, asked: str = "?", task: str = "short_answer") -> bool:
    question = Question(id="q", question=asked, answers=golds, task=task, choices=("x", "y"))
    return TASKS[task].accepts(answer, question)


def test_an_answer_is_accepted_if_it_is_the_same_as_any_gold() -> None:
    assert accepts("21", "twenty", "twenty-one")
    assert accepts("REFUTES", "REFUTES", task="claim")
    assert accepts("B", "B", task="choice")
    assert accepts("1/2", "0.5", task="math")
    assert accepts("a dog.", "A dog", task="translation")


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_accepted_where_there_is_no_gold_or_another_one(task: str) -> None:
    assert not accepts("A", task=task)
    assert not accepts("A", "B", task=task)


@pytest.mark.parametrize(
    ("answer", "golds"),
    [
        ("The capital of Hungary is Budapest, on the Danube.", ["Budapest"]),
        ("It was first climbed by Edmund Hillary in 1953.", ["Sir Edmund Hillary"]),
        ("Hillary climbed it.", ["Sir Edmund Hillary"]),
        ("The role went to Kate Mulgrew.", ["Katherine Mulgrew"]),
        ("There are about 1,500 of them.", ["1500"]),
        ("It happened in 1789.", ["14 July 1789"]),
        ("Zoroastrianism was the religion of Persia.", ["the Zoroastrian religion"]),
        ("It is orbiting.", ["revolution or orbit"]),
        ("Paris isn't the capital; it is Lyon.", ["Paris"]),
        ("Not Paris but Lyon", ["Lyon"]),
        ("Yes, both were born there.", ["yes"]),
        ("The former governor is Martin Joseph O'Malley.", ["Martin O'Malley"]),
        ("Belshazzar", ["The Babylonian king Belshazzar (Daniel 5)"]),
        ("James Watson and Francis Crick", ["Watson", "Crick"]),
        ("the stone roof", ["the roof of the church"]),
    ],
)
def test_a_sentence_is_accepted_if_it_states_a_gold(answer: str, golds: list[str]) -> None:
    assert accepts(answer, *golds)


@pytest.mark.parametrize(
    ("answer", "golds"),
    [
        ("Roald Amundsen and Edmund Hillary", ["Sir Edmund Hillary"]),
        ("It was Edmund Burke.", ["Sir Edmund Hillary"]),
        ("the roof of the house", ["the roof of the church"]),
        ("It was Henry of England.", ["Edward of England"]),
        ("Gone with the Storm", ["Gone with the Wind"]),
        ("the Princess of Wales", ["the Prince of Wales"]),
        ("5 ft 5 in", ["5 ft 6 in"]),
        ("It was Theo van Gogh.", ["Vincent van Gogh"]),
        ("It is not Paris.", ["Paris"]),
        ("They come from Belgium, not France.", ["France"]),
        ("Lyon rather than Paris", ["Paris"]),
        ("It happened in 1790.", ["14 July 1789"]),
        ("It has 12 members.", ["21 members"]),
        ("He lives in Portland, Oregon.", ["Salem, Oregon"]),
        ("Both were born there.", ["yes"]),
        ("I do not know.", ["Paris"]),
        ("The Beatles", ["The Beatles and The Spice Girls"]),
    ],
)
def test_a_sentence_that_states_something_else_is_not_accepted(answer: str, golds: list[str]) -> None:
    assert not accepts(answer, *golds)


WORDS_OF_THE_QUESTION = [
    ("RSJ", "Rock Street Journal", "What does RSJ refer to?", False),
    ("Kennedy", "Robert F. Kennedy", "Which Kennedy was attorney general?", False),
    ("Robert Kennedy", "Robert F. Kennedy", "Which Kennedy was attorney general?", True),
    ("Trump", "Donald Trump", "Who won, Clinton or Trump?", True),
    ("Hetfield", "James Hetfield", "Who was born first, Cliff Burton or James Hetfield?", True),
    ("RSJ refers to the Rock Street Journal", "Rock Street Journal", "What does RSJ refer to?", True),
    ("WHO", "World Health Organization", "What does WHO stand for?", False),
    ("The WHO", "World Health Organization", "Which body declared the pandemic?", True),
    ("JFK", "John F. Kennedy", "What is JFK's full name?", False),
    ("A bearing steel is an alloy.", "chrome steel", "Which alloy is a bearing steel?", False),
    ("It is chrome.", "chrome steel", "Which alloy is a bearing steel?", True),
    ("It was France.", "Belgium", "Was it France or Belgium?", False),
]

NUMBERS = [
    ("1984 1985", "1984", False),
    ("1984-85", "1984", True),
    ("1984", "1984 1985", False),
    ("1'000'000", "one million", True),
    ("The lake is 1 642 metres deep.", "1,642", True),
    ("12,34,567", "1234567", True),
    ("Toy Story 2", "Toy Story", False),
    ("12 people and 3 dogs", "12 people", True),
    ("5 ft 6 in", "5 ft", False),
    ("3 hours", "3 hours 20 minutes", False),
    ("310 feet (94 m)", "94 metres", True),
    ("Barack Obama, the 44th president", "Barack Obama", True),
    ("1902", "Dallas County Courthouse 1902", False),
    ("The Dallas County Courthouse was built in 1902.", "1902", True),
    ("Between 1984 and 1986", "1984", False),
    ("2", "2 000", False),
    ("1\u202f642", "1,642", True),
    ("1 2", "12", False),
    ("Matthew 6:9", "the Gospel of Matthew", True),
    ("1. Ecuador", "Ecuador", True),
    ("100 degrees Celsius is 373 Kelvin", "100 \u00b0C", True),
    ("23 456,7", "23456", False),
    ("USD 1 500", "$1,500", True),
    ("10, 12", "10", False),
    ("Lake Baikal, 1,642 m deep", "Lake Baikal", True),
]

RIVALS = [
    ("310 feet or 94 m", "94 metres", True),
    ("Paris or London", "Paris", False),
    ("Mercury, Venus or Mars", "Venus", False),
    ("Possibly Paris, possibly London", "Paris", False),
    ("Paris / London", "Paris", False),
    ("It has 12 or 13 members, depending on the source.", "12", False),
    ("Truth or Dare", "Truth or Dare", True),
    ("5 or more", "5", True),
    ("Yes or no", "yes", False),
    ("It could be Paris or it could be London.", "Paris", False),
    ("Paris", "Paris or London", True),
    ("Charlemagne (or Charles the Great) united the French and the Germans.", "Charlemagne", True),
    ("The landing is known as the Dieppe Raid or Operation Jubilee in English.", "Dieppe", True),
    ("Paris and/or London", "Paris", False),
    ("Paris? Or London?", "Paris", False),
]

LONGER = [
    ("Henry VIII", "Henry", False),
    ("Cannes takes place from 14 to 25 May 2019.", "usually in May", True),
    ("Theresa May", "usually in May", False),
    ("June", "usually in May", False),
    ("May 2019", "in May", True),
    ("early March", "usually in March", True),
    ("Theresa May", "May", True),
    ("14 to 25 May 2019", "14 May 2019", False),
    ("Yes and no", "yes", False),
    ("Paris, not London", "Paris", True),
    ("Alexander Graham Bell", "To inventor Alexander Graham Bell, who helped direct her education", True),
    ("Stephen Hendry", "Stephen Hendry, Ken Doherty, John Higgins and John Parrott in turn", False),
]


@pytest.mark.parametrize(("answer", "gold", "asked", "right"), WORDS_OF_THE_QUESTION)
def test_words_of_the_question_are_no_evidence(answer: str, gold: str, asked: str, right: bool) -> None:
    assert accepts(answer, gold, asked=asked) is right


@pytest.mark.parametrize(("answer", "gold", "right"), [*NUMBERS, *RIVALS, *LONGER])
def test_numbers_rivals_and_longer_answers_are_judged_as_people_do(answer: str, gold: str, right: bool) -> None:
    assert accepts(answer, gold) is right


@pytest.mark.parametrize(("task", "package"), [("math", "math_verify"), ("translation", "sacrebleu")])
def test_a_missing_package_is_said_when_questions_are_checked(
    task: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question(id="q", question="?", answers=("1",), task=task)
    assert TASKS[task].check(question) is None
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package}.*pip install .*\[tasks\]"):
        TASKS[task].check(question)
