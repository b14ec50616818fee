"""What prompts ask for where a reply is bound by a JSON schema, against ``tests/golden/bound.txt``."""

from __future__ import annotations

import os
from pathlib import Path

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.protocol import equal_scores, nothing_found
from madke.engine.variant import variant_folders
from tests.support.bound_model import Bound, Values
from tests.support.debates import QUESTION, play

GOLDEN = Path(__file__).parents[1] / "golden" / "bound.txt"
POOL = KnowledgePool(
    passages=tuple(Passage(source="wiki", key=str(n), title="T", text="Deep.", score=1.0, rank=n) for n in range(2))
)
CHOICE = Question(id="c", question="Which is a lake?", task="choice", choices=("Baikal", "Everest"), answers=("A",))


def disagreeing(request: ChatRequest) -> Values | None:
    """Verdicts that let debates go on."""
    fields = {each.name: each.words for each in request.bound.schema.fields} if request.bound else {}
    return {"verdict": fields["verdict"][-1]} if "verdict" in fields else None


def asked(name: str, question: Question = QUESTION) -> list[tuple[str, ChatRequest]]:
    """The last bound request of each stage of a protocol."""
    model = Bound(disagreeing)
    play(name, model=model, question=question, pool=POOL, score_answers=equal_scores, retrieve=nothing_found)
    return [*{each.purpose.stage: (each.purpose.stage, each) for each in model.requests if each.bound}.values()]


def difference(request: ChatRequest) -> str:
    """What the bound form has instead of the end of the free form."""
    free, bound = request.messages[-1].content, request.in_form(bound=True).messages[-1].content
    return bound[next(n for n in range(len(free)) if free[n] != bound[n]) :]


def shown(name: str, question: Question = QUESTION) -> str:
    lines = [f"## {name}, {question.task}"]
    for stage, request in asked(name, question):
        assert request.bound is not None
        fields = [
            f"{each.name} {each.words or each.numbers or f'<= {each.max_length}'}"
            for each in request.bound.schema.fields
        ]
        lines.append(f"### {stage}: {'; '.join(fields)}\n... {difference(request)}")
    return "\n".join(lines)


def test_the_bound_forms_of_all_protocols() -> None:
    names = [name for name in sorted(variant_folders()) if asked(name)]
    found = "\n\n".join([*map(shown, names), shown("madke", CHOICE), shown("liang", CHOICE)]) + "\n"
    if os.environ.get("MADKE_UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
