"""Names that stand for code: our own, those of installed plugins, and ``module:object``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from madke.core.errors import UserError, unknown

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Every value of one kind, by name.

    A name is looked up among our own values, then among the entry points of installed packages. A name of the form
    ``module:object`` is imported: look one up only where the user named it, never a name out of data (``in`` tells
    whether that has happened). As a mapping it holds our own values and the plugins', in that order; an entry point
    is loaded when it is first asked for.

    Args:
        kind: What the values are, for errors: ``task``.
        own: Name -> value.
        group: The entry points, such as ``madke.tasks``.
        check: Says what is wrong with a value that is not ours; None: nothing.
        adapt: Makes a value of name and object, where it is not ours; raises a UserError for what cannot be one.
    """

    def __init__(
        self,
        kind: str,
        own: Mapping[str, T],
        group: str,
        *,
        check: Callable[[Any], str | None] | None = None,
        adapt: Callable[[str, Any], T] | None = None,
    ) -> None:
        self.kind = kind
        self._values: dict[str, T] = dict(own)
        self._group = group
        self._check = check or (lambda value: None)
        self._adapt = adapt or (lambda name, value: value)
        self._found: dict[str, EntryPoint] | None = None
        self._named: dict[str, object] = {}

    def __getitem__(self, name: str) -> T:
        """The value of that name.

        Raises:
            UserError: There is none (with the nearest name), or it cannot be imported or used.
        """
        if name not in self._values:
            if name in self._plugins:
                self._values[name] = self._made(name, self._plugins[name].load)
            elif ":" in name:
                self._values[name] = self._made(name, partial(imported, name))
            else:
                raise unknown(self.kind, name, self)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._values
        yield from (name for name in self._plugins if name not in self._values)

    def __len__(self) -> int:
        return len({*self._values, *self._plugins})

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._plugins

    def add(self, name: str, value: T) -> T:
        """Add a value for this process.

        Raises:
            UserError: Another value has that name.
        """
        if name in self and self[name] is not value:
            raise UserError(f"there is a {self.kind} {name!r} already; choose another name")
        self._values[name] = value
        return value

    def name_of(self, value: object) -> str:
        """The name of a value that is given by name or as an object.

        An object is known from then on by its qualified name, ``module:object``: what another process finds it by, if
        the module can be imported there. A later object of that name takes its place.

        Raises:
            UserError: There is no value of that name, or the object cannot be used.
        """
        if isinstance(value, str):
            self[value]
            return value
        if known := next((name for name, each in self._values.items() if each is value), None):
            return known
        name = qualified_name(value)
        if self._named.get(name) is not value:
            self._values[name] = self._made(name, lambda: value)
            self._named[name] = value
        return name

    def code(self, name: str) -> str | None:
        """Which code a name stands for, for the record: ``package 1.0, module:object``; None for our own."""
        if name in self._plugins:
            point = self._plugins[name]
            return f"{point.dist.name} {point.dist.version}, {point.value}" if point.dist else point.value
        return name if ":" in name else None

    @property
    def _plugins(self) -> dict[str, EntryPoint]:
        if self._found is None:
            found: dict[str, EntryPoint] = {}
            for point in entry_points(group=self._group):
                if point.name in self._values or point.name in found:
                    of = point.dist.name if point.dist else point.value
                    raise UserError(f"the package {of} brings a {self.kind} {point.name!r}, and there is one already")
                found[point.name] = point
            self._found = found
        return self._found

    def _made(self, name: str, load: Callable[[], Any]) -> T:
        try:
            value = load()
            wrong = self._check(value)
            made = self._adapt(name, value)
        except UserError:
            raise
        except Exception as error:  # somebody else's module: whatever it raises is told, not shown as ours
            raise UserError(f"{self.kind} {name!r} cannot be imported: {type(error).__name__}: {error}") from error
        if wrong:
            raise UserError(f"{self.kind} {name!r} {wrong}")
        return made


def qualified_name(value: object) -> str:
    """``module:object`` of a function or a class; of another object that of its class."""
    while isinstance(value, partial):
        value = value.func
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def imported(name: str) -> Any:
    """The object that ``module:object`` names. A module may lie in the working directory: it was named.

    Raises:
        UserError: The module has no such object.
        Exception: Whatever the module raises.
    """
    module_name, _, path = name.partition(":")
    before, here = sys.path, str(Path.cwd())
    # Only while this module is imported: later imports must find nothing in the working directory.
    sys.path = [*before, here]
    try:
        value: Any = importlib.import_module(module_name)
    finally:
        sys.path = before
    for part in path.split("."):
        if not hasattr(value, part):
            raise UserError(f"{name!r}: {module_name} has no {path!r}")
        value = getattr(value, part)
    return value
