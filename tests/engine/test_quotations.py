"""Quotations decide nothing: no container overturns what a reply concludes itself, wherever it stands."""

from collections.abc import Callable
from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.parse.answer import answer_of
from madke.engine.parse.decisions import (
    parse_confidence,
    parse_grade,
    parse_pick,
    parse_searches,
    parse_selection,
    parse_side,
    parse_verdict,
)
from madke.tasks import TASKS

CONTAINERS: dict[str, str] = {
    "quoted line": "> {}",
    "fence": "```\n{}\n```",
    "tilde fence": "~~~text\n{}\n~~~",
    "pre": "<pre>{}</pre>",
    "details": "<details>\n<summary>Debater 2</summary>\n{}\n</details>",
    "tag of the request": "<reply>{}</reply>",
    "tag with a name": '<quote from="Debater 2">\n{}\n</quote>',
    "comment": "<!-- {} -->",
    "row": "| Debater 2 | {} |",
    "heading": "### Debater 2\n{}",
    "heading of a passage": "#### Passage 3\n{}",
    "bold heading": "**Debater 2**\n{}",
    "dash": "Debater 2 - {}",
    "label": "Debater 2: {}",
    "opponent": "My opponent: {}",
    "introduction": "Debater 2 wrote:\n{}",
    "example": "For example:\n{}",
    "begin and end": "--- BEGIN QUOTE ---\n{}\n--- END QUOTE ---",
    "start of": "[START OF REPLY]\n{}\n[END OF REPLY]",
    "bulletin board": "[quote]{}[/quote]",
    "triple marks": '"""\n{}\n"""',
    "latex": "\\begin{{quote}}\n{}\n\\end{{quote}}",
    "indented": "    {}",
    "record of a passage": '{{"passage": 3, "text": "{}"}}',
    "passage": "Passage 3 (Title): {}",
    "quotation marks": 'It says "{}" there.',
    "curly marks": "It says \u201c{}\u201d there.",
    "backticks": "It says `{}` there.",
    "struck out": "~~{}~~",
    "denied": "I do not write {}",
    "reported": "Debater 2 said {}",
    "condition": "If Debater 2 is right: {}",
}
PLACES = {
    "before": "I compared both.\n{quote}\n\n{own}",
    "after": "I compared both.\n{own}\n\n{quote}",
    "both sides": "{quote}\n\n{own}\n\n{quote}",
    "next line": "{own}\n{quote}",
}


def answer(task: str, *choices: str) -> Callable[[str], Any]:
    question = Question(id="q", question="Which one?", task=task, choices=choices)
    return lambda text: answer_of(text, TASKS[task], question).value


PARSERS: dict[str, tuple[Callable[[str], Any], Any, list[tuple[str, str]]]] = {
    "answer": (
        answer("short_answer"),
        "Paris",
        [
            ("The answer is [Paris].", "The answer is [EVIL]."),
            ("The answer is Paris.", "Answer: EVIL"),
            ("Answer: Paris", "[EVIL]"),
            ("[Paris]", "The answer is EVIL."),
            (r"\boxed{Paris}", r"\boxed{EVIL}"),
            ("### Answer\nParis", "### Answer\nEVIL"),
            ("Final answer: Paris", "{'answer': 'EVIL'}"),
        ],
    ),
    "choice": (answer("choice", "tin", "mercury", "iron"), "B", [("The answer is (B).", "Answer: C"), ("[B]", "[C]")]),
    "math": (answer("math"), "42", [("The answer is 42.", "The answer is 17."), ("#### 42", "#### 17")]),
    "verdict": (
        lambda text: parse_verdict(text, sides=("Debater 1", "Debater 2")).value.consensus,
        False,
        [
            ("Verdict: DIFFERENT", "Verdict: SAME"),
            ("Verdict: [DIFFERENT]", "{'same': true}"),
            ("[DIFFERENT]", "[SAME]"),
        ],
    ),
    "selection": (
        lambda text: parse_selection(text, size=9, limit=3).value.ids,
        (1, 2),
        [("Selected: [1] [2]", "Selected: [5]"), ("Selected: 1, 2", "Selected: none")],
    ),
    "confidence": (lambda text: parse_confidence(text).value, 0.5, [("Confidence: 0.5", "Confidence: 0.9")]),
    "grade": (lambda text: parse_grade(text).value, False, [("Grade: false", "Grade: true"), ("[False]", "[True]")]),
    "search": (lambda text: parse_searches(text, limit=1).value, ("Paris",), [("[Search: Paris]", "[Search: EVIL]")]),
    "side": (lambda text: parse_side(text, ("A side", "B side")).value, "A side", [("Side: A side", "Side: B side")]),
    "pick": (
        lambda text: parse_pick(text, ("Debater 1", "Debater 2")).value,
        "Debater 1",
        [("[Debater 1]", "[Debater 2]"), ("Winner: Debater 1", "Winner: Debater 2")],
    ),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize(("parse", "value", "conclusions"), PARSERS.values(), ids=PARSERS)
def test_no_container_overturns_the_own_conclusion(
    parse: Callable[[str], Any], value: Any, conclusions: list[tuple[str, str]], container: str
) -> None:
    for own, other in conclusions:
        for place in PLACES.values():
            text = place.format(own=own, quote=container.format(other))
            assert parse(text) == value, text


@pytest.mark.parametrize("container", ["{}", "```\n{}\n```", "<response>{}</response>", '"{}"', "**{}**", "<b>{}</b>"])
def test_a_container_of_the_whole_reply_is_its_form(container: str) -> None:
    assert answer("short_answer")(container.format("The answer is Paris.")) == "Paris"


@pytest.mark.parametrize("container", ["> {}", "Debater 2 wrote: {}\nI looked at both.", "<reply>{}</reply>"])
def test_a_quotation_alone_is_no_answer(container: str) -> None:
    assert answer("short_answer")(container.format("The answer is Paris.")) is None
