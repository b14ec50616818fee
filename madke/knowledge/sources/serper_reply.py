"""What Serper's reply holds: organic results, an answer box, a knowledge graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from madke.knowledge.sources.serper_options import CREDIT_BUYS, SerperOptions
from madke.knowledge.sources.web import WebPanel, WebResult

_NO_PRICE = 1_000
"""Credits: no search costs as many."""


class AnswerBox(BaseModel):
    """Google's direct answer: a fact, or some sentences of a page."""

    title: str = ""
    answer: str = ""
    snippet: str = ""
    link: str = ""
    date: str | None = None


class KnowledgeGraph(BaseModel):
    """Google's panel about an entity."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    title: str = ""
    type: str = ""
    description: str = ""
    descriptionLink: str = ""
    """The page that the description is from."""
    website: str = ""
    """The entity's own site."""
    attributes: dict[str, str] = {}


class SerperReply(BaseModel):
    """The parts of a reply that passages are made from, and its price."""

    organic: tuple[WebResult, ...] = ()
    answerBox: AnswerBox | None = None
    knowledgeGraph: KnowledgeGraph | None = None
    credits: int = 0

    def results(self, options: SerperOptions) -> Iterator[WebResult]:
        """What the options let through: answer box, knowledge graph, organic results by rank."""
        box, graph = self.answerBox, self.knowledgeGraph
        if options.answer_box and box and options.allows(_given(box.link)):
            text = _sentences(box.answer, box.snippet)
            yield WebPanel(kind="answer_box", title=box.title, snippet=text, link=box.link, date=box.date)
        if options.knowledge_graph and graph and options.allows(_given(graph.descriptionLink, graph.website)):
            attributes = (f"{name}: {value}" for name, value in graph.attributes.items())
            text = _sentences(graph.type, graph.description, *attributes)
            yield WebPanel(kind="knowledge_graph", title=graph.title, snippet=text, link=graph.descriptionLink)
        if options.organic:
            yield from (result for result in self.organic if options.allows([result.link]))


def parse_reply(content: bytes, *, asked: int) -> SerperReply | None:
    """The reply in the body of an answer, or None where that is no search result.

    It was paid for, so one part that is not as expected costs that part, not the others.

    Args:
        content: The body.
        asked: How many results were asked for: the price where the body does not say it, or says an impossible one.
    """
    try:
        # A snippet that was cut inside a character ends in half a surrogate pair, which cannot be written.
        body = json.loads(json.dumps(json.loads(content), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    organic = (body.get("organic") or []) if isinstance(body, dict) else None
    if not isinstance(organic, list):
        return None
    read = tuple(result for item in organic if (result := _read(WebResult, item)) is not None)
    if organic and not read:
        return None
    price = body.get("credits")
    return SerperReply(
        organic=read,
        answerBox=_read(AnswerBox, body.get("answerBox")),
        knowledgeGraph=_read(KnowledgeGraph, body.get("knowledgeGraph")),
        credits=price if type(price) is int and 0 <= price < _NO_PRICE else 1 if asked <= CREDIT_BUYS else 2,
    )


_Part = TypeVar("_Part", bound=BaseModel)


def _read(kind: type[_Part], item: Any) -> _Part | None:
    try:
        return kind.model_validate(item)
    except ValidationError:
        return None


def _given(*links: str) -> list[str]:
    return [link for link in links if link]


def _sentences(*parts: str) -> str:
    said = [part.strip() for part in parts if part.strip()]
    return " ".join([*(part if part.endswith((".", "!", "?")) else f"{part}." for part in said[:-1]), *said[-1:]])
