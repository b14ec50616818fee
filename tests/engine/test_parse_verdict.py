import pytest

from madke.core.question import Question
from madke.core.transcript import Verdict
from madke.engine.parse import parse_grade, parse_side, parse_verdict
from madke.tasks import TASKS

SIDES = ("Affirmative side", "Negative side")


@pytest.mark.parametrize(
    ("text", "consensus"),
    [
        ("They agree. [Yes]", True),
        ("**[yes.]**", True),
        ("[NO].", False),
        ("Yes.", True),
        ("[Yes] would need the same city.\n\n[No]", False),
        ("If they agreed it were [Yes].\nVerdict: [No].", False),
        ("It is [No], not [Yes]", False),
        ("Debater 1's answer: [No]\nDebater 2's answer: [No]\nThe same. My decision is: [Yes]", True),
        ("Debater 1: [No]. Debater 2: [No]. Decision: [Yes]", True),
        ("Debater 1 answers [Yes]. Debater 2 answers [No]. They differ, so [No].", False),
        ("Debater 1 answers [Yes]. Debater 2 answers [Yes, partly]. These are different.", None),
        ("Debater 1 and Debater 2 give the same answer: [Yes]", True),
        ("Reply [Yes or No]", None),
        ("[Yes/No]", None),
        ("The answers agree.", None),
        ("", None),
        ("No doubt they agree.", None),
        ("If they agreed it were [Yes].", None),
        ("[Yes] only if both name the same city.", None),
        ("If they agree, reply [Yes]; otherwise, reply [No].", None),
        ("Verdict: No", False),
        ("**Decision:** yes", True),
        ("Verdict: yes\nVerdict: no", None),
    ],
)
def test_verdicts(text: str, consensus: bool | None) -> None:
    parsed = parse_verdict(text)
    assert parsed.value.consensus is consensus
    assert (parsed.status == "ok") == (consensus is not None)


@pytest.mark.parametrize(
    ("text", "consensus"),
    [
        ("Verdict: [SAME]", True),
        ("Verdict: [DIFFERENT]", False),
        ("**Verdict: [Same.]**", True),
        ("The given answers: [DIFFERENT]", False),
        ("settled: true", True),
        ("Verdict: SAME", True),
        ("DIFFERENT", False),
        ("Both say [No], so they are the same.\nVerdict: [SAME]", True),
        ("Debater 1 says [Yes]. Debater 2 says [No].\nVerdict: [DIFFERENT]", False),
        ("The answers are not [SAME].\nVerdict: [DIFFERENT]", False),
        ("Both say [No], so they are consistent.", None),
        ("Both debaters answer [No].", None),
        ("Debater 1 says [Yes] and so does Debater 2. They agree.", None),
        ("[Yes] is what they argue for. They agree.", None),
        ("Reply [SAME or DIFFERENT].", None),
        ("Verdict: [KEEP]", True),
        ("The date is wrong.\nVerdict: [REVISE]", False),
    ],
)
def test_a_verdict_has_words_that_no_answer_shares(text: str, consensus: bool | None) -> None:
    assert parse_verdict(text).value.consensus is consensus


@pytest.mark.parametrize(
    "text",
    [
        "reason: both name the Danube\nsettled: true\nside: Negative side\nanswer: Danube",
        "- **Reason:** both name the Danube\n- **Settled:** true\n- **Side:** Negative side\n- **Answer:** Danube",
    ],
)
def test_a_list_of_keys_is_read_as_a_record(text: str) -> None:
    parsed = parse_verdict(text, sides=SIDES)
    assert parsed.value == Verdict(consensus=True, side="Negative side", answer="Danube", reason="both name the Danube")
    assert parsed.rule == "list"


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("Side: Negative side\nThe answer is [Danube].", "Negative side"),
        ("**Side:** Affirmative\nThe answer is [Danube].", "Affirmative side"),
        ("Side: none\nThe answer is [Danube].", None),
        ("Side: Affirmative side or Side: Negative side", None),
        ("The negative side is right. The answer is [Danube].", None),
    ],
)
def test_an_extraction_names_a_side_on_its_own_line(text: str, side: str | None) -> None:
    assert parse_side(text, SIDES).value == side


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("The same lake. [True]", True),
        ("**[False.]**", False),
        ("Grade: true", True),
        ("It is [True], not [False].", True),
        ("The gold answer is [True], the given one is different. [False]", False),
        ("[True or False]", None),
        ("Write [True] if it matches and [False] if it does not.", None),
        ("The answer is true to life.", None),
    ],
)
def test_grades(text: str, right: bool | None) -> None:
    assert parse_grade(text).value is right


JUDGED = Verdict(consensus=True, side="Negative side", answer="He went home.", reason="It's the sense of 'home'.")


@pytest.mark.parametrize(
    "text",
    [
        '{"settled": "yes", "side": "Negative", "reason": "It\'s the sense of \'home\'.", "answer": "He went home."}',
        "{'Whether there is a preference': 'Yes', 'Supported Side': 'Negative', "
        "'Reason': 'It's the sense of 'home'.', 'debate_translation': 'He went home.'}",
        '```json\n{\n  "settled": true,\n  "side": "the negative side",\n  "reason": "It\'s the sense of \'home\'.",\n'
        '  "answer": "He went home."\n}\n```',
        '{"verdict": {"settled": "yes" "side": "Negative"}, "reason": "It\'s the sense of \'home\'.", '
        '"Correct Translation": "He went home."}',
        "{“settled”: “yes”, “side”: “Negative”, “reason”: “It's the sense of 'home'.”, “answer”: “He went home.”}",
    ],
)
def test_reads_records_however_they_are_quoted(text: str) -> None:
    parsed = parse_verdict(text, sides=SIDES)
    assert (parsed.value, parsed.rule) == (JUDGED, "record")


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ('{"settled": "no", "side": "", "reason": "Both are right.", "answer": ""}', (False, None, None)),
        ('{"settled": "yes", "side": "Affirmative or Negative", "answer": null}', (True, None, None)),
        ('{"settled": "yes", "side": "Affirmative and Negative side", "answer": 7}', (True, None, "7")),
        ('{"Reason": "", "Correct Translation": "He left."}', (None, None, "He left.")),
        ('{"settled": "yes", "side": "Negative", "answer": "He le', (True, "Negative side", None)),
        ('{"settled": "yes", "side": "Negative", "reason": "Sin', (True, "Negative side", None)),
        ('{"settled": "yes", "side": "Neg', (True, None, None)),
        ('{"settled": "yes", "answer": "A"} {"settled": "yes", "answer": "B"}', (True, None, "B")),
        ('{"settled": "yes", "answer": "A"} {"settled": "no", "answ', (True, None, "A")),
        ('{"settled": true, "answer": "A", "evidence": {"answer": "B"}}', (True, None, "A")),
        ('{"settled": "yes"} or {"settled": "no"}', (None, None, None)),
        ('{"settled": "yes or no", "side": "...", "answer": "answer"}', (None, None, None)),
        ('{"temperature": 0.5} They agree. [Yes]', (True, None, None)),
    ],
)
def test_a_record_says_only_what_it_holds(text: str, judged: tuple[bool | None, str | None, str | None]) -> None:
    value = parse_verdict(text, sides=SIDES).value
    assert (value.consensus, value.side, value.answer) == judged


@pytest.mark.parametrize(
    ("side", "named"),
    [("Debater 1", "Debater 1"), ("debater 10", "Debater 10"), ("10", "Debater 10"), ("Debater 100", None), ("", None)],
)
def test_a_side_is_a_whole_name(side: str, named: str | None) -> None:
    parsed = parse_verdict(f'{{"settled": "yes", "side": "{side}"}}', sides=("Debater 1", "Debater 10"))
    assert parsed.value.side == named


def test_an_answer_that_the_task_cannot_read_is_none() -> None:
    question = Question(id="q", question="?", task="choice", choices=("tin", "mercury"))
    read = lambda raw: TASKS["choice"].read(raw, question)  # noqa: E731
    assert parse_verdict('{"settled": "yes", "answer": "[B]"}', read=read).value == Verdict(consensus=True, answer="B")
    assert parse_verdict('{"settled": "yes", "answer": "gold"}', read=read).value == Verdict(consensus=True)


@pytest.mark.parametrize(
    "text",
    ["They do not agree, so I cannot say [Yes].", "I can't reply [Yes].", "It is impossible to reply [Yes].",
     "This does not deserve a [Yes].", "I am unable to say [Yes].", "Far from [Yes]."],
)  # fmt: skip
def test_a_refusal_to_say_yes_is_no_consensus(text: str) -> None:
    assert parse_verdict(text).value.consensus is not True


@pytest.mark.parametrize(
    ("text", "consensus"),
    [
        ('{"answer": "1969"}\nBoth say so. [Yes]', True),
        ('{"extracted answer": "1969", "consistent": true}', True),
        ('{"settled": 0}', False),
        ("I cannot find any difference: [Yes]", True),
    ],
)
def test_a_record_of_answers_leaves_the_decision_to_the_marker(text: str, consensus: bool) -> None:
    assert parse_verdict(text).value.consensus is consensus
