"""Answers with units, currencies and times: ``same`` and ``match`` agree about what a number counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.question import Question
from madke.tasks import TASKS

SHORT = TASKS["short_answer"]


def same(one: str, other: str) -> bool:
    return SHORT.same(one, other, Question(id="q", question="?"))


def accepts(answer: str, gold: str) -> bool:
    return SHORT.accepts(answer, Question(id="q", question="How much is it?", answers=(gold,)))


ALIKE = [
    # glued, spaced, abbreviated, in full, American and British, singular and plural
    ("5kg", "5 kg", "5 kgs", "5 kilograms", "5 kilogrammes", "five kilograms"),
    ("310 m", "310 metres", "310 meters", "310m", "310 metre"),
    ("310 ft", "310 feet", "310-foot", "310 ft."),
    ("1.5 million km", "1,500,000 kilometers"),
    ("5 ft 6 in", "5 feet 6 inches", "5 ft. 6 in."),
    ("3 hrs", "3 hours", "3h", "three hours"),
    ("10 s", "10 seconds", "10 sec"),
    ("2 L", "2 l", "2 litres", "two liters"),
    ("8 lbs", "8 pounds", "8 lb"),
    ("60 mph", "60 miles per hour", "60 miles/hour"),
    ("60 km/h", "60 kph", "60 kilometres per hour"),
    ("12 m\u00b2", "12 m^2", "12 square metres", "12 sq m", "12 sq. m"),
    ("20 \u00b0C", "20\u00b0C", "20 \u2103", "20 degrees Celsius", "20 deg C", "20 degrees C"),
    ("50%", "50 %", "50 percent", "50 per cent", "fifty percent"),
    ("5 pm", "5pm", "5 p.m.", "5 PM", "5:00 p.m.", "5 P.M"),
    # currencies before and after, with magnitudes
    ("$5", "5 dollars", "5 USD", "US$5", "USD 5", "$5.00"),
    ("\u20ac5", "5 euros", "5\u20ac", "EUR 5", "5 EUR"),
    ("\u00a350m", "\u00a350 million", "50 million pounds", "50,000,000 pounds", "GBP 50m"),
    # an amount and its unit, of which one side has no unit, or a less exact one
    ("310", "310 feet"),
    ("$5", "5"),
    ("50%", "50"),
    ("20 degrees", "20 \u00b0F"),
]

UNLIKE = [
    ("310 feet", "310 metres"),
    ("5kg", "5 mg"),
    ("1500 feet", "1500 metres"),
    ("1500 km tall", "1500 miles tall"),
    ("10 ms", "10 s"),
    ("60 mph", "60 km/h"),
    ("12 square feet", "12 feet"),
    ("20 \u00b0C", "20 \u00b0F"),
    ("5 pm", "5 am"),
    ("\u20ac5", "$5"),
    ("\u00a350m", "$50m"),
    ("A$5", "US$5"),
    ("500 BC", "500 AD"),
    ("5 ft 6 in", "6 ft 5 in"),
    # Nothing is converted.
    ("1 km", "1000 m"),
]


@pytest.mark.parametrize("forms", ALIKE, ids=lambda forms: forms[0])
def test_two_spellings_of_an_amount_are_the_same_and_accepted(forms: tuple[str, ...]) -> None:
    for other in forms[1:]:
        for one, two in ((forms[0], other), (other, forms[0])):
            assert same(one, two), (one, two)
            assert accepts(one, two), (one, two)


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_one_number_of_two_units_is_neither_the_same_nor_accepted(one: str, other: str) -> None:
    for answer, gold in ((one, other), (other, one)):
        assert not same(answer, gold)
        assert not accepts(answer, gold)
        assert not accepts(f"I think that it is {answer}.", gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("It was sold for \u00a350 million ($100 million).", "\u00a350m"),
        ("The tower is 310 feet (94 m) high.", "94 metres"),
        ("It opens at 5 in the afternoon, so 5 pm.", "5 p.m."),
        ("The 5 km run took 5 hours.", "5 hours"),
        ("They have 5.", "5 feet"),
    ],
)
def test_a_sentence_is_accepted_if_it_has_the_unit_of_the_gold_or_none(answer: str, gold: str) -> None:
    assert accepts(answer, gold)


@pytest.mark.parametrize(
    ("one", "other"),
    [("F-15C", "F-15"), ("ranked 5 in 2010", "5 inches"), ("4G", "4 metres"), ("the 1990s", "1990"), ("3D", "3 days")],
)
def test_letters_after_a_number_are_not_always_units(one: str, other: str) -> None:
    assert not same(one, other)


NUMBERS = st.sampled_from(["5", "5.5", "1,500", "five", "1.5 million", "-3", "1969", "5:30"])
MEASURES = "km m ft feet in inches mph mphs km/h m2 sq.ft kg g L s h"
OTHERS = "% percent \u00b0C \u00b0F pm a.m. BC AD USD euros dollars"
UNITS = st.sampled_from(f"{MEASURES} {OTHERS}".split())
SIGNS = st.sampled_from(["$", "\u20ac", "A$", "US$", "EUR ", "Rs. "])
AMOUNTS = st.builds("{}{}{}".format, NUMBERS, st.sampled_from(["", " ", "-"]), UNITS)
PRICES = st.builds("{}{}{}".format, SIGNS, NUMBERS, st.sampled_from(["", "m", " bn"]))
TEXTS = AMOUNTS | PRICES | st.builds("{} {}".format, AMOUNTS, AMOUNTS) | NUMBERS


@given(TEXTS, TEXTS)
def test_amounts_are_compared_alike_in_both_orders_and_accepted_if_the_same(one: str, other: str) -> None:
    assert same(one, other) == same(other, one)
    assert same(one, one)
    assert accepts(one, one)
    assert accepts(one, other) or not same(one, other)
