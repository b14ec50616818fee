"""The table of models in endpoints.md, from the kinds of models themselves."""

from __future__ import annotations

from docs.metrics_table import with_table
from madke.models.model_names import MODEL_KINDS

_OTHERS = {
    "`NAME`": "an entry of `models.yaml`",
    "`module:object`": "your own Python object; see [Extending madke](extend.md)",
}


def page() -> str:
    """The page with its table; the rest of it is written by hand."""
    built_in = {f"`{form}`": text for kind in MODEL_KINDS.values() for form, text in kind.definitions.items()}
    rows = [f"| {form} | {text} |" for form, text in (built_in | _OTHERS).items()]
    return with_table("endpoints.md", "models", ["| `--model` | meaning |", "|---|---|", *rows])
