"""Options that several verbs share, and the parsers of their values."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from madke.core.errors import UserError
from madke.models.model_names import MODEL_KINDS
from madke.retrieval.named import BUILT_IN_SOURCES
from madke.runs.request import (
    CLUSTER,
    COST,
    KNOWLEDGE,
    MODELS,
    PROTOCOL,
    QUESTIONS,
    RESUME,
    Asker,
    RunOptions,
    RunRequest,
    askable,
    defaults,
    descriptions,
)
from madke.tasks import TASKS

CALIBRATION, GRADING, OUTPUT, SERVER = "Act or defer", "Grading", "Output", "Server"
_PANELS = [None, QUESTIONS, PROTOCOL, MODELS, KNOWLEDGE, SERVER, COST, RESUME, CLUSTER, GRADING, OUTPUT, CALIBRATION]
"""Groups of options in the help, in order. None is the group of the most used options."""

MODEL_NAMES = f"""Models: {", ".join(kind.form for kind in MODEL_KINDS.values())}, a name in models.yaml, or
module:object of your own code. A --base-url is, for example, http://localhost:8000/v1."""
SOURCE_NAMES = f"""Sources: none, or a comma-separated list of NAME, NAME=SPEC or FOLDER. NAME is in sources.yaml, a
fetched index, or built in: {", ".join(BUILT_IN_SOURCES)}. SPEC is a folder (an index, or PDF, Office,
HTML, Markdown and text files), another NAME, A+B or 0.5*A+B (weighted sum of scores), a .jsonl file of web results,
serper, or module:object of your own code. A FOLDER such as ./docs is a source of its own name."""
TASK_NAMES = f"""Tasks: {", ".join(TASKS)}, or module:object of your own code. Default: the task of the dataset.
For your own questions: choice if a question has options, otherwise short_answer."""

LIMITS = """Limits: once --max-cost, --token-budget or --deadline is reached, work in progress finishes and the command
stops. The same command with a higher limit resumes. TIME is a duration from now (90s, 45m, 1h30m), a time of day
(06:30), or a date and time (2027-01-31T06:30)."""
SCORER = """Answer scorers: COMMAND reads JSON lines of source and candidate, and answers each with a number."""
PRICES = """Prices: a YAML file of lines such as openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}.
Without any price, those of common models that ship with madke count, and are shown."""


NAMES = (MODEL_NAMES, SOURCE_NAMES, TASK_NAMES)
EXIT_STATUS = """Exit status: 0 every question has a result, 1 some questions failed or a limit was reached, 2 bad
input, 130 interrupted, 143 terminated."""


def epilog(*parts: str) -> str:
    """Text below the options of a verb, a paragraph for each part."""
    return "\n\n".join(" ".join(part.split()) for part in parts)


def option(
    text: str, metavar: str | None = None, panel: str | None = None, *, names: str | Sequence[str] = (), **more: Any
) -> Any:
    """An option with a help text, the name of its value, its group, and flags if they are not the parameter's name."""
    flags = [names] if isinstance(names, str) else names
    return typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=panel, **more)


def switch(flag: str, text: str, panel: str | None = None) -> Any:
    """An option without a value."""
    return option(text, "", panel, names=flag)


def field_option(record: type[RunRequest | RunOptions], name: str) -> Any:
    """A field of a record as an option: its flags, help text, metavar, group and minimum."""
    about = descriptions(record)[name]
    flags = about.flags or [f"--{name.replace('_', '-')}"]
    return option(about.help, about.metavar, about.group, names=flags, min=about.least)


BaseUrl = Annotated[str | None, field_option(RunOptions, "base_url")]
PricesOption = Annotated[Path | None, field_option(RunOptions, "prices")]
PromptsOption = Annotated[Path | None, field_option(RunRequest, "prompts")]
WordingOption = Annotated[str | None, field_option(RunRequest, "wording")]
SettingsOption = Annotated[list[str] | None, field_option(RunRequest, "settings")]
TaskOption = Annotated[str | None, field_option(RunRequest, "task")]
Dataset = Annotated[str | None, field_option(RunRequest, "dataset")]
Columns = Annotated[str | None, field_option(RunRequest, "columns")]
_FORMATS = "Questions: CSV, TSV, XLSX, JSON, JSONL, Parquet; see --dataset."
Questions = Annotated[Path, typer.Argument(metavar="DATA", help=_FORMATS)]
Plan = Annotated[bool, switch("--plan", "Estimate calls, tokens and cost, then exit.")]
PoolFiles = Annotated[
    list[Path] | None, option("Pool file. Missing sources are retrieved. Repeatable.", "FILE", KNOWLEDGE)
]
EngineOption = Annotated[
    Literal["local", "ray"], option("This machine, or the Ray cluster at RAY_ADDRESS.", panel=CLUSTER)
]


def request_options(
    asker: Asker, *, only: str = "", without: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a request that this asker may set, and those of :class:`madke.RunOptions`, to a command.

    It receives them as ``request`` (without questions) and ``options``, if it takes any. ``only``: these fields of the
    request; ``without``: not these of the options.
    """
    names = only.split() or [name for name in askable(asker) if name not in without.split()]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        takes = "options" in signature(command).parameters
        run_names = [name for name in descriptions(RunOptions) if takes and name not in without.split()]
        hints = get_type_hints(command, include_extras=True)
        own = [each for each in signature(command).parameters.values() if each.name not in ("request", "options")]
        parameters = [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY) for each in own]
        for record, wanted in ((RunRequest, names), (RunOptions, run_names)):
            default, about = defaults(record), descriptions(record)
            parameters += [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=None if isinstance(default[name], Mapping) else default[name],
                    annotation=Annotated[about[name].type, field_option(record, name)],
                )
                for name in wanted
            ]

        def place(parameter: Parameter) -> int:  # a ``typer.Context`` has no group
            about = getattr(parameter.annotation, "__metadata__", None)
            return _PANELS.index(about[0].rich_help_panel if about else None)

        parameters.sort(key=place)

        @wraps(command)
        def wrapper(**values: Any) -> None:
            if takes:
                values["options"] = RunOptions(**{name: values.pop(name) for name in run_names})
            asked = {name: _READ.get(name, lambda value: value)(values.pop(name)) for name in names}
            command(**values, request=RunRequest(**asked))

        wrapper.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return decorate


def settings_of(settings: Sequence[str] | None) -> dict[str, Any]:
    """Protocol field -> value, from ``--set PATH=VALUE``."""
    from madke.engine.variant import setting

    return dict(setting(text) for text in settings or ())


def columns_of(text: str | None) -> dict[str, str]:
    """Field of a question -> column, from ``--columns FIELD=COLUMN,...``."""
    from madke.data.questions import columns_from

    return {} if text is None else columns_from(text)


def cast_of(cast: Sequence[str] | None) -> dict[str, str]:
    """Role -> model name, from ``--cast ROLE=MODEL``."""
    parts = [text.partition("=") for text in cast or ()]
    found = {role.strip(): model.strip() for role, _, model in parts}
    if not all(map(all, found.items())):
        raise UserError("--cast: expected ROLE=MODEL, for instance --cast debater-2=human")
    return found


_READ: Mapping[str, Callable[[Any], Any]] = {
    "columns": columns_of,
    "settings": settings_of,
    "cast": cast_of,
    "seed": lambda seed: seed if seed >= 0 else None,
}
"""Field -> its value, from what the command line has."""
