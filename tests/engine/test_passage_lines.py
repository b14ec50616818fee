"""A passage is one line of a prompt, whatever white space its source had in it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from madke.core.chat import ChatRequest, Completion
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.tasks import get_task

RAG = load_variant("rag")
WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


class Reader:
    name = "m"

    async def complete(self, request: ChatRequest) -> Completion:
        self.read = request.messages[-1].content
        return Completion(text="[a]")


@given(st.text(st.sampled_from("a ") | st.sampled_from("\u00e9\u200b" + WHITE_SPACE), max_size=12))
def test_white_space_is_folded(text: str) -> None:
    pool = KnowledgePool(
        passages=(Passage(source="wiki", key="k", title=text, text=f"{text}.{text}", score=1.0, rank=0),)
    )
    question, model = Question(id="q", question="?"), Reader()
    cast = dict.fromkeys(RAG.protocol.roles, model)
    asyncio.run(hold_debate(Scene(question, RAG.protocol, cast, pool, task=get_task(question.task), prompts=RAG)))
    title = f" ({folded})" if (folded := " ".join(text.split())) else ""
    assert f"\nPassage 0{title}: {' '.join(f'{text}.{text}'.split())}\n" in model.read
