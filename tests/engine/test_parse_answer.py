import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.question import Question
from madke.engine.parse import parse_answer, without_reasoning
from madke.tasks import TASKS

OPEN = Question(id="q", question="?")
LABEL = Question(id="q", question="?", task="claim")
LETTER = Question(id="q", question="?", task="choice", choices=("tin", "mercury", "iron", "A gas"))


def answer_of(text, question=OPEN):
    return parse_answer(text, lambda raw: TASKS[question.task].read(raw, question)).value


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
    ],
)
def test_reads_what_a_person_would(text, answer):
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
    ],
)
def test_finds_no_answer_where_there_is_none(text):
    parsed = parse_answer(text, lambda raw: TASKS["short_answer"].read(raw, OPEN))
    assert (parsed.value, parsed.status) == (None, "abstained")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The answer is [SUPPORTS].", "SUPPORTS"),
        ("[refuted]", "REFUTES"),
        ("The label is **[Not enough information.]**", "NOT ENOUGH INFO"),
        ("The answer is [true].", None),
        ("One of [SUPPORTS], [REFUTES] or [NOT ENOUGH INFO]: the answer is [REFUTES].", "REFUTES"),
    ],
)
def test_reads_claim_labels(text, label):
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
    ],
)
def test_reads_choice_letters(text, letter):
    assert answer_of(text, LETTER) == letter


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>[Rome]</think>The answer is [Paris].", "The answer is [Paris]."),
        ("[Rome] or so</think> The answer is [Paris].", "The answer is [Paris]."),
        ("<think>the answer is [Rome]", ""),
        ("<THINKING>\n[Rome]\n</THINKING>\nDone.", "Done."),
    ],
)
def test_reasoning_is_not_said(text, said):
    assert without_reasoning(text) == said


@given(st.text(alphabet="[]()<>/thinkyesnoanswer 0123456789.,\n\\*-", max_size=80))
def test_no_text_raises_and_a_value_stands_in_the_text(text):
    said = without_reasoning(text)
    parsed = parse_answer(said, lambda raw: TASKS["short_answer"].read(raw, OPEN))
    if parsed.value is not None:
        start, end = parsed.span
        assert parsed.value.replace(" ", "") in re.sub(r"\s", "", said[start:end])


@given(
    st.sampled_from(["The answer is [Lake Baikal].", "We conclude: [Lake Baikal]", "No idea."]),
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    st.booleans(),
)
def test_citations_never_change_the_answer(text, numbers, in_front):
    cited = "".join(f"[{n}]" for n in numbers)
    assert answer_of(f"Knowledge {cited} helps. {text}" if in_front else f"{text} {cited}") == answer_of(text)
