"""Sources of passages, one module each, and opening one from its specification."""

from __future__ import annotations

from pathlib import Path

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.knowledge.manifest import Bm25Settings, read_manifest

__all__ = ["open_spec"]


def open_spec(name: str, spec: str) -> Source:
    """The source that a specification describes, under the given name.

    Args:
        name: What its passages are marked with.
        spec: An index folder; several joined by ``+``, for their rank fusion; a ``.jsonl`` file of web-style
            results; or ``serper``.

    Raises:
        UserError: The specification is none of these, or what it names cannot be opened.
    """
    if "+" in spec and not Path(spec).exists():
        from madke.knowledge.sources.hybrid import HybridSource

        return HybridSource([_open_index(name, Path(part.strip())) for part in spec.split("+")], name=name)
    if spec == "serper":
        from madke.knowledge.sources.serper import SerperSource

        return SerperSource(name=name)
    if spec.endswith(".jsonl"):
        from madke.knowledge.sources.snippets import SnippetsSource

        return SnippetsSource(Path(spec), name=name)
    return _open_index(name, Path(spec))


def _open_index(name: str, folder: Path) -> Source:
    if not folder.is_dir():
        raise UserError(
            f"source {name!r}: no folder {str(folder)!r}; expected an index folder, A+B, a .jsonl file of results, "
            "or serper"
        )
    if isinstance(read_manifest(folder).index, Bm25Settings):
        from madke.knowledge.sources.bm25 import Bm25Source

        return Bm25Source(folder, name=name)
    from madke.knowledge.sources.dense import DenseSource

    return DenseSource(folder, name=name)
