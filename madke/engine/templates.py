"""Templates in Jinja's sandbox: which files are read, their checks, the wording of tasks, and trial values."""

import os
from collections.abc import Mapping, MutableMapping
from functools import cache
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
from madke.core.chat import Spoken
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.reading import Group

BLOCKS: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "opening": "user",
    "own": "assistant",
    "user": "user",
}
"""Block -> role of its message, in the order of the messages. A history shown as a chat comes before the last."""
MAX_BYTES = 1 << 16


class Names(NamedTuple):
    """The names in a template, and in all that it includes or extends."""

    used: frozenset[str]
    """Values."""
    optional: frozenset[str]
    """Values that it sets itself, or gives a default."""
    files: frozenset[str]
    """The templates."""


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


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox over ``texts``, then ``folders`` in this order; templates have no functions but ``range``."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, *folders: Path, texts: Mapping[str, str] = MappingProxyType({})) -> None:
        def found(template: str) -> tuple[str, str | None, None] | None:
            if template in texts:
                return texts[template], None, None
            paths = (folder.joinpath(*split_template_path(template)) for folder in folders)
            path = next((path for path in paths if os.path.lexists(path)), None)
            return None if path is None else (read_prompt(path), str(path), None)

        super().__init__(
            loader=FunctionLoader(found),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # an included file is whole lines
            auto_reload=False,  # use the templates that were checked and fingerprinted
            autoescape=False,  # prompts are plain text
            cache_size=-1,  # a plain dictionary: a folder holds few templates
        )
        self.globals = {"range": safe_range}
        self.checked: set[tuple[str, str, frozenset[str]]] = set()
        """(Template, stage, prepare stages) of templates that passed the checks."""
        self._own: dict[str, Names] = {}
        self._all: dict[str, Names] = {}
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

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The environment's globals; templates have none of their own."""
        return self.globals

    def text(self, template: str) -> str:
        """The text of a template."""
        assert self.loader is not None
        return self.loader.get_source(self, template)[0]

    def names(self, template: str) -> Names:
        """The names in a template and in all that it includes or extends."""
        if template not in self._all:
            left, found = [template], dict[str, Names]()
            while left:
                if (name := left.pop()) not in self._own:
                    self._own[name] = self._names_in(name)
                found[name] = self._own[name]
                left += found[name].files - found.keys()
            used, optional, _ = (frozenset[str]().union(*each) for each in zip(*found.values(), strict=True))
            self._all[template] = Names(used, optional, frozenset(found))
        return self._all[template]

    def _names_in(self, name: str) -> Names:
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
        return Names(used, frozenset(optional), frozenset(filter(None, meta.find_referenced_templates(tree))))


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
