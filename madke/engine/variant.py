"""A variant: a protocol with its prompts, loaded from its folder and checked; and copies of one for other words."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from jinja2.exceptions import SecurityError
from pydantic import BaseModel

from madke._util.assets import asset
from madke._util.yaml_file import line_of, read_mapping, validate
from madke.core.chat import Message, Spoken, join_messages
from madke.core.errors import UserError, nearest, unknown
from madke.core.question import Question
from madke.engine.parse.answer import Marker, marked
from madke.engine.protocol import Protocol, ProtocolFunction, function_of, name_of, present_name, settings_of
from madke.engine.reading import Group
from madke.engine.scene import PREPARE_VALUES, REMARK_VALUES, STAGE_VALUES
from madke.engine.settings import Knowledge, Settings
from madke.engine.templates import Sandbox, read_prompt, sandbox_of, template_fault
from madke.engine.wording import TaskPrompt, Wording, task_prompt, wording_file, wording_of
from madke.tasks.base import BaseTask, with_letters

_BLOCKS: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "opening": "user",
    "own": "assistant",
    "user": "user",
}
"""Block -> role of its message, in the order of the messages. A history shown as a chat comes before the last."""
_MAX_CHARACTERS = 20_000_000
"""Of one block of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A debate variant: a protocol with the templates of its stages. Load one with :func:`load_variant`.

    A template is a Jinja file with the blocks ``system`` and ``user``. It may have ``opening``, a user message for what
    comes before the debate, and ``own``, the debater's own stance as an assistant message. Values are inserted as text
    and never rendered. The filter ``marked`` puts an answer into the protocol's marker; ``quoted`` begins each line of
    a text with ``>``, so that no line of it can pass for one of madke's.
    """

    name: str
    folder: Path
    protocol: Protocol
    base: Path
    """The folder of the templates that ``folder`` lacks."""
    files: Mapping[str, str] = field(repr=False)
    """File name -> SHA-256, at loading, of every file that can change a prompt; recorded in ``run.json``."""
    words: Wording | None = None
    """Templates that take the place of those in the folders, see :meth:`in_words`."""
    words_file: Path = Path()
    """Where ``words`` are from."""
    _wordings: dict[str, tuple[object, TaskPrompt]] = field(default_factory=dict, repr=False)
    """Of tasks that bring their own wording: name -> what it was read from, and the wording."""

    @cached_property
    def environment(self) -> Sandbox:
        """Renders the templates; variants with the same files and marker share one."""
        words = tuple(self.words.templates.items()) if self.words else ()
        folders = (self.folder, self.base, asset("prompts", "_shared"))
        return sandbox_of(folders, words, self.protocol.marker, tuple(self.files.items()))

    def render(
        self,
        stage: str,
        task: BaseTask | str,
        values: Mapping[str, Any],
        *,
        prompt: str | None = None,
        chat: Sequence[Message] = (),
    ) -> tuple[Message, ...]:
        """The messages of a stage: its non-empty blocks, with ``chat`` before the last; equal roles are joined."""
        name, wording = self.template(stage, prompt), self._wording(task)
        marker: Marker = "text" if wording.is_prose else self.protocol.marker
        examples = wording.examples[: self.protocol.examples]
        shared = {"task": wording, "marker": marker, "options": with_letters(values["question"].choices)}
        values = {"bound": False, **values, **shared, "examples": examples}
        try:
            rendered = self._render_blocks(name, values)
            if stage == "speak" and examples and "examples" not in self.shows(stage, prompt=prompt):
                rendered = (*rendered[:-1], *self._examples(name, values), rendered[-1])
        except Exception as error:  # noqa: BLE001 - A template can raise anything, for instance by 1 / 0.
            raise template_fault(error, name, self.path(name)) from None
        return join_messages([*rendered[:-1], *chat, *rendered[-1:]])

    def shows(self, stage: str, *, prompt: str | None = None) -> Collection[str]:
        """The names of the values in the stage's template and in those that it includes."""
        return self.environment.names(self.template(stage, prompt)).used

    def _examples(self, name: str, values: Mapping[str, Any]) -> Iterator[Message]:
        """The task's worked examples as turns of the chat: the prompt without passages, and a reply of its form."""
        marker = values["marker"]
        for example in values["examples"]:
            question = replace(values["question"], question=example.question, choices=example.choices, instructions="")
            shown = {"question": question, "options": with_letters(example.choices), "knowledge": (), "prepared": {}}
            yield self._render_blocks(name, {**values, **shown})[-1]
            reply = f"{example.reasoning} The answer is {marked(example.answer, marker)}."
            yield Message(role="assistant", content=example.answer if marker in ("text", "alone") else reply)

    def _render_blocks(self, name: str, values: Mapping[str, Any]) -> tuple[Message, ...]:
        template = self.environment.get_template(name)
        context = template.new_context({**values})
        # Starting the template makes Jinja add the parents' blocks. Text outside blocks is not used.
        next(template.root_render_func(context), None)
        blocks = context.blocks
        stray = [block for block in template.blocks if block not in _BLOCKS and len(blocks[block]) == 1]
        if stray and blocks.keys() - template.blocks.keys():
            what = f"has a block {stray[0]!r}, which the template that it extends does not have"
            raise UserError(what, file=self.path(name))
        for block in ("system", "user"):
            if block not in blocks:
                raise UserError(f"has no {{% block {block} %}}", file=self.path(name))
        messages = []
        for block, role in _BLOCKS.items():
            if block in blocks and (text := _tidy(blocks[block][0](context))):
                messages.append(Message(role=role, content=text))
        return join_messages(messages)

    def _wording(self, task: BaseTask | str) -> TaskPrompt:
        if isinstance(task, str) or task.wording is None:
            return task_prompt(task if isinstance(task, str) else task.name)
        known = self._wordings.get(task.name)
        if known is None or known[0] is not task.wording:
            wording = validate(task.wording, TaskPrompt, file=f"the wording of task {task.name!r}")
            known = self._wordings[task.name] = task.wording, wording
        return known[1]

    def template(self, stage: str, prompt: str | None) -> str:
        """The name of a stage's template: a debater's own (``<stage>.<prompt>.j2``) if there is one."""
        own, in_words = f"{stage}.{prompt}.j2", self.words.templates if self.words else {}
        if prompt and (own in in_words if f"{stage}.j2" in in_words else os.path.lexists(self.path(own))):
            return own
        return f"{stage}.j2"

    def path(self, template: str) -> Path:
        """The file of a template; that of the variant's own folder if there is none."""
        if self.words and template in self.words.templates:
            return self.words_file
        here, there = self.folder / template, self.base / template
        return there if os.path.lexists(there) and not os.path.lexists(here) else here

    def in_words(self, wording: str | Path) -> Variant:
        """A copy in other words: ``paper``, or a file of one's own (:class:`Wording`)."""
        words, file = wording_of(wording, self.name), wording_file(wording)
        stages = {name.partition(".")[0] for name in words.stages}
        if strange := sorted(stages - {*self.protocol.trace.stages}):
            raise UserError(str(unknown(f"stage of {self.name}", strange[0], self.protocol.trace.stages)), file=file)
        replaced = {each for each in self.files if each.endswith(".j2") and Path(each).name.partition(".")[0] in stages}
        files = {each: sha256 for each, sha256 in self.files.items() if each not in replaced}
        files[f"{file.name}/{self.name}"] = words.sha256
        worded = replace(self, words=words, words_file=file, files=files)
        return worded.with_settings(words.settings, where=f"{file}: settings:")

    def with_settings(self, settings: Mapping[str, Any], *, where: str = "--set") -> Variant:
        """A copy with parameters replaced: name -> value, ``{"rounds": 2, "reads.own": "none"}``; or UserError.

        ``function`` replaces the protocol's function. Values that the new one has no parameter for go.
        """
        content = self.protocol.model_dump()
        settings = dict(settings)
        if (function := settings.pop("function", None)) is not None:
            known = settings_of(function_of(function)).model_fields
            content = {name: value for name, value in content.items() if name in known} | {"function": function}
        for path, value in settings.items():
            check_name(path, content["function"], where=f"{where} ")
            name, _, field = path.partition(".")
            has_sources = "sources" in settings or content["sources"]
            if name in Knowledge.model_fields and name != "sources" and not has_sources:
                raise UserError(f"{where} {path}: the protocol has no sources; add --sources")
            if field:
                value = {field: value}
            elif name == "order" and isinstance(value, str):
                value = {"by": value}
            is_part = isinstance(value, Mapping) and name in ("reads", "order")
            content[name] = {**(content.get(name) or {}), **value} if is_part else value
        variant = replace(
            self, protocol=validate(content, settings_of(function_of(content["function"])), file=where.rstrip(":"))
        )
        check_templates(variant)
        return variant

    def with_sources(self, names: Sequence[str], settings: Mapping[str, Any] = MappingProxyType({})) -> Variant:
        """A copy with these knowledge sources (empty: no knowledge) and these settings."""
        own: dict[str, Any] = {"sources": list(names)}
        protocol = self.protocol
        if isinstance(protocol.per_source, dict):
            default = Knowledge.model_fields["per_source"].default
            own["per_source"] = {name: protocol.per_source.get(name, default) for name in names} or default
        if protocol.weights is not None:
            own["weights"] = {name: weight for name, weight in protocol.weights.items() if name in names} or None
        return self.with_settings({**own, **settings})


def check_name(path: str, function: str, *, where: str = "") -> None:
    """UserError for a parameter that the function does not have; it lists those that exist."""
    record = settings_of(function_of(function))
    name, _, field = path.partition(".")
    kind = record.model_fields[name].annotation if name in record.model_fields else None
    fields = getattr(kind, "model_fields", {})
    if kind is not None and (not field or field in fields or kind is Any):
        return
    if (present := present_name(path)) is not None:
        raise UserError(f"{where}{path}: since 0.5.0 it is {present}")
    if kind is not None:
        raise UserError(f"{where}{path}: {name} has {', '.join(fields) or 'no fields'}")
    hint = f"did you mean {close!r}? " if (close := nearest(name, record.model_fields)) else ""
    own, shared = ", ".join(record.own_parameters), ", ".join(sorted({*Settings.model_fields} - {"source"}))
    has = f"the function {function} has: {own or 'none'}; every protocol has: {shared}"
    raise UserError(f"{where}unknown parameter {path!r}; {hint}{has}")


def _tidy(pieces: Iterable[str]) -> str:
    """The text of a block without superfluous blank lines; SecurityError if it is longer than a prompt can be."""
    kept, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > _MAX_CHARACTERS:
            raise SecurityError(f"makes more than {_MAX_CHARACTERS:,} characters; expected less text")
        kept.append(piece)
    text = "".join(kept)
    return re.sub(r"\n{3,}", "\n\n", text).strip() if "\n\n\n" in text else text.strip()


# Loading.


def variant_folders(prompts: Path | None = None) -> dict[str, Path]:
    """Name -> folder of every variant: the shipped ones, overridden by those in the user's folder ``prompts``."""
    if prompts is not None and not prompts.is_dir():
        raise UserError("is not a folder; --prompts needs a folder that holds variant folders", file=prompts)
    roots = [asset("prompts")] + ([prompts] if prompts else [])
    return {file.parent.name: file.parent for root in roots for file in sorted(root.glob("*/protocol.yaml"))}


def load_variant(name: str, prompts: Path | None = None) -> Variant:
    """Load and check the variant of that name, first from the user's ``prompts``; UserError if it is wrong."""
    folders = variant_folders(prompts)
    if name not in folders:
        if prompts is not None and (prompts / "protocol.yaml").is_file():
            raise UserError(f"holds a protocol itself; give --prompts {prompts.parent}", file=prompts)
        raise unknown("protocol", name, folders)
    folder = folders[name]
    own, base = _read_folder(folder)
    return _make_variant(name, own, folder, base, tested=folder.parent == asset("prompts"))


def own_variant(function: ProtocolFunction, prompts: Path | None = None) -> Variant:
    """A protocol's function of your own, with the templates of its folder; those that it lacks are madke's."""
    name, named = name_of(function), function.__name__
    folder = base = asset("prompts", "madke")
    own = settings_of(function)(function=name, source=f"the function {name}")
    if prompts is not None and (prompts / named).is_dir():
        folder = prompts / named
        if (folder / "protocol.yaml").is_file():
            own, base = _read_folder(folder, name)
    try:
        code = {name: sha256(inspect.getsource(function).encode()).hexdigest()}
    except OSError:  # written at a prompt
        code = {}
    return _make_variant(named, own, folder, base, code)


def _make_variant(
    name: str, own: Protocol, folder: Path, base: Path, code: Mapping[str, str] | None = None, *, tested: bool = False
) -> Variant:
    files = {
        f"{each.name}/{path.name}": sha256(read_prompt(path).encode()).hexdigest()
        for each in dict.fromkeys((folder, base, asset("prompts", "_shared"), asset("prompts", "tasks")))
        for path in sorted(each.iterdir())
        if _is_prompt(path)
    }
    try:
        _ = own.trace  # the function refuses what makes no sense
    except UserError as error:
        raise UserError(str(error), file=folder / "protocol.yaml") from None
    variant = Variant(
        name=name,
        folder=folder,
        base=base,
        protocol=own,
        files={**files, **(code or {})},
    )
    check_templates(variant, tested=tested)
    return variant


def _is_prompt(path: Path) -> bool:
    return path.suffix in (".j2", ".yaml") and not path.name.startswith(".")


def read_protocol(folder: Path) -> Protocol:
    """The protocol of a variant's folder, without its templates; UserError if it is wrong."""
    return _read_folder(folder)[0]


def _read_folder(folder: Path, own_function: str | None = None) -> tuple[Protocol, Path]:
    """The protocol, and the folder of the templates that this one lacks."""
    file = folder / "protocol.yaml"
    text = read_prompt(file)
    content: dict[str, Any] = dict(read_mapping(file, text))
    base = folder if own_function is None else asset("prompts", "madke")
    if "templates" in content:
        shipped = variant_folders()
        if (named := content.pop("templates")) not in shipped:
            raise UserError(f"templates: {unknown('protocol', str(named), shipped)}", file=file)
        base = shipped[named]
    name = own_function or content.get("function")
    if not isinstance(name, str):
        raise UserError("has no function; expected function: NAME, such as madke, mad or vote", file=file)
    key = "function"
    try:
        record = settings_of(function_of(name))
        for key in map(str, content):
            check_name(key, name)
    except UserError as error:
        raise UserError(str(error), file=file, line=line_of(file, (key,))) from None
    for key, value in content.items():
        default = record.model_fields[key].default
        if isinstance(value, Mapping) and isinstance(default, BaseModel):
            content[key] = {**default.model_dump(), **value}  # a folder says what differs
    return validate({**content, "function": name}, record, file=file), base


def setting(text: str) -> tuple[str, Any]:
    """Path and value of a ``--set path=value``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"--set {text!r}: expected path=value, for instance --set rounds=2")
    try:
        return path, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {text!r}: the value is not YAML") from None


# Checks, so that mistakes show when a variant is loaded and not during a run.


def check_templates(variant: Variant, *, tested: bool = False) -> None:
    """Check that each stage's template exists, uses only known variables and can be rendered; UserError if not.

    Those of a shipped variant without settings are ``tested``: rendering them all takes a while.
    """
    protocol = variant.protocol
    prompts = sorted({debater.prompt for debater in protocol.cast}, key=str)
    prepared = frozenset(stage for debater in protocol.cast for stage in debater.prepare)
    for own in filter(None, prompts):
        if not any(variant.path(f"{stage}.{own}.j2").is_file() for stage in protocol.trace.stages):
            raise UserError(f"has no template <stage>.{own}.j2, but a debater has prompt = {own}", file=variant.folder)
    uses = [(stage, prompt) for stage in protocol.trace.stages for prompt in prompts]
    templates = dict.fromkeys(variant.template(*use) for use in uses)
    if missing := [name for name in templates if not os.path.lexists(variant.path(name))]:
        stage = missing[0].partition(".")[0]
        raise UserError(
            f"missing: the protocol has a stage {stage!r}, which needs this template; write it, or name a shipped "
            "protocol that has it: templates: NAME in protocol.yaml",
            file=variant.path(missing[0]),
        )
    checked = variant.environment.checked  # by all variants that share the environment
    for use in uses:
        if not tested and (*use, prepared) not in checked:
            _check_template(variant, *use, prepared)
        checked.add((*use, prepared))
    readers = [stage for stage in protocol.trace.stages if "cite" in STAGE_VALUES.get(stage, ())]
    if protocol.cite and not any("cite" in variant.shows(stage) for stage in readers):
        raise UserError("cite = true: no template of this variant asks for a quote", file=variant.folder)
    shown = (
        {each for name in templates for each in variant.environment.names(name).files} if protocol.trace.weighs else ()
    )
    if shown and not any("confidence" in variant.environment.text(each).casefold() for each in shown):
        raise UserError("the votes are weighed, but no template asks for a confidence", file=variant.folder)


def _check_template(variant: Variant, stage: str, prompt: str | None, prepared: frozenset[str]) -> None:
    shown, name = variant.protocol.trace.shown, variant.template(stage, prompt)
    path = variant.path(name)
    known = STAGE_VALUES.get(stage, PREPARE_VALUES if stage in prepared else REMARK_VALUES) | shown.keys()
    try:
        names = variant.environment.names(name)
    except Exception as error:  # noqa: BLE001 - Jinja compiles to Python, which can fail in many ways.
        raise template_fault(error, name, path) from None
    if strange := sorted(names.used - names.optional - known):
        may = ", ".join(sorted(known))
        raise UserError(f"unknown placeholder {strange[0]!r}; a {stage} template may use: {may}", file=path)
    for example in _EXAMPLES:
        values_of = {each: value for each, value in {**example, **shown}.items() if each in known}
        values_of["prepared"] = dict.fromkeys(prepared, example["own"])
        variant.render(stage, example["question"].task, values_of, prompt=prompt)


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
_EXAMPLES = (_FULL, {**_FULL, "bound": True}, _BARE, {**_BARE, **_EMPTY_STANCES})
"""Values for trial renders, so that mistakes show when a variant is loaded and not during a run."""


# Copies, ready for other words.

_ONLY_EXTENDS = re.compile(r"\s*(?:\{#.*?#\}\s*)*\{%-?\s*extends\s+\"([^\"]+)\"\s*-?%\}\s*(?:\{#.*?#\}\s*)*", re.DOTALL)


def copy_variant(variant: Variant, folder: Path) -> list[Path]:
    """Write a copy of a variant to ``folder``, which must not exist; return its files."""
    if folder.exists():
        raise UserError("exists already; give another folder, or remove this one", file=folder)
    texts = {file.name: read_prompt(file) for file in sorted(variant.folder.iterdir()) if _is_prompt(file)}
    for name in [name for name in texts if name.partition(".")[0] in variant.protocol.trace.stages]:
        for each in sorted(variant.environment.names(name).files):
            texts.setdefault(each, variant.environment.text(each))
        while lone := _ONLY_EXTENDS.fullmatch(texts[name]):
            texts[name] = texts[lone[1]]
        values = sorted(
            STAGE_VALUES.get(stage := name.partition(".")[0], PREPARE_VALUES) | {"options", "task", "marker"}
        )
        head = (
            f"{variant.name}, stage {stage}. Change the words; keep what shows values (prompts/README.md explains them)"
        )
        texts[name] = f"{{# {head}:\n{', '.join(values)}. #}}\n{texts[name]}"
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
