"""YAML files that fill a pydantic model, with errors for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from madke.core.errors import UserError

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_QUOTED = 200
"""Characters that an error quotes of a value."""

_FORM = re.compile(r"[-\[]")
"""In pydantic's names for the forms of a value (``constrained-int``), and in no field's name."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, of which YAML's own loader keeps the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if its keys differ."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            # A merged mapping (<<) may be overridden; that is what it is for.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    problem = f"{key.value!r} stands on line {seen[key.value]} already"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, model: type[M]) -> M:
    """The model that the file describes.

    Raises:
        UserError: The file is missing, is no YAML mapping, or has unknown keys or wrong values.
    """
    return validated(read_mapping(path), model, file=path)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; the empty one if the file holds nothing.

    Raises:
        UserError: The file is missing or is no YAML mapping.
    """
    content = _read(path, lambda text: yaml.load(text, Loader=_Loader))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"expected a mapping at the top level, found {type(content).__name__}", file=path)
    return content


def read_entries(path: Path) -> dict[str, tuple[int, Any]]:
    """Key -> (1-based line, value) of the mapping in a YAML file; the empty one if the file holds nothing.

    Raises:
        UserError: The file is missing or is no YAML mapping, a key is no text, or it stands there twice.
    """

    def entries(text: str) -> dict[str, tuple[int, Any]]:
        loader = yaml.SafeLoader(text)
        top = loader.get_single_node()
        found: dict[str, tuple[int, Any]] = {}
        if top is None:
            return found
        if not isinstance(top, yaml.MappingNode):
            raise UserError("expected a mapping at the top level", file=path, line=top.start_mark.line + 1)
        for key_node, value_node in top.value:
            key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise UserError(f"expected a name, found {key!r}", file=path, line=line)
            if key in found:
                raise UserError(f"{key!r} stands on line {found[key][0]} already", file=path, line=line)
            found[key] = line, loader.construct_object(value_node, deep=True)
        return found

    return _read(path, entries)


def _read(path: Path, load: Callable[[str], T]) -> T:
    try:
        return load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise UserError(f"is not YAML: {error.problem}", file=path, line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"is not YAML: {' '.join(str(error).split())[:200]}", file=path) from None


def validated(content: Any, model: type[M], *, file: Path | str | None = None) -> M:
    """The content as a model, or a UserError that names the first wrong key, what was found and what was expected."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # Where a value may take several forms, the error deepest inside it is about the form that was meant.
        first = max(error.errors(include_url=False), key=lambda found: len(found["loc"]))
        place = _short(".".join(str(part) for part in first["loc"] if not _FORM.search(str(part))), plain=True)
        if first["type"] == "extra_forbidden":
            raise UserError(f"unknown key {place!r}", file=file) from None
        message = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] in ("missing", "value_error") else f", found {_short(first['input'])}"
        raise UserError(f"{place + ': ' if place else ''}{message}{found}", file=file) from None


def _short(value: object, *, plain: bool = False) -> str:
    text = str(value) if plain else repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
