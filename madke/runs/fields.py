"""Fields of the records that people set: each is a command-line option and a keyword, described in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

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
