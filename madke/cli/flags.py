"""Options that several verbs share, the parsers of their values, and checks that outputs overwrite no input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from madke._util.terminal import say
from madke.core.errors import UserError
from madke.models.model_names import MODEL_KINDS
from madke.retrieval.named import BUILT_IN_SOURCES
from madke.runs.directory import OWN_FILES, RECORDS, identity
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

if TYPE_CHECKING:
    from madke.scoring.arms import Results

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
        for record, selected in ((RunRequest, names), (RunOptions, run_names)):
            default, about = defaults(record), descriptions(record)
            parameters += [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=None if isinstance(default[name], Mapping) else default[name],
                    annotation=Annotated[about[name].type, field_option(record, name)],
                )
                for name in selected
            ]

        def place(parameter: Parameter) -> int:  # a ``typer.Context`` has no group
            about = getattr(parameter.annotation, "__metadata__", None)
            return _PANELS.index(about[0].rich_help_panel if about else None)

        parameters.sort(key=place)

        @wraps(command)
        def wrapper(**values: Any) -> None:
            if takes:
                values["options"] = RunOptions(**{name: values.pop(name) for name in run_names})
            fields = {name: _READ.get(name, lambda value: value)(values.pop(name)) for name in names}
            command(**values, request=RunRequest(**fields))

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
    models = {role.strip(): model.strip() for role, _, model in parts}
    if not all(map(all, models.items())):
        raise UserError("--cast: expected ROLE=MODEL, for instance --cast debater-2=human")
    return models


_READ: Mapping[str, Callable[[Any], Any]] = {
    "columns": columns_of,
    "settings": settings_of,
    "cast": cast_of,
    "seed": lambda seed: seed if seed >= 0 else None,
}
"""Field -> its value, from what the command line has."""


# What commands read

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Runs, experiments, folders of them, or prediction files.")
]
DataOption = Annotated[Path | None, option("Questions of the prediction files.", "PATH")]
CorrectionsOption = Annotated[
    Path | None, option("People's corrections of gold answers: a filled sheet, see madke annotate.", "CSV")
]
PREDICTION_FILES = """Prediction files need --data. They hold JSON lines of id and answer, or of id and output (raw
model text). Other keys are ignored."""

_PREDICTION_RECORDS = ("external.json", "grades.sqlite")
"""Suffixes of the files that ``madke score`` keeps next to a prediction file."""


def open_arms(
    paths: Sequence[Path],
    data: Path | None,
    dataset: str | None,
    task: str | None,
    corrections: Path | None = None,
    *,
    columns: str | None = None,
) -> list[Results]:
    """The results at the paths, in order; of an experiment its reference first, then its other arms.

    A folder of runs stands for its runs. Paths without a run are skipped with a message, unless none has one.
    Loading a ``module:object`` task lets the results name it, too.
    """
    from madke.data import read_dataset
    from madke.report.human_grades import with_corrections
    from madke.scoring.arms import open_results
    from madke.tasks import TASKS

    is_code = task is not None and ":" in task
    if task is not None and is_code:
        TASKS[task]
    if data is None and (dataset is not None or (task is not None and not is_code)):
        options = f"--dataset {dataset}" if dataset is not None else f"--task {task}"
        raise UserError(f"{options} needs --data, the questions of a prediction file; a run takes --task module:object")
    named = columns_of(columns)
    if named and data is None:
        raise UserError("--columns needs --data, the questions of a prediction file")
    questions = None if data is None else read_dataset(data, dataset=dataset, task=task, columns=named)
    arms = open_results(_arms(paths, predictions=questions is not None), questions)
    return arms if corrections is None else with_corrections(arms, corrections)


def _arms(paths: Sequence[Path], *, predictions: bool) -> list[Path]:
    from madke.experiments.experiment import is_experiment

    # A path that does not exist is a typing error, and no path to skip.
    by_path = {
        path: [path] if (predictions and path.is_file()) or not path.exists() else list(_runs_in(path))
        for path in paths
    }
    skipped = [str(path) for path, runs in by_path.items() if not runs]
    if len(skipped) == len(by_path):
        if is_experiment(paths[0]):
            raise UserError("is an experiment without a started arm; run `madke ablate` first", file=paths[0])
        return [paths[0]]  # which is refused with its reason
    if skipped:
        hint = "; for predictions, give the questions with --data" if any(map(os.path.isfile, skipped)) else ""
        say(f"madke: skipped, because they hold no run: {', '.join(skipped)}{hint}", err=True)
    return [run for runs in by_path.values() for run in runs]


def _runs_in(path: Path, levels: int = 2) -> Iterator[Path]:
    """The runs at a path: the run or the arms of the experiment that it is, or those in so many levels of folders."""
    from madke.experiments.experiment import is_experiment, read_experiment

    if is_experiment(path):
        recipe, folders = read_experiment(path)
        yield from sorted(folders, key=lambda folder: folder.name != recipe.reference)
    elif (path / "run.json").is_file():
        yield path
    elif levels and path.is_dir():
        for folder in sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")):
            yield from _runs_in(folder, levels - 1)


def refuse_overwriting(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], *, own: str = "") -> None:
    """Refuse outputs (name in messages -> file) that would overwrite inputs, each other, or files of a run.

    Of folders that are no runs or experiments, all files are inputs. ``own``: the file in a run that may be written.
    """
    identities = {identity(file) for path in inputs if path is not None for file in _files(path) if file.name != own}
    checked: dict[object, str] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        if (other := checked.setdefault(identity(path), name)) != name:
            raise UserError(f"{other} and {name} are the same file; expected a different file for each", file=path)
        real = Path(os.path.realpath(path))
        of_run = real.name in OWN_FILES and real.name != own and _is_record_folder(real.parent)
        if of_run or identity(path) in identities:
            what = f"a record of the run in {real.parent}" if of_run else "an input of this command"
            raise UserError(f"{name} would overwrite {what}; choose another file", file=path)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path, *(path.with_name(f"{path.name}.{name}") for name in _PREDICTION_RECORDS)]
    records = _is_record_folder(path) or any(_runs_in(path))
    return [file for file in path.rglob("*") if file.is_file() and (file.name in OWN_FILES or not records)]


def _is_record_folder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in RECORDS)
