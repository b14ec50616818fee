"""What a source is made of: a typed record, from a word of the command line or from an entry of a ``sources.yaml``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.files import atomic_write, dir_lock
from madke.knowledge.asking import own_source
from madke.knowledge.fusion import HybridSource, Method
from madke.knowledge.index_sources import open_index
from madke.knowledge.serper import SerperSource
from madke.knowledge.web import SerperOptions, SnippetsSource
from madke.yaml_file import read_entries, validated

_ONE_OF = "one of index, hybrid, serper, results and python"
_PART = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*\*)?\s*([^\s*][^*]*)")
"""A part of ``A+B``, with or without a weight before it."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"[\w.-]+")


def at_home(path: Path) -> Path:
    """The path with ``~`` as the user's home; of a user that is not there it stays."""
    return Path(os.path.expanduser(path))


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def under(self, folder: Path) -> Self:
        """The same, its relative paths taken from ``folder``, and ``~`` as the user's home."""
        paths = {name: folder / at_home(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class IndexSpec(_Spec):
    """An index folder: see :func:`madke.knowledge.index_sources.open_index`."""

    index: Path
    encoder: str | None = None
    texts: Path | None = None


class SerperSpec(_Spec):
    """Google's results through Serper."""

    serper: SerperOptions = SerperOptions()

    @field_validator("serper", mode="before")
    @classmethod
    def _nothing_said(cls, options: Any) -> Any:
        return {} if options is None else options


class ResultsSpec(_Spec):
    """A file of web-style results: see :class:`madke.knowledge.web.SnippetsSource`."""

    results: Path


class PythonSpec(_Spec):
    """A source that is code: ``module:object``, or the name of an entry point."""

    python: Annotated[str, Field(min_length=1)]


class HybridSpec(_Spec):
    """Several sources as one; see :func:`madke.knowledge.fusion.fuse`."""

    hybrid: Annotated[tuple[_Part, ...], Field(min_length=2)]
    """Each the name of a source, an index folder, ``module:object``, or a specification of its own."""
    fusion: Method = "rrf"
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], ...] | None = None

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        if self.weights is not None and self.fusion != "weighted":
            raise ValueError("weights need fusion: weighted")
        if self.weights is not None and len(self.weights) != len(self.hybrid):
            raise ValueError(f"expected a weight for each of {len(self.hybrid)} parts, found {len(self.weights)}")
        return self


SourceSpec = IndexSpec | HybridSpec | SerperSpec | ResultsSpec | PythonSpec

_MODELS: dict[str, type[SourceSpec]] = {
    "index": IndexSpec,
    "hybrid": HybridSpec,
    "serper": SerperSpec,
    "results": ResultsSpec,
    "python": PythonSpec,
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
    | Annotated[ResultsSpec, Tag("results")]
    | Annotated[PythonSpec, Tag("python")],
    Discriminator(_kind, custom_error_type="source_kind", custom_error_message=f"expected a name, or {_ONE_OF}"),
]
HybridSpec.model_rebuild()


def parse_spec(text: str) -> SourceSpec:
    """The specification that a word of the command line stands for.

    ``serper``; a ``.jsonl`` file of results; ``A+B``, names or folders, for their rank fusion, ``0.5*A+B`` for the
    weighted sum (a part without a number weighs 1); ``module:object``; else an index folder. A folder with ``+`` or
    ``:`` in its name is one where it exists.
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
    if is_code(text):
        return PythonSpec(python=text)
    return ResultsSpec(results=Path(text)) if text.endswith(".jsonl") else IndexSpec(index=Path(text))


def is_code(text: str) -> bool:
    """Whether a word is ``module:object``, and no file or folder of that name is there."""
    return bool(_CODE.fullmatch(text)) and not Path(text).exists()


def asks_serper(spec: SourceSpec | str) -> bool:
    """Whether a search would cost money: it is a web search, or has one among its parts."""
    return any(isinstance(part, SerperSpec) for part in _parts(spec))


def asked_here(spec: SourceSpec) -> bool:
    """Whether this process must ask it: Serper, which has one cache and limits, and code, which others may not have."""
    return any(isinstance(part, SerperSpec | PythonSpec) for part in _parts(spec))


def _parts(spec: SourceSpec | str) -> Iterator[SourceSpec | str]:
    if isinstance(spec, HybridSpec):
        for part in spec.hybrid:
            yield from _parts(part)
    else:
        yield spec


def open_spec(name: str, spec: SourceSpec) -> Source:
    """The source that a specification without names (:func:`madke.knowledge.named.resolve`) describes."""
    if isinstance(spec, HybridSpec):
        parts = [open_spec(name, part) for part in spec.hybrid if not isinstance(part, str)]
        return HybridSource(parts, name=name, fusion=spec.fusion, weights=spec.weights)
    if isinstance(spec, SerperSpec):
        return SerperSource(name=name, options=spec.serper)
    if isinstance(spec, ResultsSpec):
        return SnippetsSource(spec.results, name=name)
    if isinstance(spec, PythonSpec):
        return own_source(spec.python, name)
    return open_index(name, spec.index, encoder=spec.encoder, texts=spec.texts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A source's specification, as written, and where it stands: relative paths are relative to the file."""

    spec: SourceSpec
    file: Path
    line: int


def read_sources(path: Path, *, code: bool = False) -> dict[str, Entry]:
    """The sources that a file names; with ``code``, entries may name code: the user has named this file."""
    entries = {}
    for name, (line, content) in read_entries(path).items():
        if not _NAME.fullmatch(name) or name == "none":
            expected = "expected letters, digits, hyphens, dots and underscores, and not 'none'"
            raise UserError(f"{name!r} cannot name a source; {expected}", file=path, line=line)
        spec = spec_from_yaml(content, file=f"{path}:{line}: source {name!r}")
        if not code and any(
            isinstance(part, PythonSpec) or (isinstance(part, str) and _CODE.fullmatch(part)) for part in _parts(spec)
        ):
            raise UserError(
                f"source {name!r} is Python code, which counts only in a file that you name: --sources-file {path}, or "
                f"MADKE_SOURCES={path}",
                file=path,
                line=line,
            )
        entries[name] = Entry(spec=spec, file=path, line=line)
    return entries


def spec_from_yaml(content: Any, *, file: Path | str) -> SourceSpec:
    """The specification in an entry of a ``sources.yaml``; ``file`` says where it stands, for errors."""
    kind = _kind(content)
    if kind is None or kind == "name":
        found = ", ".join(map(repr, content)) if content and isinstance(content, dict) else repr(content)
        raise UserError(f"expected {_ONE_OF}, found {found}", file=file)
    return validated(content, _MODELS[kind], file=file)


def add_source(path: Path, name: str, spec: SourceSpec) -> None:
    """Write a source into a file, in place of one of the same name. Two at once wait for each other."""
    import yaml

    with dir_lock(path.parent):
        entries = {name: entry.spec for name, entry in read_sources(path).items()} if path.exists() else {}
        entries[name] = spec
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        with atomic_write(path) as file:
            file.write(yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
