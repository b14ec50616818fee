"""What the offline model answers in each role. Texts are compared by their words, as without the extra ``offline``."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import Completion, ShownPassage, Spoken, Stage
from madke.core.errors import CallError
from madke.core.question import Question
from madke.engine.parse import answer as parser
from madke.engine.parse.answer import Marker
from madke.engine.parse.decisions import parse_confidence, parse_searches, parse_selection, parse_verdict
from madke.models import offline
from madke.models.offline import OfflineChat
from madke.models.offline.reader import WordVectors
from madke.retrieval.documents import DocumentSource
from madke.tasks import TASKS
from tests.support.chat_requests import chat_request, purpose

POOL = [
    ("Mount Etna", "Mount Etna is a volcano on the island of Sicily. It was climbed by Lucy Harper in 1912 [7]."),
    ("Stromboli", "Stromboli is an island north of Sicily. Its volcano was climbed by Peter Grant in 1907."),
    ("Tin", "Tin is a soft metal that melts at 232 degrees Celsius. It has been mined in Cornwall since antiquity."),
    ("Mount Etna", "The slopes of Mount Etna carry vineyards and chestnut woods. Its summit is 3,357 metres high."),
    ("Cricket", "Cricket is played by two teams of eleven players each."),
]
HANDBOOK = ShownPassage(1, "Office Handbook.pdf, p. 3", "The printer is on the second floor. Paper is in the cupboard.")
CLIMBED, AIDA = "Who climbed Mount Etna?", "Which composer wrote Aida?"
MODEL = OfflineChat(WordVectors())


def ask(
    stage: Stage, model: OfflineChat = MODEL, temperature: float = 0.0, max_tokens: int = 500, **about: Any
) -> Completion:
    """The reply at a stage. It follows from the values of the stage, not from the messages."""
    fields: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "stage": stage}
    return asyncio.run(model.complete(chat_request(about=purpose(stage=stage.name, **about), **fields)))


def reply(stage: Stage, **options: Any) -> str:
    return ask(stage, **options).text


def answer_of(text: str, task: str = "short_answer", choices: tuple[str, ...] = (), marker: Marker = "plain") -> Any:
    return parser.answer_of(text, TASKS[task], Question(question="?", choices=choices), marker).value


def spoken(texts: Sequence[str], first: int) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(agent=f"Debater {n}", text=text, answer=answer_of(text)) for n, text in enumerate(texts, start=first)
    )


def stage(name: str, question: str, task: str = "short_answer", choices: tuple[str, ...] = (), **values: Any) -> Stage:
    asked = Question(id="q", question=question, task=task, choices=choices)
    return Stage(name=name, question=asked, task=TASKS[task], **values)


def passages(numbers: Sequence[int]) -> tuple[ShownPassage, ...]:
    return tuple(ShownPassage(n, *POOL[n]) for n in numbers)


def select(question: str, *, search: bool = False) -> Stage:
    return stage("select", question, passages=passages(range(len(POOL))), max_selected=2, allow_search=search)


def speak(
    question: str, numbers: Sequence[int] = (), others: Sequence[str] = (), name: str = "speak", **values: Any
) -> Stage:
    return stage(name, question, passages=passages(numbers), others=spoken(others, first=2), **values)


def after(*texts: str, name: str) -> Stage:
    """A stage after the debaters have said this."""
    return stage(name, "Who?", others=spoken(texts, first=1))


def test_the_core_alone_debates_own_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("madke.models.offline.find_spec", lambda package: None)
    monkeypatch.setenv("MADKE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "notes.txt").write_text("The kestrel nests on ledges of high cliffs. It hovers over fields.")
    (folder / "more.md").write_text("# Owls\n\nThe barn owl nests in old barns.\n")
    model = OfflineChat()
    assert model.name == "offline/words-2"
    source = DocumentSource(folder, name="docs", encoder="none")
    asked = madke.ask("Where does the kestrel nest?", model=model, sources=source)
    assert asked.transcript.pool[0].title.startswith("notes.txt")
    assert "ledges" in asked.transcript.answer


# Selections and stances


def test_it_selects_what_helps_within_the_limit_and_nothing_beside_the_point() -> None:
    found = parse_selection(reply(select("Who climbed Mount Etna in 1912?")), size=len(POOL), limit=2)
    assert found.value.ids[0] == 0
    assert len(found.value.ids) <= 2
    assert not found.value.dropped
    assert parse_selection(reply(select(AIDA)), size=len(POOL), limit=2).rule == "no_found"


PLACES: Any = {"task": "choice", "choices": ("Sicily", "Malta", "Cornwall")}
CLAIM: Any = {"task": "claim"}


@pytest.mark.parametrize(
    ("question", "numbers", "form", "expected"),
    [
        (CLIMBED, [0], {}, "Lucy Harper"),
        ("When was Mount Etna climbed by Lucy Harper?", [0], {}, "1912"),
        ("How many players has a cricket team?", [4], {}, "eleven"),
        ("Which was climbed first, Mount Etna or Stromboli?", [0, 1, 2], {}, "Stromboli"),
        ("Is tin a metal?", [0, 1, 2], {}, "yes"),
        ("Mount Etna was climbed by Lucy Harper in 1912.", [0], CLAIM, "SUPPORTS"),
        ("Mount Etna was climbed by Lucy Harper in 1955.", [0], CLAIM, "REFUTES"),
        ("Lucy Harper preferred chocolate to tea at breakfast.", [0], CLAIM, "NOT ENOUGH INFO"),
        ("Where has tin been mined?", [0, 2], PLACES, "C"),
    ],
)
def test_it_answers_from_the_chosen_knowledge(question: str, numbers: Any, form: Any, expected: str) -> None:
    text = reply(speak(question, numbers, **form))
    assert answer_of(text, **form) == expected
    assert any(f"Passage {number}" in text for number in numbers)
    assert "[7]" not in text, "it would be a marker"
    assert text.endswith(f"\nThe answer is {expected}.")


def test_a_question_that_no_document_answers_gets_the_best_passage_and_no_answer() -> None:
    text = reply(replace(speak("Who signed the treaty of Utrecht?"), passages=(HANDBOOK,)))
    assert text == "No answer found; the best passage is Passage 1, Office Handbook.pdf, p. 3."
    assert answer_of(text) is None
    named = reply(replace(speak("Which book is about the printer?"), passages=(HANDBOOK,)))
    assert "Handbook" not in (answer_of(named) or ""), "a file name is no answer"


@pytest.mark.parametrize(
    ("marker", "stated"),
    [("plain", "Lucy Harper"), ("parentheses", "(Lucy Harper)"), ("boxed", r"\boxed{Lucy Harper}")],
)
def test_the_answer_is_marked_as_asked(marker: Marker, stated: str) -> None:
    text = reply(speak(CLIMBED, [0], marker=marker))
    assert text.endswith(f"\nThe answer is {stated}.")
    assert answer_of(text, marker=marker) == "Lucy Harper"


def test_it_states_a_confidence_and_searches_only_where_asked() -> None:
    assert 0.5 <= parse_confidence(reply(speak(CLIMBED, [0], asks_confidence=True))).value <= 1
    assert parse_confidence(reply(speak(CLIMBED, [0]))).value is None
    (query,) = parse_searches(reply(select(AIDA, search=True)), limit=1).value
    assert "Aida" in query
    assert parse_searches(reply(select(AIDA)), limit=1).value == ()


# A debate

HARPER = 'Passage 0 says: "It was climbed by Lucy Harper in 1912."\nThe answer is [Lucy Harper].'
GRANT = 'Passage 1 says: "Its volcano was climbed by Peter Grant in 1907."\nThe answer is [Peter Grant].'
HIGH = "Passage 3 says that Etna is 3,357 metres high. The answer is [Etna]."
CONVINCED = f"I agree with Debater 2: that answer is better supported than mine. {GRANT}"
HIGHER, IN_1912 = "Which is higher, Etna or Stromboli?", "Who climbed Mount Etna in 1912?"


@pytest.mark.parametrize(
    ("question", "numbers", "own", "peer", "expected", "words"),
    [
        (CLIMBED, [0], "It is [Lucy Harper].", "It is [Ann Low].", "Lucy Harper", "keep"),
        (CLIMBED, [0], "It is [Ann Low].", "It is [Lucy Harper].", "Lucy Harper", "with Debater 2"),
        # Without knowledge it follows a peer who quotes some.
        (HIGHER, [], "It is [Stromboli].", HIGH, "Etna", "agree with Debater 2"),
        # A debater that has changed to the other answer keeps it.
        (IN_1912, [0, 1], GRANT, HARPER, "Lucy Harper", "agree with Debater 2"),
        (IN_1912, [0, 1], CONVINCED, HARPER, "Peter Grant", "keep"),
    ],
)
def test_it_keeps_or_changes_its_answer_by_what_supports_it(
    question: str, numbers: Any, own: str, peer: str, expected: str, words: str
) -> None:
    text = reply(speak(question, numbers, [peer], own=own))
    assert answer_of(text) == expected
    assert words in text


def test_debaters_and_samples_differ_at_a_temperature_alone_and_are_repeatable() -> None:
    prompt = speak("Who was the climber?", [0, 1])
    by_agent = [reply(prompt, temperature=0.5, agent=f"Debater {n}") for n in range(12)]
    assert len(set(by_agent)) > 1
    assert len({reply(prompt, temperature=0.5, sample=n) for n in range(12)}) > 1
    assert by_agent == [reply(prompt, temperature=0.5, agent=f"Debater {n}") for n in range(12)]
    cold = speak("What grows on Mount Etna?", [0, 1, 3])
    assert len({reply(cold, agent=f"Debater {n}", sample=n) for n in range(12)}) == 1


@pytest.mark.parametrize(
    ("texts", "consensus"),
    [
        (["The answer is [Lucy Harper].", "It is [lucy harper.]"], True),
        (["The answer is [eleven].", "It is [11 players]."], True),
        (["The answer is [A].", "It is [B]."], False),
        (["The answer is [1912].", "I cannot tell."], False),
    ],
)
def test_the_judge_compares_the_answers(texts: list[str], consensus: bool) -> None:
    assert parse_verdict(reply(after(*texts, name="judge"))).value.consensus is consensus


def test_the_summarizer_reports_what_most_debaters_say() -> None:
    majority = after("It is [Malta].", "It is [Sicily].", "It is [Sicily].", name="summarize")
    assert answer_of(reply(majority)) == "Sicily"
    assert answer_of(reply(after("I cannot tell.", "I do not know.", name="summarize"))) is None


@pytest.mark.parametrize(("own", "satisfied"), [("Lucy Harper", True), ("Ann Low", False)])
def test_it_is_satisfied_with_what_its_knowledge_says(own: str, satisfied: bool) -> None:
    prompt = speak(CLIMBED, [0], own=f"It is [{own}].", name="reflect")
    assert parse_verdict(reply(prompt)).value.consensus is satisfied


# As a chat model


def test_usage_is_an_estimate_and_the_token_limit_holds() -> None:
    whole, cut = ask(speak(CLIMBED, [0])), ask(speak(CLIMBED, [0]), max_tokens=5)
    assert whole.usage.estimated
    assert whole.usage.prompt_tokens > 5 < whole.usage.completion_tokens
    assert (cut.finish_reason, cut.usage.completion_tokens) == ("length", 5)


def test_a_call_without_values_fails_and_says_why() -> None:
    with pytest.raises(CallError, match="offline answers calls of a debate") as raised:
        asyncio.run(MODEL.complete(chat_request("Hello?")))
    assert not raised.value.retryable


class CountingEncoder:
    """Keeps the texts that it was given."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_queries(self, texts: Sequence[str]) -> Any:
        self.encoded += texts
        return WordVectors().encode_queries(texts)


def test_vectors_of_the_latest_texts_are_kept_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "_MAX_VECTORS", 2)
    encoder: Any = CountingEncoder()
    embed = offline._remembering(encoder)
    for question in range(4):
        for _ in range(3):
            embed([f"question {question}", f"passage {question}"])
    assert len(encoder.encoded) == len(set(encoder.encoded)) == 8
    embed(["question 0"])
    assert encoder.encoded[8:] == ["question 0"]  # the oldest are forgotten


@pytest.mark.parametrize("chosen", [(0, 1), (1, 0)])
def test_two_debaters_do_not_swap_their_answers(chosen: tuple[int, ...]) -> None:
    for repeat in range(20):
        answers = []
        for agent, own, other in (("Debater 1", HARPER, GRANT), ("Debater 2", GRANT, HARPER)):
            stance = speak("Who climbed the volcano of Sicily?", chosen, [other], own=own)
            answers.append(answer_of(reply(stance, temperature=1.0, agent=agent, repeat=repeat)))
        assert answers != ["Peter Grant", "Lucy Harper"]
