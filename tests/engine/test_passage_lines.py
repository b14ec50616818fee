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

    def __init__(self, reply: str = "[a]") -> None:
        self.reply = reply

    async def complete(self, request: ChatRequest) -> Completion:
        self.read = request.messages[-1].content
        return Completion(text=self.reply)


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


class Marked(Scene):
    def passage(self, n: int) -> tuple[str, str]:
        return "A title", f"These are the words of passage {n}."


def test_quotes_are_looked_up_in_the_text_that_prompts_show() -> None:
    pool = KnowledgePool(passages=(Passage(source="wiki", key="k", title="", text="hidden", score=1.0, rank=0),))
    question = Question(id="q", question="?")
    model = Reader('Passage 0 says "These are the words of passage 0." [a]')
    scene = Marked(
        question,
        RAG.protocol,
        dict.fromkeys(RAG.protocol.roles, model),
        pool,
        task=get_task(question.task),
        prompts=RAG,
    )

    transcript = asyncio.run(hold_debate(scene))

    assert "\nPassage 0 (A title): These are the words of passage 0.\n" in model.read
    assert transcript.agreement is not None
    ((quote,),) = (position.quotes for position in transcript.agreement.positions)
    assert (quote.status, quote.found_in) == ("found", (0,))
