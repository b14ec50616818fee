"""``madke ask``: debate one question and show the debate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import options
from madke.core.errors import UserError
from madke.terminal import say, say_json

if TYPE_CHECKING:
    from madke.core.chat import ChatModel
    from madke.core.knowledge import KnowledgePool, Source
    from madke.core.question import Question
    from madke.core.transcript import Transcript
    from madke.engine.protocol import Knowledge
    from madke.runs.services import QualityEstimator
    from madke.variants import Variant


def command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question, or the claim to check.")],
    task: options.Task = None,
    choice: Annotated[list[str] | None, typer.Option(help="An option of a multiple choice; repeat for each.")] = None,
    protocol: options.Protocol = "madke",
    sources: options.Sources = None,
    model: options.Model = "offline",
    base_url: options.BaseUrl = None,
    cast: options.Cast = None,
    estimator: options.Estimator = None,
    seed: Annotated[
        int | None, typer.Option(help="Sampling seed; each call derives its own. Default: the server's.")
    ] = None,
    settings: options.Settings = None,
    prompts: options.Prompts = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the transcript as one line of JSON.")] = False,
) -> None:
    """Debate one question over freshly retrieved knowledge and print the debate as text."""
    from madke.cli.sources import open_sources, show_spent
    from madke.core.transcript import to_json
    from madke.report.debate_text import debate_text
    from madke.runs.cast import open_models, role_models
    from madke.runs.services import QualityEstimator

    asked = _question(question, task, tuple(choice or ()))
    variant, specs = options.configured(protocol, prompts, settings or (), sources)
    options.check_needs(variant, [asked], given=False, estimator=estimator)
    names = role_models(variant.protocol, model, options.cast_overrides(cast or ()))
    models = open_models(names, base_url=base_url)
    scorer = QualityEstimator(estimator) if estimator is not None else None
    opened = open_sources(specs)
    transcript = asyncio.run(_debated(asked, variant, models, opened, scorer, seed))
    show_spent(opened)
    if as_json:
        say_json(to_json(transcript).decode())
    else:
        say(debate_text(transcript))
    if transcript.status == "failed":
        raise typer.Exit(1)


def _question(text: str, task: str | None, choices: tuple[str, ...]) -> Question:
    from madke.core.question import Question
    from madke.tasks import get_task

    if not text.strip():
        raise UserError("the question is empty")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError("the question is not UTF-8 text")
    asked = Question(id="ask", question=text, task=task or ("choice" if choices else "short_answer"), choices=choices)
    if wrong := get_task(asked.task).check(asked):
        raise UserError(wrong)
    return asked


def _retrieved(question: Question, knowledge: Knowledge | None, sources: Sequence[Source]) -> KnowledgePool:
    from madke.core.knowledge import EMPTY_POOL
    from madke.knowledge.pools import retrieve
    from madke.runs.pools import depth, pool_of

    if knowledge is None:
        return EMPTY_POOL
    (record,) = retrieve([question], sources, depth(knowledge))
    return pool_of(record, knowledge)


async def _debated(
    question: Question,
    variant: Variant,
    models: dict[str, ChatModel],
    sources: Sequence[Source],
    scorer: QualityEstimator | None,
    seed: int | None,
) -> Transcript:
    from madke.engine.debate import debate
    from madke.llm import Limiter, close
    from madke.runs.cast import guarded
    from madke.runs.pools import depth
    from madke.runs.services import LiveSearch, estimating, searching
    from madke.tasks import get_task

    knowledge = variant.protocol.knowledge
    retrieve = None
    if knowledge is not None and knowledge.requery:
        served_by = {source.name: source.description for source in sources}
        retrieve = searching(LiveSearch(served_by, sources, depth(knowledge)), knowledge)
    try:
        return await debate(
            question,
            variant.protocol,
            guarded(models, limiter=Limiter(len(models))),
            _retrieved(question, knowledge, sources),
            task=get_task(question.task),
            prompts=variant,
            seed=seed,
            retrieve=retrieve,
            estimate=estimating(scorer) if scorer else None,
        )
    finally:
        for model in set(models.values()):
            await close(model)
