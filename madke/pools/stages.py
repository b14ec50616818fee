"""Query stages and reranking: their records in pool files, the prompts of their calls, and the replies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from madke._util.assets import asset
from madke._util.yaml_file import read_mapping
from madke.core.chat import Completion, Message
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.core.stage import ShownPassage
from madke.core.stage import Stage as CallStage
from madke.core.transcript import StageUsage
from madke.engine.parse import parse_ranking, parse_searches, without_reasoning
from madke.engine.view import without_tags

PoolStage = Literal["rewrite", "decompose", "rerank"]

_LIMITS = {"rewrite": 1, "decompose": 4}
"""Maximum number of further queries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherQueries:
    """What a query stage asks for besides the question."""

    by: str
    """Name of the model."""
    queries: tuple[str, ...] = ()
    error: str | None = None
    """Why there are none, or why their search failed. The question alone counts then."""
    usage: StageUsage = field(default_factory=StageUsage)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A passage in a reranking; ranks are 0-based, over all sources."""

    source: str
    key: str
    score: float
    before: int
    after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reranking:
    """The passages of a question as a reranker scores them, best first."""

    model: str
    """As ``knowledge.rerank.model`` names it."""
    by: str
    """What served it."""
    scope: str = ""
    """The candidates that a listwise order holds for, see :func:`scope_of`; empty for scores of single passages."""
    passages: tuple[Ranked, ...] = ()
    error: str | None = None
    """Why passages have no score. They keep their order then."""
    repaired: bool = False
    """The reply was no permutation."""
    usage: StageUsage = field(default_factory=StageUsage)

    @property
    def scores(self) -> dict[tuple[str, str], float]:
        """(Source, key) -> score."""
        return {(ranked.source, ranked.key): ranked.score for ranked in self.passages}


def scope_of(sources: Sequence[str], query: str, candidates: int) -> str:
    """The candidates of a listwise reranking, as text."""
    return f"{candidates} each of {', '.join(sources)}; query: {query}"


@cache
def _prompts() -> dict[str, dict[str, str]]:
    """Stage -> its wording: ``system``, ``instruction`` and ``closing``."""
    return read_mapping(asset("prompts", "retrieval", "stages.yaml"))


def messages(stage: PoolStage, question: str, passages: Sequence[Passage] = ()) -> tuple[Message, ...]:
    """The prompt of a stage, in the layout of the templates: a passage is one line, numbered from 0."""
    prompt = _prompts()[stage]
    titles = [f" - {passage.title}" if passage.title else "" for passage in passages]
    lines = [_on_one_line(f"Knowledge {n}{titles[n]}: {passage.text}") for n, passage in enumerate(passages)]
    knowledge = ["\n".join(("<knowledge>", *lines, "</knowledge>"))] if lines else []
    parts = (prompt["instruction"], *knowledge, f"Question: {_on_one_line(question)}", prompt["closing"])
    return Message(role="system", content=prompt["system"]), Message(role="user", content="\n\n".join(parts))


def values(stage: PoolStage, question: str, passages: Sequence[Passage] = ()) -> CallStage:
    """What the prompt of a stage shows, for stand-ins of a language model."""
    shown = (ShownPassage(n, *(" ".join(t.split()) for t in (p.title, p.text))) for n, p in enumerate(passages))
    return CallStage(name=stage, question=Question(question=question), passages=tuple(shown))


def _on_one_line(text: str) -> str:
    return without_tags(" ".join(text.split()), ("knowledge",))


def read_queries(completion: Completion, stage: PoolStage, question: str) -> tuple[tuple[str, ...], str | None]:
    """The further queries in a reply, without the question itself, and the error if there are none."""
    if completion.outcome != "ok":
        return (), completion.error or completion.outcome
    found = parse_searches(without_reasoning(completion.text), limit=_LIMITS[stage]).value
    queries = tuple(query for query in found if query.casefold() != " ".join(question.split()).casefold())
    return queries, None if found else "the reply holds no query"


def read_order(completion: Completion, size: int) -> tuple[tuple[int, ...], bool, str | None]:
    """The order of ``size`` passages in a reply, whether it was repaired, and the error if there is none."""
    if completion.outcome != "ok":
        return (), False, completion.error or completion.outcome
    parsed = parse_ranking(without_reasoning(completion.text), size=size)
    return parsed.value, parsed.rule == "repaired", None if parsed.value else "the reply holds no ranking"
