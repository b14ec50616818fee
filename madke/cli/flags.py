"""Options that several verbs share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from madke.core.errors import UserError
from madke.runs.options import RunOptions
from madke.tasks import TASKS


def of_runs(name: str) -> Any:
    """A field of :class:`madke.RunOptions` as an option: its flag, help text and bound."""
    said = {each.name: each.metadata for each in fields(RunOptions)}[name]
    flag = said["flag"] or f"--{name.replace('_', '-')}"
    return typer.Option(flag, help=said["help"], min=said["ge"], metavar=said["metavar"] or None)


BaseUrl = Annotated[str | None, of_runs("base_url")]
Prices = Annotated[Path | None, of_runs("prices")]
Address = Annotated[str | None, of_runs("address")]
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
        "two of them, 0.5*A+B for their weighted sum, a .jsonl file of web results, serper, or module:object of yours. "
        "Default: the protocol's."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="offline, openai/NAME, azure/DEPLOYMENT, hf/NAME_OR_PATH, scripted/FILE, human, a name of models.yaml, or "
        "module:object of yours.",
    ),
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
        help=f"The answer format: {', '.join(TASKS)}, or module:object of yours. Default: the dataset's; of our own "
        "JSONL, choice where there are options, else short_answer.",
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
Plan = Annotated[bool, typer.Option("--plan", help="Say what it takes, calls, tokens and cost, and stop.")]
AnswerScorer = Annotated[
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


_SHARED: Mapping[str, tuple[Any, Any]] = {
    "task": (Task, None),
    "protocol": (Protocol, "madke"),
    "model": (Model, "offline"),
    "cast": (Cast, None),
    "sources": (Sources, None),
    "answer_scorer": (AnswerScorer, None),
    "dataset": (Dataset, None),
    "ids": (Ids, None),
    "limit": (Limit, None),
    "sample_seed": (SampleSeed, None),
    "settings": (Settings, None),
    "prompts": (Prompts, None),
}
"""Options that several verbs share: name -> (type, default)."""


def taking(shared: str, *, left_out: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command options that others have too, and the arguments ``asked`` and ``options`` that hold them.

    Args:
        shared: Names of shared options; ``asked`` is a mapping of them, as :func:`madke.runs.job.prepared` takes it.
        left_out: Fields of :class:`madke.RunOptions` that the command does not have.
    """
    types = get_type_hints(RunOptions)
    kept = {each.name: each for each in fields(RunOptions) if each.name not in left_out.split()}
    described = {name: _SHARED[name] for name in shared.split()}
    described |= {name: (Annotated[types[name], of_runs(name)], each.default) for name, each in kept.items()}

    def given_to(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = signature(command).parameters.values()
        parameters = [
            each.replace(annotation=hints[each.name]) for each in own if each.name not in ("asked", "options")
        ]
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters += [Parameter(name, kind, default=usual, annotation=a) for name, (a, usual) in described.items()]

        @wraps(command)
        def wrapper(**given: Any) -> None:
            from madke.knowledge.named import use_sources_file

            options = RunOptions(**{name: given.pop(name) for name in kept})
            if options.sources_file is not None:
                use_sources_file(options.sources_file)
            asked = {name: given.pop(name) for name in shared.split()}
            for name, read in (("settings", settings_of), ("cast", cast_overrides)):
                if name in asked:
                    asked[name] = read(asked[name])
            command(**given, asked=asked, options=options)

        wrapper.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return given_to


def settings_of(settings: Sequence[str] | None) -> dict[str, Any]:
    """Protocol field -> value, from ``--set PATH=VALUE``."""
    from madke.variants.load import setting

    return dict(setting(text) for text in settings or ())


def cast_overrides(cast: Sequence[str] | None) -> dict[str, str]:
    """Role -> model name, from ``--cast ROLE=MODEL``."""
    overrides = {}
    for text in cast or ():
        role, equals, model = text.partition("=")
        if not equals or not role.strip() or not model.strip():
            raise UserError(f"--cast {text!r}: expected ROLE=MODEL, for instance --cast debater-2=human")
        overrides[role.strip()] = model.strip()
    return overrides
