"""YAML files that fill a pydantic model, with errors for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import isclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, RootModel, ValidationError

from madke.core.errors import UserError, nearest

M = TypeVar("M", bound=BaseModel)

_QUOTED = 200  # Characters that an error quotes of a value.

_FORM = re.compile(r"[-\[]")
"""In pydantic's names for the forms of a value (``constrained-int``), and in no field's name."""


_MAX_VALUES = 50_000
_MAX_DIGITS = 100


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which refuses a key that stands twice in a mapping, and what :func:`_size` refuses."""

    def get_single_node(self) -> yaml.Node | None:
        """The document, if it is no larger than it looks."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if its keys differ."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            # A merged mapping (<<) may be overridden; that is what it is for.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _refused(f"{key.value!r} stands on line {seen[key.value]} already", key)
                seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, known: dict[yaml.Node, float]) -> float:
    """How many values a node stands for, aliases expanded; refuses too many, and numbers too long to read."""
    if node not in known:
        known[node] = inf  # an alias inside what it stands for
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
        known[node] = 1 + sum(_size(part, known) for part in parts)
        if known[node] > _MAX_VALUES:
            raise _refused(f"aliases and lists expand to more than {_MAX_VALUES:,} values", node)
        if node.tag.endswith((":int", ":float")) and len(node.value) > _MAX_DIGITS:
            raise _refused(f"a number of {len(node.value):,} characters; expected at most {_MAX_DIGITS}", node)
    return known[node]


def _refused(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def read_yaml(path: Path, model: type[M]) -> M:
    """The model that the file describes; UserError where it is missing or wrong."""
    return validated(read_mapping(path), model, file=path)


def read_content(path: Path, text: str | None = None) -> tuple[Any, str]:
    """What a YAML file holds, of whatever type, and its text; see :func:`read_mapping`."""
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
        return yaml.load(text, Loader=_Loader), text
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise UserError(f"is not YAML: {error.problem}", file=path, line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"is not YAML: {' '.join(str(error).split())[:200]}", file=path) from None


def read_mapping(path: Path, text: str | None = None) -> dict[str, Any]:
    """The mapping in a YAML file (``text``, where that has been read); the empty one if the file holds nothing."""
    content, _ = read_content(path, text)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"expected a mapping at the top level, found {type(content).__name__}", file=path)
    return content


def read_entries(path: Path) -> dict[str, tuple[int, Any]]:
    """Name -> (1-based line, value) of the mapping in a YAML file; see :func:`read_mapping`."""
    content, top = read_mapping(path), _composed(path)
    line = {key: _line(top, (key,)) or 1 for key in content}
    if wrong := [key for key in content if not isinstance(key, str)]:
        raise UserError(f"expected a name, found {wrong[0]!r}", file=path, line=line[wrong[0]])
    return {key: (line[key], value) for key, value in content.items()}


def validated(content: Any, model: type[M], *, file: Path | str | None = None, within: Sequence[str | int] = ()) -> M:
    """The content as a model.

    Args:
        content: What a YAML file holds, or a part of it.
        model: What it should be.
        file: Where it stands, for errors: a YAML file, or words that say where.
        within: The keys that lead to the content in the file.

    Raises:
        UserError: It is none. The message names the first wrong key and, in a file, its line.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # Where a value may take several forms, the error deepest inside it is about the form that was meant. A key that
        # nobody knows says more than that the right one is missing.
        first = max(
            error.errors(include_url=False), key=lambda found: (len(found["loc"]), found["type"] == "extra_forbidden")
        )
        line = line_of(file, (*within, *first["loc"])) if isinstance(file, Path) else None
        label = "".join(f"{part}: " for part in within)
        place = _short(".".join(str(part) for part in first["loc"] if not _FORM.search(str(part))), plain=True)
        if first["type"] == "extra_forbidden":
            hint = _instead(str(first["loc"][-1]), model, first["loc"][:-1])
            raise UserError(f"{label}unknown key {place!r}{hint}", file=file, line=line) from None
        message = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] in ("missing", "value_error") else f", found {_short(first['input'])}"
        raise UserError(f"{label}{place + ': ' if place else ''}{message}{found}", file=file, line=line) from None


def line_of(file: Path, keys: Sequence[str | int]) -> int | None:
    """The 1-based line of a YAML file on which something stands, or what it should stand in; None if nothing is there.

    ``keys`` lead to it, from the top: keys of mappings, places in lists. Those that are not there are passed over, as
    the names of the forms that a value may have are (pydantic's ``loc``).
    """
    return _line(_composed(file), keys)


def _composed(file: Path) -> yaml.Node | None:
    try:
        return yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _line(node: yaml.Node | None, keys: Sequence[str | int]) -> int | None:
    line = None
    for key in keys:
        if (found := _child(node, key)) is not None:
            mark, node = found
            line = mark.line + 1
    return line


def _child(node: yaml.Node | None, key: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    """Where a part of a list or mapping begins (its key), and the part; what a mapping merges (<<) is looked up too."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark, node.value[key]
    if not isinstance(node, yaml.MappingNode):
        return None
    for name, value in node.value:
        if isinstance(name, yaml.ScalarNode) and name.value == str(key):
            return name.start_mark, value
    merged = [value for name, value in node.value if name.tag == "tag:yaml.org,2002:merge"]
    others = [other for value in merged for other in (value.value if isinstance(value, yaml.SequenceNode) else [value])]
    return next(filter(None, (_child(other, key) for other in others)), None)


def _instead(key: str, model: type[BaseModel], place: Sequence[str | int]) -> str:
    """What may stand in the place of an unknown key: the nearest, or all there are."""
    models = _models(model)
    for part in place:
        inner = [field for each in models if (field := each.model_fields.get(str(part)))]
        models = [found for field in inner for found in _models(field.annotation)] or models
    known = list(dict.fromkeys(field.alias or name for each in models for name, field in each.model_fields.items()))
    if near := nearest(key, known):
        return f"; did you mean {near!r}?"
    return f"; known: {', '.join(known)}" if known else ""


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type; of one that only stands for a value, those in the value's."""
    if isclass(annotation) and issubclass(annotation, RootModel):
        return _models(annotation.model_fields["root"].annotation)
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]


def _short(value: object, *, plain: bool = False) -> str:
    text = str(value) if plain else repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
