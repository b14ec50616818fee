"""Sandbox for untrusted templates: which files are read, what templates may do, and how much.

Jinja's sandbox protects the program's objects. Three limits hold for every render: **steps** (each run of a loop,
macro, block or file body costs 20, plus one for each syntax node in it), **characters** (each text that is shown or
made costs its length) and a **smaller language**. The language has no operation that makes large values from small
ones: no ``**``, ``*`` and ``%`` only for numbers, no nested lists, padding or formatting, no ``range`` above 1,000.
"""

import os
from collections.abc import Iterable, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import FunctionLoader, StrictUndefined, nodes, pass_context, pass_environment
from jinja2.environment import Environment
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from madke._util.assets import asset
from madke.core.errors import UserError

MAX_BYTES = 1 << 16
MAX_STEPS = 1_000_000
MAX_CHARACTERS = 20_000_000
_BODY = 20
_MAX_INLINED = 5_000
"""Syntax nodes of included files that one template takes in; each file counts for 100 more."""
_MAX_RANGE = 1000
_MAX_NUMBER = 1e15

_GROWING = frozenset((
    "center", "encode", "expandtabs", "format", "format_map", "join", "ljust", "replace", "rjust",
    "translate", "zfill",
))  # fmt: skip
"""String methods whose result can be much longer than the text."""

_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "groupby", "int", "items", "last",
    "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select",
    "selectattr", "sort", "string", "trim", "truncate", "unique", "upper", "title", "wordcount",
)  # fmt: skip

_STATE = ("varargs", "kwargs")
"""Names with which macros could nest tuples."""


Checked = tuple[frozenset[str], tuple[str, ...]]
"""The variables that a template uses, also through includes and parents; its texts for example values."""


class Names(NamedTuple):
    """The names in a template's own text."""

    undeclared: set[str]
    optional: set[str]
    """Variables that it sets, or gives a default."""
    templates: list[str]
    """Templates that it includes or extends."""


def read_prompt(path: Path) -> str:
    """The text of a file in a variant's folder; UserError unless it is a small regular UTF-8 file inside it."""
    root, real = path.parent.parent, Path(os.path.realpath(path))
    # Package managers may install the shipped files as links.
    if root != asset("prompts") and not real.is_relative_to(os.path.realpath(root)):
        raise UserError(f"is a link to {str(real)!r}; expected a file inside {root}", file=path)
    try:
        if path.exists() and not path.is_file():  # reading a FIFO would block
            raise UserError("is not a regular file", file=path)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"is larger than {MAX_BYTES:,} bytes; expected a short text", file=path)
        return content.decode()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None


def _found(folders: Sequence[Path], template: str) -> tuple[str, str, None] | None:
    """Text and file of a template in the first folder that has it."""
    parts = split_template_path(template)
    for folder in folders:
        if os.path.lexists(path := folder.joinpath(*parts)):
            return read_prompt(path), str(path), None
    return None


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox over ``folders``, in this order, with a budget for each render and fewer operations."""

    def __init__(self, *folders: Path) -> None:
        super().__init__(
            loader=FunctionLoader(partial(_found, folders)),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # use the templates that were checked and fingerprinted
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self.budget = RenderBudget()
        self.finalize = self.budget.shown
        self.filters = _bounded_filters(self.budget)
        self.globals = {"range": _range}
        self.checked: dict[tuple[str, str, frozenset[str]], Checked] = {}
        """(Template, stage, prepare stages) -> result of the checks."""
        self.shown: dict[str, frozenset[str]] = {}
        """Template of a stage -> the variables that it uses, also those with a default."""
        self.names: dict[str, Names] = {}
        """Template -> the names in it."""
        self.inlined = set[str]()
        """Templates that were compiled as parts of those that include them."""
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may read an attribute; cached for each type and name."""
        key = (type(obj), attr)
        if key not in self._safe:
            bounded = attr not in _GROWING if isinstance(obj, str) else not isinstance(obj, int | float)
            self._safe[key] = bounded and super().is_safe_attribute(obj, attr, value)
        return self._safe[key]

    def wrap_str_format(self, value: Any) -> None:
        """Returns None, which disables ``str.format``: it pads to any width."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result of an operator; a SecurityError if it can be much larger than the operands."""
        if operator == "+" and isinstance(left, str | list | tuple) and type(left) is type(right):
            self.budget.spend_characters(len(left) + len(right))
        elif operator == "**":
            raise SecurityError("** is not available in templates")
        elif not all(isinstance(value, int | float) and abs(value) < _MAX_NUMBER for value in (left, right)):
            raise SecurityError(f"{operator} takes two numbers below {_MAX_NUMBER:,.0f}")
        return super().call_binop(context, operator, left, right)

    def _generate(self, source: nodes.Template, *rest: Any, **others: Any) -> str:
        tree: nodes.Template = _Bounding(self).visit(source)
        tree.set_environment(self)
        return super()._generate(tree, *rest, **others)

    def parsed(self, name: str) -> nodes.Template:
        """The syntax tree of a template, a new one each time."""
        assert self.loader is not None
        return self.parse(self.loader.get_source(self, name)[0], name)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The environment's globals; templates have none of their own."""
        return self.globals


class RenderBudget:
    """The steps and characters that one render has left. Exceeding them is a SecurityError."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset the budget for a new render."""
        self.steps, self.characters = MAX_STEPS, MAX_CHARACTERS

    def spend_steps(self, count: int) -> None:
        """Spend steps."""
        self.steps -= count
        if self.steps < 0:
            raise SecurityError(f"takes more than {MAX_STEPS:,} steps; expected fewer or shorter loops")

    def spend_characters(self, count: int) -> None:
        """Spend the length of a text."""
        self.characters -= count
        if self.characters < 0:
            raise SecurityError(f"makes more than {MAX_CHARACTERS:,} characters; expected less text")

    def shown(self, value: Any) -> str:
        """The value as text; spends its length."""
        text = value if type(value) is str else str(value)
        self.spend_characters(len(text))
        return text

    def measured(self, value: Any) -> Any:
        """The value itself; spends the length of a text, list or tuple."""
        if isinstance(value, str | list | tuple):
            self.spend_characters(len(value))
        return value


def _bounded_filters(budget: RenderBudget) -> dict[str, Any]:
    """Jinja's filters whose result is about as long as their input, and replacements that check the length first."""

    @pass_context  # keeps Jinja from computing it at compile time
    def run(_: Context, steps: int, characters: int) -> str:
        budget.spend_steps(steps)
        budget.spend_characters(characters)
        return ""

    @pass_environment
    def join(environment: Environment, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        get = make_attrgetter(environment, attribute)
        texts = [str(get(item)) for item in value]
        budget.spend_characters(sum(map(len, texts)) + len(str(d)) * len(texts))
        return str(d).join(texts)

    def replace(s: str, old: str, new: str, count: int = -1) -> str:
        budget.spend_characters(str(s).count(str(old)) * len(str(new)))
        return str(s).replace(str(old), str(new), count)

    def indent(s: str, width: int = 4, first: bool = False, blank: bool = False) -> Any:
        width = min(int(width), 100)
        budget.spend_characters(width * (len(str(s).splitlines()) + 1))
        return FILTERS["indent"](str(s), width, first, blank)

    own = {"_run": run, "_concat": join, "_flat": _flat, "_measured": budget.measured}
    return {name: FILTERS[name] for name in _FILTERS} | own | {"join": join, "replace": replace, "indent": indent}


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


class _Bounding(NodeTransformer):
    """Adds calls to a template that spend its budget. Forbidden syntax is a TemplateSyntaxError.

    Jinja calls ``visit_X`` for each node of type ``X`` and puts the result in its place. ``generic_visit`` does this
    for the nodes inside.
    """

    def __init__(self, environment: Sandbox) -> None:
        self._environment = environment
        self._room = _MAX_INLINED
        """Syntax nodes that may still be taken in from included files."""

    def _body(self, node: Any) -> nodes.Node:
        """The node, whose body first spends its steps and the length of its texts."""
        inside = list(node.find_all(nodes.Node))  # counted first: visiting adds nodes
        shown = sum(len(part.data) for part in inside if isinstance(part, nodes.TemplateData))
        self.generic_visit(node)
        extends = [child for child in node.body if isinstance(child, nodes.Extends)]
        if extends:
            # "extends" must come first. Only the blocks of such a template run, and each spends its own steps.
            rest = [child for child in node.body if not isinstance(child, nodes.Extends)]
            node.body = [*extends, *rest]
        else:
            spend = _filtered(nodes.Const(_BODY + len(inside)), "_run", nodes.Const(shown))
            node.body = [nodes.ExprStmt(spend, lineno=node.lineno), *node.body]
        return node  # type: ignore[no-any-return]

    visit_Template = visit_Block = visit_For = visit_Macro = _body

    def visit_Include(self, node: nodes.Include) -> nodes.Node:
        """The nodes of the included file instead of the include: it renders in two thirds of the time.

        The include stays if the file's name is computed, the file has blocks or a parent, or no room is left.
        """
        self.generic_visit(node)
        fixed_name = node.template.value if isinstance(node.template, nodes.Const) else None
        if fixed_name is None or not node.with_context or self._room < 0:
            return node
        tree = self._environment.parsed(fixed_name)
        self._room -= 100 + len(list(tree.find_all(nodes.Node)))
        is_plain = not tree.find(nodes.Block) and not tree.find(nodes.Extends)
        if self._room < 0 or not is_plain:
            return node
        self._environment.inlined.add(fixed_name)
        return nodes.Scope(self.visit(tree).body, lineno=node.lineno)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        """A ``{% call %}`` block, whose body spends steps."""
        call = node.call
        self._body(node)
        node.call = call  # Jinja needs the plain call; the called macro spends the steps
        return node

    def visit_Name(self, node: nodes.Name) -> nodes.Node:
        """The name, unless templates may not use it."""
        if node.name in _STATE:
            raise TemplateSyntaxError(f"{node.name} is not available in templates", node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """``a ~ b`` as a join, which spends the length of the result."""
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def _literal(self, node: Any) -> nodes.Node:
        """A list, tuple or dictionary, which may not hold another one. Targets of assignments stay as they are."""
        self.generic_visit(node)
        is_target = getattr(node, "ctx", "load") != "load"
        return node if is_target else _filtered(node, "_flat")

    visit_List = visit_Tuple = visit_Dict = _literal

    def _measured(self, node: Any) -> nodes.Node:
        """The expression, whose result spends its length."""
        self.generic_visit(node)
        return _filtered(node, "_measured")

    visit_Call = visit_Compare = visit_Filter = _measured

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        """A ``{% set x %}`` block, whose text spends its length."""
        self.generic_visit(node)
        node.filter = node.filter or _filtered(None, "_measured")  # a filter without a node reads the block's text
        return node


def _filtered(node: nodes.Expr | None, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=getattr(node, "lineno", 0))
