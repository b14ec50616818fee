"""Equivalence of mathematical answers."""

import json
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.question import Question
from madke.tasks import TASKS

TASK = TASKS["math"]


ASKED = Question(id="m", question="?", task="math")


def same(a: str, b: str) -> bool:
    return TASK.same(a, b, ASKED)


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (" $\\frac{1}{2}$. ", "\\frac{1}{2}"),
        ("$$\\boxed{12}$$", "12"),
        ("\\(x = 5\\)", "x = 5"),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}"),
        ("\\boxed{1}, \\boxed{2}", "\\boxed{1}, \\boxed{2}"),
        ("**18 dollars**.", "18 dollars"),
        ("$1,250.00", "$1,250.00"),
        ("\\left( 3, 4 \\right)", "\\left( 3, 4 \\right)"),
        ("$$", None),
        (" . ", None),
    ],
)
def test_an_answer_is_read_without_the_marks_around_it(raw: str, answer: str | None) -> None:
    assert TASK.read(raw, ASKED) == answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\dfrac12", "0.5"),
        ("3 1/2", "3.5"),
        ("1 000 000", "10^6"),
        ("11,\\! 111,\\! 100", "11111100"),
        ("1.5 million", "1500000"),
        ("6.72e-5", ".0000672"),
        ("50\\%", "0.5"),
        ("0.333333", "1/3"),
        ("3\\sqrt{13}", "\\sqrt{117}"),
        ("\\pi/2", "\\frac{\\pi}{2}"),
        ("(a+5)(b+2)", "ab + 2a + 5b + 10"),
        ("x = 5", "5"),
        ("x \\in [1,2]", "[1, 2]"),
        ("(2,\\infty)", "x > 2"),
        ("1,-2", "-2, 1"),
        ("\\{1, 200\\}", "200, 1"),
        ("1 \\pm \\sqrt{19}", "1 - \\sqrt{19}, 1 + \\sqrt{19}"),
        ("\\left( 2,-2 \\right)", "(2, -2)"),
        ("(2,-2)", "2,-2"),
        ("\\text{(C)}", "C"),
        ("90^\\circ", "90 degrees"),
        ("52_8", "52_{8}"),
        ("50 percent", "50\\%"),
        ("5 cm^2", "5 square centimeters"),
        ("5 km/h", "5 kilometers per hour"),
        ("5 m/s^2", "5 m s^{-2}"),
    ],
)
def test_equal_expressions_are_the_same_in_either_order(one: str, other: str) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    "written",
    ["5 m\u00b2", "5cm^2", "5\\mbox{ cm}^2", "5 \\frac{\\text{m}}{\\text{s}}", "5 sq. in.", "$5/day", "\\$5 a day",
     "5 red apples", "5 square units", "5\u00a2", "x = 5 cm", "5 m s^{-2}", "5\\,\\mathrm{kg}"],
)  # fmt: skip
def test_a_unit_that_only_one_names_makes_no_difference(written: str) -> None:
    assert same(written, "5")
    assert not same(written, "25")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 2", "12"),
        ("5 m", "5 m^2"),
        ("5 m/s", "5 km/h"),
        ("5 dollars", "5 cents"),
        ("10:30 a.m.", "10:30 p.m."),
        ("2x", "2"),
        ("5 - m", "5"),
        ("3 sin x", "3"),
        ("5", "-5"),
        ("15", "0.15"),
        ("[2,3)", "[2,3]"),
        ("(2,-2)", "-2,2"),
        ("p - q", "q - p"),
        ("x = 3", "y = 3"),
        ("0", "5x - 7y = 0"),
        ("\\text{east}", "\\text{seat}"),
        ("52_8", "52_9"),
        ("5 million", "5"),
        ("\\pi", "3.14"),
    ],
)
def test_different_expressions_are_not_the_same(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


HOSTILE = {
    "tower": "9^9^9^9^9",
    "braced tower": "9^{9^{9^{9}}}",
    "tower behind a fraction": "9^{\\frac{9}{1}^{99999}}",
    "Python's power": "9**9**9**9",
    "powers of powers": "((9^{999})^{999})^{999}",
    "factorial": "99999!",
    "digits": "7" * 10_000,
    "nesting": "(" * 5_000 + "1" + ")" * 5_000,
    "fractions": "\\frac{" * 2_000,
    "signs": "\\pm 1" * 40,
    "marks": "$" * 100_000,
    "stops": ". " * 100_000,
    "words": "\\text{" * 30_000,
    "unit": "5 " + "m" * 900 + "!",
    "units": "5 " + "m per " * 150 + "!",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_neither_raises_nor_hangs(text: str) -> None:
    TASK.read(text, ASKED)
    assert same(text, text)
    assert not same(text, "x + 1")


@pytest.mark.slow
def test_an_expansion_without_end_is_given_up() -> None:
    assert not same("(x+y+z+w+v)^{40}", "(x+y+z+w-v)^{40}")


@given(
    st.text(max_size=30) | st.text("0123456789xy+-*/^(){}[],.=<>\\$% !_", max_size=20), st.sampled_from(["5", "x+1"])
)
def test_any_text_can_be_compared(one: str, other: str) -> None:
    TASK.read(one, ASKED)
    assert same(one, one)
    assert same(one, other) == same(other, one)


def test_it_works_off_the_main_thread() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(same("\\sqrt{8}", "2\\sqrt{2}")))
    thread.start()
    thread.join()
    assert found == [True]


def test_a_gold_must_be_readable() -> None:
    assert TASK.check(Question(id="m", question="?", answers=("7",), task="math")) is None
    assert "'$$'" in TASK.check(Question(id="m", question="?", answers=("7", "$$"), task="math"))


def test_every_gold_of_math_500_is_read_and_accepted(shared_data: Path) -> None:
    items = json.loads((shared_data / "questions" / "math500_250.json").read_text(encoding="utf-8"))
    assert len(items) == 250
    for gold in (item["answer"] for item in items):
        question = Question(id="m", question="?", answers=(gold,), task="math")
        for written in (gold, f"$\\boxed{{{gold}}}$."):
            answer = TASK.read(written, question)
            assert answer is not None
            assert TASK.accepts(answer, question), gold


def test_every_gold_of_gsm8k_matches_itself_and_not_its_neighbour(shared_data: Path) -> None:
    lines = (shared_data / "questions" / "gsm8k_300.jsonl").read_text(encoding="utf-8").splitlines()
    golds = [json.loads(line)["answer"].rpartition("####")[2].strip() for line in lines]
    for gold, following in pairwise(golds):
        plain = gold.replace(",", "")
        for written in (f"${gold}.00", f"{int(plain):,}", f"{gold} dollars per day", f"{gold}\\text{{ km/h}}"):
            assert same(written, plain)
        assert same(gold, following) == (plain == following.replace(",", ""))
