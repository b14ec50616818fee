"""Includes made part of the template that has them, so that rendering it opens no context for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jinja2 import meta, nodes
from jinja2.visitor import NodeTransformer

_MOST = 100
"""Includes of one template that are inlined. Files that include each other twice would make it grow without end."""
_DEEPEST = 10
"""Files inside each other."""


def inlined(tree: nodes.Template, name: str | None, parsed: Callable[[str], nodes.Template]) -> nodes.Template:
    """A template with its includes inlined, and theirs, wherever that renders to the same text.

    An include stays one where its name is no plain text, where it goes round in a circle, where the included file has
    blocks, where it uses a name that the including template sets further down, and behind a hundred others.

    Args:
        tree: The template; it is changed.
        name: Its name, if it has one.
        parsed: Parses a template by its name.
    """
    return _Inliner(parsed, [_MOST], () if name is None else (name,)).visit(tree)  # type: ignore[no-any-return]


class _Inliner(NodeTransformer):
    """Inlines into one file; ``within`` are the names of the files around it and its own."""

    def __init__(self, parsed: Callable[[str], nodes.Template], left: list[int], within: tuple[str, ...]) -> None:
        self._parsed, self._left, self._within = parsed, left, within
        self._set: list[tuple[int, str]] = []

    def visit_Template(self, node: nodes.Template) -> nodes.Node:
        self._set = list(_names_set(node))
        return self.generic_visit(node)

    def visit_Include(self, node: nodes.Include) -> nodes.Node:
        name = node.template.value if isinstance(node.template, nodes.Const) else None
        if not isinstance(name, str) or node.ignore_missing or not node.with_context:
            return node
        if name in self._within or len(self._within) == _DEEPEST or not self._left[0]:
            return node
        tree = self._parsed(name)
        if tree.find(nodes.Block):
            return node
        used = meta.find_undeclared_variables(tree)
        if any(line >= node.lineno and known in used for line, known in self._set):
            return node  # A scope does not see past a name that is set behind it; an included file does.
        self._left[0] -= 1
        _Inliner(self._parsed, self._left, (*self._within, name)).visit(tree)
        return nodes.Scope(tree.body, lineno=node.lineno)


def _names_set(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Line and name of whatever a template sets."""
    yield from ((node.lineno, node.name) for node in tree.find_all(nodes.Name) if node.ctx != "load")
    yield from ((node.lineno, node.name) for node in tree.find_all(nodes.Macro))
    yield from ((node.lineno, node.target) for node in tree.find_all(nodes.Import))
    for node in tree.find_all(nodes.FromImport):
        yield from ((node.lineno, name if isinstance(name, str) else name[1]) for name in node.names)
