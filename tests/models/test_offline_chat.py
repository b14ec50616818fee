"""What the offline model answers in each role."""

import asyncio
import hashlib
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest

from madke.core.chat import ChatRequest, Message, Purpose, ShownPassage, Spoken, Stage
from madke.core.errors import CallError
from madke.core.question import Question
from madke.engine.parse import answer as answers
from madke.engine.parse.answer import Marker
from madke.engine.parse.decisions import parse_confidence, parse_searches, parse_selection, parse_verdict
from madke.models import offline
from madke.models.encoders import Dtype, Similarity
from madke.models.offline import OfflineChat
from madke.models.offline.reader import content
from madke.tasks import TASKS
from tests.support.chat_requests import chat_request

POOL = [
    ("Mount Etna", "Mount Etna is an active volcano on the island of Sicily. It was climbed by Lucy Harper in 1912."),
    ("Stromboli", "Stromboli is an island north of Sicily. Its volcano was climbed by Peter Grant in 1907."),
    ("Tin", "Tin is a soft metal that melts at 232 degrees Celsius. It has been mined in Cornwall since antiquity."),
    ("Mount Etna", "The slopes of Mount Etna carry vineyards and chestnut woods. Its summit is 3,357 metres high."),
    ("Cricket", "Cricket is played by two teams of eleven players each."),
]


class WordEncoder:
    """Texts that share words are near: each stem has a direction of its own."""

    name = "words"
    dtype: Dtype = "float32"
    dimension = 256
    similarity: Similarity = "cosine"

    revision = "1"

    def __init__(self) -> None:
        self.encoded: list[Any] = []

    def encode_queries(self, texts: Any) -> Any:
        self.encoded += texts
        vectors = np.full((len(texts), 256), 1e-3, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in content(text):
                vectors[row, hashlib.sha256(word.encode()).digest()[0]] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_passages(self, titles: Any, texts: Any) -> NoReturn:
        raise NotImplementedError("the offline model encodes queries only")


@pytest.fixture(scope="module")
def model() -> Any:
    return OfflineChat(WordEncoder())


def ask(
    model: Any, stage: Stage, temperature: float = 0.0, agent: str = "Debater 1", max_tokens: int = 500, **purpose: Any
) -> Any:
    request = ChatRequest(
        messages=(Message(role="user", content="Offline reads no prompt, only the values of the stage."),),
        purpose=Purpose(question="q", stage=stage.name, agent=agent, round=1, **purpose),
        temperature=temperature,
        max_tokens=max_tokens,
        stage=stage,
    )
    return asyncio.run(model.complete(request))


def answer_of(text: Any, task: str = "", choices: tuple[str, ...] = ()) -> Any:
    question = Question(question="?", choices=choices)
    return answers.answer_of(text, TASKS[task or "short_answer"], question, "plain").value


def spoken(texts: Any, first: int = 1) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(agent=f"Debater {n}", text=text, answer=answer_of(text)) for n, text in enumerate(texts, start=first)
    )


OPTIONS: Any = {"task": "choice", "choices": ("Oak", "Tin")}


def passages(numbers: Any) -> tuple[ShownPassage, ...]:
    return tuple(ShownPassage(n, *POOL[n]) for n in numbers)


def values(question: str, task: str = "short_answer", choices: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    asked = Question(id="q", question=question, task=task, choices=choices)
    return {"question": asked, "task": TASKS[task], **more}


def select(question: str, numbers: Any = (0, 1, 2, 3, 4), own: str | None = None, search: bool = False) -> Stage:
    more: dict[str, Any] = {"passages": passages(numbers), "own": own, "max_selected": 2, "allow_search": search}
    return Stage(name="select", **values(question, **more))


def speak(
    question: str, numbers: Any = (), own: str | None = None, others: Any = (), name: str = "speak", **more: Any
) -> Stage:
    shown: dict[str, Any] = {"passages": passages(numbers), "own": own, "others": spoken(others, first=2)}
    return Stage(name=name, **values(question, **shown, **more))


def judge(*texts: str, name: str = "judge", **more: Any) -> Stage:
    return Stage(name=name, **values("Who?", others=spoken(texts), **more))


def summarize(*texts: str) -> Stage:
    return judge(*texts, name="summarize")


DOCUMENTS = (
    ShownPassage(0, "birds/kestrel.md: Nest Boxes", "They are put up in towns. Kestrels return to them each spring."),
    ShownPassage(1, "Office Handbook.pdf, p. 3", "The printer is on the second floor. Paper is in the cupboard."),
)


def test_file_names_and_headings_are_no_answers(model: Any) -> None:
    for question in (
        "What is the name of the nest boxes?",
        "Which book is about the printer?",
        "Who put up the boxes?",
    ):
        text = ask(model, replace(speak(question), passages=DOCUMENTS)).text
        answer = answer_of(text) or ""
        assert not any(part in answer for part in ("kestrel.md", "Handbook", "Nest Boxes")), text


def test_a_question_that_no_document_answers_gets_the_best_passage_and_no_answer(model: Any) -> None:
    text = ask(model, replace(speak("Who signed the treaty of Utrecht?"), passages=DOCUMENTS[1:])).text
    assert text == "No answer found; the best passage is Passage 1, Office Handbook.pdf, p. 3."
    assert answer_of(text) is None


# --- selection ---------------------------------------------------------------------------------------------------


def test_selects_what_helps_within_the_limit(model: Any) -> None:
    found = parse_selection(ask(model, select("Who climbed Mount Etna in 1912?")).text, size=len(POOL), limit=2)

    assert found.value.ids[0] == 0
    assert len(found.value.ids) <= 2
    assert not found.value.dropped


def test_declines_a_pool_beside_the_point(model: Any) -> None:
    found = parse_selection(ask(model, select("Which composer wrote Aida?")).text, size=len(POOL), limit=2)

    assert found.rule == "no_found"


# --- speaking ----------------------------------------------------------------------------------------------------


PLACES: Any = {"task": "choice", "choices": ("Sicily", "Malta", "Cornwall")}
CLAIM: Any = {"task": "claim"}


@pytest.mark.parametrize(
    ("question", "numbers", "form", "expected"),
    [
        ("Who climbed Mount Etna?", [0], {}, "Lucy Harper"),
        ("When was Mount Etna climbed by Lucy Harper?", [0], {}, "1912"),
        ("On which island is the volcano Mount Etna?", [0], {}, "Sicily"),
        ("How many players has a cricket team?", [4], {}, "eleven"),
        ("Which was climbed first, Mount Etna or Stromboli?", [0, 1, 2], {}, "Stromboli"),
        ("Which was climbed later, Mount Etna or Stromboli?", [0, 1, 2], {}, "Mount Etna"),
        ("Is tin a metal?", [0, 1, 2], {}, "yes"),
        ("Are Tin and Stromboli both islands?", [0, 1, 2], {}, "no"),
        ("Mount Etna was climbed by Lucy Harper in 1912.", [0], CLAIM, "SUPPORTS"),
        ("Mount Etna was climbed by Lucy Harper in 1955.", [0], CLAIM, "REFUTES"),
        ("Lucy Harper preferred chocolate to tea at breakfast.", [0], CLAIM, "NOT ENOUGH INFO"),
        ("Where has tin been mined?", [0, 2], PLACES, "C"),
    ],
)
def test_answers_from_the_chosen_knowledge(model: Any, question: str, numbers: Any, form: Any, expected: str) -> None:
    text = ask(model, speak(question, numbers, **form)).text

    assert answer_of(text, **form) == expected
    assert any(f"Passage {number}" in text for number in numbers)
    assert text.endswith(f"\nThe answer is {expected}.")


def test_without_knowledge_it_knows_nothing(model: Any) -> None:
    assert answer_of(ask(model, speak("Who climbed Mount Etna?")).text) is None
    assert answer_of(ask(model, speak("Mount Etna is in Sicily.", task="claim")).text, "claim") == "NOT ENOUGH INFO"
    assert answer_of(ask(model, speak("Which is higher, Etna or Stromboli?")).text) in {"Etna", "Stromboli"}
    assert answer_of(ask(model, speak("Which is a metal?", **OPTIONS)).text, **OPTIONS) in {"A", "B"}


def test_brackets_in_a_passage_never_become_markers(model: Any) -> None:
    plain = speak("Who climbed Mount Etna?", [0])
    title, text = POOL[0]
    prompt = replace(plain, passages=(ShownPassage(0, title, text.replace("in 1912.", "in 1912 [7] [Malta].")),))

    assert answer_of(ask(model, prompt).text) == "Lucy Harper"
    assert "[7]" not in ask(model, prompt).text


# --- debate ------------------------------------------------------------------------------------------------------


HARPER = 'Passage 0 says: "It was climbed by Lucy Harper in 1912."\nThe answer is [Lucy Harper].'
GRANT = 'Passage 1 says: "Its volcano was climbed by Peter Grant in 1907."\nThe answer is [Peter Grant].'
HIGH = "Passage 3 says that Etna is 3,357 metres high. The answer is [Etna]."
CONVINCED = f"I agree with Debater 2: that answer is better supported than mine. {GRANT}"
CLIMBER, HIGHER, IN_1912 = (
    "Who climbed the volcano of Sicily?", "Which is higher, Etna or Stromboli?", "Who climbed Mount Etna in 1912?",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "numbers", "own", "peer", "expected", "words"),
    [
        ("Who climbed Mount Etna?", [0], "It is [Lucy Harper].", "It is [Ann Low].", "Lucy Harper", "keep"),
        ("Who climbed Mount Etna?", [0], "It is [Ann Low].", "It is [Lucy Harper].", "Lucy Harper", "with Debater 2"),
        # Without knowledge it follows a peer who quotes some.
        (HIGHER, [], "It is [Stromboli].", HIGH, "Etna", "agree with Debater 2"),
        # A debater that has changed to the other answer keeps it, unless there is new evidence.
        (IN_1912, [0, 1], GRANT, HARPER, "Lucy Harper", "agree with Debater 2"),
        (IN_1912, [0, 1], CONVINCED, HARPER, "Peter Grant", "keep"),
        (IN_1912, [0, 1], CONVINCED, GRANT.replace("[Peter Grant]", "[Stromboli]"), "Lucy Harper", "another answer"),
    ],
)
def test_keeps_or_changes_its_answer_by_what_supports_it(
    model: Any, question: str, numbers: Any, own: str, peer: str, expected: str, words: str
) -> None:
    text = ask(model, speak(question, numbers, own=own, others=[peer])).text

    assert answer_of(text) == expected
    assert words in text


def test_temperature_zero_depends_on_the_prompt_alone(model: Any) -> None:
    prompt = speak("What grows on Mount Etna?", [0, 1, 3])

    assert len({ask(model, prompt, agent=f"Debater {n}", sample=n).text for n in range(5)}) == 1


def test_debaters_and_samples_can_differ_at_a_temperature_and_are_repeatable(model: Any) -> None:
    prompt = speak("Who was the climber?", [0, 1])

    by_agent = [ask(model, prompt, temperature=0.5, agent=f"Debater {n}").text for n in range(12)]
    by_sample = {ask(model, prompt, temperature=0.5, sample=n).text for n in range(12)}

    assert len(set(by_agent)) > 1
    assert len(by_sample) > 1
    assert by_agent == [ask(model, prompt, temperature=0.5, agent=f"Debater {n}").text for n in range(12)]


@pytest.mark.parametrize("chosen", [(0, 1), (1, 0)])
def test_two_debaters_do_not_swap_their_answers(model: Any, chosen: tuple[int, ...]) -> None:
    swapped = set()
    for repeat in range(20):
        texts = [
            ask(
                model, speak(CLIMBER, chosen, own=own, others=[other]), temperature=1.0, agent=agent, repeat=repeat
            ).text
            for agent, own, other in (("Debater 1", HARPER, GRANT), ("Debater 2", GRANT, HARPER))
        ]
        swapped.add([answer_of(text) for text in texts] == ["Peter Grant", "Lucy Harper"])

    assert swapped == {False}


# --- judge and summarizer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "consensus"),
    [
        (["The answer is [Lucy Harper].", "It is [lucy harper.]"], True),
        (["The answer is [eleven].", "It is [11 players]."], True),
        (["The answer is [A].", "It is [A]."], True),
        (["The answer is [A].", "It is [B]."], False),
        (["The answer is [1912].", "It is [1907]."], False),
        (["The answer is [1912].", "I cannot tell."], False),
        (["It is [Sicily].", "See passage 2."], False),
        (["It is [Sicily].", "It is [Sicily].", "It is [Malta]."], False),
    ],
)
def test_the_judge_compares_the_answers(model: Any, texts: list[str], consensus: bool) -> None:
    assert parse_verdict(ask(model, judge(*texts)).text).value.consensus is consensus


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["It is [Malta].", "It is [Sicily].", "It is [Sicily]."], "Sicily"),
        (["It is [Malta].", "It is [Sicily]."], "Malta"),
        (["I cannot tell.", "It is [Sicily]."], "Sicily"),
        (["I cannot tell.", "I do not know."], None),
    ],
)
def test_the_summarizer_reports_what_most_debaters_say(model: Any, texts: list[str], expected: str | None) -> None:
    assert answer_of(ask(model, summarize(*texts)).text) == expected


@pytest.mark.parametrize(("own", "satisfied"), [("Lucy Harper", True), ("Ann Low", False)])
def test_it_is_satisfied_with_what_its_knowledge_says(model: Any, own: str, satisfied: bool) -> None:
    prompt = speak("Who climbed Mount Etna?", [0], own=f"It is [{own}].", name="reflect")

    assert parse_verdict(ask(model, prompt).text).value.consensus is satisfied


@pytest.mark.parametrize(
    ("marker", "stated"),
    [("plain", "Lucy Harper"), ("parentheses", "(Lucy Harper)"), ("boxed", r"\boxed{Lucy Harper}")],
)
def test_the_answer_is_marked_as_asked(model: Any, marker: Marker, stated: str) -> None:
    text = ask(model, speak("Who climbed Mount Etna?", [0], marker=marker)).text

    assert text.endswith(f"\nThe answer is {stated}.")
    question = Question(question="Who climbed Mount Etna?")
    assert answers.answer_of(text, TASKS["short_answer"], question, marker).value == "Lucy Harper"


def test_it_states_a_confidence_and_searches_only_where_asked(model: Any) -> None:
    sure = ask(model, speak("Who climbed Mount Etna?", [0], asks_confidence=True)).text
    lost = select("Which composer wrote Aida?", search=True)

    assert 0.5 <= parse_confidence(sure).value <= 1
    assert parse_confidence(ask(model, speak("Who climbed Mount Etna?", [0])).text).value is None
    (query,) = parse_searches(ask(model, lost).text, limit=1).value
    assert "Aida" in query
    assert parse_searches(ask(model, select("Which composer wrote Aida?")).text, limit=1).value == ()


# --- as a chat model ---------------------------------------------------------------------------------------------


def test_usage_is_an_estimate_and_the_token_limit_holds(model: Any) -> None:
    whole = ask(model, speak("Who climbed Mount Etna?", [0]))
    cut = ask(model, speak("Who climbed Mount Etna?", [0]), max_tokens=5)

    assert whole.usage.estimated
    assert whole.usage.prompt_tokens > 5 < whole.usage.completion_tokens
    assert (cut.finish_reason, cut.usage.completion_tokens) == ("length", 5)


def test_a_call_without_values_fails_and_says_why(model: Any) -> None:
    with pytest.raises(CallError, match="offline answers calls of a debate") as raised:
        asyncio.run(model.complete(chat_request("Hello?")))

    assert not raised.value.retryable


def test_vectors_are_computed_once_for_all_models_of_a_process() -> None:
    prompt, encoder = speak("Who climbed Mount Etna?", [0, 1]), WordEncoder()

    first, second = (ask(OfflineChat(encoder), prompt).text for _ in range(2))

    assert len(encoder.encoded) == len(set(encoder.encoded)) > 0
    assert first == second


def test_vectors_of_the_latest_texts_are_kept_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_MAX_VECTORS", 2)
    encoder = WordEncoder()
    embed = offline._remembering(encoder)

    for question in range(4):
        for _ in range(3):
            embed([f"question {question}", f"passage {question}"])

    assert len(encoder.encoded) == len(set(encoder.encoded)) == 8
