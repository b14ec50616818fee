"""Replies in the forms in which chat models write them, each with the value that a careful person reads."""

from typing import Any

import pytest

from madke.core.question import Question
from madke.engine.parse import parse_answer
from madke.engine.parse.answer import Marker
from madke.tasks import TASKS

QUESTIONS = {
    "short_answer": Question(id="q", question="?"),
    "claim": Question(id="q", question="?", task="claim"),
    "choice": Question(id="q", question="?", task="choice", choices=("Iron", "Mercury", "Copper", "A tin alloy")),
    "math": Question(id="q", question="?", task="math"),
    "translation": Question(id="q", question="?", task="translation"),
}
POOL = frozenset(range(10))

SHORT_WITHOUT_POOL = [
    ("Mount Kenya is second. The answer is [Kilimanjaro].", "Kilimanjaro"),
    ("Therefore, the answer is **[Jane Austen]**.", "Jane Austen"),
    ("Therefore, the answer is [**Jane Austen**].", "Jane Austen"),
    ("Final Answer: Jane Austen", "Jane Austen"),
    ("**Answer:** Jane Austen", "Jane Austen"),
    ("**Final Answer:** [Jane Austen]", "Jane Austen"),
    ("### Final Answer\n\n[Jane Austen]", "Jane Austen"),
    ("### Answer\nThe answer is [Jane Austen].", "Jane Austen"),
    ("She wrote Emma in 1815.\n\n[Jane Austen]", "Jane Austen"),
    ("She wrote Emma in 1815.\n\n**[Jane Austen]**", "Jane Austen"),
    ("[answer] Jane Austen", "Jane Austen"),
    ("[answer]: Jane Austen", "Jane Austen"),
    ("**[answer]**: Jane Austen", "Jane Austen"),
    ("Emma appeared in 1815.\n[Answer] Jane Austen.", "Jane Austen"),
    ("[final answer]: Lake Baikal", "Lake Baikal"),
    ("[Final Answer] [Lake Baikal]", "Lake Baikal"),
    ("The answer is [answer] Jane Austen.", "Jane Austen"),
    ("The answer is [answer: Jane Austen].", "Jane Austen"),
    ("The final answer is [answer]: Jane Austen.", "Jane Austen"),
    (r"The capital of Kenya is \[Nairobi\].", "Nairobi"),
    (r"The answer is \[Nairobi\].", "Nairobi"),
    ("So he was left with [$1,250.00].", "$1,250.00"),
    ("The answer is [$1,250.00].", "$1,250.00"),
    ("Going round twice the size, circle B will revolve [3] times.", "3"),
    ("There are two moons: Phobos and Deimos. Therefore: [2]", "2"),
    ("Mars has Phobos and Deimos. The total number is [2].", "2"),
    ("[162].", "162"),
    ("So 6 * 4 = [24] chairs in every hall.", "24"),
    ("It flows through Budapest. The river is [the Danube].", "the Danube"),
    ("The capital of Hungary is [Budapest], which lies on the Danube.", "Budapest"),
    ("The treaty was signed in [1648].", "1648"),
    ("[1648]", "1648"),
    ("I think it is [Budapest].", "Budapest"),
    ("The capital is [Nairobi]. It is a large city.", "Nairobi"),
    ("Both passages say that it lies in [Kenya].", "Kenya"),
    ("It is not Oslo.\n\n[Helsinki]", "Helsinki"),
    ("The answer is: [yes].", "yes"),
    ("The answer is [Yes].", "Yes"),
    ("Both are rodents, so the answer is yes.", "yes"),
    ("The answer is Jane Austen.", "Jane Austen"),
    ("The answer is **Jane Austen**.", "Jane Austen"),
    ("The correct answer is *Jane Austen*, who wrote Emma in 1815.", "Jane Austen"),
    ('The answer is "The Old Man and the Sea".', "The Old Man and the Sea"),
    ("The answer is: Jane Austen", "Jane Austen"),
    ("Answer: lithium", "lithium"),
    ("Answer: 42", "42"),
    ("Answer: about 42 km", "about 42 km"),
    ("<answer>Jane Austen</answer>", "Jane Austen"),
    (r"\boxed{Jane Austen}", "Jane Austen"),
    (r"The answer is $\boxed{\text{Jane Austen}}$.", "Jane Austen"),
    ('```json\n{"answer": "Jane Austen"}\n```', "Jane Austen"),
    ('{"answer": "Paris", "evidence": {"claim": "seat of government", "answer": "Lyon"}}', "Paris"),
    ('{"evidence": {"answer": "Lyon"}, "answer": "Paris"}', "Paris"),
    ('{"result": {"answer": "Paris"}}', "Paris"),
    ("Thought 3: I know it.\nAction 3: Finish[Jane Austen]", "Jane Austen"),
    ("Observation 2: Could not find it. Similar: ['Emma Bovary', 'Emma (novel)']", None),
    ("I first thought of [Charlotte Bronte]. But Emma is older, so the answer is [Jane Austen].", "Jane Austen"),
    ("I agree with Debater 2 that the answer is [Jane Austen].", "Jane Austen"),
    ("Debater 2's answer [Charlotte Bronte] is wrong. The answer is [Jane Austen].", "Jane Austen"),
    ("The answer is not [Charlotte Bronte] but [Jane Austen].", "Jane Austen"),
    ("The answer is [Jane Austen].\n\nConfidence: 0.9", "Jane Austen"),
    ("The answer is [Jane Austen]. Let me know if you have further questions!", "Jane Austen"),
    ("The answer is [St. Petersburg].", "St. Petersburg"),
    ("The answer is [N/A].", None),
    ("The answer is [unknown].", None),
    ("I don't have the answer.", None),
    ("I do not have enough information to answer.", None),
    ("The answer cannot be determined from what is given.", None),
    ("I'm sorry, but I don't have an answer to that.", None),
    ("Put your answer as [final answer].", None),
    ("Both [Rome] and [Milan] fit; I can't settle on one.", None),
]
SHORT_WITH_POOL = [
    ("Knowledge 0 and Knowledge 3 name it. The answer is [Danube].", "Danube"),
    ("Knowledge [0] and [3] name it. The answer is [Danube].", "Danube"),
    ("It is the Danube [3]. The answer is [Danube] [3].", "Danube"),
    ("According to [0], Budapest lies on the river. The answer is [Danube].", "Danube"),
    ("Circle A goes round four times [2]. The answer is [4].", "4"),
    ("Knowledge 2 lists the moons.\n\n[2]", "2"),
    ("Knowledge [3] lists two moons. Therefore: [2]", "2"),
    ("Knowledge [3] lists two moons. The total number is [2].", "2"),
    ("Knowledge [3] gives the year. It was signed in [1648].", "1648"),
    ("The lake is deep [4].", None),
    ("As Knowledge [4] says, the river flows through Budapest.", None),
    ("Knowledge [4] says that it flows through Budapest, as does [5].", None),
    ("The relevant passage is [3].", None),
    ("I used these sources:\n[3]", None),
    ("The answer can be found in [3].", None),
    ("The capital of Hungary is [Budapest] [0][3].", "Budapest"),
    ("The answer is [12] eggs, as [3] says.", "12"),
]
MATH = [
    ("9 * 2 = [18] dollars every day.", "18"),
    ("She makes [18] dollars [every day].", "18"),
    ("The answer is [18].", "18"),
    ("Therefore, the answer is [18] dollars.", "18"),
    (r"The answer is [$\frac{1}{2}$].", r"\frac{1}{2}"),
    (r"Hence the probability is $\boxed{\frac{1}{6}}$.", r"\frac{1}{6}"),
    ("Circle A will revolve [4] times.", "4"),
    ("Therefore: [4]", "4"),
    ("[162].", "162"),
    ("the answer (arabic numerals) is 70.", "70"),
    ("Therefore, the answer (arabic numerals) is 1,250.", "1,250"),
    ("16 - 7 = 9 eggs.\nA: 26", "26"),
    ("16 - 7 = 9 eggs. So she makes 9 x 2 = $18 every day.", "$18"),
    ("Therefore, they will need 15.5 hours.", "15.5"),
    ("So the speed is -3 m/s.", "-3"),
    ("Hence 3/4 of it is left.", "3/4"),
    (r"So the probability is \frac{3}{4}.", r"\frac{3}{4}"),
    ("That is 60% of all.", "60%"),
    ("The area is therefore 1,234,567 square metres.", "1,234,567"),
    ("2 + 2 = 4\n#### 4", "4"),
    ("**Answer: 26**", "26"),
    ("Final Answer: The final answer is $26$.", "26"),
    (r"\[ x = 5 \]", "5"),
    ("The answer is 26 apples.", "26 apples"),
    ("The answer is $26$ [2][3].", "26"),
    ("The answer is [(2, 3)].", "(2, 3)"),
    ("The answer is [[0, 1)].", "[0, 1)"),
    ("The answer is [2, 3].", "2, 3"),
    ("The answer is $26.", "$26"),
    ("It cannot be determined.", None),
    ("I do not know.", None),
]
CHOICE = [
    ("Option (D) does not fit what we know. Therefore, (B) is the most likely.", "B"),
    ("Choice (A) melts late. Option (B) is liquid. The answer is (B).", "B"),
    ("The answer is [B].", "B"),
    ("The answer is **[B]**.", "B"),
    ("Mercury is liquid.\n\n**B**", "B"),
    ("**Answer: B) Mercury**", "B"),
    ("The correct option is (B).", "B"),
    ("Therefore, the correct answer is B.", "B"),
    ("So the best choice is B: Mercury.", "B"),
    ("The answer is (B) Mercury, because it is liquid.", "B"),
    ("[answer] B", "B"),
    ("The answer is [Mercury].", "B"),
    ("It is liquid. The answer is [letter] B.", "B"),
    (r"\boxed{B}", "B"),
    ("Option (D) does not fit.", None),
    ("Option (A) and Option (C) are solid.", None),
    ("I don't have the answer.", None),
]
CLAIM = [
    ("The answer is [SUPPORTS].", "SUPPORTS"),
    ("Knowledge 3 contradicts it. The answer is [REFUTES].", "REFUTES"),
    ("The claim is therefore [Refuted].", "REFUTES"),
    ("[answer] NOT ENOUGH INFO", "NOT ENOUGH INFO"),
    ("The answer is [label] REFUTES.", "REFUTES"),
    ("Label: SUPPORTS", "SUPPORTS"),
    ("**NOT ENOUGH INFO**", "NOT ENOUGH INFO"),
    ("The evidence is thin, so the label is NOT ENOUGH INFO.", "NOT ENOUGH INFO"),
    ("The answer is [not enough information].", "NOT ENOUGH INFO"),
    ("Debater 1 says [SUPPORTS], but I find the date wrong: [REFUTES].", "REFUTES"),
]
TRANSLATION = [
    ("The answer is [He never turns up.].", "He never turns up."),
    ("The translation is [He left.].", "He left."),
    ("The answer is [He left].", "He left"),
    ("Translation: He left.", "He left."),
    ("Answer: He never turns up for meetings.", "He never turns up for meetings."),
]
CASES = [
    *(("short_answer", frozenset(), *case) for case in SHORT_WITHOUT_POOL),
    *(("short_answer", POOL, *case) for case in SHORT_WITH_POOL),
    *(("math", frozenset(), *case) for case in MATH),
    *(("choice", POOL, *case) for case in CHOICE),
    *(("claim", POOL, *case) for case in CLAIM),
    *(("translation", POOL, *case) for case in TRANSLATION),
]


@pytest.mark.parametrize(("task", "shown", "text", "value"), CASES)
def test_a_reply_is_read_as_a_person_reads_it(
    task: str, shown: frozenset[Any] | frozenset[int], text: str, value: str | None
) -> None:
    marker: Marker = "parentheses" if task == "choice" and "(" in text else "brackets"
    question = QUESTIONS[task]
    parsed = parse_answer(
        text, lambda raw: TASKS[task].read(raw, question), marker, shown=shown, is_math=task == "math"
    )
    assert parsed.value == value
