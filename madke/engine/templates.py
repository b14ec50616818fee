"""Jinja's sandbox over the templates of prompts: what they may use, what they name, and what is wrong with one."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import FunctionLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range

from madke._util.assets import asset
from madke._util.files import open_unpacked
from madke.core.errors import UserError
from madke.engine.parse.answer import Marker, marked
from madke.engine.reading import quoted

MAX_BYTES = 1 << 16
"""Of a template's file."""


def read_prompt(path: Path) -> str:
    """The text of a file in a variant's folder; UserError unless it is a small regular UTF-8 file inside it."""
    root, real = path.parent.parent, Path(os.path.realpath(path))
    # Package managers may install the shipped files as links.
    if root != asset("prompts") and not real.is_relative_to(os.path.realpath(root)):
        raise UserError(f"is a link to {str(real)!r}; expected a file inside {root}", file=path)
    try:
        with open_unpacked(path, packed=True) as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"is larger than {MAX_BYTES:,} bytes; expected a short text", file=path)
        return content.decode()
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None


class TemplateNames(NamedTuple):
    """The names in a template, and in all that it includes or extends."""

    used: frozenset[str]
    """Values."""
    optional: frozenset[str]
    """Values that it sets itself, or gives a default."""
    files: frozenset[str]
    """The templates."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox over texts, then over folders in this order; templates have no functions but ``range``."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, folders: tuple[Path, ...], texts: tuple[tuple[str, str], ...], marker: Marker) -> None:
        known = dict(texts)

        def load(template: str) -> tuple[str, str | None, None] | None:
            if template in known:
                return known[template], None, None
            paths = (folder.joinpath(*split_template_path(template)) for folder in folders)
            path = next((path for path in paths if os.path.lexists(path)), None)
            return None if path is None else (read_prompt(path), str(path), None)

        super().__init__(
            loader=FunctionLoader(load),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # use the templates that were checked and fingerprinted
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self.globals = {"range": safe_range}
        self.filters |= {
            "marked": lambda answer: marked(answer, marker),
            "quoted": quoted,
            "on_one_line": lambda text: " ".join(str(text).split()),
        }
        self.checked: set[tuple[str, str | None, frozenset[str]]] = set()
        """Stage, prompt and prepare stages of the templates that passed the checks."""
        self._own: dict[str, TemplateNames] = {}
        self._all: dict[str, TemplateNames] = {}
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """As Jinja decides it, by the type and the name; kept, since a prompt reads dozens."""
        key = (type(obj), attr)
        if key not in self._safe:
            self._safe[key] = super().is_safe_attribute(obj, attr, value)
        return self._safe[key]

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A product of numbers; a SecurityError for powers and for texts and lists that are repeated."""
        if operator == "**" or not all(isinstance(value, int | float) for value in (left, right)):
            raise SecurityError(f"{operator} is not available in templates, except * for numbers")
        return super().call_binop(context, operator, left, right)

    def text(self, template: str) -> str:
        """The text of a template."""
        assert self.loader is not None
        return self.loader.get_source(self, template)[0]

    def names(self, template: str) -> TemplateNames:
        """The names in a template and in all that it includes or extends."""
        if template not in self._all:
            left, by_template = [template], dict[str, TemplateNames]()
            while left:
                if (name := left.pop()) not in self._own:
                    self._own[name] = self._names_in(name)
                by_template[name] = self._own[name]
                left += by_template[name].files - by_template.keys()
            used, optional, _ = (frozenset[str]().union(*each) for each in zip(*by_template.values(), strict=True))
            self._all[template] = TemplateNames(used, optional, frozenset(by_template))
        return self._all[template]

    def _names_in(self, name: str) -> TemplateNames:
        try:
            tree = self.parse(self.text(name), name)
            used = frozenset(meta.find_undeclared_variables(tree))
        except TemplateSyntaxError as error:
            error.name = name
            raise
        # Included templates can use variables that this one sets; those with a default may be missing.
        optional = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
        defaulted = (each.node for each in tree.find_all(nodes.Filter) if each.name == "default")
        optional |= {node.name for node in defaulted if isinstance(node, nodes.Name)}
        return TemplateNames(used, frozenset(optional), frozenset(filter(None, meta.find_referenced_templates(tree))))


@lru_cache(maxsize=64)
def sandbox_of(
    folders: tuple[Path, ...], texts: tuple[tuple[str, str], ...], marker: Marker, files: tuple[tuple[str, str], ...]
) -> Sandbox:
    """The sandbox of these folders and texts, kept for the next prompt; ``files`` are their fingerprints."""
    return Sandbox(folders, texts, marker)  # changed ``files`` get a new one


def template_fault(error: Exception, template: str, path: Path) -> UserError:
    """What an exception says of a template, which is in ``path``."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, TemplateSyntaxError):
        where = "" if error.name == path.name else f"{error.name}: "
        line = error.lineno if path.name == template else None  # of the text, not of a file of words
        return UserError(f"is not a template: {where}{error.message}", file=path, line=line)
    if isinstance(error, TemplateNotFound):
        return UserError(f"needs a template {error.name!r}, which is missing", file=path)
    return UserError(f"cannot be rendered: {error or type(error).__name__}", file=path)
