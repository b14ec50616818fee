"""Load a variant's protocol and prompts from its folder, and check its templates."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import yaml
from jinja2 import TemplateNotFound, TemplateSyntaxError, meta, nodes

from madke._util.assets import asset
from madke._util.yaml_file import read_mapping, validated
from madke.core.chat import Message, joined
from madke.core.errors import UserError, unknown
from madke.engine.parse import Marker, marked
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Knowledge
from madke.engine.roles import PREPARE_VALUES, STAGE_VALUES
from madke.engine.view import quoted
from madke.tasks.base import Task
from madke.tasks.choice import lettered
from madke.variants.sandbox import Checked, Names, Sandbox, bounded, read_prompt
from madke.variants.task_prompt import TaskPrompt, task_prompt
from madke.variants.trial_values import EXAMPLES

_REQUIRED = ("system", "user")
_BLOCKS: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "opening": "user",
    "own": "assistant",
    "user": "user",
}
"""Block -> role of its message, in the order of the messages. A history shown as a chat comes before the last."""


class _Use(NamedTuple):
    """A template of a stage, and what decides whether it can be rendered there."""

    stage: str
    prompt: str | None
    prepared: frozenset[str]
    marker: Marker


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
    files: Mapping[str, str] = field(repr=False)
    """File name -> SHA-256, at loading, of every file that can change a prompt; recorded in ``run.json``."""
    is_fixed: bool = False
    """Whether its file says ``structured: off``, which settings cannot change."""
    _tested: frozenset[_Use] = field(default=frozenset(), repr=False)
    """Uses of templates that need no check: those of a shipped variant without settings, which the tests check."""
    _wordings: dict[str, tuple[Any, TaskPrompt]] = field(default_factory=dict, repr=False)

    @cached_property
    def environment(self) -> Sandbox:
        """Renders the templates; variants with the same files and marker share one."""
        return _sandbox(self.folder, self.protocol.marker, tuple(self.files.items()))

    def render(
        self,
        stage: str,
        task: Task | str,
        values: Mapping[str, Any],
        *,
        prompt: str | None = None,
        chat: Sequence[Message] = (),
    ) -> tuple[Message, ...]:
        """The messages of a stage: its non-empty blocks, with ``chat`` before the last; equal roles are joined.

        A task's wording is its own ``wording``, with the keys of a task file, or its file in ``prompts/tasks``.
        """
        name = self.template(stage, prompt)
        wording, options = self._wording(task), lettered(values["question"].choices)
        shared = {"task": wording, "marker": self._marker(wording), "options": options}
        try:
            rendered = self._rendered(name, {"bound": False, **values, **shared})
            if stage == "speak" and self.protocol.examples:
                rendered = (*rendered[:-1], *self._examples(name, task, values), rendered[-1])
        except Exception as error:  # noqa: BLE001 - A template can raise anything, for instance by 1 / 0.
            raise UserError(f"cannot be rendered: {error}", file=self.folder / name) from None
        return joined([*rendered[:-1], *chat, *rendered[-1:]])

    def shows(self, stage: str, *, prompt: str | None = None) -> Collection[str]:
        """The names of the values in the stage's template and in those that it includes."""
        name = self.template(stage, prompt)
        if name not in self.environment.shown:  # a stage that the protocol of the folder does not have
            _compile(self.environment, stage, self.folder / name)
        return self.environment.shown[name]

    def _examples(self, name: str, task: Task | str, values: Mapping[str, Any]) -> Iterator[Message]:
        """The task's worked examples as turns of the chat: the prompt without passages, and a reply of its form."""
        bare = {**values, "knowledge": (), "prepared": {}}
        wording = self._wording(task)
        marker = self._marker(wording)
        for example in wording.examples[: self.protocol.examples]:
            question = replace(values["question"], question=example.question, choices=example.choices, instructions="")
            asked = {
                **bare,
                "question": question,
                "task": wording,
                "marker": marker,
                "options": lettered(example.choices),
            }
            yield self._rendered(name, asked)[-1]
            reply = f"{example.reasoning} The answer is {marked(example.answer, marker)}."
            yield Message(role="assistant", content=example.answer if wording.is_prose else reply)

    def _marker(self, wording: TaskPrompt) -> Marker:
        return "text" if wording.is_prose else self.protocol.marker

    def _rendered(self, name: str, values: dict[str, Any]) -> tuple[Message, ...]:
        template = self.environment.get_template(name)
        context = template.new_context(values)
        # Starting the template makes Jinja add the parents' blocks. Text outside blocks is not used.
        next(template.root_render_func(context), None)
        texts = {
            block: _tidy(bounded(context.blocks[block][0](context))) for block in _BLOCKS if block in context.blocks
        }
        return joined([Message(role=_BLOCKS[block], content=text) for block, text in texts.items() if text])

    def _wording(self, task: Task | str) -> TaskPrompt:
        name, own = (task, None) if isinstance(task, str) else (task.name, getattr(task, "wording", None))
        if name not in self._wordings or self._wordings[name][0] is not own:
            wording = (
                task_prompt(name) if own is None else validated(own, TaskPrompt, file=f"the wording of task {name!r}")
            )
            self._wordings[name] = own, wording
        return self._wordings[name][1]

    def template(self, stage: str, prompt: str | None) -> str:
        """The name of a stage's template: a debater's own (``<stage>.<prompt>.j2``) if the folder has it."""
        own = f"{stage}.{prompt}.j2"
        return own if prompt and os.path.lexists(self.folder / own) else f"{stage}.j2"

    def with_settings(self, settings: Mapping[str, Any]) -> Variant:
        """A copy with protocol fields replaced: dotted path -> value, ``{"knowledge.select": "all"}``; or UserError."""
        content = self.protocol.model_dump()
        for path, value in settings.items():
            *parents, leaf = path.split(".")
            if path == "order" and isinstance(value, str):
                parents, leaf = ["order"], "by"
            node = content
            for parent in parents:
                if parent == "knowledge" and node.get(parent) is None:
                    raise UserError(f"--set {path}: the protocol has no knowledge; add --sources")
                if not isinstance(node.get(parent), dict):
                    raise UserError(f"--set {path}: the protocol has no section {parent!r}")
                node = node[parent]
            node[leaf] = value
        variant = replace(self, protocol=validated(content, Protocol, file="--set"))
        if self.is_fixed and (found := variant.protocol.structured) != "off":
            raise UserError(f"--set structured={found}: {self.name} is always asked in free text (structured: off)")
        check_templates(variant)
        return variant

    def with_sources(self, names: Sequence[str], settings: Mapping[str, Any] = MappingProxyType({})) -> Variant:
        """A copy with these knowledge sources (empty: no knowledge) and these settings.

        A protocol without knowledge gets the whole pool (``select: all``). If ``per_source`` is a number for each
        source, sources that it does not name get the default.
        """
        if not names:
            return self.with_settings({"knowledge": None, **settings})
        knowledge = self.protocol.knowledge
        if knowledge is None:
            return self.with_settings({"knowledge": {"sources": list(names), "select": "all"}, **settings})
        own: dict[str, Any] = {"knowledge.sources": list(names)}
        if isinstance(knowledge.per_source, dict):
            default = Knowledge.model_fields["per_source"].default
            own["knowledge.per_source"] = {name: knowledge.per_source.get(name, default) for name in names}
        if knowledge.weights is not None:
            kept = {name: weight for name, weight in knowledge.weights.items() if name in names}
            own["knowledge.weights"] = kept or None
        return self.with_settings({**own, **settings})


def _hashes(*folders: Path) -> dict[str, str]:
    return {
        f"{folder.name}/{path.relative_to(folder)}": sha256(read_prompt(path).encode()).hexdigest()
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in (".j2", ".yaml") and not path.name.startswith(".")
    }


@lru_cache(maxsize=64)
def _sandbox(folder: Path, marker: Marker, files: tuple[tuple[str, str], ...]) -> Sandbox:
    # ``files`` is part of the cache key: changed templates get a new environment.
    environment = Sandbox(folder, asset("prompts", "_shared"))
    environment.filters["marked"] = lambda answer: marked(answer, marker)
    environment.filters["quoted"] = quoted
    environment.filters["on_one_line"] = lambda text: " ".join(str(text).split())
    return environment


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
    files = _hashes(folder, asset("prompts", "_shared"), asset("prompts", "tasks"))
    own = read_protocol(folder)
    tested = frozenset(_uses(own)) if folder.parent == asset("prompts") else frozenset()
    variant = Variant(
        name=name, folder=folder, protocol=own, files=files, is_fixed=own.structured == "off", _tested=tested
    )
    check_templates(variant)
    return variant


def read_protocol(folder: Path) -> Protocol:
    """The protocol of a variant's folder, without its templates; UserError if it is wrong."""
    file = folder / "protocol.yaml"
    return validated(read_mapping(file, read_prompt(file)), Protocol, file=file)


def setting(text: str) -> tuple[str, Any]:
    """Path and value of a ``--set path=value``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"--set {text!r}: expected path=value, for instance --set rounds=2")
    try:
        return path, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {text!r}: the value is not YAML") from None


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() if "\n\n\n" in text else text.strip()


def check_templates(variant: Variant) -> None:
    """Check that each stage's template exists, uses only known variables and can be rendered; UserError if not."""
    protocol, uses = variant.protocol, _uses(variant.protocol)
    for own in filter(None, (use.prompt for use in uses)):
        if not any((variant.folder / f"{stage}.{own}.j2").is_file() for stage in protocol.stages):
            raise UserError(f"has no template <stage>.{own}.j2, but a debater has prompt = {own}", file=variant.folder)
    is_new = protocol.level != Protocol.model_fields["level"].default or protocol.finish == "weighted"
    checked = [_check_template(variant, use) for use in uses if is_new or use not in variant._tested]
    if protocol.level != Protocol.model_fields["level"].default and not any("level" in used for used, _ in checked):
        raise UserError(f"level = {protocol.level}: no template of this variant uses it", file=variant.folder)
    readers = [stage for stage in protocol.stages if "cite" in STAGE_VALUES.get(stage, ())]
    if protocol.cite and not any("cite" in variant.shows(stage) for stage in readers):
        raise UserError("cite = true: no template of this variant asks for a quote", file=variant.folder)
    asked = any("confidence" in text.casefold() for _, texts in checked for text in texts)
    stages = [stage for stage in protocol.stages if "bound" in STAGE_VALUES.get(stage, ())]
    # Stances have a bound form only for their quotes.
    stages = [stage for stage in stages if protocol.cite or stage not in readers]
    if protocol.structured == "require" and not any("bound" in variant.shows(stage) for stage in stages):
        raise UserError("structured = require: no template of this variant has a bound form", file=variant.folder)
    if protocol.finish == "weighted" and not asked:
        raise UserError("finish = weighted: no template asks for a confidence", file=variant.folder)


def _uses(protocol: Protocol) -> list[_Use]:
    """The templates of a protocol, each with its stage."""
    prompts = sorted({debater.prompt for debater in protocol.cast}, key=str)
    prepared = frozenset(stage for debater in protocol.cast for stage in debater.prepare)
    return [_Use(stage, prompt, prepared, protocol.marker) for stage in protocol.stages for prompt in prompts]


def _check_template(variant: Variant, use: _Use) -> Checked:
    # Checked once for all variants that share the environment.
    stage, prompt, prepared, _ = use
    path, known = variant.folder / variant.template(stage, prompt), variant.environment.checked
    key = (path.name, stage, prepared)
    if key not in known:
        allowed = PREPARE_VALUES if stage in prepared else STAGE_VALUES[stage]
        used = _compile(variant.environment, stage, path)
        _check_blocks(variant.environment, path)
        if undeclared := sorted(used - allowed):
            names = ", ".join(sorted(allowed))
            raise UserError(f"unknown placeholder {undeclared[0]!r}; a {stage} template may use: {names}", file=path)
        texts = []
        for example in EXAMPLES:
            values = {name: value for name, value in example.items() if name in allowed}
            values["prepared"] = dict.fromkeys(prepared, example["own"])
            texts += [m.content for m in variant.render(stage, example["question"].task, values, prompt=prompt)]
        known[key] = frozenset(used), tuple(texts)
    return known[key]


def _compile(environment: Sandbox, stage: str, path: Path) -> set[str]:
    """Compile a template and all that it includes or extends; return the variables that they need."""
    if not os.path.lexists(path):
        raise UserError(f"missing: the protocol has a stage {stage!r}, which needs this template", file=path)
    left, seen, used, optional = [path.name], list[str](), set[str](), set[str]()
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
        raise UserError(f"is not a template: {where}{error.message}", file=path, line=error.lineno) from None
    except TemplateNotFound as error:
        raise UserError(f"needs a template {error.name!r}, which is missing", file=path) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # from compiling Jinja's Python code
        raise UserError(f"is not a template: {error or 'out of memory'}", file=path) from None
    environment.shown[path.name] = frozenset(used)
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


def _check_blocks(environment: Sandbox, path: Path) -> None:
    """Check that a template has the required blocks, and no block that the template it extends lacks."""
    lineage: list[str] = []
    parent: str | None = path.name
    while parent is not None:
        if parent in lineage:
            raise UserError(f"extends itself through {' and '.join(lineage)}", file=path)
        lineage.append(parent)
        extends = environment.parsed(parent).find(nodes.Extends)
        if extends and not isinstance(extends.template, nodes.Const):
            raise UserError("extends a template by an expression; expected its name in quotes", file=path)
        parent = extends.template.as_const() if extends else None
    own, *inherited = [set(environment.get_template(name).blocks) for name in lineage]
    if stray := sorted(own - {*_BLOCKS}.union(*inherited) if inherited else ()):
        raise UserError(f"has a block {stray[0]!r}, which the template that it extends does not have", file=path)
    for block in _REQUIRED:
        if block not in own.union(*inherited):
            raise UserError(f"has no {{% block {block} %}}; a template needs {' and '.join(_REQUIRED)}", file=path)
