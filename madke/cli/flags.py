"""Options that several verbs share, and the parsers of their values."""

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

QUESTIONS, PROTOCOL, MODELS, KNOWLEDGE = "Questions", "Protocol", "Models", "Knowledge"
COST, RESUME, CLUSTER = "Cost and limits", "Resume and replay", "Cluster"
GRADING, OUTPUT, SERVER = "Grading", "Output", "Server"
_PANELS = [None, QUESTIONS, PROTOCOL, MODELS, KNOWLEDGE, SERVER, COST, RESUME, CLUSTER, GRADING, OUTPUT]
"""Groups of options in the help, in order. None is the group of the most used options."""

_RUN_PANELS = {
    MODELS: "base_url models_file concurrency rpm tpm",
    KNOWLEDGE: "sources_file",
    COST: "prices max_cost token_budget deadline",
    RESUME: "replay retry_failed retry_degraded",
    CLUSTER: "engine address",
}
"""Group -> fields of :class:`madke.RunOptions`."""

MODEL_NAMES = """Models: offline, openai/NAME, azure/DEPLOYMENT, hf/NAME_OR_PATH, gguf/PATH_OR_PACKAGE,
scripted/FILE, human, a name in models.yaml, or module:object of your own code. A --base-url is, for example,
http://localhost:8000/v1."""
SOURCE_NAMES = """Sources: none, or a comma-separated list of NAME, NAME=SPEC or FOLDER. NAME is in sources.yaml, a
fetched index, or built in: wiki, wiki-bm25, wiki-dense, google, wikipedia. SPEC is a folder (an index, or PDF, DOCX,
HTML, Markdown and text files), another NAME, A+B or 0.5*A+B (weighted sum of scores), a .jsonl file of web results,
serper, or module:object of your own code. A FOLDER such as ./docs is a source of its own name."""
QRELS_FORM = """Judgements: a file in TREC's form (question 0 passage relevance), or a table separated by tabs with the
headings qid, passage_id and rel. A passage is named by its key, such as its id in the index."""
TASK_NAMES = f"""Tasks: {", ".join(TASKS)}, or module:object of your own code. Default: the task of the dataset.
For your own questions: choice if a question has options, otherwise short_answer."""

LIMITS = """Limits: once --max-cost, --token-budget or --deadline is reached, work in progress finishes and the command
stops. The same command with a higher limit resumes. TIME is a duration from now (90s, 45m, 1h30m), a time of day
(06:30), or a date and time (2027-01-31T06:30)."""
SCORER = """Answer scorers: COMMAND reads JSON lines of source and candidate, and answers each with a number."""
PRICES = """Prices: a YAML file of lines such as openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}."""


NAMES = (MODEL_NAMES, SOURCE_NAMES, TASK_NAMES)
EXIT_STATUS = """Exit status: 0 every question has a result, 1 some questions failed or a limit was reached, 2 bad
input, 130 interrupted, 143 terminated."""


def epilog(*parts: str) -> str:
    """Text below the options of a verb. An example command is a part that starts with two spaces."""
    return "\n\n".join(part if part.startswith("  ") else " ".join(part.split()) for part in parts)


def option(
    text: str, metavar: str | None = None, panel: str | None = None, *, names: str | Sequence[str] = (), **more: Any
) -> Any:
    """An option with a help text, the name of its value, its group, and flags if they are not the parameter's name."""
    flags = [names] if isinstance(names, str) else names
    return typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=panel, **more)


def switch(flag: str, text: str, panel: str | None = None) -> Any:
    """An option without a value."""
    return option(text, "", panel, names=flag)


def run_option(name: str) -> Any:
    """A field of :class:`madke.RunOptions` as an option: its flag, help text, metavar and minimum."""
    field = {each.name: each for each in fields(RunOptions)}[name]
    described = field.metadata
    flag = described["flag"] or f"--{name.replace('_', '-')}"
    metavar = described["metavar"] or ("" if isinstance(field.default, bool) else None)
    panel = next((panel for panel, names in _RUN_PANELS.items() if name in names.split()), None)
    return option(described["help"], metavar, panel, names=flag, min=described["ge"])


BaseUrl = Annotated[str | None, run_option("base_url")]
PricesOption = Annotated[Path | None, run_option("prices")]
AddressOption = Annotated[str | None, run_option("address")]
PromptsOption = Annotated[Path | None, option("Folder of your own protocols.", "DIR", PROTOCOL)]
SettingsOption = Annotated[
    list[str] | None, option("Protocol field, e.g. knowledge.select=all.", "PATH=VALUE", PROTOCOL, names="--set")
]
TaskOption = Annotated[str | None, option("Answer format, see below.", "TASK", names=("--task", "-t"))]
_FORMATS = "Questions: CSV, TSV, JSON, JSONL, Parquet; see --dataset."
Questions = Annotated[Path, typer.Argument(metavar="DATA", help=_FORMATS)]
Dataset = Annotated[str | None, option("Format of the questions; see `madke datasets`.", "NAME", QUESTIONS)]
Ids = Annotated[str | None, option("Use these ids: a file, one id per line, or a shipped list.", "LIST", QUESTIONS)]
Limit = Annotated[int | None, option("Use the first N questions.", "N", min=1)]
SampleSeed = Annotated[int | None, option("Draw the --limit questions at random, with this seed.", "SEED", QUESTIONS)]
Plan = Annotated[bool, switch("--plan", "Estimate calls, tokens, cost and time, then exit.")]
ReplyTokens = Annotated[int, option("With --plan: assumed tokens per reply.", "N", COST, min=1)]
CallSeconds = Annotated[
    float | None, option("With --plan: seconds per call. Default: measured in OUT.", "S", COST, min=0.001)
]
Qrels = Annotated[Path, option("Judgements: which passages are relevant, see below.", "FILE")]
Depths = Annotated[str, option("Numbers of first passages to measure.", "N,N", names="--k")]
Relevance = Annotated[int, option("Lowest relevance that counts.", "N", names="--relevance", min=1)]
EngineOption = Annotated[Literal["local", "ray"], option("This machine, or the nodes of a Ray cluster.", panel=CLUSTER)]


_SHARED: Mapping[str, Any] = {
    "protocol": Annotated[str, option("Debate protocol; see `madke protocols`.", "NAME", names=("--protocol", "-p"))],
    "model": Annotated[str, option("Model of all roles, see below.", "MODEL", names=("--model", "-m"))],
    "sources": Annotated[str | None, option("Knowledge sources, see below. Default: the protocol's.", "SOURCES")],
    "task": TaskOption,
    "cast": Annotated[list[str] | None, option("Model of debater-1, judge, ... Repeatable.", "ROLE=MODEL", MODELS)],
    "answer_scorer": Annotated[
        str | None, option("Program that scores candidates (finish: rerank).", "COMMAND", PROTOCOL)
    ],
    "dataset": Dataset,
    "ids": Ids,
    "limit": Limit,
    "sample_seed": SampleSeed,
    "settings": SettingsOption,
    "prompts": PromptsOption,
}
_DEFAULTS: Mapping[str, Any] = {"protocol": "madke", "model": "offline"}
"""The defaults of shared options; None for the others."""


def shared_options(names: str, *, without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the shared options of these names, and those of :class:`madke.RunOptions` ``without`` some, to a command.

    It receives them as ``shared``, which maps names to values for :func:`madke.runs.job.make_job`, and ``options``.
    """
    types = get_type_hints(RunOptions)
    run_fields = {each.name: each for each in fields(RunOptions) if each.name not in without.split()}
    added: dict[str, tuple[Any, Any]] = {name: (_SHARED[name], _DEFAULTS.get(name)) for name in names.split()}
    added |= {name: (Annotated[types[name], run_option(name)], each.default) for name, each in run_fields.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [each for each in signature(command).parameters.values() if each.name not in ("shared", "options")]
        parameters = [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY) for each in own]
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in added.items()
        ]
        parameters.sort(key=lambda each: _PANELS.index(_panel(each)))

        @wraps(command)
        def wrapper(**values: Any) -> None:
            from madke.knowledge.named import use_files

            options = RunOptions(**{name: values.pop(name) for name in run_fields})
            use_files(options.sources_file, options.models_file)
            shared = {name: values.pop(name) for name in names.split()}
            for name, read in (("settings", settings_of), ("cast", cast_overrides)):
                if name in shared:
                    shared[name] = read(shared[name])
            command(**values, shared=shared, options=options)

        wrapper.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return decorate


def _panel(parameter: Parameter) -> str | None:
    """The group of an option; None for a ``typer.Context``, which is none."""
    described = getattr(parameter.annotation, "__metadata__", None)
    panel: str | None = described[0].rich_help_panel if described else None
    return panel


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
