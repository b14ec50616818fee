"""What people ask for: a run, and how it executes. Flags, keywords, recipes and offers are fields of these records."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

from madke.core.errors import UserError, nearest

if TYPE_CHECKING:  # `madke --help` reads the fields, and needs none of these
    from madke.core.chat import ChatModel
    from madke.core.knowledge import Source
    from madke.core.question import Question
    from madke.data.formats import DatasetReader
    from madke.engine.protocol import ProtocolFunction
    from madke.engine.variant import Variant
    from madke.tasks.base import BaseTask

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
"""Who asks for runs: ``madke run``, ``ask``, ``serve``, ``ablate``, and the functions of these names."""

QUESTIONS, PROTOCOL, MODELS, KNOWLEDGE = "Questions", "Protocol", "Models", "Knowledge"
COST, RESUME, CLUSTER = "Cost and limits", "Resume and replay", "Cluster"
"""Groups of options in the help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What the command line says of a field, and who may set it."""

    help: str
    group: str | None = None
    """The group of the option in the help; None: the most used options."""
    flags: Sequence[str] = ()
    """The option's names, if they are not the field's."""
    metavar: str | None = None
    least: float | None = None
    """The minimum of a number."""
    type: Any = str
    """The option's type: a keyword may take objects too."""
    by: frozenset[str] = frozenset()
    """Who may set it."""


_PATHS = ("FILE", "DIR", "FILE|DIR")
_NUMBERS = {"N": int | None, "SEED": int | None, "X": float | None}


def run_field(default: Any, text: str, group: str | None = None, *, by: str = "", flags: str = "", **more: Any) -> Any:
    """A field with this help text, group and :class:`Described`; ``by`` and ``flags`` are separated by spaces.

    The option's type follows from the default, and from the metavar if the default is None or a mapping.
    """
    metavar = "" if isinstance(default, bool) else more.pop("metavar", None)
    kind: Any = type(default)
    if isinstance(default, Mapping):
        kind = str | None if str(metavar).endswith("...") else list[str] | None
    elif default is None:
        kind = Path | None if metavar in _PATHS else _NUMBERS.get(metavar, str | None)
    more = {"type": kind, "metavar": metavar, **more}
    about = Described(help=text, group=group, by=frozenset(by.split()), flags=tuple(flags.split()), **more)
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata={"described": about})
    return field(default=default, metadata={"described": about})


def descriptions(record: type) -> dict[str, Described]:
    """Field -> its description, in order."""
    return {each.name: each.metadata["described"] for each in fields(record) if each.metadata}


def defaults(record: type) -> dict[str, Any]:
    """Field -> its default."""
    instance = record()
    return {each.name: getattr(instance, each.name) for each in fields(record)}


def _check(record: Any) -> None:
    """Turn texts into paths where an option is a path; UserError for a number below its minimum."""
    for name, about in descriptions(type(record)).items():
        value = getattr(record, name)
        if about.type in (Path, Path | None) and isinstance(value, str):
            object.__setattr__(record, name, Path(value))
        if about.least is not None and value is not None and not value >= about.least:  # so that NaN is refused
            raise UserError(f"{name} = {value}; expected at least {about.least:g}")


_ALL, _DEBATES = "run ask serve experiment", "run ask serve"


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked for: everything that can change its results.

    Each field is an option of the command line and a keyword of the functions, where its asker may set it: ``run``,
    ``ask``, ``serve`` (each debate that a server offers), ``experiment`` (what all arms of a recipe share; the arms set
    the rest). :func:`madke.runs.spec.resolve` turns it into a :class:`~madke.runs.spec.RunSpec`. How a run is done,
    such as its limits, is in :class:`RunOptions`.
    """

    questions: Data = ()
    """A file as for ``madke run``, or a list of :class:`madke.Question`, mappings of its fields, or texts."""
    protocol: str | Path | Variant | ProtocolFunction = run_field(
        "madke", "Debate protocol; see `madke protocols`.", flags="--protocol -p", metavar="NAME", by="run ask"
    )
    """A protocol's name, its folder, a function of your own (:class:`madke.engine.steps.Debate`; on the command line
    ``module:function``), or a loaded variant. A server and a recipe name several."""
    model: Models = run_field(
        "offline", "Model of all roles, see below.", flags="--model -m", metavar="MODEL", by=_DEBATES
    )
    """A name as for ``--model``, a :class:`madke.ChatModel`, a function from messages to text (sync or async), or role
    -> one of these, with ``"*"`` for the other roles."""
    sources: Sources | None = run_field(
        None, "Knowledge sources, see below. Default: the protocol's.", metavar="SOURCES", by=_DEBATES
    )
    """A text as for ``--sources``, :class:`madke.Source` objects, or name -> specification or object. None: the
    protocol's own."""
    task: str | BaseTask | None = run_field(
        None, "Answer format, see below.", flags="--task -t", metavar="TASK", by=_ALL
    )
    """The answer format of questions that name none: a name, or a :class:`madke.BaseTask`. None: ``choice`` if there
    are choices, else ``short_answer``."""
    cast: Mapping[str, Model] = run_field(
        NOTHING, "Model of debater-1, judge, ... Repeatable.", MODELS, metavar="ROLE=MODEL", by=_DEBATES
    )
    """Role -> model; overrides ``model``."""
    settings: Mapping[str, Any] = run_field(
        NOTHING,
        "A setting of the protocol, e.g. select=all.",
        PROTOCOL,
        flags="--set",
        metavar="PATH=VALUE",
        by=_DEBATES,
    )
    """Setting of the protocol -> value, as for ``--set``: ``{"rounds": 2}``."""
    error_at_most: str | float | None = run_field(
        None, "Defer answers beyond this error, e.g. 5%.", PROTOCOL, metavar="SHARE", by=_DEBATES
    )
    """The largest share of wrong answers among those that are not deferred: ``"5%"`` or ``0.05``."""
    calibration: str | Path | None = run_field(
        None, "Calibration that `madke score --calibrate` wrote.", PROTOCOL, metavar="FILE", by=_DEBATES
    )
    """The file that ``madke score --calibrate`` wrote, for ``error_at_most``."""
    prompts: str | Path | None = run_field(None, "Folder of your own protocols.", PROTOCOL, metavar="DIR", by=_ALL)
    """A folder of your own protocols, searched first."""
    wording: str | Path | None = run_field(
        None, "Prompts built as in the paper, or your file.", PROTOCOL, metavar="paper|FILE", by=_ALL
    )
    """``paper``: prompts that are built like the printed ones, in madke's words (``docs/printed_prompts.md``). Or a
    file of your own, such as the printed prompts (:class:`madke.engine.wording.Wording`). Arms and offers of other
    protocols keep their words."""
    pools: str | Path | None = run_field(
        None, "Pool file. Default: retrieve, and write OUT/pools.jsonl.", KNOWLEDGE, metavar="FILE", by="run"
    )
    """A pool file. None: pools are built into the run. Without ``sources``, all sources of the file are used if it
    lacks one of the protocol's. A recipe takes several files."""
    first_round: str | Path | None = run_field(
        None, "Take the first round from here, see below.", PROTOCOL, metavar="FILE|DIR", by="run"
    )
    """Given first-round stances: a file of them, or a run. An arm of a recipe names another arm."""
    answer_scorer: str | None = run_field(
        None, "Program that scores candidates (rerank, maps).", PROTOCOL, metavar="COMMAND", by=_ALL
    )
    """The command of an answer scorer, for protocols such as ``rerank``."""
    dataset: str | DatasetReader | None = run_field(
        None, "Format of the questions; see `madke datasets`.", QUESTIONS, metavar="NAME", by="run"
    )
    """The published dataset whose format the file has, or a function from a path to questions. None: a question file of
    your own."""
    columns: Mapping[str, str] = run_field(
        NOTHING,
        "Columns with other names, e.g. question=Frage,answers=Antwort.",
        QUESTIONS,
        metavar="FIELD=COLUMN,...",
        by="run experiment",
    )
    """Field of a question -> its column in a file of your own, if the names differ: ``{"question": "Frage"}``."""
    ids: str | None = run_field(
        None,
        "Use these ids: a file, one id per line, or a shipped list.",
        QUESTIONS,
        metavar="LIST",
        by="run experiment",
    )
    """Only the questions of this list: a file of ids, or the name of a shipped list."""
    limit: int | None = run_field(None, "Use the first N questions.", metavar="N", least=1, by="run experiment")
    """Maximum number of questions: the first ones, or with ``sample_seed`` a random sample. None: all."""
    sample_seed: int | None = run_field(
        None, "Draw the --limit questions at random, with this seed.", QUESTIONS, metavar="SEED", by="run experiment"
    )
    """Seed of that sample."""
    repeats: int | None = run_field(
        None, "Debates per question. Default: 1, or the recipe's.", PROTOCOL, metavar="N", least=1, by="run experiment"
    )
    """Number of debates per question."""
    seed: int | None = run_field(0, "Sampling seed. Below 0: set by the server.", PROTOCOL, metavar="N", by=_ALL)
    """Sampling seed; each call derives its own. None: the server chooses."""

    def __post_init__(self) -> None:
        _check(self)


def request_of(questions: Data | RunRequest, fields: Mapping[str, Any]) -> RunRequest:
    """The request of a function's arguments: a whole one, or questions with further fields."""
    if isinstance(questions, RunRequest):
        return replace(questions, **fields)
    return RunRequest(questions=questions, **fields)


def askable(asker: Asker) -> list[str]:
    """The fields that this asker may set, in order."""
    return [name for name, about in descriptions(RunRequest).items() if asker in about.by]


def takes_request(asker: Asker) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function with ``**fields``: its signature names the fields of a request instead."""
    types, default = RunRequest.__annotations__, defaults(RunRequest)

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            known = signature(call).parameters
            if wrong := [name for name in kwargs if name not in known]:
                near = nearest(wrong[0], known)
                hint = f"did you mean {near!r}?" if near else f"it takes: {', '.join(known)}"
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {wrong[0]!r}; {hint}")
            return function(*args, **kwargs)

        shown = signature(function)
        own = [each for each in shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        taken = {each.name for each in own}
        own += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default[name], annotation=types[name])
            for name in askable(asker)
            if name not in taken
        ]
        call.__signature__ = shown.replace(parameters=own)  # type: ignore[attr-defined]
        return call

    return decorate


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run executes; no option changes a result. Each field is a command line option of the same name.

    A text is accepted for a path.
    """

    concurrency: int = run_field(16, "Questions and model calls at a time.", MODELS, least=1, metavar="N")
    base_url: str | None = run_field(None, "Endpoint of openai/ and azure/ models.", MODELS, metavar="URL")
    prices: Path | None = run_field(None, "Prices per million tokens: YAML, or shipped.", COST, metavar="FILE")
    batch: str | None = run_field(None, "Ask in batches: api, or the command of a program.", COST, metavar="HOW")
    max_cost: float | None = run_field(None, "Start no question at or above this cost.", COST, least=0, metavar="X")
    token_budget: int | None = run_field(
        None, "Start no question at or above this many tokens.", COST, least=1, metavar="N"
    )
    deadline: str | None = run_field(None, "Start no call after this time: 45m, 06:30, ...", COST, metavar="TIME")
    engine: Literal["local", "ray"] = run_field(
        "local",
        "Call models from this machine, or the Ray cluster at RAY_ADDRESS.",
        CLUSTER,
        type=Literal["local", "ray"],
    )
    replay: bool = run_field(False, "Rebuild transcripts from stored calls, offline.", RESUME, flags="--replay")
    retry_degraded: bool = run_field(
        False, "Also repeat failed calls of finished questions.", RESUME, flags="--retry-degraded"
    )

    def __post_init__(self) -> None:
        _check(self)
        if self.batch not in (None, "api"):
            if "{input}" not in self.batch or "{output}" not in self.batch:
                raise UserError(f"--batch {self.batch!r}: expected api, or a command with {{input}} and {{output}}")
            try:
                shlex.split(self.batch)
            except ValueError as error:
                raise UserError(f"--batch {self.batch!r}: {error}") from None
        if self.batch is not None and self.engine == "ray":
            raise UserError("--batch asks from this machine; leave out --engine ray")


DEFAULTS = RunOptions()
