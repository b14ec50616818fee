"""Limits on the work of a template, since a folder of prompts may come from anybody.

Templates are programs: nested loops, recursive macros and texts that double run for ever or fill the memory. Three
things together bound every render:

- **Steps.** Each run of the body of a loop, macro, block or file costs 20 steps, and one for each syntax node in it.
- **Characters.** Each text that is shown or made (by ``~``, ``+``, a call, a filter, ``{% set %}…{% endset %}``) costs
  its length.
- **A smaller language.** What can make much of little in one go is not there: ``**``, ``*`` and ``%`` of anything but
  numbers, lists in lists, padding and formatting, ``range`` above a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jinja2 import nodes, pass_context, pass_environment
from jinja2.environment import Environment
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

MAX_STEPS = 1_000_000
MAX_CHARACTERS = 20_000_000
_BODY = 20
"""Steps of entering a body, besides those of its nodes."""
_MAX_RANGE = 1000
_MAX_NUMBER = 1e15

GROWING = frozenset(
    (
        "center",
        "encode",
        "expandtabs",
        "format",
        "format_map",
        "join",
        "ljust",
        "replace",
        "rjust",
        "translate",
        "zfill",
    )
)
"""Methods of texts that no template may call: their result can be far longer than the text."""

_FILTERS = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "groupby",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "string",
    "trim",
    "truncate",
    "unique",
    "upper",
    "title",
    "wordcount",
)

_STATE = ("varargs", "kwargs")
"""Names through which macros could nest tuples in each other."""


class Budget:
    """What one render may still do."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin a render."""
        self.steps, self.characters = MAX_STEPS, MAX_CHARACTERS

    def spend_steps(self, count: int) -> None:
        """Run a body.

        Raises:
            SecurityError: The render takes too many steps.
        """
        self.steps -= count
        if self.steps < 0:
            raise SecurityError(f"takes more than {MAX_STEPS:,} steps; expected fewer or shorter loops")

    def spend_characters(self, count: int) -> None:
        """Make a text.

        Raises:
            SecurityError: The render makes too much text.
        """
        self.characters -= count
        if self.characters < 0:
            raise SecurityError(f"makes more than {MAX_CHARACTERS:,} characters; expected less text")

    def shown(self, value: Any) -> str:
        """The value as text, whose length is spent."""
        text = value if type(value) is str else str(value)
        self.spend_characters(len(text))
        return text

    def measured(self, value: Any) -> Any:
        """The value; the length of a text, list or tuple is spent."""
        if isinstance(value, str | list | tuple):
            self.spend_characters(len(value))
        return value


def bounded_filters(budget: Budget) -> dict[str, Any]:
    """Filters by name: those of Jinja whose result is about as long as what they read, and those that check first."""

    @pass_context  # what knows the context is not computed when a template is compiled
    def run(_: Context, steps: int, characters: int) -> str:
        budget.spend_steps(steps)
        budget.spend_characters(characters)
        return ""

    def concat(values: Iterable[Any]) -> str:
        texts = [str(value) for value in values]
        budget.spend_characters(sum(map(len, texts)))
        return "".join(texts)

    @pass_environment
    def join(environment: Environment, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        get = make_attrgetter(environment, attribute)
        texts = [str(get(item)) for item in value]
        budget.spend_characters(sum(map(len, texts)) + len(str(d)) * len(texts))
        return str(d).join(texts)

    def replace(s: str, old: str, new: str, count: int = -1) -> str:
        budget.spend_characters(str(s).count(str(old)) * len(str(new)))
        return str(s).replace(str(old), str(new), count)

    def indent(s: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
        margin = " " * min(int(width), 100)
        lines = str(s).split("\n")
        budget.spend_characters(len(margin) * len(lines))
        return "\n".join(margin + line if (n or first) and (line or blank) else line for n, line in enumerate(lines))

    own = {"_run": run, "_concat": concat, "_flat": _flat, "_measured": budget.measured}
    return {name: FILTERS[name] for name in _FILTERS} | own | {"join": join, "replace": replace, "indent": indent}


def bounded_globals() -> dict[str, Any]:
    """Functions by name."""
    return {"range": _range}


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > _MAX_RANGE:
        raise SecurityError(f"range of {len(numbers):,} numbers; expected at most {_MAX_RANGE:,}")
    return numbers


def _flat(values: Any) -> Any:
    items = values.values() if isinstance(values, dict) else values
    if any(isinstance(item, list | tuple | dict) for item in items):
        raise SecurityError("a list inside a list; expected texts and numbers")
    return values


def binary(budget: Budget, operator: str, left: Any, right: Any) -> None:
    """Check the operands of ``+``, ``*``, ``**`` and ``%``.

    Raises:
        SecurityError: The result could be far larger than they are.
    """
    if operator == "+" and isinstance(left, str | list | tuple) and type(left) is type(right):
        budget.spend_characters(len(left) + len(right))
    elif operator == "**":
        raise SecurityError("** is not available in templates")
    elif not all(isinstance(value, int | float) and abs(value) < _MAX_NUMBER for value in (left, right)):
        raise SecurityError(f"{operator} takes two numbers below {_MAX_NUMBER:,.0f}")


def bound(tree: nodes.Template) -> nodes.Template:
    """A template whose render spends its budget; it is changed.

    Raises:
        TemplateSyntaxError: It uses what templates of this kind may not use.
    """
    bounded_tree: nodes.Template = _Bounding().visit(tree)
    return bounded_tree


class _Bounding(NodeTransformer):
    def _body(self, node: Any) -> nodes.Node:
        inside = list(_all(node))
        shown = sum(len(part.data) for part in inside if isinstance(part, nodes.TemplateData))
        self.generic_visit(node)
        step = nodes.ExprStmt(
            _filtered(nodes.Const(_BODY + len(inside)), "_run", nodes.Const(shown)), lineno=node.lineno
        )
        # What extends another file must do so first; a file that does runs no more than its blocks.
        if not any(isinstance(child, nodes.Extends) for child in node.body):
            node.body = [step, *node.body]
        return node  # type: ignore[no-any-return]

    visit_Template = visit_Block = visit_For = visit_Macro = _body

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        call = node.call
        self._body(node)
        node.call = call  # Jinja wants the call itself; the macro that is called pays
        return node

    def visit_Name(self, node: nodes.Name) -> nodes.Node:
        if node.name in _STATE:
            raise TemplateSyntaxError(f"{node.name} is not available in templates", node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def _literal(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return node if getattr(node, "ctx", "load") != "load" else _filtered(node, "_flat")

    visit_List = visit_Tuple = visit_Dict = _literal

    def _measured(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_measured")

    visit_Call = visit_Compare = _measured

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "_measured")

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = node.filter or _filtered(None, "_measured")  # a filter without a node reads the block's text
        return node


def _filtered(node: nodes.Expr | None, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=getattr(node, "lineno", 0))


def _all(node: nodes.Node) -> Iterator[nodes.Node]:
    left = [node]
    while left:
        yield (found := left.pop())
        left += found.iter_child_nodes()
