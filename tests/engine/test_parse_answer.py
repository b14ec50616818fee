from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.parse import parse_answer
from madke.engine.parse.answer import Marker
from madke.engine.parse.context import Parsed
from madke.tasks import TASKS

OPEN = Question(id="q", question="?")
LABEL = Question(id="q", question="?", task="claim")
LETTER = Question(id="q", question="?", task="choice", choices=("tin", "mercury", "iron", "A gas"))


def parsed(text: str, question: Question = OPEN, marker: Marker = "brackets") -> Parsed:
    return parse_answer(text, lambda raw: TASKS[question.task].read(raw, question), marker, shown=range(20))


def answer_of(text: str, question: Question = OPEN, marker: Marker = "brackets") -> str | None:
    return parsed(text, question, marker).value


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is [Paris].", "Paris"),
        ("So, **the final answer is: [Letters to Cleo]**.", "Letters to Cleo"),
        ("Knowledge [0] and [3] agree. The answer is [July 20, 1969].", "July 20, 1969"),
        ("Knowledge [0] says seven. The answer is [7].", "7"),
        ("The answer is [July 20, 1969] [3].", "July 20, 1969"),
        ("The point is [((2,-2))]", "((2,-2))"),
        ("The interval, and so the answer, is [[0, 1)]", "[0, 1)"),
        ("I would say [Rome]. On reflection the answer is [Milan].", "Milan"),
        ("The answer is [Milan]. See the notes [citation needed]", "Milan"),
        ("The answer is [[Danube]]", "Danube"),
        ("The answer is [U.S.]", "U.S."),
        ("The answer is [Danube.]", "Danube"),
        ("The answer is [yes]", "yes"),
        ("The answer, per Knowledge [3], is [5]", "5"),
        ("[Answer: Paris]", "Paris"),
        ("[The answer is Paris]", "Paris"),
        ("The answer is [Milan]. Debater 2 said the answer was [Rome], which is wrong.", "Milan"),
        ("I agree with Debater 2: the answer is [Milan].", "Milan"),
        ("The answer is [Paris], as in [1].", "Paris"),
        ("The answer is [f[0]].", "f[0]"),
        ("The answer is [N].", "N"),
        ("Final answer:\n[42]", "42"),
        ("[42]", "42"),
        ("She has 9 eggs left and earns 18 dollars.\n\n**[18]**", "18"),
        ("The answer is [[0, 1]].", "[0, 1]"),
        ("The answer is [(0, 1]].", "(0, 1]"),
        ("The answer is [Paris [3]].", "Paris"),
        ("The answer is [yes], they are.", "yes"),
        ("[1969]", "1969"),
        ("Thought 1: look it up.\nAction 1: Search[Hungary]\nAction 2: Finish[Danube]", "Danube"),
        ("If Knowledge [0] is right, the answer is [Danube].", "Danube"),
        ("Debater 1 says [Danube]. Debater 2 says [Danube].", "Danube"),
        ("My answer remains [Danube], whatever the [source] says.", "Danube"),
    ],
)
def test_reads_what_a_person_would(text: str, answer: str) -> None:
    assert answer_of(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot tell.",
        "Put it in the form [answer].",
        "The answer is [answer].",
        "The final answer is [your answer here].",
        "Reply [Yes or No].",
        "The answer is in Knowledge [3].",
        "The answer can be found in [0] and [3]: it is Lake Baikal.",
        "The correct answer according to [0] is Paris",
        "The result is cited in [2].",
        "[Rome] was one, [Milan] was another. I cannot decide.",
        "It rests on [1], [2] and [1-3].",
        "The answer is [Par",
        r"\[ x^2 = 4 \]",
        "The answer is [].",
        "Nothing helps. [No Found]",
        "He said [he was tired] and left.",
        "He wrote of it [my translation]. It was never found.",
        "The lake is deep [note 1].",
        "The configuration is [Xe]4f14.",
        "I cannot tell [citation needed].",
        "As was shown [Smith et al. 2020], it is unknown.",
        "Sources:\n[3]",
        "See [Paris](https://example.org).",
        "Knowledge that supports the answer: [3]",
        "I do not know what the answer is [3].",
        "What is the answer? [3]",
        "Search[Paris]",
        "The answer is [Paris] or [Lyon].",
        "The answer is either [Paris] or [Lyon]",
        "Is the answer [Paris]?",
        "The answer is not [Paris].",
        "If the answer is [Paris], the flight was short.",
        "Give the answer in the form [Paris].",
        "My opponent claims the answer is [Paris].",
        "Debater 1: The answer is [Rome].\nDebater 2: The answer is [Milan].",
    ],
)
def test_finds_no_answer_where_there_is_none(text: str) -> None:
    found = parsed(text)
    assert found.value is None
    assert found.status in ("abstained", "unmarked", "echoed")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The answer is [SUPPORTS].", "SUPPORTS"),
        ("[refuted]", "REFUTES"),
        ("The label is **[Not enough information.]**", "NOT ENOUGH INFO"),
        ("The answer is [true].", None),
        ("One of [SUPPORTS], [REFUTES] or [NOT ENOUGH INFO]: the answer is [REFUTES].", "REFUTES"),
        ("[REFUTES] not [SUPPORTS]", "REFUTES"),
        ("Neither [SUPPORTS] nor [REFUTES] fits: [NOT ENOUGH INFO].", "NOT ENOUGH INFO"),
        ("[SUPPORTS] or [REFUTES].", None),
        ("The answer is: Refuted, because the wall is elsewhere.", "REFUTES"),
        ("The evidence supports the claim.", None),
    ],
)
def test_reads_claim_labels(text: str, label: str | None) -> None:
    assert answer_of(text, LABEL) == label


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is [B].", "B"),
        ("The answer is [(b)]", "B"),
        ("The answer is [B. mercury]", "B"),
        ("The answer is [Mercury]", "B"),
        ("The answer is [A gas]", "D"),
        ("The answer is [E]", None),
        ("[A] is liquid? No: the answer is [B]", "B"),
        ("[Option B]", "B"),
        ("[B, mercury]", "B"),
        ("[A, B]", None),
        ("[A] no. [B] yes. [C] no. So B.", None),
        ("The answer is B", "B"),
        ("The answer is A, because tin melts early.", "A"),
        ("**B**", "B"),
        ("B) mercury", "B"),
        ("B) mercury\n\nMercury is liquid.", "B"),
        ("Answer: (B)", "B"),
        ("**Answer:** B\n\nExplanation: A is solid.", "B"),
        ("**Final Answer: B**", "B"),
        ("### Final Answer\nB", "B"),
        ("The answer is clearly **B. mercury**.", "B"),
        ("Therefore, option B is the correct answer.", "B"),
        ("Not [A] but [B].", "B"),
        ("It is [b].", "B"),
        ("The answer is [B], not [A].", "B"),
        ("The answer is [B] if we assume standard conditions.", "B"),
        ("A", "A"),
        ("I think", None),
        ("A metal is solid. I think A gas is light.", None),
        ("The answer is a metal.", None),
        ("A) is wrong. So I do not know.", None),
        ("[A] is incorrect.", None),
        ("A) tin\nB) mercury\nC) iron\nD) A gas", None),
        ("(A) tin, (B) mercury", None),
        ("Answer Choices: (A) tin (B) mercury", None),
        ("The answer is A or B.", None),
        ("The answer is A. tin or B. mercury", None),
        ("I first thought the answer is [A]. So the answer is either A or B.", None),
        ("I would say the answer is [A]. No, the answer is [none of these].", None),
        ("The answer is none of the above.", None),
        ("The answer isn't A.", None),
        ("Option A is incorrect. Option C is correct only when hot.", None),
    ],
)
def test_reads_choice_letters(text: str, letter: str | None) -> None:
    assert answer_of(text, LETTER) == letter


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("The answer is Lake Baikal.", "Lake Baikal", "stated"),
        ("The answer is St. Petersburg.", "St. Petersburg", "stated"),
        ("The answer to the question is Marie Curie.", "Marie Curie", "stated"),
        ("So the answer is 42 [3].", "42", "stated"),
        ("The answer is **lithium**.", "lithium", "stated"),
        ("The answer is yes, they are.", "yes", "stated"),
        ("The answer is (x+1)(x-2).", "(x+1)(x-2)", "stated"),
        ("Final answer: lithium", "lithium", "labelled"),
        ("Here is my answer:\n\nDanube", "Danube", "labelled"),
        ("Answer: Paris. It lies on the Seine.", "Paris", "labelled"),
        ("18 eggs in all.\n#### 18", "18", "hashes"),
        ("<answer> Peter Parker </answer>", "Peter Parker", "tag"),
        (r"So it is $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}", "boxed"),
        ('{"reasoning": "see [2]", "answer": "Danube"}', "Danube", "record"),
        ("The answer is lithium, I believe.", None, "none"),
        ("The answer is unclear.", None, "undecided"),
        ("The answer is in the third document.", None, "none"),
        ("The answer is that nobody knows.", None, "none"),
        ("Answer: I cannot tell.", None, "declined"),
        ("#### Step 1", None, "none"),
        (r"Put the final answer in \boxed{answer}.", None, "placeholder"),
        ('{"answer": null}', None, "none"),
        ('{"answer": "Dan', None, "none"),
    ],
)
def test_free_text_without_brackets_needs_a_strong_cue(text: str, answer: str | None, rule: str) -> None:
    found = parsed(text)
    assert (found.value, found.rule) == (answer, rule)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ('{"step_by_step_thinking": "[A] is solid.", "answer_choice": "B"}', "B"),
        ('{"step_by_step_thinking": "the \\(x\\) of "A"", "answer_choice": "B. mercury"', "B"),
        ('{"step_by_step_thinking": "solid" "answer_choice": "B"}', "B"),
        ("{'answer': 'B', 'reason': 'it's liquid'}", "B"),
        ('Steps first.\n```json\n{"answer": ["B"]}\n```', "B"),
        ('{"step_by_step_thinking": "The correct answer is B. mercury, which', "B"),
        ('{"answer": "A"} Checked again: {"answer": "B"}', "B"),
        ('{"step_by_step_thinking": "The answer is A.", "answer_choice": "None of the above"}', None),
        ('{"step_by_step_thinking": "The answer is A.", "answer_choice": "A/B"}', None),
        ('{"step_by_step_thinking": "A is solid and', None),
    ],
)
def test_reads_letters_in_records(text: str, letter: str | None) -> None:
    assert answer_of(text, LETTER) == letter


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So 306.The answer is: (306).", "306"),
        ("The answer is ((2,-2)).", "(2,-2)"),
        ("The answer is (2,-2)", "(2,-2)"),
        ("The answer is (1,234).", "1,234"),
        (r"The answer is: (\sqrt{5}).", r"\sqrt{5}"),
        (r"The answer is $\left( 5 \right)$.", "5"),
        ("The answer is **(306)** [3].", "306"),
        ("There are 4 (players) in 3 (teams).\n\n(306)", "306"),
        ("The answer is (306), as Agent 1 says.", "306"),
        ("The answer is 306 (handshakes).", "306"),
        ("The answer is [306].", "306"),
        (r"The answer is \boxed{306}.", "306"),
        ("There are 4 (players).", None),
        ("The polynomial is (x+1)(x-2)", None),
        ("x = 5 (by Eq. 2)", None),
        ("The answer (see above) is hard to find.", None),
        ("Put the answer in the form (X) at the end.", None),
        ("The answer is (X).", None),
        ("Agent 1's answer is (306). Agent 2's answer is (324).", None),
    ],
)
def test_parentheses_count_only_behind_a_cue_or_alone_at_the_end(text: str, answer: str | None) -> None:
    assert answer_of(text, marker="parentheses") == answer


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("So the answer is (B).", "B"),
        ("So a better answer would be (B) mercury.", "B"),
        ("Answer choice (B) should be selected.", "B"),
        ("So the answer is (A) and (B).", None),
        ("Either (A) or (B) could be the answer.", None),
        ("The answer is either (A) tin or (B) mercury.", None),
    ],
)
def test_reads_letters_in_parentheses(text: str, letter: str | None) -> None:
    assert answer_of(text, LETTER, "parentheses") == letter


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{1}, then $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{\text{(B)}}", "(B)"),
        ("The answer is 42.", "42"),
        (r"\boxed{\frac{1}{2}", None),
        (r"\boxed{}", None),
        (r"\boxed{X}", None),
        ("As [Paris] shows.", None),
    ],
)
def test_reads_boxes(text: str, answer: str | None) -> None:
    assert answer_of(text, marker="boxed") == answer


def test_a_reply_that_is_the_answer_is_taken_whole() -> None:
    assert answer_of("He went there. [3]", marker="text") == "He went there. [3]"
    assert parsed(" \n", marker="text").status == "unmarked"
    assert answer_of("[answer]", marker="text") is None


def test_the_span_is_where_the_answer_stands_in_the_text_with_its_citations() -> None:
    text = "It is deep [1][2]. The answer is [Lake Baikal] [3]."
    found = parsed(text)
    assert text[slice(*found.span)] == "[Lake Baikal]"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is (1981).", "1981"),
        ("It was (as I said).", None),
        ("It is a bird (a swan).", None),
        ("f is (x+1)(x-2)", None),
    ],
)
def test_parentheses_that_close_a_reply_after_it_is(text: str, answer: str | None) -> None:
    assert parse_answer(text, lambda raw: raw, "parentheses").value == answer


def math_of(text: str, shown: Any = ()) -> Parsed:
    question = Question(id="q", question="?", task="math")
    return parse_answer(text, lambda raw: TASKS["math"].read(raw, question), shown=shown, is_math=True)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("16 - 7 = 9 eggs.\nA: 26", "26", "last_number"),
        ("So he is at 315 - 120 = 195 miles from home at the end of 4 hours.", "195", "last_number"),
        ("Step 1 is done. That leaves 70,000 dollars.", "70,000", "last_number"),
        (r"So $x = \frac{3}{4}$.", r"\frac{3}{4}", "last_number"),
        ("**18**", "18", "last_number"),
        (r"So the distance is $2\sqrt{3}$.", r"2\sqrt{3}", "last_number"),
        ("$$x = 12$$", "12", "last_number"),
        ("They cost $5 and $6.", "$6", "last_number"),
        ("The total is 12.\nConfidence: 0.9", "12", "last_number"),
        ("That is 2.5 x 10^3.", None, "none"),
        ("Hence x = 3 or x = -3.", None, "none"),
        ("The set is {1, 2, 3}.", None, "none"),
        ("The total is 12. The answer is [7].", "7", "cue"),
        ("There are 12 eggs. So she has enough.", None, "none"),
        ("So the polynomial is x^2 + 3", None, "none"),
        ("I cannot determine it from 3 numbers.", None, "declined"),
        ("We have 3 numbers. We don't have enough information.", None, "declined"),
    ],
)
def test_a_last_number_counts_for_mathematics_where_nothing_is_marked(text: str, value: str | None, rule: str) -> None:
    found = math_of(text)
    assert (found.value, found.rule) == (value, rule)


def test_nothing_is_a_citation_in_mathematics() -> None:
    assert math_of("Circle A will revolve [4] times.", shown=range(10)).value == "4"


@pytest.mark.parametrize(
    ("text", "shown", "answer"),
    [
        ("The lake is deep [4].", (), "4"),
        ("The lake is deep [4].", {4}, None),
        ("The lake is deep [14].", {4}, "14"),
        ("The total number is [4].", {4}, "4"),
        ("Therefore: [4]", {4}, "4"),
        ("Based on Knowledge [2], the total is [4].", {2, 4}, "4"),
        ("The source is [4].", {4}, None),
        ("It lies in Asia [4]. The answer is [4].", {4}, "4"),
    ],
)
def test_only_a_number_that_was_shown_is_a_citation_and_one_that_closes_is_an_answer(
    text: str, shown: set[int] | tuple[Any, ...], answer: str | None
) -> None:
    assert parse_answer(text, lambda raw: TASKS["short_answer"].read(raw, OPEN), shown=shown).value == answer


@pytest.mark.parametrize(
    "text",
    [
        "I don't have the answer.",
        "I'm sorry, but I don't have enough information to answer.",
        "Nothing here helps. I cannot determine the answer.",
        "The answer is [unknown].",
        "The answer is [cannot be determined].",
        "The answer cannot be determined from the passages.",
        '{"answer": "I do not know"}',
    ],
)
def test_an_honest_decline_has_a_rule_of_its_own(text: str) -> None:
    found = parsed(text)
    assert (found.value, found.status, found.rule) == (None, "abstained", "declined")


def test_only_the_end_of_an_endless_reply_is_read_and_the_span_is_right() -> None:
    text = "The answer is [Rome]. " + "x" * 300_000 + " The answer is [Milan]."
    found = parsed(text)
    assert (found.value, text[slice(*found.span)]) == ("Milan", "[Milan]")
    assert parsed("The answer is [Rome]. " + "x " * 200_000).value is None


def test_free_text_in_parentheses_counts_alone_on_the_last_line() -> None:
    found = parse_answer("I compared both cities.\n(Bern)", lambda text: text.strip() or None, "parentheses")
    assert (found.value, found.rule) == ("Bern", "last")
    assert parse_answer("Bern (on the Aare) is old.", lambda text: text.strip() or None, "parentheses").value is None
