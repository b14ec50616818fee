"""Show the roles of docstrings (:func:`madke.ask`) as Markdown: a link, or code where no page has the name."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any

import griffe

import madke

_ROLE = re.compile(r":(?:func|class|meth|data|attr|mod|exc):`~?([\w.]+)`")


def to_markdown(text: str) -> str:
    """Replace every role in a docstring."""
    return _ROLE.sub(lambda found: _reference(found.group(1)), text)


def _reference(target: str) -> str:
    public = target.removeprefix("madke.").rpartition(".")[2] if target.startswith("madke.") else target
    return f"[`{target}`][madke.{public}]" if public in madke.__all__ else f"`{target}`"


class SphinxRoles(griffe.Extension):
    """Replaces the roles before the handler renders a docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if isinstance(obj, griffe.Attribute):
            _describe_option(obj)
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def _describe_option(field: griffe.Attribute) -> None:
    """A field of RunOptions has its description in the call that makes it; show that as its docstring."""
    call = field.value
    if isinstance(call, griffe.ExprCall) and str(call.function) == "_option":
        default, description = call.arguments[:2]
        field.value = default
        if field.docstring is None:
            field.docstring = griffe.Docstring(literal_eval(str(description)), parent=field)
