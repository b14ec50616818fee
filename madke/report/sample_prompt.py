"""The prompts of a protocol's stages, as a debate about a sample question sends them."""

import asyncio
from collections.abc import Iterator, Sequence

from madke._util.assets import asset
from madke._util.files import read_jsonl
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError, unknown
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import Stance, Turn
from madke.data import read_dataset
from madke.engine.debate import hold_debate
from madke.engine.parse import marked
from madke.engine.protocol import Protocol
from madke.engine.scene import Scene
from madke.engine.settings import Knowledge
from madke.engine.simulate import equal_scores, nothing_found
from madke.engine.variant import Variant
from madke.retrieval.web import SnippetsSource
from madke.tasks import get_task


def sample_prompt(variant: Variant, stage: str) -> ChatRequest:
    """The first request of a stage in a debate about the first sample question, of which no round agrees.

    Its passages are from the sample too. Replies are placeholders. UserError if the protocol has no such stage.
    """
    if stage not in variant.protocol.stages:
        raise unknown(f"stage of {variant.name}", stage, variant.protocol.stages)
    protocol, question = variant.protocol, read_dataset(asset("eval", "samples", "questions.jsonl"), limit=1)[0]
    model = _Placeholder(protocol)
    scene = Scene(
        question,
        protocol,
        dict.fromkeys(protocol.roles, model),
        _pool(question, protocol.knowledge) if protocol.knowledge else KnowledgePool(),
        task=get_task(question.task),
        prompts=variant,
        first_round=_given(protocol) if protocol.first_round_given else (),
        retrieve=nothing_found,
        score_answers=equal_scores,
    )
    asyncio.run(hold_debate(scene))
    found = next((request for request in model.requests if request.purpose.stage == stage), None)
    if found is None:
        raise UserError(f"{variant.name}: with these settings a debate never reaches the stage {stage!r}")
    return found


class _Placeholder:
    """A model that records its requests. Its debaters never agree, and its judge never settles."""

    name = "placeholder"

    def __init__(self, protocol: Protocol) -> None:
        self.requests: list[ChatRequest] = []
        self._marker = protocol.marker
        self._names = [debater.name for debater in protocol.cast]

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        return Completion(text=self._text(request))

    def _text(self, request: ChatRequest) -> str:
        purpose = request.purpose
        match purpose.stage:
            case "select":
                return "Selected: [0] [1]"
            case "judge":
                return "Verdict: DIFFERENT"
            case "reflect":
                return "This is what the debater finds in its own answer.\nVerdict: REVISE"
            case "pick":
                return f"[{self._names[0]}]"
        if purpose.agent not in self._names:
            return f"These are the words of the {purpose.agent}."
        answer = marked(f"{purpose.agent}'s answer in round {purpose.round}", self._marker)
        return f"These are the reasons of {purpose.agent}. The answer is {answer}."


def _given(protocol: Protocol) -> Sequence[Turn]:
    names = [each.name for each in protocol.cast]
    if not any(call.reads for call in protocol.trace.differ.calls):
        names += [f"Stranger {n}" for n in range(1, len(names))]
    return [Turn(agent=each, stance=Stance(text=f"The answer is {each}'s.", answer=f"{each}'s")) for each in names]


def _pool(question: Question, knowledge: Knowledge) -> KnowledgePool:
    """Passages of the sample about the question, as many of each source as the protocol keeps."""
    passages: list[Passage] = []
    for source in knowledge.sources:
        found = _web(question, source) if source == "google" else [*_pages(question, source)]
        passages += found[: knowledge.count(source)]
    return KnowledgePool(passages=tuple(passages[: knowledge.pool_limit]))


def _web(question: Question, source: str) -> Sequence[Passage]:
    results = SnippetsSource(asset("eval", "samples", "web.jsonl"), name=source)
    return results.search([question.question], 20)[0].passages


def _pages(question: Question, source: str) -> Iterator[Passage]:
    """The passages of the page with the evidence, and then the others, in the order of the file."""
    rows = [row for _, row in read_jsonl(asset("indexes", "sample", "passages.jsonl"))]
    pages = {row["title"] for row in rows if row["id"] in question.metadata["gold_passages"]}
    rows.sort(key=lambda row: row["title"] not in pages)
    for rank, row in enumerate(rows):
        yield Passage(source=source, key=row["id"], title=row["title"], text=row["text"], score=0.0, rank=rank)
