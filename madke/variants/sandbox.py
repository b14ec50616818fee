"""The Jinja environment of a variant: a sandbox, since a folder of prompts may come from anybody."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from madke.variants.inlining import inlined


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, made for templates that include several others and are rendered for every call.

    Args:
        folders: Where templates are looked for, the first first.
    """

    def __init__(self, *folders: Path) -> None:
        super().__init__(
            loader=FileSystemLoader(folders),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # what was checked and fingerprinted is what is used
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may read an attribute. Jinja's rules know types and names, so it is asked once a pair."""
        key = (type(obj), attr)
        if key not in self._safe:
            self._safe[key] = super().is_safe_attribute(obj, attr, value)
        return self._safe[key]

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
