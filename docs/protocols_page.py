"""The gallery of protocols, from each ``protocol.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from madke.engine.ending import FINISHES, STOPS
from madke.report.protocol_text import calls_range, changed_settings, notes, templates
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

RULES = """## Stop and finish rules

`stop` says when a debate ends before its last round, `finish` where its answer comes from. Both can be set for any
protocol: `--set stop=agreement --set finish=majority`. madke refuses pairs that cannot work, and says why.
"""


def page() -> str:
    """The whole page."""
    variants = [load_variant(name) for name in variant_folders()]
    rules = [*_rules("stop", STOPS), "", *_rules("finish", FINISHES), ""]
    return "\n".join([HEAD, *_overview(variants), "", RULES, *rules, *map(_entry, variants)])


def _rules(field: str, rules: Mapping[str, Callable[..., object]]) -> Iterator[str]:
    yield f"| `{field}` | meaning |"
    yield "|---|---|"
    for name, rule in rules.items():
        yield f"| `{name}` | {' '.join((rule.__doc__ or '').split())} |"


def _overview(variants: list[Variant]) -> Iterator[str]:
    yield "| Protocol | Debaters | Rounds, at most | Knowledge | `stop` | `finish` | Calls |"
    yield "|---|---|---|---|---|---|---|"
    for variant in variants:
        protocol = variant.protocol
        cells = (
            f"[{variant.name}](#{variant.name})",
            str(len(protocol.cast)),
            str(protocol.rounds),
            ", ".join(protocol.sources) or "none",
            protocol.stop,
            protocol.finish,
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
