"""Names that stand for code: our own, those of installed plugins, and ``module:object``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from madke.core.errors import UserError, unknown

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Every value of one kind, by name.

    A name is looked up among our own values, then among the entry points of installed packages. A name of the form
    ``module:object`` is imported. As a mapping it holds our own values and the plugins', in that order; an entry point
    is loaded when it is first asked for.

    Args:
        kind: What the values are, for errors: ``task``.
        own: Name -> value.
        group: The entry points, such as ``madke.tasks``.
        check: Says what is wrong with a value that is not ours; None: nothing.
    """

    def __init__(
        self, kind: str, own: Mapping[str, T], group: str, *, check: Callable[[Any], str | None] | None = None
    ) -> None:
        self.kind = kind
        self._values: dict[str, T] = dict(own)
        self._group = group
        self._check = check or (lambda value: None)
        self._found: dict[str, EntryPoint] | None = None

    def __getitem__(self, name: str) -> T:
        """The value of that name.

        Raises:
            UserError: There is none (with the nearest name), or it cannot be imported or used.
        """
        if name not in self._values:
            if name in self._plugins:
                value = self._loaded(name, self._plugins[name].load)
            elif ":" in name:
                value = self._loaded(name, lambda: imported(name))
            else:
                raise unknown(self.kind, name, self)
            self._values[name] = value
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

    @property
    def _plugins(self) -> dict[str, EntryPoint]:
        if self._found is None:
            self._found = {}
            for point in entry_points(group=self._group):
                if point.name in self._values or point.name in self._found:
                    of = point.dist.name if point.dist else point.value
                    raise UserError(f"the package {of} brings a {self.kind} {point.name!r}, and there is one already")
                self._found[point.name] = point
        return self._found

    def _loaded(self, name: str, load: Callable[[], Any]) -> T:
        try:
            value = load()
        except UserError:
            raise
        except Exception as error:  # somebody else's module: whatever it raises is told, not shown as ours
            raise UserError(f"{self.kind} {name!r} cannot be imported: {type(error).__name__}: {error}") from error
        if wrong := self._check(value):
            raise UserError(f"{self.kind} {name!r} {wrong}")
        return value  # type: ignore[no-any-return]


def imported(name: str) -> Any:
    """The object that ``module:object`` names. A module may lie in the working directory: it was named.

    Raises:
        UserError: The module has no such object.
        Exception: Whatever the module raises.
    """
    module_name, _, path = name.partition(":")
    here = str(Path.cwd())
    # Only while this module is imported: later imports must find nothing in the working directory.
    sys.path.append(here)
    try:
        value: Any = importlib.import_module(module_name)
    finally:
        sys.path.remove(here)
    for part in path.split("."):
        if not hasattr(value, part):
            raise UserError(f"{name!r}: {module_name} has no {path!r}")
        value = getattr(value, part)
    return value
