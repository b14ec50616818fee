"""What a run is asked for: one record, of whose fields flags, keywords, recipes, offers and ``run.json`` are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

from madke.runs.options import (
    KNOWLEDGE,
    MODELS,
    PROTOCOL,
    QUESTIONS,
    check_least,
    defaults,
    described,
    descriptions,
    paths_from_texts,
)

if TYPE_CHECKING:  # `madke --help` reads the fields, and needs none of these
    from collections.abc import Sequence

    from madke.core.chat import ChatModel
    from madke.core.knowledge import Source
    from madke.core.question import Question
    from madke.data.formats import DatasetReader
    from madke.tasks.base import Task
    from madke.variants import Variant

P = ParamSpec("P")
T = TypeVar("T")

Data: TypeAlias = "str | Path | Sequence[Question | Mapping[str, Any] | str]"
"""Questions: a file, or a list of records, of mappings with their fields, or of texts."""

Model: TypeAlias = "str | ChatModel | Callable[..., Any]"
"""A model: a name as in ``--model``, an object, or a function from messages to a text."""

Models: TypeAlias = "Model | Mapping[str, Model]"
"""A model for all roles, or role -> model; ``"*"`` stands for all other roles."""

Sources: TypeAlias = "str | Source | Sequence[Source] | Mapping[str, str | Source | None]"
"""Sources: a string as in ``--sources``, one or several objects, or name -> specification or object."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

Asker = Literal["run", "ask", "serve", "experiment"]
"""Who asks for runs: ``madke run``, ``ask``, ``serve`` and ``mcp``, ``ablate``, and the functions of these names."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked for: everything that can change its results.

    Each field is an option of the command line and a keyword of the functions, where its asker may set it: ``run``,
    ``ask``, ``serve`` (each debate that a server offers), ``experiment`` (what all arms of a recipe share; the arms set
    the rest). :func:`madke.runs.job.resolved` turns it into a :class:`~madke.runs.spec.RunSpec`, which is frozen in
    ``run.json``. How a run is done, such as its limits, is in :class:`~madke.runs.options.RunOptions`.
    """

    questions: Data = ()
    """A file as for ``madke run``, or a list of :class:`madke.Question`, mappings of its fields, or texts."""
    protocol: str | Path | Variant = described(
        "madke",
        "Debate protocol; see `madke protocols`.",
        flags="--protocol -p",
        metavar="NAME",
        type=str,
        by="run ask",
    )
    """A protocol's name, its folder, or a loaded variant. A server and a recipe name several."""
    model: Models = described(
        "offline",
        "Model of all roles, see below.",
        flags="--model -m",
        metavar="MODEL",
        type=str,
        by="run ask serve",
    )
    """A name as for ``--model``, a :class:`madke.ChatModel`, a function from messages to text (sync or async), or role
    -> one of these, with ``"*"`` for the other roles."""
    sources: Sources | None = described(
        None,
        "Knowledge sources, see below. Default: the protocol's.",
        metavar="SOURCES",
        type=str | None,
        by="run ask serve",
    )
    """A text as for ``--sources``, :class:`madke.Source` objects, or name -> specification or object. None: the
    protocol's own."""
    task: str | Task | None = described(
        None,
        "Answer format, see below.",
        flags="--task -t",
        metavar="TASK",
        type=str | None,
        by="run ask serve experiment",
    )
    """The answer format of questions that name none: a name, or a :class:`madke.Task`. None: ``choice`` if there are
    choices, else ``short_answer``."""
    cast: Mapping[str, Model] = described(
        NOTHING,
        "Model of debater-1, judge, ... Repeatable.",
        MODELS,
        metavar="ROLE=MODEL",
        type=list[str] | None,
        by="run ask serve",
    )
    """Role -> model; overrides ``model``."""
    settings: Mapping[str, Any] = described(
        NOTHING,
        "Protocol field, e.g. knowledge.select=all.",
        PROTOCOL,
        flags="--set",
        metavar="PATH=VALUE",
        type=list[str] | None,
        by="run ask serve",
    )
    """Protocol field -> value, as for ``--set``: ``{"rounds": 2}``."""
    cite: bool = described(
        False,
        "Ask debaters to quote the passage that shows their answer.",
        KNOWLEDGE,
        type=bool,
        by="run ask serve",
    )
    """Whether debaters are asked for quotes, as ``{"cite": True}`` in ``settings``."""
    error_at_most: str | float | None = described(
        None,
        "Defer answers beyond this error, e.g. 5%.",
        metavar="SHARE",
        type=str | None,
        by="run ask serve",
    )
    """The largest share of wrong answers among those that are not deferred: ``"5%"`` or ``0.05``."""
    calibration: str | Path | None = described(
        None,
        "Calibration that `madke calibrate` wrote.",
        metavar="FILE",
        type=Path | None,
        by="run ask serve",
    )
    """The file that ``madke calibrate`` wrote, for ``error_at_most``."""
    prompts: str | Path | None = described(
        None,
        "Folder of your own protocols.",
        PROTOCOL,
        metavar="DIR",
        type=Path | None,
        by="run ask serve experiment",
    )
    """A folder of your own protocols, searched first."""
    pools: str | Path | None = described(
        None,
        "Pool file. Default: retrieve, and write OUT/pools.jsonl.",
        KNOWLEDGE,
        metavar="FILE",
        type=Path | None,
        by="run",
    )
    """A pool file. None: pools are built into the run. Without ``sources``, all sources of the file are used if it
    lacks one of the protocol's. A recipe takes several files."""
    first_round: str | Path | None = described(
        None,
        "Take the first round from here, see below.",
        PROTOCOL,
        metavar="FILE|DIR",
        type=Path | None,
        by="run",
    )
    """Given first-round stances: a file of them, or a run. An arm of a recipe names another arm."""
    answer_scorer: str | None = described(
        None,
        "Program that scores candidates (finish: rerank).",
        PROTOCOL,
        metavar="COMMAND",
        type=str | None,
        by="run ask serve experiment",
    )
    """The command of an answer scorer, for ``finish: rerank``."""
    dataset: str | DatasetReader | None = described(
        None,
        "Format of the questions; see `madke datasets`.",
        QUESTIONS,
        metavar="NAME",
        type=str | None,
        by="run",
    )
    """The published dataset whose format the file has, or a function from a path to questions. None: a question file of
    your own."""
    columns: Mapping[str, str] = described(
        NOTHING,
        "Columns with other names, e.g. question=Frage,answers=Antwort.",
        QUESTIONS,
        metavar="FIELD=COLUMN,...",
        type=str | None,
        by="run experiment",
    )
    """Field of a question -> its column in a file of your own, if the names differ: ``{"question": "Frage"}``."""
    ids: str | None = described(
        None,
        "Use these ids: a file, one id per line, or a shipped list.",
        QUESTIONS,
        metavar="LIST",
        type=str | None,
        by="run experiment",
    )
    """Only the questions of this list: a file of ids, or the name of a shipped list."""
    limit: int | None = described(
        None, "Use the first N questions.", metavar="N", least=1, type=int | None, by="run experiment"
    )
    """Maximum number of questions: the first ones, or with ``sample_seed`` a random sample. None: all."""
    sample_seed: int | None = described(
        None,
        "Draw the --limit questions at random, with this seed.",
        QUESTIONS,
        metavar="SEED",
        type=int | None,
        by="run experiment",
    )
    """Seed of that sample."""
    repeats: int | None = described(
        None,
        "Debates per question. Default: 1, or the recipe's.",
        PROTOCOL,
        metavar="N",
        least=1,
        type=int | None,
        by="run experiment",
    )
    """Number of debates per question."""
    seed: int | None = described(
        0,
        "Sampling seed. Below 0: set by the server.",
        PROTOCOL,
        metavar="N",
        type=int,
        by="run ask serve experiment",
    )
    """Sampling seed; each call derives its own. None: the server chooses."""

    def __post_init__(self) -> None:
        check_least(self)
        paths_from_texts(self)


def requested(questions: Data | RunRequest, asked: Mapping[str, Any]) -> RunRequest:
    """The request of a function's arguments: a whole one, or questions with further fields."""
    if isinstance(questions, RunRequest):
        return replace(questions, **asked)
    return RunRequest(questions=questions, **asked)


def askable(asker: Asker) -> list[str]:
    """The fields that this asker may set, in order."""
    return [name for name, about in descriptions(RunRequest).items() if asker in about.by]


def takes_request(asker: Asker) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function with ``**asked``: its signature names the fields of a request instead."""
    names = askable(asker)
    types, default = RunRequest.__annotations__, defaults(RunRequest)

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        shown = signature(function)
        own = [each for each in shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        taken = {each.name for each in own}
        own += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default[name], annotation=types[name])
            for name in names
            if name not in taken
        ]
        call.__signature__ = shown.replace(parameters=own)  # type: ignore[attr-defined]
        return call

    return decorate
