"""Load a variant's protocol and prompts from its folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from madke.assets import asset
from madke.core.chat import Message
from madke.core.errors import UserError, unknown
from madke.engine.parse import Marker, marked
from madke.engine.protocol import Knowledge, Protocol
from madke.engine.view import without_tags
from madke.tasks.base import Task
from madke.tasks.choice import lettered
from madke.variants.check import OPENING, check_templates
from madke.variants.sandbox import Sandbox, read_prompt
from madke.yaml_file import read_mapping, read_yaml, validated


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Asked(_Entry):
    question: str
    choices: tuple[str, ...] = ()

    @property
    def options(self) -> list[tuple[str, str]]:
        return lettered(self.choices)


class _Reasoned(_Entry):
    reasoning: str
    """The steps to the answer, without the answer itself."""
    answer: str


class _Example(_Asked, _Reasoned):
    pass


class _ExampleDebate(_Asked):
    replies: tuple[_Reasoned, ...] = Field(min_length=2)
    summary: str
    """The summarizer's reasoning."""
    answer: str


class TaskPrompt(_Entry):
    """The wording of one task, from ``prompts/tasks/<task>.yaml`` or the task itself; ``task`` in templates."""

    noun: str
    """The label before the question at the end of a prompt: ``Question`` or ``Claim``."""
    goal: str
    reasoning: str
    """Closing rule: how to reason."""
    citing: str
    """Closing rule: how to cite a passage."""
    answering: str
    """Closing rule: the form of the last line. ``<<X>>`` in it becomes the answer X in the variant's marker."""
    examples: tuple[_Example, ...] = Field(min_length=2)
    """Most prompts show the first, few-shot ones the first four."""
    agreeing: _ExampleDebate
    """For judge and summarizer, like ``disagreeing``."""
    disagreeing: _ExampleDebate


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A debate variant: a protocol with the templates of its stages. Load one with :func:`load_variant`.

    A template is a Jinja file with the blocks ``system`` and ``user``, and optionally ``opening``, for the message
    before a history shown as a chat. Values are inserted as text and never rendered. The filter ``marked`` puts an
    answer into the protocol's marker; ``quoted`` disables madke's tags in quoted text.
    """

    name: str
    folder: Path
    protocol: Protocol
    files: Mapping[str, str] = field(repr=False)
    _wordings: dict[str, tuple[Any, TaskPrompt]] = field(default_factory=dict, repr=False)

    @cached_property
    def environment(self) -> Sandbox:
        """Renders the templates; variants with the same files and marker share one."""
        return _sandbox(self.folder, self.protocol.marker, tuple(self.files.items()))

    def render(
        self, stage: str, task: Task | str, values: Mapping[str, Any], *, prompt: str | None = None
    ) -> tuple[Message, ...]:
        """The messages of a stage: the non-empty blocks of ``system``, ``opening`` and ``user``.

        A task's wording is its own ``wording``, with the keys of a task file, or its file in ``prompts/tasks``.
        """
        name = self._template(stage, prompt)
        options = lettered(values["question"].choices)
        try:
            return self._rendered(name, {**values, "task": self._wording(task), "options": options})
        except Exception as error:  # A template can raise anything, for instance by 1 / 0.
            raise UserError(f"cannot be rendered: {error}", file=self.folder / name) from None

    def _rendered(self, name: str, values: dict[str, Any]) -> tuple[Message, ...]:
        self.environment.budget.renew()
        template = self.environment.get_template(name)
        context = template.new_context(values)
        # Starting the template makes Jinja add the parents' blocks. Text outside blocks is not used.
        next(template.root_render_func(context), None)
        texts = {
            block: _tidy("".join(context.blocks[block][0](context)))
            for block in ("system", OPENING, "user")
            if block in context.blocks
        }
        return tuple(
            Message(role="system" if block == "system" else "user", content=text)
            for block, text in texts.items()
            if text
        )

    def _wording(self, task: Task | str) -> TaskPrompt:
        name, own = (task, None) if isinstance(task, str) else (task.name, getattr(task, "wording", None))
        if name not in self._wordings or self._wordings[name][0] is not own:
            base = _shipped(name) if own is None else validated(own, TaskPrompt, file=f"the wording of task {name!r}")
            marker = self.protocol.marker
            answering = re.sub(r"<<(.+?)>>", lambda match: marked(match[1], marker), base.answering)
            self._wordings[name] = own, base.model_copy(update={"answering": answering})
        return self._wordings[name][1]

    def template_file(self, stage: str, prompt: str | None = None) -> Path:
        """The template of a stage: a debater's own (``<stage>.<prompt>.j2``) if the folder has it."""
        return self.folder / self._template(stage, prompt)

    def _template(self, stage: str, prompt: str | None) -> str:
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
        protocol = validated(content, Protocol, file="--set")
        variant = Variant(name=self.name, folder=self.folder, protocol=protocol, files=self.files)
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

    def fingerprint(self) -> dict[str, str]:
        """File name -> SHA-256, at loading, of every file that can change a prompt; recorded in ``run.json``."""
        return dict(self.files)


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
    environment.filters["quoted"] = without_tags
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
        raise unknown("protocol", name, folders)
    folder = folders[name]
    file = folder / "protocol.yaml"
    content = read_mapping(file, read_prompt(file))
    protocol = validated(content, Protocol, file=file)
    files = _hashes(folder, asset("prompts", "_shared"), asset("prompts", "tasks"))
    variant = Variant(name=name, folder=folder, protocol=protocol, files=files)
    check_templates(variant)
    return variant


def setting(text: str) -> tuple[str, Any]:
    """Path and value of a ``--set path=value``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"--set {text!r}: expected path=value, for instance --set rounds=2")
    try:
        return path, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {text!r}: the value is not YAML") from None


@cache
def _shipped(name: str) -> TaskPrompt:
    return read_yaml(asset("prompts", "tasks", f"{name}.yaml"), TaskPrompt)


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() if "\n\n\n" in text else text.strip()
