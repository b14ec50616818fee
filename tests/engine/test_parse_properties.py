"""What holds for every text, whoever wrote it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from madke.core.question import Question
from madke.core.transcript import Selection, Verdict
from madke.engine.parse.answer import Marker, answer_of
from madke.engine.parse.decisions import (
    parse_confidence,
    parse_grade,
    parse_pick,
    parse_searches,
    parse_selection,
    parse_side,
    parse_verdict,
)
from madke.engine.parse.grammar import Parsed
from madke.engine.parse.reply import ParseContext, without_reasoning
from madke.tasks import TASKS

QUESTIONS = {
    "short_answer": Question(id="q", question="?"),
    "claim": Question(id="q", question="?", task="claim"),
    "choice": Question(id="q", question="?", task="choice", choices=("tin", "mercury", "iron", "A gas")),
    "math": Question(id="q", question="?", task="math"),
}
FORMS: list[tuple[str, Marker]] = [
    ("short_answer", "brackets"),
    ("claim", "text"),
    ("choice", "parentheses"),
    ("math", "boxed"),
]
NAMES = ("Debater 1", "Debater 10", "Negative side")

PIECES = st.sampled_from([
    *"[](){}\"'“”\\/$`<>,.:;?!-=#%_ ", "**", "0", "1", "2", "10", "0.8", "A", "B", "X", "yes", "no", "not", "if", "or",
    "[A]", "(B)", "[3]", "[1, 2]", "[1-3]", "[Yes]", "[No]", "[True]", "[False]", "[answer]", "[Search: ", "[No Found]",
    "Debater 1", "\nDebater 1:", "the answer is", "Answer:", "either", "I pick", "winner:", "Confidence:", "```", "and",
    "\\boxed{", "\\[", "\\frac{1}{2}", "<think>", "</think>", "<answer>", "</answer>", "####", '{"answer":', '"B"',
    "{'settled': 'yes'", '"side":', '"reason": "', "null", '\\"', "\\u00e9", "\\ud800", "\ud800", "Paris", "SUPPORTS",
])  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=120),
    st.lists(st.one_of(PIECES, st.sampled_from([" ", "\n", "\n\n"])), max_size=40).map("".join),
    st.lists(PIECES, max_size=40).map(" ".join),
)


def read(text: str, task: str, marker: Marker = "brackets", **how: Any) -> Parsed[str | None]:
    return answer_of(text, TASKS[task], QUESTIONS[task], marker, **how)


def read_short(raw: str) -> str | None:
    return TASKS["short_answer"].read(raw, QUESTIONS["short_answer"])


PEER = ParseContext(request="Write it on the last line.\nAnswer: [A]", others=("I say it is A and not B. Answer: A",))


def in_every_grammar(text: str) -> Iterator[Parsed]:
    for task, marker in FORMS:
        yield read(text, task, marker, shown=range(12))
    yield read(text, "short_answer", cut=True, context=PEER)
    yield parse_verdict(text, sides=NAMES, read=read_short)
    yield parse_selection(text, size=12, limit=3)
    yield parse_grade(text)
    yield parse_pick(text, NAMES)
    yield parse_side(text, NAMES)
    yield parse_confidence(text)
    yield parse_searches(text, limit=1)


@given(TEXTS)
def test_no_text_raises_and_every_value_has_its_place(text: str) -> None:
    without_reasoning(text)
    for parsed in in_every_grammar(text):
        assert parsed.status in ("ok", "abstained", "unmarked", "echoed", "contradictory")
        assert (parsed.span is not None) == (parsed.status == "ok")
        if parsed.span:
            start, end = parsed.span
            assert 0 <= start < end <= len(text)


@given(TEXTS, st.integers(0, 12), st.integers(1, 4))
def test_values_are_of_their_kind(text: str, size: int, limit: int) -> None:
    chosen = parse_selection(text, size=size, limit=limit).value
    assert len(set(chosen.ids)) == len(chosen.ids) <= limit
    assert all(0 <= n < size for n in chosen.ids + chosen.dropped)
    assert not set(chosen.ids) & set(chosen.dropped)
    confidence = parse_confidence(text).value
    assert confidence is None or 0 <= confidence <= 1
    assert parse_pick(text, NAMES).value in (None, *NAMES)
    assert parse_verdict(text, sides=NAMES).value.side in (None, *NAMES)
    for query in parse_searches(text, limit=3).value:
        assert 0 < len(query) <= 300
        assert query == " ".join(query.split())


SENTENCES = st.sampled_from(
    [
        "The answer is [Lake Baikal].",
        "The answer is [7].",
        "So the answer is (B).",
        r"Hence $\boxed{\frac{1}{2}}$.",
        "The answer is Lake Baikal.",
        "The answer is A or B.",
        "The label is [SUPPORTS], not [REFUTES].",
        "We conclude: [Lake Baikal].",
        "[Rome] was one, [Milan] another.",
        "Debater 2 said that the answer is [Rome].",
        "I do not know what the answer is.",
        "Here the answer is hard to find.",
        "Its label",
        "Knowledge about rivers does not help.",
        'It is {"answer": "B"}.',
        "Final answer: B.",
        "Paris lies on the Seine.",
    ]
)
CITATIONS = st.sampled_from([" [3]", " [1][2]", "[0]", " [1, 2]", " [4-6]", " [Knowledge 2]", " [10]."])


@pytest.mark.slow
@example([("Final answer: B.", "", False, False), ("The answer is A or B.", " [3]", True, False)])
@example([("The label is [SUPPORTS], not [REFUTES].", " [3]", True, False)])
@example([("Its label", " [3]", True, False), ("The answer is [Lake Baikal].", "", False, False)])
@settings(max_examples=20)
@given(st.lists(st.tuples(SENTENCES, CITATIONS, st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_citations_at_the_ends_of_sentences_never_change_the_answer(parts: list[tuple[str, str, bool, bool]]) -> None:
    plain = " ".join(sentence for sentence, *_ in parts)
    cited = " ".join(_cited(*part) for part in parts)
    for task in QUESTIONS:
        for marker in ("brackets", "parentheses", "boxed"):
            before, after = (read(text, task, marker, shown=range(12)) for text in (plain, cited))
            assert (after.value, after.rule) == (before.value, before.rule)


def _cited(sentence: str, citation: str, is_cited: bool, inside: bool) -> str:
    if not is_cited:
        return sentence
    if sentence[-1].isalnum():
        return sentence + citation.rstrip(".")
    return sentence[:-1] + citation.rstrip(".") + sentence[-1] if inside else sentence + citation


ECHOES = [
    "Close your reply with the final answer in square brackets, in the form [answer].",
    r"Put your final answer in \boxed{answer}.",
    "The final answer is [your answer here].",
    "If all debaters give the same answer, reply [Yes]; if they do not, or if one gives none, reply [No].",
    "Reply [Yes/No].",
    "Write [True] if it matches and [False] if it does not.",
    '{"settled": "yes or no", "side": "Debater 1 or Debater 10", "reason": "...", "answer": "your answer"}',
    "Ask for more with [Search: your query here].",
    "Name the winner: [Name].",
    "<answer>your answer here</answer>",
]


NOTHING = (None, (), Selection(), Verdict(consensus=None))


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_of_what_was_asked_for_never_counts(echo: str) -> None:
    for text in (echo, f"I was told: {echo}", f"{echo}\nI do not know."):
        for parsed in in_every_grammar(text):
            assert parsed.value in NOTHING or parsed.rule in ("text", "no_found")


MEASURABLE = 0.01
"""Seconds below which the clock is too coarse to compare."""
HOSTILE = [
    *"[]({})\"'\\ \n<$*`.-1A“",
    "{}", "[a]", "[1]", "[1, ", "[A] or ", "[Yes", '{"a": "', "{'a': 'b', ", '{"a": "x"\n', "{a: ",
    '{"answer": {', "\\boxed{", "<answer>", "<think>", "</think>", "the answer is ", "Answer: A\n", "answer to ",
    "neither nor ", "Debater 2:\n", "> [A]\n", "```\n", "<reply>", "User: a\n", '"[A]" ', "' [", "yes, ", "`[`",
    "Ranking: ", "Selected: [1]\n", "Verdict: SAME\n", '{"same": true} ', "(It contains [No Found]) ", "a. ", "A\n",
    "is not ", "Debater 1: [A]\n", "Confidence: 8", "[Search: ", "I pick Debater 1 ", "not [A] ", "A or ", "St. ",
    "#### 1\n", "<pre>", "<!-- ", "--- BEGIN X ---\n", "[quote]", "### Debater 2\n", "<|im_end|>", "[THINK]", "|a|\n",
    "    a\n",
]  # fmt: skip


def work(unit: str, size: int) -> float:
    """Processor time of one reading."""
    text = (unit * (size // len(unit) + 1))[:size]
    began = time.process_time()
    without_reasoning(text)
    list(in_every_grammar(text))
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
def test_work_grows_with_the_length_and_no_faster(unit: str) -> None:
    """Ten times the text is at most 40 times the work; with quadratic growth it would be 100 times."""
    limit = 40 * max(work(unit, 500), MEASURABLE)
    # Other programs can delay one reading, hardly two.
    assert work(unit, 5_000) <= limit or work(unit, 5_000) <= limit


NESTED = [
    "[" * 1_500 + "]" * 1_500,
    '{"a":' * 1_500 + "}" * 1_500,
    "The answer is [a" + " " * 50_000 + "b].",
    "The answer is [" + "\\a" * 10_000 + " word].",
    "[" + "1, " * 5_000 + "x]",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", NESTED, ids=range(len(NESTED)))
def test_deep_and_long_brackets_are_read(text: str) -> None:
    assert all(parsed.status for parsed in in_every_grammar(text))
