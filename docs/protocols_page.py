"""The gallery of protocols, drawn from each ``protocol.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from madke.engine.ending import FINISHES, STOPS
from madke.report.diagram import diagram
from madke.report.protocol_line import FINISH_WORDS, early_end
from madke.variants import Variant, load_variant, variant_folders

HEAD = """---
hide:
  - toc
---

# Protocols

<!-- Generated from prompts/*/protocol.yaml by python -m docs.generate. -->

Every debate that madke ships, drawn from its `protocol.yaml`. `madke protocols show NAME` prints the same picture, also
for a protocol of your own and with fields changed (`--set debaters=3`).

**The words of all prompts are madke's own**, also where a paper prints its prompts: calls, order, and who sees what
follow the paper, the wording does not. The notes of each protocol say what else differs. To use the words of a paper,
see [Prompts as printed in the papers](printed_prompts.md).
"""

READING = """## How to read a picture

- The lines before the first frame say where the protocol comes from, which fields differ from the defaults, who takes
  part and what is retrieved.
- A frame is a round. Its table has a row for each reader and a column for each debater who is read. The signs are
  explained below the table.
- The last lines count the model calls of one question: `n` debaters, `r` rounds.
"""


RULES = """## Stop and finish rules

`stop` says when a debate ends before its last round, `finish` where its answer comes from. Both can be set for any
protocol: `--set stop=agreement --set finish=majority`. madke refuses pairs that cannot work, and says why.
"""


def page() -> str:
    """The whole page."""
    variants = [load_variant(name) for name in variant_folders()]
    rules = [*_rules("stop", STOPS), "", *_rules("finish", FINISHES), ""]
    return "\n".join([HEAD, *_overview(variants), "", RULES, *rules, READING, *map(_entry, variants)])


def _rules(field: str, rules: Mapping[str, Callable[..., object]]) -> Iterator[str]:
    yield f"| `{field}` | meaning |"
    yield "|---|---|"
    for name, rule in rules.items():
        yield f"| `{name}` | {' '.join((rule.__doc__ or '').split())} |"


def _overview(variants: list[Variant]) -> Iterator[str]:
    yield "| Protocol | Debaters | Rounds, at most | Knowledge | Ends early | Answer from |"
    yield "|---|---|---|---|---|---|"
    for variant in variants:
        protocol = variant.protocol
        cells = (
            f"[{variant.name}](#{variant.name})",
            str(len(protocol.cast)),
            str(protocol.rounds),
            ", ".join(protocol.sources) or "none",
            (early_end(protocol) if protocol.rounds > 1 else "") or "no",
            FINISH_WORDS[protocol.finish],
        )
        yield f"| {' | '.join(cells)} |"


def _entry(variant: Variant) -> str:
    picture = diagram(variant.name, variant.protocol).partition("\n")[2].rstrip()
    return f"""## {variant.name}

```text
{picture}
```

<details markdown="1">
<summary>Notes: what follows the source, what differs, calls</summary>

```text
{_notes(variant)}
```

</details>
"""


def _notes(variant: Variant) -> str:
    """The comment at the head of ``protocol.yaml``."""
    lines = (variant.folder / "protocol.yaml").read_text(encoding="utf-8").splitlines()
    head = lines[: next(n for n, line in enumerate(lines) if not line.startswith("#"))]
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in head)
