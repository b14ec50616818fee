"""The gallery of protocols, from each ``protocol.yaml``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from madke.engine.protocol import ProtocolFunction, help_of, settings_of, shipped_functions
from madke.engine.variant import Variant, load_variant, variant_folders
from madke.report.protocol_text import calls_range, notes, setting_value

HEAD = """---
hide:
  - toc
---

# Protocols

<!-- Generated from prompts/*/protocol.yaml by python -m docs.generate. -->

What each protocol does, what differs from its paper, and its calls for a question. `madke protocols show NAME` adds its
settings and stages, also with changes (`--set debaters=3`) and for your own.

**The words of all prompts are madke's own**: calls, order, and who sees what follow the paper, the wording does not
([use the printed words](printed_prompts.md)).
"""

FUNCTIONS = """## Functions

A protocol is a function in `madke/engine/protocols.py`; its parameters are settings (`--set rounds=2`,
`--set reads.own=none`). `--set function=NAME` lets another function talk with a protocol's prompts. Every protocol
also has the settings of [every debate](api.md): debaters, sources, `select`, `temperature`, `early_stop` and so on. A
setting that the function does not have is refused.
"""


def page() -> str:
    """The whole page."""
    variants = [load_variant(name) for name in variant_folders()]
    functions = [_function(name, function) for name, function in sorted(shipped_functions().items())]
    return "\n".join([HEAD, *_overview(variants), "", FUNCTIONS, *functions, *map(_entry, variants)])


def _function(name: str, function: ProtocolFunction) -> str:
    texts, record = help_of(function), settings_of(function)
    first = inspect.cleandoc(function.__doc__ or "").splitlines()[0]
    lines = [
        f"- `{each}` (`{setting_value(record.model_fields[each].default)}`): {texts.get(each, '')}"
        for each in record.own_parameters
    ]
    return "\n".join([f"### `{name}`", "", first, *(["", *lines] if lines else []), ""])


def _overview(variants: list[Variant]) -> Iterator[str]:
    yield "| Protocol | Function | Debaters | Rounds, at most | Knowledge | Calls |"
    yield "|---|---|---|---|---|---|"
    for variant in variants:
        protocol = variant.protocol
        cells = (
            f"[{variant.name}](#{variant.name})",
            f"[`{protocol.function}`](#{protocol.function})",
            str(len(protocol.cast)),
            str(protocol.trace.differ.rounds),
            ", ".join(protocol.sources) or "none",
            calls_range(protocol),
        )
        yield f"| {' | '.join(cells)} |"


OWN_WORDS = "Prompts: the words are madke's own"
"""The last line of most notes, which the head of the page says for all."""


def _entry(variant: Variant) -> str:
    text = notes(variant.folder / "protocol.yaml")
    told = "\n".join(line for line in text.splitlines() if not line.startswith(OWN_WORDS))
    return f"## {variant.name}\n\n{variant.protocol.source}.\n\n```text\n{told}\n```\n"
