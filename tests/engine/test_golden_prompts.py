"""The rendered prompts of every protocol for one question, as text files to read: ``tests/golden/PROTOCOL.txt``.

``bound.txt`` has what prompts ask for where a JSON schema binds the reply. All are rewritten with
``MADKE_UPDATE_GOLDEN=1 python -m pytest tests/engine/test_golden_prompts.py``. Read the difference before you commit
it: is it clear what to do, and is the last line unmistakable?
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import equal_scores, nothing_found
from madke.engine.variant import Variant, load_variant, variant_folders
from madke.engine.wording import task_prompt, wordings_with_prompts
from madke.tasks import TASKS
from tests.support.bound_model import Bound, Values
from tests.support.debates import QUESTION, play, prompts

GOLDEN = Path(__file__).parents[1] / "golden"
SERVICES: dict[str, Any] = {"score_answers": equal_scores, "retrieve": nothing_found}

MORE: dict[str, list[dict[str, Any]]] = {
    "chateval": [{"talk": "simultaneous", "summarized": True, "rounds": 3}],
    "lemmas": [{"end": "pick"}],
    "liang": [
        {"debaters": 2, "extract": "always", "rounds": 1},
        *({"level": level, "rounds": 1} for level in (0, 1, 3)),
        {"level": 0, "debaters": 3, "rounds": 1},
    ],
}
"""Settings of further debates, for stages and wordings that a protocol has only then."""

OF_TASK = {
    "answer_list": Question(id="l", question="Which lakes are the deepest?", task="answer_list"),
    "choice": Question(id="c", question="Which lake is the deepest?", task="choice", choices=("Chad", "Baikal")),
    "claim": Question(id="f", question="Lake Baikal is the deepest lake.", task="claim"),
    "math": Question(id="m", question="What is 1,642 m minus 1,470 m?", task="math"),
    "short_answer": QUESTION,
    "text": Question(id="x", question="Which lakes are the deepest?", task="text"),
    "translation": Question(id="t", question="贝加尔湖很深。", task="translation"),
}


def debating(marked: Callable[..., Any], confidence: str = "") -> Callable[..., Any]:
    """Debaters who disagree in round 1 and agree in round 2, with the answer ``marked`` for them."""

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        match purpose.stage:
            case "select":
                return "Knowledge 0 and Knowledge 2 give a depth.\nSelected: [0] [2]"
            case "judge":
                settled = purpose.round == 2
                record = {"reason": "The figures decide.", "settled": settled, "side": "", "answer": "Lake Baikal"}
                return f"{json.dumps(record)}\nVerdict: [{'SAME' if settled else 'DIFFERENT'}]"
            case "reflect":
                return "The depth is not checked.\nVerdict: [REVISE]"
            case "pick":
                return "[Debater 1]"
            case "digest":
                return "The debaters disagree about the deepest lake."
            case "keywords" | "topics" | "example":
                return "deepest lake"
        sure = purpose.round == 2 or "1" in purpose.agent or purpose.agent in ("Affirmative", "Critic")
        lake = "Lake Baikal" if sure else "Lake Tanganyika"
        return f"I compared the depths of the lakes.{confidence}\nThe answer is {marked(lake)}."

    return reply


def debated(variant: Variant, pool: KnowledgePool) -> str:
    """The last prompt of each stage in each round, up to the second."""
    confidence = "\nConfidence: 0.8" if variant.protocol.trace.weighs else ""
    reply = debating(variant.environment.filters["marked"], confidence)
    _, model = play(variant, reply, pool=pool, **SERVICES)
    last = {(r.purpose.stage, r.purpose.round): r for r in model.requests}
    return prompts(r for r in last.values() if r.purpose.round <= 2 or r.purpose.stage not in ("reply", "judge"))


def check(name: str, found: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("MADKE_UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(variant_folders()))
def test_the_prompts_of_a_protocol(name: str, pool: KnowledgePool) -> None:
    variant = load_variant(name)
    found = [debated(variant, pool)]
    for settings in MORE.get(name, ()):
        more = debated(variant.with_settings(settings), pool)
        found.append(f"##### with the settings {json.dumps(settings)}\n\n{more}")
    check(name, "\n".join(found))


def test_the_prompts_in_the_structure_of_the_papers(pool: KnowledgePool) -> None:
    """``--wording paper``: order, roles, form of the answer and what a reader sees are those of the printed prompts."""
    variants = [load_variant(name).in_words("paper") for name in sorted(wordings_with_prompts("paper"))]
    check("paper", "\n".join(f"##### {variant.name}\n\n{debated(variant, pool)}" for variant in variants))


def asked_of(task: str) -> Question:
    """A question of the task, or else its first example."""
    first = task_prompt(task).examples[0]
    return OF_TASK.get(task) or Question(id=task, question=first.question, choices=first.choices, task=task)


def test_the_prompts_of_every_task(pool: KnowledgePool) -> None:
    found = []
    for task in sorted(TASKS):
        _, model = play("madke", debating("[{}]".format), question=asked_of(task), pool=pool)
        stages = {r.purpose.stage: r for r in model.requests if r.purpose.stage != "select"}
        found.append(f"##### {task}\n\n{prompts(stages.values())}")
    check("tasks", "\n".join(found))


def disagreeing(request: ChatRequest) -> Values | None:
    """Verdicts that let debates go on."""
    fields = {field.name: field.words for field in request.bound.schema.fields} if request.bound else {}
    return {"verdict": fields["verdict"][-1]} if "verdict" in fields else None


def last_bound(name: str, question: Question, pool: KnowledgePool) -> dict[str, ChatRequest]:
    """Stage -> its last bound request in a debate of a protocol."""
    model = Bound(disagreeing)
    play(name, model=model, question=question, pool=pool, **SERVICES)
    return {request.purpose.stage: request for request in model.requests if request.bound}


def difference(request: ChatRequest) -> str:
    """What the bound form has instead of the end of the free form."""
    free, bound = request.messages[-1].content, request.in_form(bound=True).messages[-1].content
    return bound[next(n for n in range(len(free)) if free[n] != bound[n]) :]


def test_the_bound_forms_of_all_protocols(pool: KnowledgePool) -> None:
    two = replace(pool, passages=pool.passages[:2])
    choice = replace(OF_TASK["choice"], choices=("Baikal", "Everest"))
    found = []
    for name, question in [
        *((name, QUESTION) for name in sorted(variant_folders())),
        ("madke", choice),
        ("liang", choice),
    ]:
        lines = [f"## {name}, {question.task}"]
        for stage, request in last_bound(name, question, two).items():
            fields = [
                f"{field.name} {field.words or field.numbers or f'<= {field.max_length}'}"
                for field in request.bound.schema.fields
            ]
            lines.append(f"### {stage}: {'; '.join(fields)}\n... {difference(request)}")
        if len(lines) > 1:
            found.append("\n".join(lines))
    check("bound", "\n\n".join(found) + "\n")
