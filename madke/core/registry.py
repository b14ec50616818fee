"""Names for code: built-in ones, and ``module:object``."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType
from typing import Any, Generic, TypeVar, cast

from madke.core.errors import UserError, unknown

T = TypeVar("T")


class Scope:
    """The objects that a run was given, by the names under which its records know them.

    Registries keep new objects in the active scope. They end with the run, and two runs may have different objects of
    one name.
    """

    def __init__(self) -> None:
        self.values: dict[object, dict[str, tuple[object, Any]]] = {}
        """Key of a registry -> name -> the object that was given, and the value made of it."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Use the scope in the block: registries look there first, and keep new objects there."""
        token = _ACTIVE.set((self, *_ACTIVE.get()))
        try:
            yield
        finally:
            _ACTIVE.reset(token)


_ACTIVE: ContextVar[tuple[Scope, ...]] = ContextVar("scopes", default=(Scope(),))
"""The active scopes, innermost first. The last one lasts as long as the process, for objects given outside of runs."""


class Registry(Mapping[str, T], Generic[T]):
    """Name -> value of one ``kind``: built-in values, and those of scopes.

    Looking up a name of the form ``module:object`` imports it. Do so only with names from the user, never with names
    from data (``in`` imports nothing: it tells whether the name was looked up before). Iterating gives the names that
    every process knows, the built-in ones.

    ``adapt`` makes a value from the name and the object of what is not built in, or raises a UserError.
    """

    def __init__(
        self, kind: str, own: Mapping[str, T], *, adapt: Callable[[str, Any], T] = lambda name, value: value
    ) -> None:
        self.kind = kind
        self._own = tuple(own)
        self._values: dict[str, T] = dict(own)
        self._adapt = adapt
        self._key = object()

    def __getitem__(self, name: str) -> T:
        """The value of that name; a UserError if the name is unknown or cannot be imported."""
        for entries in self._scopes():
            if name in entries:
                return cast(T, entries[name][1])
        if name not in self._values:
            if ":" not in name:
                raise unknown(self.kind, name, self)
            self._values[name] = self._adapt_object(name, partial(import_object, name))
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __contains__(self, name: object) -> bool:
        return name in self._values or any(name in entries for entries in self._scopes())

    def used(self) -> list[str]:
        """The names that every process knows, then those of objects in the active scopes."""
        return list(dict.fromkeys([*self, *(name for entries in self._scopes() for name in entries)]))

    def add(self, name: str, value: T) -> T:
        """Add a value in the active scope, or replace it; UserError if the name is built in."""
        if name in self._own and self[name] is not value:
            raise UserError(f"there is a {self.kind} {name!r} already; choose another name")
        self._scopes()[0][name] = (value, value)
        return value

    def name_of(self, value: object) -> str:
        """The name of a value that is given as a name or as an object; a UserError if it cannot be used.

        An object is known by its qualified name, by which another process can import it, in the active scope. A later
        object with the same name replaces it there.
        """
        if isinstance(value, str):
            self[value]
            return value
        if known := next((name for name, each in self._values.items() if each is value), None):
            return known
        name = qualified_name(value)
        entries = self._scopes()[0]
        if name not in entries or entries[name][0] is not value:
            entries[name] = (value, self._adapt_object(name, lambda: value))
        return name

    def _scopes(self) -> list[dict[str, tuple[object, Any]]]:
        return [scope.values.setdefault(self._key, {}) for scope in _ACTIVE.get()]

    def _adapt_object(self, name: str, load: Callable[[], Any]) -> T:
        try:
            return self._adapt(name, load())
        except UserError:
            raise
        except Exception as error:  # another package's module can raise anything
            raise UserError(f"{self.kind} {name!r} cannot be imported: {type(error).__name__}: {error}") from error


def qualified_name(value: object) -> str:
    """``module:object`` of a function or a class; for another object that of its class.

    Functions that share such a name (lambdas, nested functions, partials) also get a hash of their code and of the
    plain values that they hold.
    """
    contents: list[object] = []
    while isinstance(value, partial):
        contents += [each for each in (value.args, value.keywords) if each]
        value = value.func
    named: Any = value if hasattr(value, "__qualname__") else type(value)
    name = f"{named.__module__}:{named.__qualname__}"
    if "<" in name and hasattr(named, "__code__"):
        cells = [cell.cell_contents for cell in named.__closure__ or ()]
        contents += [named.__code__, named.__defaults__, named.__kwdefaults__, cells]
    return f"{name}#{sha256(repr(_plain(contents)).encode()).hexdigest()[:8]}" if contents else name


def _plain(value: object) -> object:
    """A value whose repr is the same in every process: code and containers by their content, objects by their class."""
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, _plain(value.co_consts)]
    if isinstance(value, Mapping):
        return [(key, _plain(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, frozenset | set):
        return sorted(repr(_plain(each)) for each in value)
    return value if value is None or isinstance(value, str | bytes | int | float) else type(value).__qualname__


def import_object(name: str) -> Any:
    """The object of ``module:object``.

    The module may lie in the working directory, and then imports its neighbours. No other import searches there.
    """
    root, before = name.partition(":")[0].partition(".")[0], sys.path
    if root not in sys.modules and find_spec(root) is None:
        sys.path = [*before, str(Path.cwd())]
    try:
        return resolve_name(name)
    finally:
        sys.path = before
