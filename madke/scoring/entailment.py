"""How far texts support statements: asked of a chat model, a cross-encoder trained on NLI, or a command; cached.

A command reads JSON lines of ``source`` (the text) and ``candidate`` (the statement), and prints a number for each:
from 0.75 full support, from 0.25 partial. A cross-encoder gives full support if "entailment" is its first label.
"""

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from madke._util.assets import asset, require
from madke._util.command_scorer import CommandScorer, ScorerItem
from madke._util.concurrency import gather
from madke._util.yaml_file import read_yaml
from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.encoding.encoders import loading, revision_of
from madke.endpoints.endpoint import refuse_unreachable
from madke.endpoints.model_names import MODEL_KINDS, kind_of
from madke.engine.parse import without_reasoning
from madke.engine.view import without_tags
from madke.llm import CallStore, Limits, close, open_model
from madke.llm.batching import Batching
from madke.runs.guard import Guard
from madke.scoring.citations import FULL, NO_SUPPORT, PARTIAL, Pair

_MAX_TOKENS = 512
_LEVEL = re.compile(r"\[\W{0,3}(full|partial|none)\W{0,3}\]", re.IGNORECASE)
_LEVELS = {"full": FULL, "partial": PARTIAL, "none": NO_SUPPORT}
_FULL_FROM, _PARTIAL_FROM = 0.75, 0.25
_NO_CHAT = ("hf", "human")
"""Kinds of models that judge no entailment in words: ``hf/`` is a cross-encoder here."""
_BATCH = 32


class EntailmentPrompt(BaseModel, extra="forbid", frozen=True):
    """The wording for chat models."""

    system: str
    instruction: str
    closing: str

    def messages(self, premise: str, hypothesis: str) -> tuple[Message, ...]:
        """The prompt for one pair."""
        shown = (f"<text>\n{_quoted(premise)}\n</text>", f"<statement>\n{_quoted(hypothesis)}\n</statement>")
        content = "\n\n".join((self.instruction, *shown, self.closing))
        return Message(role="system", content=self.system), Message(role="user", content=content)


def _quoted(text: str) -> str:
    return _LEVEL.sub(lambda level: f"({level[1]})", without_tags(text, ("text", "statement")))


class _Command(Batching):
    def __init__(self, command: str) -> None:
        super().__init__(f"entailment {command}")
        self._scorer = CommandScorer(command)

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        items = [ScorerItem(source=r.messages[0].content, candidate=r.messages[1].content) for r in requests]
        return [Completion(text=json.dumps(score)) for score in await self._scorer.ascores(items)]


class _CrossEncoder(Batching):
    """A cross-encoder of sentence-transformers with the label "entailment". Code of the model is never run."""

    def __init__(self, model: str) -> None:
        require(f"hf/{model} needs", "dense", "sentence_transformers")
        from sentence_transformers import CrossEncoder

        with loading(f"the NLI model hf/{model}", "a cross-encoder, as a folder or a name on the Hub"):
            self._model = CrossEncoder(model, trust_remote_code=False)
        labels = {int(n): str(label).casefold() for n, label in self._model.config.id2label.items()}
        found = [n for n, label in labels.items() if label.startswith("entail")]
        if not found or len(labels) < 2:
            expected = "expected a model with the label entailment"
            raise UserError(f"hf/{model} has the labels {', '.join(labels.values())}; {expected}")
        self._entails = found[0]
        super().__init__(" ".join(filter(None, (f"hf/{model}", revision_of(model)))))

    async def _answer(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        pairs = [(r.messages[0].content, r.messages[1].content) for r in requests]
        scores = await asyncio.to_thread(self._model.predict, pairs, batch_size=_BATCH, show_progress_bar=False)
        return [Completion(text=json.dumps(float(row.argmax() == self._entails))) for row in scores]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entailment:
    """A judge of support, and where its judgements are kept."""

    judge: str
    """``hf/NLI``, the name of a chat model (``openai/NAME``, ...), or else a command."""
    store: Path
    """The call store; created if missing. What it holds is not asked again."""
    base_url: str | None = None
    concurrency: int = 16

    @property
    def is_chat(self) -> bool:
        """Whether the judge is a chat model."""
        kind = kind_of(self.judge)
        return kind in MODEL_KINDS and kind not in _NO_CHAT

    def ask(self, pairs: Collection[Pair]) -> Mapping[Pair, float]:
        """The support of each pair. UserError if the judge cannot be used, fails, or gives no level for a pair."""
        return asyncio.run(self._ask(sorted(pairs)))

    async def _ask(self, pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        model = self._opened()
        limits = Limits(self.concurrency)
        try:
            with CallStore(self.store) as calls:
                guarded = Guard(limits=limits, store=calls).model(model)
                replies = await gather(self._reply(guarded, pair) for pair in pairs)
        finally:
            await close(model)
        # When all are stored: a reply without a level loses no other.
        return {pair: self._read(reply) for pair, reply in zip(pairs, replies, strict=True)}

    def _opened(self) -> ChatModel:
        if self.is_chat:
            model = open_model(self.judge, base_url=self.base_url)
            refuse_unreachable([model])
            return model
        if self.judge.startswith("hf/"):
            return _CrossEncoder(self.judge.removeprefix("hf/"))
        return _Command(self.judge)

    async def _reply(self, model: ChatModel, pair: Pair) -> str:
        bare = tuple(Message(role="user", content=text) for text in pair)
        request = ChatRequest(
            messages=_prompt().messages(*pair) if self.is_chat else bare,
            purpose=Purpose(question="", stage="entail", agent="judge", round=1),
            temperature=0.0,
            max_tokens=_MAX_TOKENS,
        )
        completion = await model.complete(request)
        if completion.outcome != "ok":
            raise UserError(f"{model.name}: {completion.error or completion.outcome}")
        return completion.text

    def _read(self, reply: str) -> float:
        if not self.is_chat:
            score = float(json.loads(reply))
            return FULL if score >= _FULL_FROM else PARTIAL if score >= _PARTIAL_FROM else NO_SUPPORT
        named = _LEVEL.findall(without_reasoning(reply))
        if not named:
            raise UserError(f"{self.judge} gave no [FULL], [PARTIAL] or [NONE]: {' '.join(reply.split())[:80]!r}")
        return _LEVELS[named[-1].casefold()]


@cache
def _prompt() -> EntailmentPrompt:
    return read_yaml(Path(asset("prompts", "grading", "entail.yaml")), EntailmentPrompt)
