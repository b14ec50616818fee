"""The words of prompts: of a task, and of a protocol in other words (its paper's structure, or a file of your own)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, RootModel

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml
from madke.core.errors import UserError


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


PAPER = "paper"
"""The wording that ships with madke, ``prompts/paper.yaml``."""


class StagePrompt(BaseModel, extra="forbid", frozen=True):
    """The messages of one stage, as templates, and how they differ from the printed prompt."""

    printed: str = ""
    """Number and title of the paper's prompt."""
    differs: str = ""
    """What differs from it besides words."""
    system: str = ""
    opening: str = ""
    own: str = ""
    user: str | None = None
    """None: the stage keeps its words, and only the notes are of use."""

    @property
    def template(self) -> str:
        """The messages as the blocks of a template."""
        blocks = {"system": self.system, "opening": self.opening, "own": self.own, "user": self.user or ""}
        return "".join(f"{{% block {name} %}}\n{text}\n{{% endblock %}}\n" for name, text in blocks.items())


class Wording(BaseModel, extra="forbid", frozen=True):
    """The words of one protocol."""

    paper: str = ""
    settings: dict[str, Any] = {}
    """Setting of the protocol -> value, as for ``--set``."""
    prompts: dict[str, StagePrompt | str]
    """Stage (or ``stage.prompt``) -> its messages; any other name -> a text that templates include as ``NAME.j2``."""

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """File name of a template -> its text."""
        texts = {name: each for name, each in self.prompts.items() if isinstance(each, str)}
        texts |= {name: each.template for name, each in self.stages.items()}
        return {f"{name}.j2": text for name, text in texts.items()}

    @property
    def stages(self) -> Mapping[str, StagePrompt]:
        """The stages that have words."""
        prompts = self.prompts.items()
        return {name: each for name, each in prompts if isinstance(each, StagePrompt) and each.user is not None}

    @property
    def sha256(self) -> str:
        """Fingerprint of all that changes a prompt."""
        return sha256(repr((sorted(self.settings.items()), sorted(self.templates.items()))).encode()).hexdigest()


class _Wordings(RootModel[dict[str, Wording]]):
    pass


def wording_file(wording: str | Path) -> Path:
    """The file of a wording: ``paper``, or a path."""
    return asset("prompts", "paper.yaml") if str(wording) == PAPER else Path(wording)


def read_wordings(wording: str | Path) -> dict[str, Wording]:
    """Protocol -> its words in ``paper`` or in a file of the same form; UserError if the file is wrong."""
    return read_yaml(wording_file(wording), _Wordings).root


def wordings_with_prompts(wording: str | Path) -> dict[str, Wording]:
    """Protocol -> its words, of those that the wording has prompts for."""
    return {name: each for name, each in read_wordings(wording).items() if each.stages}


def shared_wording(wording: str | Path | None, protocol: str) -> str | Path | None:
    """The wording that several protocols share, if it has prompts of this one."""
    return wording if wording is not None and protocol in wordings_with_prompts(wording) else None


def refuse_unused(wording: str | Path, protocols: Iterable[str]) -> None:
    """UserError if a wording has prompts of none of the protocols."""
    if not wordings_with_prompts(wording).keys() & (names := dict.fromkeys(protocols)).keys():
        raise UserError(f"has prompts of none of {', '.join(names)}", file=wording_file(wording))


def wording_of(wording: str | Path, protocol: str) -> Wording:
    """The words of one protocol; UserError if the wording has none for it."""
    wordings = wordings_with_prompts(wording)
    if protocol not in wordings:
        raise UserError(
            f"has no prompts of {protocol}; it has {', '.join(wordings) or 'none'}", file=wording_file(wording)
        )
    return wordings[protocol]


class _Block(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


_Block.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def copy_words(protocol: str, file: Path) -> None:
    """Write the wording ``paper`` of a protocol to a new file, to be filled with the printed words."""
    if file.exists():
        raise UserError("exists already; give another file, or remove this one", file=file)
    words = wording_of(PAPER, protocol).model_dump(exclude_defaults=True)
    for each in words["prompts"].values():
        if isinstance(each, dict):
            each.pop("differs", None)
    text = yaml.dump({protocol: words}, Dumper=_Block, sort_keys=False, allow_unicode=True, width=10_000)
    file.write_text(
        f"# {protocol} in the words of madke; put the printed ones in their place.\n{text}", encoding="utf-8"
    )
