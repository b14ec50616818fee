"""YAML and JSON files as pydantic models, with helpful errors."""

import re
from collections.abc import Sequence
from inspect import isclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, RootModel, ValidationError

from madke._util.files import open_unpacked
from madke.core.errors import UserError, nearest, short

M = TypeVar("M", bound=BaseModel)

_MAX_QUOTED = 200  # Characters that an error quotes of a value.

_UNION_MEMBER = re.compile(r"[-\[]")
"""Found in pydantic's names of union members (``constrained-int``), never in field names."""

_MAX_VALUES = 50_000
_MAX_DIGITS = 100


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which also refuses duplicate keys and documents that :func:`_size` refuses."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _size(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            # Keys of a merged mapping (<<) may be overridden.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _loader_error(f"{key.value!r} is already on line {seen[key.value]}", key)
                seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, known: dict[yaml.Node, float]) -> float:
    """Number of values in a node with aliases expanded. Refuses too many values and numbers that are too long."""
    if node not in known:
        known[node] = inf  # an alias within its own target
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
        known[node] = 1 + sum(_size(part, known) for part in parts)
        if known[node] > _MAX_VALUES:
            raise _loader_error(f"aliases and lists expand to more than {_MAX_VALUES:,} values", node)
        if node.tag.endswith((":int", ":float")) and len(node.value) > _MAX_DIGITS:
            raise _loader_error(f"a number of {len(node.value):,} characters; expected at most {_MAX_DIGITS}", node)
    return known[node]


def _loader_error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def read_yaml(path: Path, model: type[M]) -> M:
    """The file as a model. UserError if it is missing or invalid."""
    return validate(read_mapping(path), model, file=path)


def read_json(path: Path, model: type[M], wrong: str) -> M:
    """The JSON file as a model. UserError if it cannot be read; ``wrong`` is the message if it is invalid."""
    with open_unpacked(path) as file:
        content = file.read()
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{wrong} ({where}: {first['msg']})", file=path) from None


def read_content(path: Path, text: str | None = None) -> tuple[Any, str]:
    """Content and text of a YAML file. ``text``: the text, if already read. UserError if it is not YAML."""
    try:
        if text is None:
            with open_unpacked(path) as file:
                text = re.sub("\r\n?", "\n", file.read().decode())
        return yaml.load(text, Loader=_Loader), text
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise UserError(f"is not YAML: {error.problem}", file=path, line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"is not YAML: {' '.join(str(error).split())[:200]}", file=path) from None


def read_mapping(path: Path, text: str | None = None) -> dict[str, Any]:
    """The mapping in a YAML file; empty for an empty file. ``text``: the text, if already read."""
    content, _ = read_content(path, text)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"expected a mapping at the top level, found {type(content).__name__}", file=path)
    return content


def read_entries(path: Path) -> dict[str, tuple[int, Any]]:
    """Name -> (1-based line, value) of the mapping in a YAML file."""
    content, top = read_mapping(path), _compose(path)
    lines = {key: _line(top, (key,)) or 1 for key in content}
    if wrong := [key for key in content if not isinstance(key, str)]:
        raise UserError(f"expected a name, found {wrong[0]!r}", file=path, line=lines[wrong[0]])
    return {key: (lines[key], value) for key, value in content.items()}


def validate(content: Any, model: type[M], *, file: Path | str | None = None, within: Sequence[str | int] = ()) -> M:
    """The content of a YAML file, or a part of it, as a model; UserError with the first wrong key and its line.

    ``file`` is the file, or a description of the place; ``within`` are the keys that lead to the content in the file.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # For a union, the deepest error belongs to the intended member. An unknown key is a better message than a
        # missing one.
        first = max(
            error.errors(include_url=False), key=lambda found: (len(found["loc"]), found["type"] == "extra_forbidden")
        )
        line = line_of(file, (*within, *first["loc"])) if isinstance(file, Path) else None
        label = "".join(f"{part}: " for part in within)
        place = ".".join(str(part) for part in first["loc"] if not _UNION_MEMBER.search(str(part)))[:_MAX_QUOTED]
        if first["type"] == "extra_forbidden":
            known = [*_keys(model)]
            near = nearest(str(first["loc"][-1]), known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
            raise UserError(f"{label}unknown key {place!r}; {hint}", file=file, line=line) from None
        message = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] in ("missing", "value_error") else f", found {short(first['input'], _MAX_QUOTED)}"
        raise UserError(f"{label}{place + ': ' if place else ''}{message}{found}", file=file, line=line) from None


def line_of(file: Path, keys: Sequence[str | int]) -> int | None:
    """The 1-based line of a value in a YAML file, or of its nearest parent; None if neither exists.

    ``keys`` is the path from the top: keys of mappings and positions in lists. Missing parts are skipped, such as the
    names of union members in pydantic's ``loc``.
    """
    return _line(_compose(file), keys)


def _compose(file: Path) -> yaml.Node | None:
    try:
        return yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _line(node: yaml.Node | None, keys: Sequence[str | int]) -> int | None:
    line = None
    for key in keys:
        if isinstance(node, yaml.SequenceNode):
            parts: dict[Any, Any] = {str(n): (value, value) for n, value in enumerate(node.value)}
        else:
            mapping = node.value if isinstance(node, yaml.MappingNode) else []
            parts = {name.value: (name, value) for name, value in mapping}
        if (part := parts.get(str(key))) is not None:
            line, node = part[0].start_mark.line + 1, part[1]
    return line


def _keys(annotation: Any, above: tuple[Any, ...] = ()) -> dict[str, None]:
    """All keys that the models in a type have, at any depth: those at the top first. A model may contain itself."""
    if annotation in above:
        return {}
    if isclass(annotation) and issubclass(annotation, BaseModel):
        items = annotation.model_fields.items()
        inner = [key for _, field in items for key in _keys(field.annotation, (*above, annotation))]
        own = [] if issubclass(annotation, RootModel) else [field.alias or name for name, field in items]
        return dict.fromkeys([*own, *inner])
    return dict.fromkeys(key for part in get_args(annotation) for key in _keys(part, above))
