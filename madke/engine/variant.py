"""A variant: a protocol with its prompts, loaded from its folder and checked."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from jinja2.exceptions import SecurityError
from pydantic import BaseModel

from madke._util.assets import asset
from madke._util.yaml_file import read_mapping, validated
from madke.core.chat import Message, joined
from madke.core.errors import UserError, nearest, unknown
from madke.engine.parse import Marker, marked
from madke.engine.protocol import Protocol, ProtocolFunction, function_of, name_of, present_name, settings_of
from madke.engine.reading import quoted
from madke.engine.roles import PREPARE_VALUES, REMARK_VALUES, STAGE_VALUES
from madke.engine.settings import Knowledge, Settings
from madke.engine.templates import (
    BLOCKS,
    EXAMPLES,
    Checked,
    Sandbox,
    TaskPrompt,
    check_blocks,
    read_prompt,
    task_prompt,
    used_names,
)
from madke.engine.wording import Wording, wording_file, wording_of
from madke.tasks.base import BaseTask
from madke.tasks.choice import lettered

_MAX_CHARACTERS = 20_000_000
"""Of one block of a prompt."""


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
    base: Path
    """The folder of the templates that ``folder`` lacks."""
    files: Mapping[str, str] = field(repr=False)
    """File name -> SHA-256, at loading, of every file that can change a prompt; recorded in ``run.json``."""
    words: Wording | None = None
    """Templates that take the place of those in the folders, see :meth:`in_words`."""
    words_file: Path = Path()
    """Where ``words`` are from."""
    is_fixed: bool = False
    """Whether its file says ``structured: off``, which settings cannot change."""
    _tested: frozenset[_Use] = field(default=frozenset(), repr=False)
    """Uses of templates that need no check: those of a shipped variant without settings, which the tests check."""
    _wordings: dict[str, tuple[Any, TaskPrompt]] = field(default_factory=dict, repr=False)

    @cached_property
    def environment(self) -> Sandbox:
        """Renders the templates; variants with the same files and marker share one."""
        words = tuple(self.words.templates.items()) if self.words else ()
        return _sandbox(self.folder, self.base, self.protocol.marker, tuple(self.files.items()), words)

    def render(
        self,
        stage: str,
        task: BaseTask | str,
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
        examples = wording.examples[: self.protocol.examples]
        shared = {"task": wording, "marker": self._marker(wording), "options": options, "examples": examples}
        try:
            rendered = self._rendered(name, {"bound": False, **values, **shared})
            if stage == "speak" and examples and "examples" not in self.shows(stage, prompt=prompt):
                rendered = (*rendered[:-1], *self._examples(name, task, values), rendered[-1])
        except Exception as error:  # noqa: BLE001 - A template can raise anything, for instance by 1 / 0.
            raise UserError(f"cannot be rendered: {error}", file=self.path(name)) from None
        return joined([*rendered[:-1], *chat, *rendered[-1:]])

    def shows(self, stage: str, *, prompt: str | None = None) -> Collection[str]:
        """The names of the values in the stage's template and in those that it includes."""
        name = self.template(stage, prompt)
        if name not in self.environment.shown:  # a stage that the protocol of the folder does not have
            used_names(self.environment, stage, name, self.path(name))
        return self.environment.shown[name]

    def _examples(self, name: str, task: BaseTask | str, values: Mapping[str, Any]) -> Iterator[Message]:
        """The task's worked examples as turns of the chat: the prompt without passages, and a reply of its form."""
        shown = {**values, "knowledge": (), "prepared": {}}
        wording = self._wording(task)
        marker = self._marker(wording)
        for example in wording.examples[: self.protocol.examples]:
            question = replace(values["question"], question=example.question, choices=example.choices, instructions="")
            asked = {
                **shown,
                "question": question,
                "task": wording,
                "marker": marker,
                "options": lettered(example.choices),
            }
            yield self._rendered(name, asked)[-1]
            reply = f"{example.reasoning} The answer is {marked(example.answer, marker)}."
            bare = wording.is_prose or marker == "alone"
            yield Message(role="assistant", content=example.answer if bare else reply)

    def _marker(self, wording: TaskPrompt) -> Marker:
        return "text" if wording.is_prose else self.protocol.marker

    def _rendered(self, name: str, values: dict[str, Any]) -> tuple[Message, ...]:
        template = self.environment.get_template(name)
        context = template.new_context(values)
        # Starting the template makes Jinja add the parents' blocks. Text outside blocks is not used.
        next(template.root_render_func(context), None)
        texts = {
            block: _tidy(_bounded(context.blocks[block][0](context))) for block in BLOCKS if block in context.blocks
        }
        return joined([Message(role=BLOCKS[block], content=text) for block, text in texts.items() if text])

    def _wording(self, task: BaseTask | str) -> TaskPrompt:
        name, own = (task, None) if isinstance(task, str) else (task.name, task.wording)
        if name not in self._wordings or self._wordings[name][0] is not own:
            wording = (
                task_prompt(name) if own is None else validated(own, TaskPrompt, file=f"the wording of task {name!r}")
            )
            self._wordings[name] = own, wording
        return self._wordings[name][1]

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
        """A copy in other words: ``paper``, or a file of one's own (:mod:`madke.engine.wording`).

        Raises:
            UserError: The file has no prompts of this protocol, or a prompt of a stage that the protocol lacks.
        """
        words, file = wording_of(wording, self.name), wording_file(wording)
        stages = {name.partition(".")[0] for name in words.stages}
        if strange := sorted(stages - {*self.protocol.stages}):
            raise UserError(str(unknown(f"stage of {self.name}", strange[0], self.protocol.stages)), file=file)
        replaced = {each for each in self.files if each.endswith(".j2") and Path(each).name.partition(".")[0] in stages}
        files = {each: sha256 for each, sha256 in self.files.items() if each not in replaced}
        files[f"{file.name}/{self.name}"] = words.sha256
        worded = replace(self, words=words, words_file=file, files=files, _tested=frozenset())
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
            check_names([path], content["function"], where=f"{where} ")
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
            self, protocol=validated(content, settings_of(function_of(content["function"])), file=where.rstrip(":"))
        )
        if self.is_fixed and (found := variant.protocol.structured) != "off":
            raise UserError(f"{where} structured={found}: {self.name} is always asked in free text (structured: off)")
        check_templates(variant)
        return variant

    def with_sources(self, names: Sequence[str], settings: Mapping[str, Any] = MappingProxyType({})) -> Variant:
        """A copy with these knowledge sources (empty: no knowledge) and these settings.

        If ``per_source`` is a number for each source, sources that it does not name get the default.
        """
        own: dict[str, Any] = {"sources": list(names)}
        protocol = self.protocol
        if isinstance(protocol.per_source, dict):
            default = Knowledge.model_fields["per_source"].default
            own["per_source"] = {name: protocol.per_source.get(name, default) for name in names} or default
        if protocol.weights is not None:
            own["weights"] = {name: weight for name, weight in protocol.weights.items() if name in names} or None
        return self.with_settings({**own, **settings})


def check_names(paths: Iterable[str], function: str, *, where: str = "") -> None:
    """UserError for a parameter that the function does not have; it lists those that exist."""
    record = settings_of(function_of(function))
    for path in paths:
        name, _, field = path.partition(".")
        kind = record.model_fields[name].annotation if name in record.model_fields else None
        fields = getattr(kind, "model_fields", {})
        if kind is not None and (not field or field in fields or kind is Any):
            continue
        if (present := present_name(path)) is not None:
            raise UserError(f"{where}{path}: since 0.5.0 it is {present}")
        if kind is not None:
            raise UserError(f"{where}{path}: {name} has {', '.join(fields) or 'no fields'}")
        hint = nearest(name, record.model_fields)
        own, shared = (
            ", ".join(record.own_parameters) or "none",
            ", ".join(sorted({*Settings.model_fields} - {"source"})),
        )
        raise UserError(
            f"{where}unknown parameter {path!r}; {f'did you mean {hint!r}? ' if hint else ''}"
            f"the function {function} has: {own}; every protocol has: {shared}"
        )


def _hashes(*folders: Path) -> dict[str, str]:
    return {
        f"{folder.name}/{path.relative_to(folder)}": sha256(read_prompt(path).encode()).hexdigest()
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in (".j2", ".yaml") and not path.name.startswith(".")
    }


@lru_cache(maxsize=64)
def _sandbox(
    folder: Path, base: Path, marker: Marker, files: tuple[tuple[str, str], ...], words: tuple[tuple[str, str], ...]
) -> Sandbox:
    # ``files`` is part of the cache key: changed templates get a new environment.
    environment = Sandbox(folder, base, asset("prompts", "_shared"), texts=dict(words))
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
    own, base = _read_folder(folder)
    tested = frozenset(_uses(own)) if folder.parent == asset("prompts") else frozenset()
    return _checked(name, own, folder, base, _tested=tested)


def own_variant(function: ProtocolFunction, prompts: Path | None = None) -> Variant:
    """A protocol's function of your own, with the templates of its folder; those that it lacks are madke's.

    Its folder in ``prompts`` has the function's name. A ``protocol.yaml`` there may hold values and a ``source``.
    """
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
    return _checked(named, own, folder, base, code)


def _checked(
    name: str, own: Protocol, folder: Path, base: Path, code: Mapping[str, str] = MappingProxyType({}), **more: Any
) -> Variant:
    folders = dict.fromkeys((folder, base, asset("prompts", "_shared"), asset("prompts", "tasks")))
    variant = Variant(
        name=name,
        folder=folder,
        base=base,
        protocol=own,
        files={**_hashes(*folders), **code},
        is_fixed=own.structured == "off",
        **more,
    )
    try:
        own.trace  # noqa: B018 - raises what the function refuses
    except UserError as error:
        raise UserError(str(error), file=folder / "protocol.yaml") from None
    check_templates(variant)
    return variant


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
            check_names([key], name)
    except UserError as error:
        lines = enumerate(text.splitlines(), start=1)
        line = next((number for number, each in lines if each.startswith(f"{key}:")), None)
        raise UserError(str(error), file=file, line=line) from None
    for key, value in content.items():
        default = record.model_fields[key].default
        if isinstance(value, Mapping) and isinstance(default, BaseModel):
            content[key] = {**default.model_dump(), **value}  # a folder says what differs
    return validated({**content, "function": name}, record, file=file), base


def setting(text: str) -> tuple[str, Any]:
    """Path and value of a ``--set path=value``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(f"--set {text!r}: expected path=value, for instance --set rounds=2")
    try:
        return path, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {text!r}: the value is not YAML") from None


def _bounded(pieces: Iterable[str]) -> str:
    """The text of a block; SecurityError if it is longer than a prompt can be."""
    kept, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > _MAX_CHARACTERS:
            raise SecurityError(f"makes more than {_MAX_CHARACTERS:,} characters; expected less text")
        kept.append(piece)
    return "".join(kept)


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() if "\n\n\n" in text else text.strip()


def check_templates(variant: Variant) -> None:
    """Check that each stage's template exists, uses only known variables and can be rendered; UserError if not."""
    protocol, uses = variant.protocol, _uses(variant.protocol)
    for own in filter(None, (use.prompt for use in uses)):
        if not any(variant.path(f"{stage}.{own}.j2").is_file() for stage in protocol.stages):
            raise UserError(f"has no template <stage>.{own}.j2, but a debater has prompt = {own}", file=variant.folder)
    weighs = protocol.trace.weighs
    checked = [_check_template(variant, use) for use in uses if weighs or use not in variant._tested]
    readers = [stage for stage in protocol.stages if "cite" in STAGE_VALUES.get(stage, ())]
    if protocol.cite and not any("cite" in variant.shows(stage) for stage in readers):
        raise UserError("cite = true: no template of this variant asks for a quote", file=variant.folder)
    asks = any("confidence" in text.casefold() for _, texts in checked for text in texts)
    stages = [stage for stage in protocol.stages if "bound" in STAGE_VALUES.get(stage, ())]
    # Stances have a bound form only for their quotes.
    stages = [stage for stage in stages if protocol.cite or stage not in readers]
    if protocol.structured == "require" and not any("bound" in variant.shows(stage) for stage in stages):
        raise UserError("structured = require: no template of this variant has a bound form", file=variant.folder)
    if weighs and not asks:
        raise UserError("the votes are weighed, but no template asks for a confidence", file=variant.folder)


def _uses(protocol: Protocol) -> list[_Use]:
    """The templates of a protocol, each with its stage."""
    prompts = sorted({debater.prompt for debater in protocol.cast}, key=str)
    prepared = frozenset(stage for debater in protocol.cast for stage in debater.prepare)
    return [_Use(stage, prompt, prepared, protocol.marker) for stage in protocol.stages for prompt in prompts]


def _check_template(variant: Variant, use: _Use) -> Checked:
    # Checked once for all variants that share the environment.
    stage, prompt, prepared, _ = use
    name, known = variant.template(stage, prompt), variant.environment.checked
    path, key = variant.path(name), (name, stage, prepared)
    if key not in known:
        shown = variant.protocol.trace.shown
        allowed = STAGE_VALUES.get(stage, PREPARE_VALUES if stage in prepared else REMARK_VALUES) | shown.keys()
        used = used_names(variant.environment, stage, name, path)
        check_blocks(variant.environment, name, path)
        if undeclared := sorted(used - allowed):
            names = ", ".join(sorted(allowed))
            raise UserError(f"unknown placeholder {undeclared[0]!r}; a {stage} template may use: {names}", file=path)
        texts = []
        for example in EXAMPLES:
            values = {name: value for name, value in {**example, **shown}.items() if name in allowed}
            values["prepared"] = dict.fromkeys(prepared, example["own"])
            texts += [m.content for m in variant.render(stage, example["question"].task, values, prompt=prompt)]
        known[key] = frozenset(used), tuple(texts)
    return known[key]
