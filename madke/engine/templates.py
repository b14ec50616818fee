"""Templates in Jinja's sandbox: which files are read, their checks, the wording of tasks, and trial values."""

import os
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from jinja2 import FunctionLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.stage import Spoken
from madke.engine.reading import Group

MAX_BYTES = 1 << 16

_REQUIRED = ("system", "user")
BLOCKS: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "opening": "user",
    "own": "assistant",
    "user": "user",
}
"""Block -> role of its message, in the order of the messages. A history shown as a chat comes before the last."""
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


def _found(texts: Mapping[str, str], folders: Sequence[Path], template: str) -> tuple[str, str | None, None] | None:
    """Text and file of a template: one of ``texts``, or from the first folder that has it."""
    if template in texts:
        return texts[template], None, None
    parts = split_template_path(template)
    for folder in folders:
        if os.path.lexists(path := folder.joinpath(*parts)):
            return read_prompt(path), str(path), None
    return None


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox over ``texts``, then ``folders`` in this order; templates have no functions but ``range``."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, *folders: Path, texts: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(
            loader=FunctionLoader(partial(_found, texts, folders)),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # use the templates that were checked and fingerprinted
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self.globals = {"range": safe_range}
        self.checked: dict[tuple[str, str, frozenset[str]], Checked] = {}
        """(Template, stage, prepare stages) -> result of the checks."""
        self.shown: dict[str, frozenset[str]] = {}
        """Template of a stage -> the variables that it uses, also those with a default."""
        self.names: dict[str, Names] = {}
        """Template -> the names in it."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A product of numbers; a SecurityError for powers and for texts and lists that are repeated."""
        if operator == "**" or not all(isinstance(value, int | float) for value in (left, right)):
            raise SecurityError(f"{operator} is not available in templates, except * for numbers")
        return super().call_binop(context, operator, left, right)

    def parsed(self, name: str) -> nodes.Template:
        """The syntax tree of a template, a new one each time."""
        assert self.loader is not None
        return self.parse(self.loader.get_source(self, name)[0], name)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The environment's globals; templates have none of their own."""
        return self.globals


# Checks.


def used_names(environment: Sandbox, stage: str, template: str, path: Path) -> set[str]:
    """Compile a template of ``path`` and all that it includes or extends; return the variables that they need."""
    if not os.path.lexists(path):
        raise UserError(f"missing: the protocol has a stage {stage!r}, which needs this template", file=path)
    left, seen, used, optional = [template], list[str](), set[str](), set[str]()
    try:
        while left:
            seen.append(name := left.pop())
            names = _names(environment, name)
            used |= names.undeclared
            optional |= names.optional
            left += [other for other in names.templates if other not in seen]
        for name in seen:
            environment.get_template(name)
    except TemplateSyntaxError as error:
        faulty = name if error.name == "<introspection>" else error.name  # jinja2.meta's name for all
        where = f"{faulty}: " if faulty not in (None, path.name) else ""
        line = error.lineno if path.name == template else None  # of the text, not of a file of words
        raise UserError(f"is not a template: {where}{error.message}", file=path, line=line) from None
    except TemplateNotFound as error:
        raise UserError(f"needs a template {error.name!r}, which is missing", file=path) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # from compiling Jinja's Python code
        raise UserError(f"is not a template: {error or 'out of memory'}", file=path) from None
    environment.shown[template] = frozenset(used)
    return used - optional


def _names(environment: Sandbox, name: str) -> Names:
    """The names in one template, read once for all templates that include it."""
    if name not in environment.names:
        tree = environment.parsed(name)
        # Included templates can use variables that this one sets; those with a default may be missing.
        optional = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
        defaulted = (filtered.node for filtered in tree.find_all(nodes.Filter) if filtered.name == "default")
        optional |= {node.name for node in defaulted if isinstance(node, nodes.Name)}
        environment.names[name] = Names(
            meta.find_undeclared_variables(tree), optional, list(filter(None, meta.find_referenced_templates(tree)))
        )
    return environment.names[name]


def check_blocks(environment: Sandbox, template: str, path: Path) -> None:
    """Check that a template has the required blocks, and no block that the template it extends lacks."""
    lineage: list[str] = []
    parent: str | None = template
    while parent is not None:
        if parent in lineage:
            raise UserError(f"extends itself through {' and '.join(lineage)}", file=path)
        lineage.append(parent)
        extends = environment.parsed(parent).find(nodes.Extends)
        if extends and not isinstance(extends.template, nodes.Const):
            raise UserError("extends a template by an expression; expected its name in quotes", file=path)
        parent = extends.template.as_const() if extends else None
    own, *inherited = [set(environment.get_template(name).blocks) for name in lineage]
    if stray := sorted(own - {*BLOCKS}.union(*inherited) if inherited else ()):
        raise UserError(f"has a block {stray[0]!r}, which the template that it extends does not have", file=path)
    for block in _REQUIRED:
        if block not in own.union(*inherited):
            raise UserError(f"has no {{% block {block} %}}; a template needs {' and '.join(_REQUIRED)}", file=path)


# The wording of a task.


class _Example(BaseModel, extra="forbid", frozen=True):
    question: str
    choices: tuple[str, ...] = ()
    reasoning: str
    """The steps to the answer, without the answer itself."""
    answer: str


class TaskPrompt(BaseModel, extra="forbid", frozen=True):
    """The wording of one task, from ``prompts/tasks/<task>.yaml`` or the task itself; ``task`` in templates."""

    noun: str
    """The label of the question in a prompt: ``Question`` or ``Claim``."""
    goal: str = ""
    """What to do, in one sentence, if the question does not say it."""
    form: str = ""
    """How to write the answer, in one sentence; part of every prompt that asks for an answer."""
    reasoning: str
    """How to reason, in sentences of which the last one states the answer."""
    answer: str
    """What the last sentence gives: ``the letter of the correct option``."""
    is_prose: bool = False
    """Whether the whole reply is the answer, a text whose sentences cite; then ``reasoning`` and ``answer`` are not
    shown."""
    examples: tuple[_Example, ...] = Field(min_length=2)
    """Shown by protocols with ``examples``, as earlier turns of the chat."""


@cache
def task_prompt(name: str) -> TaskPrompt:
    """The wording of a task that madke has."""
    return read_yaml(asset("prompts", "tasks", f"{name}.yaml"), TaskPrompt)


# Values for trial renders.

_SPOKEN = Spoken(agent="name", text="text", answer="A", confidence=0.5)
_FULL: dict[str, Any] = {
    "question": Question(id="q", question="?", task="choice", choices=("yes", "no"), instructions="text"),
    "round": 1,
    "rounds": 1,
    "debaters": ("name",),
    "debater": "name",
    "persona": "p",
    "knowledge": [(0, "title", "text")],
    "max_selected": 1,
    "allow_search": True,
    "own": "text",
    "peers": (_SPOKEN,),
    "history": (_SPOKEN,),
    "groups": (Group(answer="A", members=(_SPOKEN,)),),
    "digest": "text",
    "critique": "text",
    "cite": True,
    "stances": (_SPOKEN,),
}
_BARE: dict[str, Any] = {
    **_FULL,
    "question": Question(id="q", question="?"),
    "persona": "",
    **dict.fromkeys(("own", "digest", "critique")),
    **dict.fromkeys(("knowledge", "peers", "history", "groups", "stances"), ()),
}
_EMPTY_STANCES = dict.fromkeys(("peers", "history", "stances"), (Spoken(agent="", text=""),))
EXAMPLES = (_FULL, {**_FULL, "bound": True}, _BARE, {**_BARE, **_EMPTY_STANCES})
"""Values for trial renders, so that mistakes show when a variant is loaded and not during a run."""
