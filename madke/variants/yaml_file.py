"""YAML files that fill a pydantic model, with errors for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from madke.core.errors import UserError

M = TypeVar("M", bound=BaseModel)

_FORM = re.compile(r"[-\[]")
"""In pydantic's names for the forms of a value (``constrained-int``), and in no field's name."""


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
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise UserError(f"is not YAML: {error.problem}", file=path, line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"is not YAML: {' '.join(str(error).split())[:200]}", file=path) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"expected a mapping at the top level, found {type(content).__name__}", file=path)
    return content


def validated(content: dict[str, Any], model: type[M], *, file: Path | str | None = None) -> M:
    """The mapping as a model, or a UserError that names the first wrong key, what was found and what was expected."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # Where a value may take several forms, the error deepest inside it is about the form that was meant.
        first = max(error.errors(include_url=False), key=lambda found: len(found["loc"]))
        place = ".".join(str(part) for part in first["loc"] if not _FORM.search(str(part)))
        if first["type"] == "extra_forbidden":
            raise UserError(f"unknown key {place!r}", file=file) from None
        message = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] in ("missing", "value_error") else f", found {first['input']!r}"
        raise UserError(f"{place + ': ' if place else ''}{message}{found}", file=file) from None
