"""Replies as models write them, each with what a careful person reads: one table for each kind."""

from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.parse.answer import answer_of
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import ParseContext, is_copied
from madke.tasks import TASKS

QUESTIONS = {
    "short_answer": Question(id="q", question="Which city hosts the game?"),
    "yes_no": Question(id="q", question="Were both houses built before 1900?"),
    "choice": Question(id="q", question="?", task="choice", choices=("Iron", "Mercury", "Copper", "A tin alloy")),
    "claim": Question(id="q", question="?", task="claim"),
    "math": Question(id="q", question="?", task="math"),
    "translation": Question(id="q", question="?", task="translation"),
    "answer_list": Question(id="q", question="?", task="answer_list"),
}


def read(text: str, kind: str = "short_answer", **how: Any) -> Parsed[str | None]:
    question = QUESTIONS[kind]
    return answer_of(text, TASKS[question.task], question, **how)


CONCLUSIONS = [
    ("Mount Kenya is second. The answer is [Kilimanjaro].", "Kilimanjaro"),
    ("Final Answer: Jane Austen", "Jane Austen"),
    ("### Final Answer\n\n[Jane Austen]", "Jane Austen"),
    ("**Final Answer:**\n\nJane Austen", "Jane Austen"),
    ("Here is my answer:\n\nDanube", "Danube"),
    ("[answer] Jane Austen", "Jane Austen"),
    ("The answer is [answer: Jane Austen].", "Jane Austen"),
    (r"The answer is $\boxed{\text{Jane Austen}}$.", "Jane Austen"),
    ("<answer>Jane Austen</answer>", "Jane Austen"),
    ('```json\n{"answer": "Jane Austen"}\n```', "Jane Austen"),
    ('{"evidence": {"answer": "Lyon"}, "answer": "Paris"}', "Paris"),
    ("Thought 3: I know it.\nAction 3: Finish[Jane Austen]", "Jane Austen"),
    ("The correct answer is *Jane Austen*, who wrote Emma in 1815.", "Jane Austen"),
    ('Answer: In the third part of "The Mill".', 'In the third part of "The Mill"'),
    ("The answer is 963,022, which is the total population.", "963,022"),
    ("The answer is that these men were called boxers.", "these men were called boxers"),
    ("The answer is The answer is Oslo.", "Oslo"),
    ("I agree with Debater 2 that the answer is [Jane Austen].", "Jane Austen"),
    ("The answer is not [Charlotte Bronte] but [Jane Austen].", "Jane Austen"),
    ("The answer is Oslo, which lies on a fjord.\nThe answer is correct. It is the capital.", "Oslo"),
    ("The answer is Oslo.\n\nDebater 2: I disagree.\nAnswer: Rome", "Oslo"),
    ("The answer is Oslo.\n\nQuestion: What is the capital of Italy?\nAnswer: Rome", "Oslo"),
]
CUES = [
    ("At first I thought [Mercury], but because of its atmosphere it must be [Venus].", "Venus"),
    ("Both are rodents, so the answer is yes.", "yes"),
    ("So 6 * 4 = [24] chairs in every hall.", "24"),
    ("The capital of Hungary is [Budapest], which lies on the Danube.", "Budapest"),
]
PLAIN = [
    ("The Dallas County Courthouse was built in 1902.", "The Dallas County Courthouse was built in 1902"),
    ("The hall is in Bern. It has two towers and a clock.", "The hall is in Bern"),
    ("Debater 1's answer is correct. The hall is in Bern.", "The hall is in Bern"),
    ("Picasso was born in 1881. Gaudi was born in 1852. So Gaudi was older.", "So Gaudi was older"),
    ("Paris", "Paris"),
    ("**Olympic Stadium**", "Olympic Stadium"),
    ("(Bern)", "Bern"),
    ("I think it is Bern.", "Bern"),
    ("I compared both towns and their halls.\n\nSt. Gallen", "St. Gallen"),
    ("The text names one hall.\nBern\nConfidence: 0.8", "Bern"),
    ("There are two halls:\n- Bern\n- Basel", "Bern; Basel"),
]
NO_ANSWER = [
    ("I do not know.", "abstained"),
    ("The passages do not mention the composer.", "abstained"),
    ("The answer is not found in the passages.", "abstained"),
    ("The answer is [unknown].", "abstained"),
    ("Both [Rome] and [Milan] fit; I can't settle on one.", "abstained"),
    ("The answer is [answer].", "echoed"),
    ("Answer: ...", "echoed"),
    ("Which city hosts the game?", "unmarked"),
    ("I agree with Debater 2.", "unmarked"),
    ("The answer is supported by Passage 0.", "unmarked"),
    ("", "unmarked"),
    ("The answer is [Rome]. The answer is [Oslo].", "contradictory"),
    ("The answer is [Paris] or [Lyon].", "contradictory"),
]
CORRECTED = [
    "The answer is [Rome]. Wait, that is Italy. The answer is [Oslo].",
    "The answer is [Rome]. No, the answer is [Oslo].",
    "Answer: Rome\nOn second thought, Rome is in Italy.\nAnswer: Oslo",
    "Answer: Rome\nFinal answer: Oslo",
]
CHOICE = [
    ("B", "B"),
    ("The answer is (B).", "B"),
    ("**B. mercury**", "B"),
    ("The answer is clearly **B. mercury**.", "B"),
    ("Therefore, option B is the correct answer.", "B"),
    ("The answer is A, because iron melts early.", "A"),
    ("The answer is [A tin alloy]", "D"),
    ('{"step_by_step_thinking": "[A] is solid.", "answer_choice": "B"}', "B"),
    ('{"step_by_step_thinking": "The correct answer is B. mercury, which', "B"),
    ("The answer is A or B.", None),
    ("The answer is none of the above.", None),
    ("A) iron\nB) mercury\nC) copper\nD) A tin alloy", None),
    ("I first thought the answer is [A]. So the answer is either A or B.", None),
    ("A metal is solid.", None),
]
OTHERS = [
    ("yes_no", "No, the second one was built in 1911.", "No"),
    ("yes_no", "The first is of 1880.\nYes, both are older.", "Yes"),
    ("yes_no", "Answer: Yes, both are older.", "Yes"),
    ("yes_no", "Yes and no.", None),
    ("claim", "The label is **[Not enough information.]**", "NOT ENOUGH INFO"),
    ("claim", "The answer is: Refuted, because the wall is elsewhere.", "REFUTES"),
    ("claim", "The evidence supports the claim.", None),
    ("math", "16 - 7 = 9 eggs. So she makes 9 x 2 = $18 every day.", "$18"),
    ("math", "First \\boxed{1}, then $\\boxed{\\frac{1}{2}}$.", r"\frac{1}{2}"),
    ("math", "2 + 2 = 4\n#### 4", "4"),
    ("math", "The answer is [(2, 3)].", "(2, 3)"),
    ("math", "The answer is $26$ [2][3].", "26"),
    ("math", "There are 12 eggs. So she has enough.", None),
    ("translation", "Answer: He left, for it was cold. Nobody saw him.", "He left, for it was cold. Nobody saw him."),
    ("answer_list", "Answer: Rome; Milan; Bern", "Rome; Milan; Bern"),
    ("answer_list", "Answer:\n- Rome\n- Milan", "Rome; Milan"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), [*CONCLUSIONS, *CUES, *PLAIN])
def test_short_answers(text: str, answer: str) -> None:
    found = read(text)
    assert (found.value, found.status) == (answer, "ok")


@pytest.mark.parametrize(("text", "status"), NO_ANSWER)
def test_what_has_no_answer_says_why(text: str, status: str) -> None:
    assert (read(text).value, read(text).status) == (None, status)


@pytest.mark.parametrize("text", CORRECTED)
def test_a_reply_may_correct_itself(text: str) -> None:
    assert read(text).value == "Oslo"


@pytest.mark.parametrize(("kind", "text", "answer"), [*(("choice", *row) for row in CHOICE), *OTHERS])
def test_other_tasks(kind: str, text: str, answer: str | None) -> None:
    assert read(text, kind).value == answer


CITED = [
    ("short_answer", "It is the Danube [3]. The answer is [Danube] [3].", "Danube"),
    ("short_answer", "Circle A goes round four times [2]. The answer is [4].", "4"),
    ("short_answer", "Knowledge [3] lists two moons. The total number is [2].", "2"),
    ("short_answer", "The lake is deep [4].", "The lake is deep"),
    ("short_answer", "The source is [4].", None),
    # An interval that ends a reply of mathematics.
    ("math", "So x lies in [1, 2].", "1, 2"),
    ("math", r"Hence $x \in [0, 3]$.", "0, 3"),
    ("math", "So x is 4 [2, 5].", "4"),
    ("math", "So x is 4, as stated in [1, 2].", "4"),
]


@pytest.mark.parametrize(("kind", "text", "answer"), CITED)
def test_a_number_that_was_shown_is_a_citation_unless_it_is_the_answer(
    kind: str, text: str, answer: str | None
) -> None:
    assert read(text, kind, shown=range(10)).value == answer


@pytest.mark.parametrize("text", ["It lies in the north. Answer: The Republic of Ger", "It lies in the north and has"])
def test_a_reply_that_is_cut_off_before_its_answer_has_none(text: str) -> None:
    assert read(text, cut=True).value is None


def test_every_protocol_reads_alike() -> None:
    for text, answer in [*CONCLUSIONS, *PLAIN]:
        for marker in ("plain", "alone", "brackets"):
            assert read(text, marker=marker).value == answer


RULE = "Answer the question at the end in a few words. Write the answer alone on the last line."
EXAMPLE = "Question: Which river flows through Vienna and through Budapest?\nBoth cities lie on it.\nAnswer: Danube"
PEER = "The game was moved last year, so the newest text must be right about Bergen.\nThe answer is Bergen."
QUESTION = QUESTIONS["short_answer"].question


def context(own: str = "") -> ParseContext:
    return ParseContext(
        request="\n\n".join([RULE, EXAMPLE, QUESTION, PEER, own]),
        material=(QUESTION, PEER, own, "Bergen"),
        evidence=(QUESTION, "Bergen"),
        others=(PEER,),
        own=own,
        speaker="Debater 1",
        question=QUESTION,
    )


@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        ("Answer: Danube", None, "echoed"),
        (RULE, None, "echoed"),
        (EXAMPLE, None, "echoed"),
        (f"{RULE}\n\nAnswer: Oslo", "Oslo", "ok"),
        (PEER, "Bergen", "ok"),
        (f"Debater 1: {PEER}", "Bergen", "ok"),
        (f"Debater 2: {PEER}", "Bergen", "ok"),
    ],
)
def test_only_the_request_given_back_is_an_echo(text: str, value: str | None, status: str) -> None:
    found = read(text, context=context())
    assert (found.value, found.status) == (value, status)


def test_a_stance_in_anothers_words_is_copied_and_in_the_own_words_it_is_not() -> None:
    assert is_copied(PEER, context())
    assert not is_copied(PEER, context(own=PEER))
    assert not is_copied("I looked again. The answer is Bergen.", context())
