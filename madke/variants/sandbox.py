"""The Jinja environment of a variant: a sandbox, since a folder of prompts may come from anybody."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, TemplateError, TemplateNotFound, nodes
from jinja2.environment import Environment
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from madke.variants.bounds import GROWING, Budget, binary, bound, bounded_filters, bounded_globals
from madke.variants.folder import read_prompt
from madke.variants.inlining import inlined


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, made for templates that include several others and are rendered for every call.

    Args:
        folders: Where templates are looked for, the first first.
    """

    def __init__(self, *folders: Path) -> None:
        super().__init__(
            loader=_TemplateLoader(folders),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # what was checked and fingerprinted is what is used
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self.budget = Budget()
        """What a render may do; :meth:`madke.variants.bounds.Budget.renew` begins one."""
        self.finalize = self.budget.shown
        self.filters = bounded_filters(self.budget)
        self.globals = bounded_globals()
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may read an attribute. Jinja's rules know types and names, so it is asked once a pair."""
        key = (type(obj), attr)
        if key not in self._safe:
            bounded = attr not in GROWING if isinstance(obj, str) else not isinstance(obj, int | float)
            self._safe[key] = bounded and super().is_safe_attribute(obj, attr, value)
        return self._safe[key]

    def wrap_str_format(self, value: Any) -> None:
        """Jinja's exception for ``str.format``, which pads to any width: there is none here."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result of an operator, see :func:`madke.variants.bounds.binary`."""
        binary(self.budget, operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _generate(self, source: nodes.Template, *rest: Any, **others: Any) -> str:
        tree = bound(source)
        tree.set_environment(self)
        return super()._generate(tree, *rest, **others)

    def compile(
        self,
        source: str | nodes.Template,
        name: str | None = None,
        filename: str | None = None,
        *rest: Any,
        **others: Any,
    ) -> Any:
        """Compile a template with what it includes. Parsing it still shows the includes."""
        if isinstance(source, str):
            # Where that fails, as it stands: what is wrong is then told of the file that it is wrong in.
            with suppress(TemplateError, SyntaxError):
                tree = inlined(self.parse(source, name, filename), name, self._parsed)
                return super().compile(tree, name, filename, *rest, **others)
        return super().compile(source, name, filename, *rest, **others)

    def _parsed(self, name: str) -> nodes.Template:
        assert self.loader is not None
        source, filename, _ = self.loader.get_source(self, name)
        return self.parse(source, name, filename)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The environment's own globals, not a chain of them and a template's: no template has any of its own."""
        return self.globals


class _TemplateLoader(BaseLoader):
    """Finds templates in folders, the first first."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, None]:
        """The text of a template and its file.

        Raises:
            TemplateNotFound: No folder has it.
            UserError: It is no file that may be read; see :func:`madke.variants.folder.read_prompt`.
        """
        parts = split_template_path(template)
        for folder in self._folders:
            if os.path.lexists(path := folder.joinpath(*parts)):
                return read_prompt(path), str(path), None
        raise TemplateNotFound(template)
