"""Mistakes in a variant's templates, found when it is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateNotFound, TemplateSyntaxError, meta, nodes

from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.protocol import Protocol
from madke.engine.roles import PREPARE_VALUES, STAGE_VALUES
from madke.engine.view import Group, Spoken

if TYPE_CHECKING:
    from madke.variants.load import Variant

BLOCKS = ("system", "user")
"""A template needs both."""
OPENING = "opening"
"""A template may have this block too: a user message that stands before a history which is shown as a chat."""

_SPOKEN = Spoken(agent="name", text="text", answer="A", confidence=0.5)

_EXAMPLE: dict[str, Any] = {
    "question": Question(id="q", question="?", task="choice", choices=("yes", "no")),
    "round": 1,
    "rounds": 1,
    "debaters": ("name",),
    "level": 2,
    "debater": "name",
    "persona": "p",
    "knowledge": [(0, "title", "text")],
    "max_selected": 1,
    "requery": True,
    "own": "text",
    "peers": (_SPOKEN,),
    "history": (_SPOKEN,),
    "groups": (Group(answer="A", members=(_SPOKEN,)),),
    "digest": "text",
    "critique": "text",
    "stances": (_SPOKEN,),
}
"""Values to try templates with, so that a mistake shows when a variant is loaded, not in the middle of a run."""


_WORDLESS = Spoken(agent="", text="", answer=None, confidence=None)

_BARE: dict[str, Any] = {
    **_EXAMPLE,
    "question": Question(id="q", question="?"),
    "persona": "",
    "own": None,
    "digest": None,
    "critique": None,
    **dict.fromkeys(("knowledge", "peers", "history", "groups", "stances"), ()),
}
"""The same where there is as little as there can be."""

_SPARSE: dict[str, Any] = _BARE | dict.fromkeys(("peers", "history", "stances"), (_WORDLESS,))
"""The same where others spoke, without a name, a text or an answer."""


def check_templates(variant: Variant) -> None:
    """See to it that every stage has a template that uses known values only, and that all of them can be rendered.

    Raises:
        UserError: A template is missing or wrong, or does not do what the protocol needs of it.
    """
    protocol = variant.protocol
    prepared = {stage for debater in protocol.cast for stage in debater.prepare}
    own = {debater.prompt for debater in protocol.cast if debater.prompt}
    for own_prompt in sorted(own):
        if not any((variant.folder / f"{stage}.{own_prompt}.j2").is_file() for stage in protocol.stages):
            raise UserError(f"has no template <stage>.{own_prompt}.j2", file=variant.folder)
    used: set[str] = set()
    texts: list[str] = []
    for stage in protocol.stages:
        allowed = PREPARE_VALUES if stage in prepared else STAGE_VALUES[stage]
        for prompt in sorted({debater.prompt for debater in protocol.cast}, key=str):
            path = variant.template_file(stage, prompt)
            used |= _check_names(variant, stage, path, allowed)
            texts += _try(variant, stage, prompt, allowed, prepared)
    if protocol.level != Protocol.model_fields["level"].default and "level" not in used:
        raise UserError(f"level = {protocol.level}: no template of this variant uses it", file=variant.folder)
    if protocol.finish == "weighted" and not any("confidence" in text.casefold() for text in texts):
        raise UserError("finish = weighted: no template asks for a confidence", file=variant.folder)


def _check_names(variant: Variant, stage: str, path: Path, allowed: frozenset[str]) -> set[str]:
    """The values that a template uses, in itself and in what it includes or extends; all must be allowed."""
    environment = variant.environment
    if not os.path.lexists(path):
        raise UserError(f"missing: the protocol has a stage {stage!r}, which needs this template", file=path)
    left, seen = [path.name], set[str]()
    used: set[str] = set()
    made: set[str] = set()
    try:
        while left:
            seen.add(name := left.pop())
            assert environment.loader is not None
            tree = environment.parse(environment.loader.get_source(environment, name)[0], name)
            used |= meta.find_undeclared_variables(tree)
            # What one template sets, those that it includes can use; and what has a default need not be there.
            made |= {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
            optional = (filtered.node for filtered in tree.find_all(nodes.Filter) if filtered.name == "default")
            made |= {node.name for node in optional if isinstance(node, nodes.Name)}
            left += [other for other in meta.find_referenced_templates(tree) if other and other not in seen]
        blocks = variant.blocks(path.name)
    except TemplateSyntaxError as error:
        faulty = name if error.name == "<introspection>" else error.name  # So jinja2.meta calls whatever it looks at.
        where = f"{faulty}: " if faulty not in (None, path.name) else ""
        raise UserError(f"is not a template: {where}{error.message}", file=path, line=error.lineno) from None
    except TemplateNotFound as error:
        raise UserError(f"needs a template {error.name!r}, which is not there", file=path) from None
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # of Python, which compiles what Jinja makes
        raise UserError(f"is not a template: {error or 'out of memory'}", file=path) from None
    own, inherited = _block_names(variant, path.name)
    if stray := sorted(own - inherited - {*BLOCKS, OPENING} if inherited else ()):
        raise UserError(f"has a block {stray[0]!r}, which nothing that it extends has", file=path)
    for block in BLOCKS:
        if block not in blocks:
            raise UserError(f"has no {{% block {block} %}}; a template needs {' and '.join(BLOCKS)}", file=path)
    if undeclared := sorted(used - made - allowed):
        known = ", ".join(sorted(allowed))
        raise UserError(f"unknown placeholder {undeclared[0]!r}; a {stage} template may use: {known}", file=path)
    return used


def _block_names(variant: Variant, name: str) -> tuple[set[str], set[str]]:
    """The blocks that a template has itself, and those of what it extends."""
    own = set(variant.environment.get_template(name).blocks)
    return own, {block for block, chain in variant.blocks(name).items() if len(chain) > 1 or block not in own}


def _try(variant: Variant, stage: str, prompt: str | None, allowed: frozenset[str], prepared: set[str]) -> list[str]:
    """What a template makes of example values, full and bare."""
    texts = []
    for example in (_EXAMPLE, _BARE, _SPARSE):
        values = {name: value for name, value in example.items() if name in allowed}
        values["prepared"] = dict.fromkeys(prepared, "text" if example is _EXAMPLE else None)
        texts += [m.content for m in variant.render(stage, example["question"].task, values, prompt=prompt)]
    return texts
