"""Options that several verbs share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from madke.core.errors import UserError
from madke.tasks import TASKS

if TYPE_CHECKING:
    from madke.core.question import Question
    from madke.variants import Variant

Protocol = Annotated[str, typer.Option("--protocol", "-p", help="The debate variant; see `madke protocols`.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="A folder of your own variants, searched first.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the protocol, e.g. knowledge.select=all."),
]
Sources = Annotated[
    str | None,
    typer.Option(
        help="Knowledge sources, comma-separated, or none. NAME of sources.yaml, of a fetched index or built in (wiki, "
        "wiki-bm25, wiki-dense, google), or NAME=SPEC with an index folder or another name, A+B for the rank fusion of "
        "two of them, 0.5*A+B for their weighted sum, a .jsonl file of web results, or serper. Default: the protocol's."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="offline, openai/NAME, azure/DEPLOYMENT, hf/NAME_OR_PATH, scripted/FILE, human."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Endpoint of openai/ and azure/ models, e.g. http://localhost:8000/v1.")
]
Cast = Annotated[
    list[str] | None,
    typer.Option("--cast", metavar="ROLE=MODEL", help="Another model for one role: debater-1, judge, summarizer."),
]
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        "-t",
        help=f"The answer format: {', '.join(TASKS)}. Default: the dataset's; of our own JSONL, choice where there are "
        "options, else short_answer.",
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(help="Read DATA as this published dataset ships it; see `madke datasets`. Default: our own JSONL."),
]
Ids = Annotated[
    str | None,
    typer.Option("--ids", help="Only the questions of this list: a file of ids, one a line, or a shipped one's name."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N questions, or a sample of N.")]
SampleSeed = Annotated[
    int | None,
    typer.Option(help="With --limit: draw the N questions at random, the same ones wherever this seed is used."),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file of prices for a million tokens: openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Begin no further question once so much is spent, at the prices of --prices; those under way, as many as "
        "--concurrency, are finished.",
    ),
]
TokenBudget = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Begin no further question once so many prompt and completion tokens are used, those of earlier commands "
        "for OUT included.",
    ),
]
Deadline = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Begin no further call at that time: 90s, 45m, 1h30m from now, 06:30, or 2027-01-31T06:30. Calls under "
        "way may end; the same command goes on from there.",
    ),
]
Plan = Annotated[bool, typer.Option("--plan", help="Say what it takes, calls, tokens and cost, and stop.")]
Estimator = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Who scores the candidates of finish = rerank: a command that gets a JSON object a line (source, "
        "candidate, references) and answers each with a number.",
    ),
]

Engine = Annotated[
    Literal["local", "ray"], typer.Option(help="Who does the work: this machine, or the nodes of a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(help="ray: the cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or a cluster of this machine."),
]


def configured(
    protocol: str, prompts: Path | None, settings: Sequence[str], sources: str | None, *, given: bool = False
) -> tuple[Variant, dict[str, str | None]]:
    """The variant with ``--set``, ``--sources`` and ``--given`` applied, and the specification of each source."""
    from madke.knowledge.named import source_specs
    from madke.runs.job import configured
    from madke.variants import load_variant
    from madke.variants.load import setting

    variant = load_variant(protocol, prompts)
    specs = source_specs(sources, variant.protocol.sources)
    return configured(variant, specs, dict(setting(text) for text in settings), given=given)


def check_needs(variant: Variant, questions: Sequence[Question], *, given: bool, estimator: str | None) -> None:
    """Refuse, before anything is asked, what cannot be debated for want of something, and what nobody would use."""
    protocol = variant.protocol
    if protocol.given and not given:
        raise UserError("the protocol takes its first round from outside; madke run --given FILE names it")
    if protocol.needs_golds and (unknown := [question.id for question in questions if not question.answers]):
        raise UserError(f"order = {protocol.order.by} reads the gold answers, and question {unknown[0]!r} has none")
    if protocol.needs_estimator and estimator is None:
        raise UserError("finish = rerank needs a quality estimator; name its command with --estimator")
    if not protocol.needs_estimator and estimator is not None:
        raise UserError(f"--estimator is for finish = rerank; this protocol has finish = {protocol.finish}")


def cast_overrides(cast: Sequence[str]) -> dict[str, str]:
    """Role -> model name, from ``--cast ROLE=MODEL``."""
    overrides = {}
    for text in cast:
        role, equals, model = text.partition("=")
        if not equals or not role.strip() or not model.strip():
            raise UserError(f"--cast {text!r}: expected ROLE=MODEL, for instance --cast debater-2=human")
        overrides[role.strip()] = model.strip()
    return overrides
