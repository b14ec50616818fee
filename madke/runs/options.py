"""Options that control how a run executes and never change its results; fields that options and keywords describe."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from madke.core.chat import Prefix
from madke.core.errors import UserError

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


_KEY = "described"


def described(default: Any, text: str, group: str | None = None, *, by: str = "", flags: str = "", **more: Any) -> Any:
    """A field with this help text, group and :class:`Described`; ``by`` and ``flags`` are separated by spaces."""
    if isinstance(default, bool):
        more.setdefault("metavar", "")
    about = Described(help=text, group=group, by=frozenset(by.split()), flags=tuple(flags.split()), **more)
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata={_KEY: about})
    return field(default=default, metadata={_KEY: about})


def descriptions(record: type) -> dict[str, Described]:
    """Field -> its description, in order."""
    return {each.name: each.metadata[_KEY] for each in fields(record) if _KEY in each.metadata}


def defaults(record: type) -> dict[str, Any]:
    """Field -> its default."""
    return {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(record)
    }


def paths_from_texts(record: Any) -> None:
    """Turn texts into paths, in a frozen record's fields whose options are paths."""
    for name, about in descriptions(type(record)).items():
        if about.type in (Path, Path | None) and isinstance(value := getattr(record, name), str):
            object.__setattr__(record, name, Path(value))


def check_least(record: Any) -> None:
    """UserError for a number below its minimum."""
    for name, about in descriptions(type(record)).items():
        value = getattr(record, name)
        if about.least is not None and value is not None and not value >= about.least:  # so that NaN is refused
            raise UserError(f"{name} = {value}; expected at least {about.least:g}")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run executes; no option changes a result. Each field is a command line option of the same name.

    A text is accepted for a path.
    """

    concurrency: int = described(16, "Questions and model calls at a time.", MODELS, least=1, metavar="N", type=int)
    base_url: str | None = described(
        None, "Endpoint of openai/ and azure/ models.", MODELS, metavar="URL", type=str | None
    )
    models_file: Path | None = described(
        None, "Names of endpoints. Default: MADKE_MODELS, or ./models.yaml.", MODELS, metavar="FILE", type=Path | None
    )
    sources_file: Path | None = described(
        None,
        "Names of sources. Default: MADKE_SOURCES, or ./sources.yaml.",
        KNOWLEDGE,
        metavar="FILE",
        type=Path | None,
    )
    rpm: int | None = described(
        None, "Maximum calls per minute to each endpoint.", MODELS, least=1, metavar="N", type=int | None
    )
    tpm: int | None = described(
        None, "Maximum tokens per minute to each endpoint.", MODELS, least=1, metavar="N", type=int | None
    )
    prefix: Prefix = described("auto", "Whether calls that begin alike wait for the first of them.", type=Prefix)
    prices: Path | None = described(None, "Prices per million tokens, as YAML.", COST, metavar="FILE", type=Path | None)
    max_cost: float | None = described(
        None, "Start no question at or above this cost.", COST, least=0, metavar="X", type=float | None
    )
    token_budget: int | None = described(
        None, "Start no question at or above this many tokens.", COST, least=1, metavar="N", type=int | None
    )
    deadline: str | None = described(
        None, "Start no call after this time: 45m, 06:30, ...", COST, metavar="TIME", type=str | None
    )
    engine: Literal["local", "ray"] = described(
        "local", "Call models from this machine or from a Ray cluster.", CLUSTER, type=Literal["local", "ray"]
    )
    address: str | None = described(
        None,
        "Cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or start one.",
        CLUSTER,
        metavar="ADDRESS",
        type=str | None,
    )
    replay: bool = described(
        False, "Rebuild transcripts from stored calls, offline.", RESUME, flags="--replay", type=bool
    )
    retry_failed: bool = described(
        True, "Whether to run failed questions again.", RESUME, flags="--retry-failed/--keep-failed", type=bool
    )
    retry_degraded: bool = described(
        False, "Also repeat failed calls of finished questions.", RESUME, flags="--retry-degraded", type=bool
    )

    def __post_init__(self) -> None:
        check_least(self)
        paths_from_texts(self)
        if self.address is not None and self.engine != "ray":
            raise UserError("--address is the address of a Ray cluster; it needs --engine ray")


DEFAULTS = RunOptions()
