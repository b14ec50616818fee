"""What judges and debaters decide, as models write it: one table of replies for each parser."""

from typing import Any

import pytest

from madke.core.question import Question
from madke.core.transcript import Verdict
from madke.engine.parse.decisions import (
    parse_confidence,
    parse_grade,
    parse_pick,
    parse_searches,
    parse_selection,
    parse_side,
    parse_verdict,
)
from madke.engine.parse.reply import without_reasoning
from madke.tasks import TASKS

SIDES = ("Affirmative side", "Negative side")
AGENTS = ("AGENT_1", "AGENT_2", "AGENT_10")

VERDICTS = [
    ("Verdict: SAME", True),
    ("**Verdict: [Same.]**", True),
    ("The given answers: [DIFFERENT]", False),
    ("Verdict: [KEEP]", True),
    ("The date is wrong.\nVerdict: [REVISE]", False),
    ("Both say [No], so they are the same.\nVerdict: [SAME]", True),
    ("They agree. [Yes]", True),
    ("Verdict: No, they name two cities.", False),
    ("[Yes] would need the same city.\n\n[No]", False),
    ("It is [No], not [Yes]", False),
    ("Debater 1's answer: [No]\nDebater 2's answer: [No]\nThe same. My decision is: [Yes]", True),
    ("Debater 1 answers [Yes]. Debater 2 answers [No]. They differ, so [No].", False),
    ('{"extracted answer": "1969", "consistent": true}', True),
    ('{"settled": 0}', False),
    ("Debater 1 answers [Yes]. Debater 2 answers [Yes, partly]. These are different.", None),
    ("[Yes] only if both name the same city.", None),
    ("Both debaters answer [No].", None),
    ("Both say [No], so they are consistent.", None),
    ("[Yes] is what they argue for. They agree.", None),
    ("Reply [SAME or DIFFERENT].", None),
    ("No doubt they agree.", None),
    ("Verdict: yes\nVerdict: no", None),
    ('{"settled": "yes"} or {"settled": "no"}', None),
    ("", None),
]


@pytest.mark.parametrize(("text", "consensus"), VERDICTS)
def test_verdicts(text: str, consensus: bool | None) -> None:
    parsed = parse_verdict(text)
    assert parsed.value.consensus is consensus
    assert (parsed.status == "ok") == (consensus is not None)


REASON = "It's the sense of 'home'."
JUDGED = Verdict(consensus=True, side="Negative side", answer="He went home.", reason=REASON)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"settled": "yes", "side": "Negative", "reason": "{REASON}", "answer": "He went home."}}',
        "{'Whether there is a preference': 'Yes', 'Supported Side': 'Negative', "
        f"'Reason': '{REASON}', 'debate_translation': 'He went home.'}}",
        f'```json\n{{\n  "settled": true,\n  "side": "the negative side",\n  "reason": "{REASON}",\n'
        '  "answer": "He went home."\n}\n```',
        f"{{“settled”: “yes”, “side”: “Negative”, “reason”: “{REASON}”, “answer”: “He went home.”}}",
    ],
)
def test_records_are_read_however_they_are_quoted(text: str) -> None:
    parsed = parse_verdict(text, sides=SIDES)
    assert (parsed.value, parsed.rule) == (JUDGED, "record")


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ('{"settled": "no", "side": "", "reason": "Both are right.", "answer": ""}', (False, None, None)),
        ('{"settled": "yes", "side": "Affirmative or Negative", "answer": null}', (True, None, None)),
        ('{"Reason": "", "Correct Translation": "He left."}', (None, None, "He left.")),
        ('{"settled": "yes", "side": "Negative", "answer": "He le', (True, "Negative side", None)),
        ('{"settled": "yes", "answer": "A"} {"settled": "no", "answ', (True, None, "A")),
        ('{"settled": true, "answer": "A", "evidence": {"answer": "B"}}', (True, None, "A")),
        ('{"settled": "yes or no", "side": "...", "answer": "answer"}', (None, None, None)),
        ('{"temperature": 0.5} They agree. [Yes]', (True, None, None)),
    ],
)
def test_a_record_says_only_what_it_holds(text: str, judged: tuple[bool | None, str | None, str | None]) -> None:
    value = parse_verdict(text, sides=SIDES).value
    assert (value.consensus, value.side, value.answer) == judged


def test_an_answer_that_the_task_cannot_read_is_none() -> None:
    question = Question(id="q", question="?", task="choice", choices=("tin", "mercury"))
    read = lambda raw: TASKS["choice"].read(raw, question)  # noqa: E731
    assert parse_verdict('{"settled": "yes", "answer": "[B]"}', read=read).value == Verdict(consensus=True, answer="B")
    assert parse_verdict('{"settled": "yes", "answer": "gold"}', read=read).value == Verdict(consensus=True)


READINGS: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "side": (
        lambda text: parse_side(text, (*SIDES, "Debater 1", "Debater 10")).value,
        [
            ("Side: Negative side\nThe answer is [Danube].", "Negative side"),
            ("Side: debater 10", "Debater 10"),
            ("Side: Debater 100", None),
            ("Side: none", None),
            ("Side: Affirmative side or Side: Negative side", None),
            ("The negative side is right. The answer is [Danube].", None),
        ],
    ),
    "grade": (
        lambda text: parse_grade(text).value,
        [
            ("The same lake. [True]", True),
            ("Grade: true", True),
            ("The gold answer is [True], the given one is different. [False]", False),
            ("The answer is true to life.", None),
        ],
    ),
    "pick": (
        lambda text: parse_pick(text, AGENTS).value,
        [
            ("AGENT_1 errs, so **[agent_2]**.", "AGENT_2"),
            ("Not [AGENT_1] but [AGENT_2]", "AGENT_2"),
            ("Winner: AGENT_10", "AGENT_10"),
            ("The winner of this debate is AGENT_2.", "AGENT_2"),
            ("AGENT_1 wins.", "AGENT_1"),
            ("Agent 2", "AGENT_2"),
            ("[AGENT_1] or [AGENT_2]", None),
            ("Winner: AGENT_1\nWinner: AGENT_2", None),
            ("Winner: AGENT_3", None),
            ("I do not pick AGENT_1.", None),
            ("AGENT_1 relies on [2].", None),
            ("", None),
        ],
    ),
    "confidence": (
        lambda text: parse_confidence(text).value,
        [
            ("Confidence: 0.8", 0.8),
            ("**Confidence level:** 80 %", 0.8),
            ("Confidence: 8/10.", 0.8),
            ("My confidence in this answer is 9 out of 10", 0.9),
            ("I am 80% sure.", 0.8),
            ("Confidence: 0.2. On reflection, confidence: 0.6", 0.6),
            ("Confidence: 85", None),
            ("Confidence: -0.5", None),
            ("Confidence: 5/0", None),
            ("Confidence: 0.8-0.9", None),
            ("My confidence is high; 3 of 4 sources agree.", None),
        ],
    ),
    "searches": (
        lambda text: parse_searches(text, limit=2).value,
        [
            ("[Search: capital of\n  Hungary]", ("capital of Hungary",)),
            ('**[search: "river Danube"]**', ("river Danube",)),
            ("[Search: one]\n[Search: two]\n[Search: three]", ("two", "three")),
            ("[Search: first] [Search: query]", ("first",)),
            (f"[Search: {'x' * 400}]", ("x" * 300,)),
            ("[Search: your query here]", ()),
            ("[Search: ]", ()),
            ("Search for Hungary.", ()),
        ],
    ),
    "selection": (
        lambda text: parse_selection(text, size=10, limit=3).value.ids,
        [
            ("[1] and [2] are close.\n**Selected:** [0] [3]", (0, 3)),
            ("[1] names the lake.\nSelected: 0, 3 and 5", (0, 3, 5)),
            ("Selected:\n[2]", (2,)),
            ("Selected: [0] [1] [2] [3]", (0, 1, 2)),
            ("Selected: [1]\nOn second thoughts.\nSelected: [2]", (2,)),
            ("Both name the lake.\nEntry 0 and entry 4", (0, 4)),
            ("[1-3]", (1, 2, 3)),
            ('["0", "3"]', (0, 3)),
            ("[99] and [4]", (4,)),
            ("[8-30]", (8, 9)),
            ("I select knowledge 0 and 3.", (0, 3)),
            ("The most helpful are **[2]**, **[7]**.", (2, 7)),
            ("Document [3] does not mention it. Knowledge [2] does.", (2,)),
            ("[1] gives the date, but [2] is irrelevant.", (1,)),
            ("Neither [1] nor [2] helps. [3] helps.", (3,)),
            ("[1]: helpful\n[2]: not helpful\n[3]: helpful", (1, 3)),
            ("[2] says that he was not born in Paris, which refutes the claim.", (2,)),
            ("I cannot answer without [3].", (3,)),
            ("[3] is about another river; [2] names the lake.", (2,)),
            ("At first sight [No Found]. Then again, [2] helps.", (2,)),
            ("[0] is one. [1] is one. [5] and [7] are. So I choose [1] and [5].", (1, 5)),
            ('It says: "The lake is very deep[1][2] and old."\nSelected: [5]', (5,)),
        ],
    ),
    "nothing selected": (
        lambda text: parse_selection(text, size=10, limit=3).rule,
        [
            ("Selected: [No Found], since none of [0] and [1] helps.", "no_found"),
            ("[1] comes close.\nNo Found.", "no_found"),
            ("Selected: none", "no_found"),
            ("I do not need any of the passages to answer this.", "no_found"),
            ("[99]", "none"),
            ("[1] and [2] are not relevant.", "none"),
            ('It says: "The lake is very deep[1][2] and old."', "none"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("kind", "text", "value"), [(kind, *row) for kind, (_, rows) in READINGS.items() for row in rows]
)
def test_other_decisions(kind: str, text: str, value: Any) -> None:
    found = READINGS[kind][0](text)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)


def test_numbers_that_were_not_shown_do_not_count_towards_the_limit() -> None:
    found = parse_selection("I pick [0], [1], [2] and [4].", size=5, limit=3, shown={3, 4})
    assert (found.value.ids, found.value.dropped) == ((4,), ())


HIDDEN = [
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysisSo ", "assistantfinal"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("", "</reasoning>"),
    ("", "[/THINK]"),
]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>[Rome]</think>The answer is [Paris].", "The answer is [Paris]."),
        ("<think>the answer is [Rome]", ""),
        ("Okay.<think>and then", "Okay."),
        ("<think>one</think>A<think>two</think>B", "AB"),
        ("<think>I close with `</think>` here</think> [Paris]", "[Paris]"),
        ("I use `<think>` to reason. [Paris]", "I use `<think>` to reason. [Paris]"),
        *((f"{before}[Rome] or so{after}The answer is [Paris].", "The answer is [Paris].") for before, after in HIDDEN),
        ("The answer is Jupiter</s>", "The answer is Jupiter"),
        ("Jupiter<|return|>", "Jupiter"),
        ("Jupiter<\uff5cend\u2581of\u2581sentence\uff5c>", "Jupiter"),
        ("Jupiter<end_of_turn>\n<start_of_turn>user\nAnswer: Mars", "Jupiter"),
        ("<|im_start|>assistant\nJupiter<|im_end|>", "Jupiter"),
        ("The answer is <|begin_of_box|>Jupiter<|end_of_box|>.", "The answer is Jupiter."),
        ('{"answer": "Paris"}<eos>', '{"answer": "Paris"}'),
        ('{"answer": "the </think> tag"}', '{"answer": "the </think> tag"}'),
        ('<think>[Rome]</think>\n{"answer": "a <|im_end|> b </think>"}', '{"answer": "a <|im_end|> b </think>"}'),
        ("a < b and c > d, f[0]", "a < b and c > d, f[0]"),
    ],
)
def test_reasoning_is_not_said_and_talk_of_it_is_no_reasoning(text: str, said: str) -> None:
    assert without_reasoning(text) == said
