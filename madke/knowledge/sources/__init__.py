"""Sources of passages, one module each, and opening one from its specification."""

from __future__ import annotations

from pathlib import Path

from madke.core.knowledge import Source
from madke.knowledge.sources.index import open_index
from madke.knowledge.sources.spec import HybridSpec, IndexSpec, ResultsSpec, SerperSpec, SourceSpec, parse_spec

__all__ = ["open_spec"]


def open_spec(name: str, spec: SourceSpec | str) -> Source:
    """The source that a specification describes, under the given name.

    Args:
        name: What its passages are marked with.
        spec: A record, or a word of the command line (see :func:`madke.knowledge.sources.spec.parse_spec`). The parts
            of a hybrid are folders or records here; :func:`madke.indexing.named.open_source` also knows names.

    Raises:
        UserError: The specification is none, or what it names cannot be opened.
    """
    if isinstance(spec, str):
        spec = parse_spec(spec).under(Path())
    if isinstance(spec, HybridSpec):
        from madke.knowledge.sources.hybrid import HybridSource

        parts = [
            open_spec(name, IndexSpec(index=Path(part).expanduser()) if isinstance(part, str) else part)
            for part in spec.hybrid
        ]
        return HybridSource(parts, name=name, fusion=spec.fusion, weights=spec.weights)
    if isinstance(spec, SerperSpec):
        from madke.knowledge.sources.serper import SerperSource

        return SerperSource(name=name, options=spec.serper)
    if isinstance(spec, ResultsSpec):
        from madke.knowledge.sources.snippets import SnippetsSource

        return SnippetsSource(spec.results, name=name)
    return open_index(name, spec.index, encoder=spec.encoder, texts=spec.texts)
