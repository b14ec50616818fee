"""What a gate on round 1 would have done, from finished debates, against a real run of the gate on the same calls."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.question import Question
from madke.models.scripted import ScriptedChat
from madke.scoring.gates import Shadow, gate_lines
from madke.scoring.scores import scores_of

SPOKEN: Mapping[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "agreed and right": (("A", "A", "A"), ("A", "A", "A")),
    "agreed, then spoiled": (("A", "A", "A"), ("B", "B", "A")),
    "two of three, kept": (("A", "A", "B"), ("A", "A", "A")),
    "two of three, spoiled": (("A", "A", "B"), ("B", "B", "B")),
    "one of three, corrected": (("B", "A", "B"), ("A", "A", "A")),
    "three answers": (("C", "A", "B"), ("A", "A", "B")),
    "unreadable": (("", "", "A"), ("A", "", "A")),
}
"""Question -> the answers of the three debaters in both rounds. A is right."""
QUESTIONS = [Question(id=name, question=f"Which one ({name})?", answers=("A",)) for name in SPOKEN]


def spoken(request: ChatRequest) -> Completion:
    """What SPOKEN holds; each call has another number of tokens."""
    purpose = request.purpose
    text = "Nothing can be said."
    if purpose.stage in ("speak", "reply"):
        answer = SPOKEN[purpose.question][purpose.round - 1][int(purpose.agent.split()[-1]) - 1]
        text = f"I looked. The answer is {answer}." if answer else "I do not see it."
    size = sum(len(message.content) for message in request.messages)
    return Completion(text=text, usage=Usage(prompt_tokens=size, completion_tokens=len(text)))


def debated(tmp_path: Path, name: str = "run", **settings: Any) -> madke.Run:
    return madke.run(QUESTIONS, protocol="mad", settings=settings, model=ScriptedChat(spoken), out=tmp_path / name)


def shadow_in(run: madke.Run) -> Shadow:
    shadow = scores_of(run.transcripts()).shadow
    assert shadow is not None
    return shadow


def test_the_sentence_counts_what_the_debate_changed_and_the_difference_is_paired(tmp_path: Path) -> None:
    shadow = shadow_in(debated(tmp_path))
    assert (shadow.debates, shadow.changed, shadow.corrected, shadow.spoiled) == (7, 4, 2, 2)
    assert shadow.sentence.startswith("Debate changed 4 of 7 answers: 2 corrected, 2 spoiled; voting on round 1 gives ")
    assert "71.4 instead of 71.4 %" in shadow.sentence
    assert shadow.sentence.endswith(" % of the tokens.")
    found = shadow.gates["agreement"]
    assert (found.difference.value, found.difference.n) == (pytest.approx(1 / 7), 7)
    assert found.correct.value == pytest.approx(shadow.correct.value + found.difference.value)
    agreement, _ = gate_lines(shadow)
    assert agreement.startswith("gate agreement: skips 2 of 7 debates, 86 % of the calls, ")
    assert "; correct by match 85.7 % (+14.3, 95 % " in agreement


def test_the_price_of_an_answer_gained(tmp_path: Path) -> None:
    run = debated(tmp_path)
    assert shadow_in(run).price == "No answer gained for 21 more calls."
    held = {each.id: each for each in run.transcripts()}
    gained = [each for name, each in held.items() if "spoiled" not in name]
    lost = [each for name, each in held.items() if "corrected" not in name and name != "three answers"]
    assert scores_of(gained).shadow.price == "2 answers gained for 15 more calls: 7.5 calls for each."
    assert scores_of(lost).shadow.price == "2 answers lost for 15 more calls."


@pytest.mark.parametrize(
    ("gate", "settings", "skipped"), [("agreement", {"early_stop": "agreement"}, 2), ("vote", {"rounds": 1}, 7)]
)
def test_the_figures_are_those_of_a_real_run_of_the_gate(
    tmp_path: Path, gate: str, settings: dict[str, Any], skipped: int
) -> None:
    shadow = shadow_in(debated(tmp_path)).gates[gate]
    transcripts = list(debated(tmp_path, "gated", **settings).transcripts())
    scores = scores_of(transcripts)
    assert shadow.skipped == skipped == sum(len(each.rounds) == 1 for each in transcripts)
    assert shadow.correct == scores.correct
    assert (shadow.spent.calls, shadow.spent.tokens) == (scores.total.calls, scores.total.tokens)


@pytest.mark.parametrize("protocol", ["rag", "self-consistency", "adaptive-vote", "isolate"])
def test_protocols_without_a_debate_have_no_shadow(tmp_path: Path, protocol: str) -> None:
    run = madke.run(QUESTIONS[:2], protocol=protocol, model="offline", sources="none", out=tmp_path / "run")
    assert scores_of(run.transcripts()).shadow is None


def test_questions_without_gold_answers_have_costs_only(tmp_path: Path) -> None:
    shadow = scores_of([replace(each, answers=()) for each in debated(tmp_path).transcripts()]).shadow
    assert (shadow.gates["vote"].correct, shadow.price) == (None, "")
    told = r"Debate changed 4 of 7 answers; voting on round 1 takes \d+ % of the tokens\."
    assert re.fullmatch(told, shadow.sentence)
