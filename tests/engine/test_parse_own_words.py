"""A reply is read for what it says itself: not for what it quotes, copies from its request, or runs on with."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.question import Question
from madke.engine.parse import Asked, answer_of, parse_pick, parse_selection, parse_verdict
from madke.engine.parse.echo import RUN, without_copies
from madke.engine.parse.quotation import own_words, unquoted
from madke.tasks import TASKS

TASK = TASKS["short_answer"]
QUESTION = Question(id="q", question="Which city is the capital of Norway?")


def said(text: str, asked: Asked | None = None, question: Question = QUESTION, **how: Any) -> tuple[str | None, str]:
    found = answer_of(text, TASKS[question.task], question, asked=asked or Asked(), **how)
    return found.value, found.status


QUOTED: list[Callable[[str], str]] = [
    lambda marker: f"> {marker}",
    lambda marker: f"```\n{marker}\n```",
    lambda marker: f'It says "{marker}" there.',
    lambda marker: f"It says “{marker}” there.",
    lambda marker: f"It says `{marker}` there.",
    lambda marker: f"<reply>{marker}</reply>",
    lambda marker: f"<example>\nSome text.\n{marker}\n</example>",
    lambda marker: f"Debater 2: {marker}",
    lambda marker: f"Debater 2 wrote: {marker}",
    lambda marker: f"Debater 2 wrote:\n{marker}",
    lambda marker: f"Debater 2's answer: {marker}",
]
BEFORE = "I compared the two texts."


@pytest.mark.parametrize("quote", QUOTED, ids=range(len(QUOTED)))
@pytest.mark.parametrize(
    ("marker", "own", "consensus"),
    [
        ("Verdict: [SAME]", "Verdict: [DIFFERENT]", False),
        ("Verdict: DIFFERENT", "Verdict: SAME", True),
        ("[SAME]", "DIFFERENT", False),
        ('{"same": true}', "Verdict: [DIFFERENT]", False),
    ],
)
def test_a_quoted_verdict_decides_nothing(quote: Callable[[str], str], marker: str, own: str, consensus: bool) -> None:
    assert parse_verdict(f"{BEFORE}\n{quote(marker)}\n\nMore text.").value.consensus is None
    assert parse_verdict(f"{BEFORE}\n{quote(marker)}\n\n{own}").value.consensus is consensus
    assert parse_verdict(f"{BEFORE}\n{own}\n\n{quote(marker)}").value.consensus in (None, consensus)


@pytest.mark.parametrize("quote", QUOTED, ids=range(len(QUOTED)))
@pytest.mark.parametrize("marker", ["Answer: Rome", "The answer is [Rome].", "[Rome]", r"\boxed{Rome}"])
@pytest.mark.parametrize("own", ["Answer: Oslo", "The answer is Oslo.", "[Oslo]", r"The answer is \boxed{Oslo}."])
def test_a_quoted_answer_is_not_read(quote: Callable[[str], str], marker: str, own: str) -> None:
    assert said(f"{BEFORE}\n{quote(marker)}\n\nI still look at the texts.")[0] is None
    assert said(f"{BEFORE}\n{quote(marker)}\n\n{own}") == ("Oslo", "ok")
    assert said(f"{BEFORE}\n{own}\n\n{quote(marker)}") == ("Oslo", "ok")


@pytest.mark.parametrize("quote", QUOTED, ids=range(len(QUOTED)))
@pytest.mark.parametrize("marker", ["Selected: [0]", "[No Found]", "Selected: [No Found]"])
def test_a_quoted_selection_is_not_read(quote: Callable[[str], str], marker: str) -> None:
    for text in (f"Selected: [1] [2]\n{quote(marker)}", f"{BEFORE}\n{quote(marker)}\n\nSelected: [1] [2]"):
        assert parse_selection(text, size=5, limit=3).value.ids == (1, 2)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Selected: [1] [2]\n(Passage 6 contains [No Found], ignore it.)", (1, 2)),
        ("[1] names the city. Passage 3 contains [No Found], ignore it.", (1,)),
        ("[1] names the city.\nNo Found", ()),
    ],
)
def test_no_found_in_a_remark_is_no_selection(text: str, ids: tuple[int, ...]) -> None:
    assert parse_selection(text, size=5, limit=3).value.ids == ids


@pytest.mark.parametrize(
    ("text", "consensus"),
    [
        ('Debater 2 wrote {"same": true}.\nVerdict: [DIFFERENT]', False),
        ('Debater 2 wrote {"same": true}.', None),
        ('{"same": true}\nBut I see two cities.\nVerdict: DIFFERENT', False),
        ('I see one city.\n{"same": true}', True),
        ('My verdict is: {"same": true}', True),
        ('{"reason": "...", "settled": true|false}', None),
        ('{"reason": "...", "settled": "true or false"}', None),
    ],
)
def test_a_record_decides_only_as_the_reply_or_its_last_block(text: str, consensus: bool | None) -> None:
    assert parse_verdict(text).value.consensus is consensus


def test_a_quoted_pick_decides_nothing() -> None:
    assert parse_pick("> [B_1]\n\n[A_1]", ("A_1", "B_1")).value == "A_1"
    assert parse_pick('It says "[B_1]" there.\nWinner: A_1', ("A_1", "B_1")).value == "A_1"


@pytest.mark.parametrize(
    "run_on",
    [
        "Debater 2: I disagree. Answer: Rome",
        "Debater 2: I disagree.\nAnswer: Rome",
        "Question: Which city is the capital of Italy?\nAnswer: Rome",
        "User: And of Italy?\nAnswer: Rome",
        "Human: And of Italy?\nAnswer: Rome",
        "<|im_start|>user\nAnswer: Rome",
    ],
)
def test_a_new_speaker_ends_the_reply(run_on: str) -> None:
    assert said(f"It lies on a fjord.\nAnswer: Oslo\n\n{run_on}") == ("Oslo", "ok")
    if not run_on.startswith("Debater"):
        assert said(f"Oslo\n\n{run_on}") == ("Oslo", "ok")


@pytest.mark.parametrize("own", ["Oslo", "Oslo.", "**Oslo**", "Oslo\n"])
@pytest.mark.parametrize("label", ["Debater 2", "Debater 2 wrote", "My opponent", "Agent B"])
@pytest.mark.parametrize("asked", [Asked(), Asked(speaker="Debater 1")])
def test_another_speaker_after_a_lone_answer_ends_the_reply(own: str, label: str, asked: Asked) -> None:
    assert said(f"{own}\n{label}: I think that it is Rome.\nAnswer: Rome", asked) == (own.strip(".*\n"), "ok")
    assert said(f"{own}\n{label}: I think that it is Rome.\nRome", asked) == (own.strip(".*\n"), "ok")


@pytest.mark.parametrize("before", ["I disagree.", "My review", "Debate summary:", "# Replies", "Let me compare:"])
def test_a_review_of_other_speakers_is_no_run_on(before: str) -> None:
    assert said(f"{before}\nDebater 2: It is Rome.\nAnswer: Oslo") == ("Oslo", "ok")


@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        # Replies of a small model, shortened.
        ("They were disliked. The answer is that these men were called boxers.", "these men were called boxers", "ok"),
        ("The answer is The answer is Oslo.", "Oslo", "ok"),
        ("It lies on a fjord. The answer is: The answer i", None, "unmarked"),
        ("The answer is Oslo, which lies on a fjord.\nThe answer is correct. It is the capital.", "Oslo", "ok"),
        ("The answer is accurate and provides a short explanation of the city.", None, "unmarked"),
        ("The answer is supported by Passage 0.", None, "unmarked"),
        ("The answer is found in Passage 2.", None, "unmarked"),
        ("The answer is not found in the passages.", None, "abstained"),
        ("The answer is that it cannot be determined.", None, "abstained"),
        (
            "The answer is: The song has told you, I love you. Debater 1 agrees.",
            "The song has told you, I love you",
            "ok",
        ),
        ("The answer is that it came out in 1992. It was a success.", "it came out in 1992", "ok"),
        ("The answer is Debater 1. Debater 1 wrote a clear text.", None, "unmarked"),
        # Names and truth values begin with such words too.
        ("The answer is Accurate Time.", "Accurate Time", "ok"),
        ("The answer is Found Objects.", "Found Objects", "ok"),
    ],
)
def test_a_sentence_that_only_speaks_of_the_answer_states_none(text: str, value: str | None, status: str) -> None:
    assert said(text, marker="plain") == (value, status)


@pytest.mark.parametrize("tag", ["reply", "stance", "summary", "quote"])
@pytest.mark.parametrize(
    ("form", "markers"),
    [
        *((form, ["plain", "brackets", "text"]) for form in ("{}", "{}\n", "[{}]", "{} {}", "**{}**")),
        *((form, ["plain", "brackets"]) for form in ("Answer: {}", "The answer is {}.")),
    ],
)
def test_a_tag_of_the_request_alone_is_never_an_answer(tag: str, form: str, markers: list[str]) -> None:
    for marker, written in product(markers, (f"<{tag}>", f"</{tag}>", f"<{tag}></{tag}>")):
        value, status = said(form.replace("{}", written), marker=marker)
        assert value is None
        assert status in ("unmarked", "echoed")


def test_the_own_name_and_the_question_restated_begin_no_new_speaker() -> None:
    me = Asked(speaker="Debater 1", question=QUESTION.question)
    assert said("Debater 1: It lies on a fjord.\nAnswer: Oslo", me) == ("Oslo", "ok")
    assert said("Debater 1: Answer: Oslo\nDebater 2: Answer: Rome", me) == ("Oslo", "ok")
    assert said(f"Let me see.\nQuestion: {QUESTION.question}\nAnswer: Oslo", me) == ("Oslo", "ok")
    assert said("Question: Which city?\nAnswer: Oslo") == ("Oslo", "ok")


def test_lines_of_several_debaters_are_a_report_before_the_own_line() -> None:
    report = "Debater 1: Oslo\nDebater 2: Rome\n"
    assert said(f"{report}Answer: Oslo") == ("Oslo", "ok")
    assert parse_verdict(f"{report}Verdict: DIFFERENT").value.consensus is False
    assert said(report) == (None, "unmarked")


RULE = "Answer the question at the end in a few words. Write the answer alone on the last line.\nAnswer: ..."
EXAMPLE = "Question: Which river flows through Vienna and through Budapest?\nBoth cities lie on it.\nAnswer: Danube"
PASSAGE = "Oslo is the capital and the most populous city of Norway, at the end of a fjord."
PEER = "The capital was moved, so the newest text must be right about Bergen.\nAnswer: Bergen"


def asked(**more: Any) -> Asked:
    request = "\n\n".join([RULE, EXAMPLE, PASSAGE, QUESTION.question, *more.get("others", ()), more.get("own", "")])
    material = (QUESTION.question, PASSAGE, *more.get("others", ()), more.get("own", ""))
    return Asked(request=request, material=material, question=QUESTION.question, speaker="Debater 1", **more)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Answer: Danube", (None, "echoed")),
        ("Danube", (None, "echoed")),
        ("The answer is [Danube].", (None, "echoed")),
        ("Answer: ...", (None, "echoed")),
        ("Answer: [answer]", (None, "echoed")),
        ("<answer>", (None, "unmarked")),
        (RULE, (None, "echoed")),
        (EXAMPLE, (None, "echoed")),
        (f"{RULE}\n\n{EXAMPLE}", (None, "echoed")),
        (f"{RULE}\n\nIt lies on a fjord.\nAnswer: Oslo", ("Oslo", "ok")),
        ("Answer: Oslo", ("Oslo", "ok")),
        ("Norway", ("Norway", "ok")),
        ("Answer: Trondheim", ("Trondheim", "ok")),
    ],
)
def test_an_echo_is_no_answer(text: str, read: tuple[str | None, str]) -> None:
    assert said(text, asked()) == read


def test_an_example_that_the_question_names_is_an_answer() -> None:
    question = Question(id="q", question="Which is longer, the Danube or the Rhine?")
    request = f"{RULE}\n\n{EXAMPLE}\n\n{question.question}"
    assert said("Danube", Asked(request=request, material=(question.question,)), question) == ("Danube", "ok")


def test_an_example_of_yes_does_not_forbid_yes() -> None:
    question = Question(id="q", question="Is Oslo in Norway?")
    request = "For example: Answer: yes"
    assert said("Answer: yes", Asked(request=request, material=(question.question,)), question) == ("yes", "ok")


def test_anothers_stance_under_the_own_name_is_an_echo_unless_it_says_nothing_new() -> None:
    assert said(PEER, asked(others=(PEER,))) == (None, "echoed")
    assert said(f"I looked again.\n{PEER}", asked(others=(PEER,))) == ("Bergen", "ok")
    assert said(PEER, asked(others=(PEER,), own="It is an old city.\nAnswer: Bergen")) == ("Bergen", "ok")
    assert said("Answer: Bergen", asked(others=("Answer: Bergen",))) == ("Bergen", "ok")


def test_a_copied_skeleton_settles_nothing() -> None:
    skeleton = '{"reason": "short", "settled": true}'
    request = Asked(request=f"Reply in this form:\n{skeleton}")
    assert parse_verdict(skeleton, asked=request).status == "echoed"
    assert parse_verdict('{"reason": "one city", "settled": true}', asked=request).value.consensus is True


def test_a_copied_rule_selects_nothing() -> None:
    request = Asked(request="Choose up to 3 passages.\nLast line, for example: Selected: [0] [3]")
    assert parse_selection("Last line, for example: Selected: [0] [3]", size=5, limit=3, asked=request).value.ids == ()
    assert parse_selection("Selected: [0] [3]", size=5, limit=3, asked=request).value.ids == (0, 3)


def test_words_of_the_rules_do_not_undo_a_verdict() -> None:
    rules = "Last line if all answers are the same: Verdict: [SAME]\nLast line if not: Verdict: [DIFFERENT]"
    request = Asked(request=rules)
    assert parse_verdict("All answers are the same.\nVerdict: [SAME]", asked=request).value.consensus is True
    assert parse_verdict(rules, asked=request).value.consensus is None


TEXTS = st.text(st.sampled_from("ab .:>\n`\"'<[]{}()Q"), max_size=80)
WORDS = st.lists(
    st.sampled_from(["river", "city", "old", "text", "new", "lies", "on", "it"]), min_size=RUN, max_size=12
)


@given(TEXTS)
def test_what_is_left_keeps_its_place(text: str) -> None:
    for left in (own_words(text), unquoted(text), without_copies(text, Asked(request=text))):
        assert len(left) == len(text)
        assert all(after in (before, " ", "\n") for before, after in zip(text, left, strict=True))
        assert left.count("\n") >= text.count("\n")


@given(WORDS, st.sampled_from(["Rome", "Bern"]))
def test_a_copy_of_the_request_is_never_an_answer(words: list[str], answer: str) -> None:
    request = f"{' '.join(words)} is so.\nThe answer is [{answer}]."
    assert said(request, Asked(request=request)) == (None, "echoed")


@given(TEXTS)
def test_a_text_in_a_tag_never_counts(text: str) -> None:
    inside = text.replace("<", "(")
    assert said(f"I see.\n<reply>{inside} Answer: Rome</reply>\nAnswer: Oslo") == ("Oslo", "ok")


def test_an_example_that_another_debater_gave_back_is_still_an_example() -> None:
    given_back = ("Answer: Danube",)
    assert said("Answer: Danube", replace(asked(others=given_back), unread=given_back)) == (None, "echoed")
    assert said("Answer: Danube", asked(others=given_back)) == ("Danube", "ok")


def test_a_prompt_given_back_says_and_selects_nothing() -> None:
    request = asked()
    assert said(request.request, request) == (None, "echoed")
    numbered = replace(request, request=request.request.replace(PASSAGE, f"Knowledge 0: {PASSAGE}"))
    assert parse_selection(numbered.request, size=3, limit=3, asked=numbered).status == "echoed"
    assert parse_selection(f"Knowledge 0: {PASSAGE}", size=3, limit=3, asked=numbered).value.ids == (0,)


def test_an_example_stays_one_when_own_and_other_stances_repeat_its_line() -> None:
    line = "The answer is [Danube]."
    example = f"Example:\nBoth cities lie on it.\n{line}"
    shown = f"{example}\n\nYour previous answer:\n{line}\n\nDebater 2:\n{line}\n\nAnswer now."
    request = Asked(request=shown, material=(line, line), others=(line,), unread=(line, line), own=line)
    assert said(line, request) == (None, "echoed")
