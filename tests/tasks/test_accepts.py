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
        ("It has twenty-one members.", ["21"]),
        ("It happened on 14 July 1789.", ["1789"]),
        ("It happened in 1789.", ["14 July 1789"]),
        ("The rule came in 2001.", ["2001\u20132002"]),
        ("Zoroastrianism was the religion of Persia.", ["the Zoroastrian religion"]),
        ("Luxembourg has Germany, Belgium and France around it.", ["France, Germany and Belgium"]),
        ("It is orbiting.", ["revolution or orbit"]),
        ("Paris isn't the capital; it is Lyon.", ["Paris"]),
        ("Not Paris but Lyon", ["Lyon"]),
        ("Yes, both were born there.", ["yes"]),
        ("The former governor is Martin Joseph O'Malley.", ["Martin O'Malley"]),
        ("Governor Martin O'Malley", ["Martin Joseph O'Malley"]),
        ("It was actor Paul McCartney.", ["James Paul McCartney"]),
        ("It is Kansas City.", ["Kansas City, Missouri"]),
        ("It was won at the Battle of Hastings.", ["the Battle of Hastings"]),
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
        ("Henry of England", ["Edward of England"]),
        ("It was Henry of England.", ["Edward of England"]),
        ("Louis XV of France", ["Philip of France"]),
        ("Philip of France", ["Louis XV of France"]),
        ("When Hell Broke Loose", ["All Hell Broke Loose"]),
        ("The film is All Hell Broke Loose.", ["When Hell Broke Loose"]),
        ("It was the Battle of Bosworth.", ["the Battle of Hastings"]),
        ("It is Lord of the Flies.", ["The Lord of the Rings"]),
        ("All Like It Hot", ["Some Like It Hot"]),
        ("Some Like It Cold", ["Some Like It Hot"]),
        ("Gone with the Storm", ["Gone with the Wind"]),
        ("It was Theo van Gogh.", ["Vincent van Gogh"]),
        ("Joseph O'Malley", ["Martin O'Malley"]),
        ("Paris, Texas", ["Paris, France"]),
        ("the Princess of Wales", ["the Prince of Wales"]),
        ("Dennis Wilson was the youngest brother.", ["Carl Wilson"]),
        ("It is not Paris.", ["Paris"]),
        ("not Paris", ["Paris"]),
        ("They come from Belgium, not France.", ["France"]),
        ("Lyon rather than Paris", ["Paris"]),
        ("It happened in 1790.", ["14 July 1789"]),
        ("It has 12 members.", ["21 members"]),
        ("He lives in Portland, Oregon.", ["Salem, Oregon"]),
        ("Both were born there.", ["yes"]),
        ("I do not know.", ["Paris"]),
        ("The Beatles", ["The Beatles and The Spice Girls"]),
        ("5 ft 5 in", ["5 ft 6 in"]),
    ],
)
def test_a_sentence_that_states_something_else_is_not_accepted(answer: str, golds: list[str]) -> None:
    assert not accepts(answer, *golds)


def test_words_of_the_question_prove_nothing() -> None:
    asked = "Which alloy is a bearing steel?"
    assert not accepts("A bearing steel is an alloy.", "chrome steel", asked=asked)
    assert accepts("It is chrome.", "chrome steel", asked=asked)


def test_a_gold_that_the_question_names_must_still_be_told() -> None:
    asked = "Was it France or Belgium?"
    assert accepts("It was Belgium.", "Belgium", asked=asked)
    assert not accepts("It was France.", "Belgium", asked=asked)


@pytest.mark.parametrize(("task", "package"), [("math", "math_verify"), ("translation", "sacrebleu")])
def test_a_missing_package_is_said_when_questions_are_checked(
    task: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question(id="q", question="?", answers=("1",), task=task)
    assert TASKS[task].check(question) is None
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package}.*pip install .*\[tasks\]"):
        TASKS[task].check(question)
