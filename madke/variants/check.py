"""Check a variant's templates when it is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import TemplateNotFound, TemplateSyntaxError, meta, nodes

from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.protocol import Protocol
from madke.engine.roles import PREPARE_VALUES, STAGE_VALUES
from madke.engine.view import Group, Spoken

if TYPE_CHECKING:
    from madke.variants.load import Variant
    from madke.variants.sandbox import Sandbox

BLOCKS = ("system", "user")
OPENING = "opening"
"""An optional block: a user message before a history that is shown as a chat."""

Checked = tuple[frozenset[str], tuple[str, ...]]
"""The variables that a template uses, also through includes and parents; its texts for example values."""


class Names(NamedTuple):
    """The names in a template's own text."""

    undeclared: set[str]
    optional: set[str]
    """Variables that it sets, or gives a default."""
    templates: list[str]
    """Templates that it includes or extends."""


_SPOKEN = Spoken(agent="name", text="text", answer="A", confidence=0.5)
_FULL: dict[str, Any] = {
    "question": Question(id="q", question="?", task="choice", choices=("yes", "no"), instructions="text"),
    "round": 1,
    "rounds": 1,
    "debaters": ("name",),
    "level": 2,
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
_EXAMPLES = (_FULL, _BARE, {**_BARE, **_EMPTY_STANCES})
"""Values for trial renders, so that mistakes show when a variant is loaded and not during a run."""


def check_templates(variant: Variant) -> None:
    """Check that each stage's template exists, uses only known variables and can be rendered; UserError if not."""
    protocol = variant.protocol
    prompts = sorted({debater.prompt for debater in protocol.cast}, key=str)
    for own in filter(None, prompts):
        if not any((variant.folder / f"{stage}.{own}.j2").is_file() for stage in protocol.stages):
            raise UserError(f"has no template <stage>.{own}.j2, but a debater has prompt = {own}", file=variant.folder)
    prepared = frozenset(stage for debater in protocol.cast for stage in debater.prepare)
    checked = [_check_template(variant, stage, prompt, prepared) for stage in protocol.stages for prompt in prompts]
    if protocol.level != Protocol.model_fields["level"].default and not any("level" in used for used, _ in checked):
        raise UserError(f"level = {protocol.level}: no template of this variant uses it", file=variant.folder)
    if protocol.finish == "weighted" and not any(
        "confidence" in text.casefold() for _, texts in checked for text in texts
    ):
        raise UserError("finish = weighted: no template asks for a confidence", file=variant.folder)


def _check_template(variant: Variant, stage: str, prompt: str | None, prepared: frozenset[str]) -> Checked:
    # Checked once for all variants that share the environment.
    path, known = variant.template_file(stage, prompt), variant.environment.checked
    key = (path.name, stage, prepared)
    if key not in known:
        allowed = PREPARE_VALUES if stage in prepared else STAGE_VALUES[stage]
        used = _compile(variant.environment, stage, path)
        _check_blocks(variant.environment, path)
        if undeclared := sorted(used - allowed):
            names = ", ".join(sorted(allowed))
            raise UserError(f"unknown placeholder {undeclared[0]!r}; a {stage} template may use: {names}", file=path)
        texts = []
        for example in _EXAMPLES:
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
        try:
            for name in seen:
                if name not in environment.inlined:
                    environment.get_template(name)
        except Exception:
            for name in reversed(seen):  # what is included first, so that a mistake is reported where it stands
                environment.get_template(name)
            raise
    except TemplateSyntaxError as error:
        faulty = name if error.name == "<introspection>" else error.name  # jinja2.meta's name for all
        where = f"{faulty}: " if faulty not in (None, path.name) else ""
        raise UserError(f"is not a template: {where}{error.message}", file=path, line=error.lineno) from None
    except TemplateNotFound as error:
        raise UserError(f"needs a template {error.name!r}, which is missing", file=path) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # from compiling Jinja's Python code
        raise UserError(f"is not a template: {error or 'out of memory'}", file=path) from None
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
    if stray := sorted(own - {*BLOCKS, OPENING}.union(*inherited) if inherited else ()):
        raise UserError(f"has a block {stray[0]!r}, which the template that it extends does not have", file=path)
    for block in BLOCKS:
        if block not in own.union(*inherited):
            raise UserError(f"has no {{% block {block} %}}; a template needs {' and '.join(BLOCKS)}", file=path)
