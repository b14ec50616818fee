"""What prompts ask for where a reply is bound by a JSON schema, against ``tests/golden/bound.txt``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from madke.core.chat import ChatRequest
from madke.core.knowledge import EMPTY_POOL, Hits, KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant, variant_folders
from madke.tasks import TASKS
from tests.support.bound_model import Bound, Values
from tests.support.debates import QUESTION, first_round_of

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

    async def retrieve(*_: object) -> Hits:
        return Hits()

    async def scores(_: Question, candidates: Sequence[str]) -> list[float]:
        return [0.0] * len(candidates)

    variant, model = load_variant(name), Bound(disagreeing)
    pool = POOL if variant.protocol.knowledge else EMPTY_POOL
    cast = dict.fromkeys(variant.protocol.roles, model)
    scene = Scene(
        question,
        variant.protocol,
        cast,
        pool,
        task=TASKS[question.task],
        prompts=variant,
        first_round=first_round_of(variant),
        score_answers=scores,
        retrieve=retrieve if variant.protocol.needs_search else None,
    )
    asyncio.run(hold_debate(scene))
    return list(
        {
            request.purpose.stage: (request.purpose.stage, request) for request in model.requests if request.bound
        }.values()
    )


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
