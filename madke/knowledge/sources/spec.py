"""What a source is made of: a typed record, from an entry of a ``sources.yaml`` or from a word of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from madke.core.errors import UserError
from madke.knowledge.fusion import Method
from madke.knowledge.sources.serper_options import SerperOptions
from madke.yaml_file import validated

_ONE_OF = "one of index, hybrid, serper and results"
_PART = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*\*)?\s*([^\s*][^*]*)")
"""A part of ``A+B``, with or without a weight before it."""


def at_home(path: Path) -> Path:
    """The path with ``~`` as the user's home.

    Raises:
        UserError: There is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise UserError(f"{str(path)!r}: there is no such user's home") from None


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def under(self, folder: Path) -> Self:
        """The same, its relative paths taken from ``folder``, and ``~`` as the user's home."""
        paths = {name: folder / at_home(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class IndexSpec(_Spec):
    """An index folder."""

    index: Path
    """A folder of ours, or a Lucene or FAISS folder in pyserini's format."""
    encoder: str | None = None
    """What encodes the queries, for a FAISS folder of pyserini's, which does not say."""
    texts: Path | None = None
    """The index that holds the passages' texts, for a FAISS folder of pyserini's, which has none."""


class SerperSpec(_Spec):
    """Google's results through Serper."""

    serper: SerperOptions = SerperOptions()

    @field_validator("serper", mode="before")
    @classmethod
    def _nothing_said(cls, options: Any) -> Any:
        return {} if options is None else options


class ResultsSpec(_Spec):
    """A file of web-style results."""

    results: Path
    """See :class:`madke.knowledge.sources.snippets.SnippetsSource`."""


class HybridSpec(_Spec):
    """Several sources as one."""

    hybrid: Annotated[tuple[_Part, ...], Field(min_length=2)]
    """Each the name of a source, an index folder, or a specification of its own."""
    fusion: Method = "rrf"
    """See :func:`madke.knowledge.fusion.fuse`."""
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], ...] | None = None
    """``weighted``: one for each part; by default 1."""

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        if self.weights is not None and self.fusion != "weighted":
            raise ValueError("weights need fusion: weighted")
        if self.weights is not None and len(self.weights) != len(self.hybrid):
            raise ValueError(f"expected a weight for each of {len(self.hybrid)} parts, found {len(self.weights)}")
        return self


SourceSpec = IndexSpec | HybridSpec | SerperSpec | ResultsSpec

_MODELS: dict[str, type[SourceSpec]] = {
    "index": IndexSpec,
    "hybrid": HybridSpec,
    "serper": SerperSpec,
    "results": ResultsSpec,
}


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "name"
    there = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    return next((kind for kind in _MODELS if kind in there), None)


_Part = Annotated[
    Annotated[str, Field(min_length=1), Tag("name")]
    | Annotated[IndexSpec, Tag("index")]
    | Annotated[HybridSpec, Tag("hybrid")]
    | Annotated[SerperSpec, Tag("serper")]
    | Annotated[ResultsSpec, Tag("results")],
    Discriminator(_kind, custom_error_type="source_kind", custom_error_message=f"expected a name, or {_ONE_OF}"),
]
HybridSpec.model_rebuild()


def spec_from_yaml(content: Any, *, file: Path | str) -> SourceSpec:
    """The specification in an entry of a ``sources.yaml``.

    Args:
        content: What stands behind the name.
        file: Where it stands, for errors.

    Raises:
        UserError: It is of no kind, or has unknown keys or wrong values.
    """
    kind = _kind(content)
    if kind is None or kind == "name":
        found = ", ".join(map(repr, content)) if content and isinstance(content, dict) else repr(content)
        raise UserError(f"expected {_ONE_OF}, found {found}", file=file)
    return validated(content, _MODELS[kind], file=file)


def parse_spec(text: str) -> SourceSpec:
    """The specification that a word of the command line stands for.

    ``serper``; a ``.jsonl`` file of results; ``A+B``, names or folders, for their rank fusion, ``0.5*A+B`` for the
    weighted sum (a part without a number weighs 1); else an index folder. A folder with ``+`` in its name is one where
    it exists.

    Raises:
        UserError: A part of ``A+B`` is empty, or a weight is 0.
    """
    if text == "serper":
        return SerperSpec()
    if "+" in text and not at_home(Path(text)).exists():
        parts = [_PART.fullmatch(part.strip()) for part in text.split("+")]
        found = [part.groups() for part in parts if part]
        if len(found) < len(parts):
            raise UserError(f"source {text!r}: expected names or folders around each +")
        content: dict[str, Any] = {"hybrid": [part for _, part in found]}
        if any(weight for weight, _ in found):
            content |= {"fusion": "weighted", "weights": [float(weight or 1) for weight, _ in found]}
        return validated(content, HybridSpec, file=f"source {text!r}")
    return ResultsSpec(results=Path(text)) if text.endswith(".jsonl") else IndexSpec(index=Path(text))


def asks_serper(spec: SourceSpec | str) -> bool:
    """Whether a search would cost money: it is a web search, or has one among its parts."""
    if isinstance(spec, HybridSpec):
        return any(asks_serper(part) for part in spec.hybrid)
    return isinstance(spec, SerperSpec)
