"""The gallery of protocols, from each ``protocol.yaml``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from madke.engine.protocol import ProtocolFunction, help_of, settings_of, shipped_functions
from madke.report.protocol_text import calls_range, changed_settings, notes, setting_value, templates
from madke.variants import Variant, load_variant, variant_folders

HEAD = """---
hide:
  - toc
---

# Protocols

<!-- Generated from prompts/*/protocol.yaml by python -m docs.generate. -->

Every debate that madke ships, from its `protocol.yaml`. `madke protocols show NAME` prints the same, also for your own
protocol and with settings changed (`--set debaters=3`).

**The words of all prompts are madke's own**, also where a paper prints its prompts: calls, order, and who sees what
follow the paper, the wording does not. The notes of each protocol say what else differs. To use the words of a paper,
see [Prompts as printed in the papers](printed_prompts.md).
"""

FUNCTIONS = """## Functions

A protocol is a function in `madke/engine/protocols/`; its parameters are settings (`--set rounds=2`,
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
        f"| `{each}` | `{setting_value(record.model_fields[each].default)}` | {texts.get(each, '')} |"
        for each in record.own_parameters
    ]
    table = ["", "| setting | default | meaning |", "|---|---|---|", *lines] if lines else []
    return "\n".join([f"### `{name}`", "", first, *table, ""])


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


def _entry(variant: Variant) -> str:
    stages = ", ".join(f"`{stage}` ({names})" for stage, names in templates(variant).items())
    settings = ", ".join(f"`{each}`" for each in changed_settings(variant.protocol))
    return f"""## {variant.name}

{variant.protocol.source}.

- Settings that differ from the defaults: {settings or "none"}
- Stages and their templates: {stages}

<details markdown="1">
<summary>Notes: what follows the source, what differs, calls</summary>

```text
{notes(variant.folder / "protocol.yaml")}
```

</details>
"""
