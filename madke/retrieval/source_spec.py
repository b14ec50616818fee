"""Source specifications: typed records, read from a command-line word or from a ``sources.yaml``."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Union, cast

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, model_validator

from madke._util.assets import cache_dir
from madke._util.files import dir_lock, write_file
from madke._util.yaml_file import read_entries, validated
from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.retrieval.documents.source import DocumentSource
from madke.retrieval.fusion import HybridSource, Method
from madke.retrieval.index_sources import RankedBy, SampleSource, open_index
from madke.retrieval.services import HttpOptions, SerperOptions, WikipediaOptions, search_presets
from madke.retrieval.source import own_source
from madke.retrieval.web import SnippetsSource, WebService, WebSource

_PART = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*\*)?\s*([^\s*][^*]*)")
"""A part of ``A+B`` with an optional weight."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_IS_CODE = "is Python code"


def at_home(path: Path) -> Path:
    """The path with ``~`` expanded; ``~name`` of an unknown user is unchanged."""
    return Path(os.path.expanduser(path))


class SourceSpec(BaseModel, frozen=True, extra="forbid"):
    """What a source is opened from. A kind is a subclass in :data:`_KINDS`, named by its first field."""

    asks_service: ClassVar[bool] = False
    """Whether a search asks a service, which may be elsewhere, slow or cost money."""

    @abstractmethod
    def open(self, name: str) -> Source:
        """Open the source, under this name; all names and relative paths are resolved."""

    def risk(self, folder: Path) -> str | None:
        """What only the user may allow of it, if a file in ``folder`` defines it; None if that is nothing."""
        return None

    @property
    def keys(self) -> Sequence[str]:
        """The environment variables with keys that it needs."""
        return ()

    def under(self, folder: Path) -> Self:
        """A copy with relative paths taken from ``folder`` and ``~`` expanded."""
        paths = {name: folder / at_home(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class IndexSpec(SourceSpec):
    """An index folder: see :func:`madke.retrieval.index_sources.open_index`."""

    index: Path
    encoder: str | None = None
    texts: Path | None = None

    def open(self, name: str) -> Source:
        """Open the index."""
        return open_index(name, self.index, encoder=self.encoder, texts=self.texts)


class DocumentsSpec(SourceSpec):
    """A folder of documents: see :class:`madke.retrieval.documents.source.DocumentSource`."""

    documents: Path
    encoder: str | None = None

    def open(self, name: str) -> Source:
        """Open the documents."""
        return DocumentSource(self.documents, name=name, encoder=self.encoder)

    def risk(self, folder: Path) -> str | None:
        """Documents of other folders may be private."""
        if self.under(folder).documents.resolve().is_relative_to(folder.resolve()):
            return None
        return f"reads documents outside of this folder ({self.documents})"


class HybridSpec(SourceSpec):
    """A fusion of several sources; see :func:`madke.retrieval.fusion.fuse`."""

    hybrid: Annotated[tuple[_Part, ...], Field(min_length=2)]
    """Each is the name of a source, an index folder, ``module:object``, or a nested specification."""
    fusion: Method = "weighted"
    """Sources whose scores do not order their passages need ``rrf``."""
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], ...] | None = None

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        if self.weights is not None and self.fusion != "weighted":
            raise ValueError("weights require fusion: weighted")
        if self.weights is not None and len(self.weights) != len(self.hybrid):
            raise ValueError(f"expected {len(self.hybrid)} weights, one per part; found {len(self.weights)}")
        return self

    def open(self, name: str) -> Source:
        """Open the parts, and fuse them."""
        parts = [part.open(name) for part in self.hybrid if not isinstance(part, str)]
        return HybridSource(parts, name=name, fusion=self.fusion, weights=self.weights)


class ResultsSpec(SourceSpec):
    """A file of web-style results: see :class:`madke.retrieval.web.SnippetsSource`."""

    results: Path

    def open(self, name: str) -> Source:
        """Open the file."""
        return SnippetsSource(self.results, name=name)


class SampleSpec(SourceSpec):
    """The shipped sample passages: see :class:`madke.retrieval.index_sources.SampleSource`."""

    sample: RankedBy

    def open(self, name: str) -> Source:
        """Open the sample."""
        return SampleSource(self.sample, name=name)


class PythonSpec(SourceSpec):
    """A source defined in code: ``module:object``, or the name of an entry point."""

    python: Annotated[str, Field(min_length=1)]

    def open(self, name: str) -> Source:
        """Import the code."""
        return own_source(self.python, name)

    def risk(self, folder: Path) -> str | None:
        """Code can do anything."""
        return _IS_CODE


class _ServiceSpec(SourceSpec):
    """A search service; its only field has the options."""

    asks_service = True
    cache: ClassVar[str] = "searches"
    """The folder of its answers, in the cache folder."""

    @property
    def service(self) -> WebService:
        """The service with its settings."""
        ((_, service),) = self
        return cast(WebService, service)

    @property
    def keys(self) -> Sequence[str]:
        """Those of the service. A search with a key may cost money."""
        return self.service.keys

    def open(self, name: str) -> Source:
        """Open the service, with its cache."""
        return WebSource(self.service, name=name, cache=cache_dir(self.cache) / "answers.sqlite")


_Default = BeforeValidator(lambda options: {} if options is None else options)


class SerperSpec(_ServiceSpec):
    """Google's results through Serper."""

    cache = "serper"
    serper: Annotated[SerperOptions, _Default] = SerperOptions()


class HttpSpec(_ServiceSpec):
    """A search service over HTTP."""

    http: HttpOptions

    def risk(self, folder: Path) -> str | None:
        """A key may go to a foreign address."""
        return "sends a key" if self.keys else None


class WikipediaSpec(_ServiceSpec):
    """Wikipedia's search API."""

    wikipedia: Annotated[WikipediaOptions, _Default] = WikipediaOptions()


_SPECS = (
    IndexSpec, DocumentsSpec, HybridSpec, ResultsSpec, SampleSpec, PythonSpec, SerperSpec, HttpSpec, WikipediaSpec,
)  # fmt: skip
_KINDS: dict[str, type[SourceSpec]] = {next(iter(spec.model_fields)): spec for spec in _SPECS}
"""By kind, in the order of messages."""
_ONE_OF = f"one of {', '.join(_KINDS)}"


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "name"
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    return next((kind for kind in _KINDS if kind in keys), None)


if TYPE_CHECKING:
    _Part = str | SourceSpec
else:
    _Part = Annotated[
        Union[
            (
                Annotated[str, Field(min_length=1), Tag("name")],
                *(Annotated[model, Tag(kind)] for kind, model in _KINDS.items()),
            )
        ],
        Discriminator(_kind, custom_error_type="source_kind", custom_error_message=f"expected a name, or {_ONE_OF}"),
    ]
HybridSpec.model_rebuild()


def parse_spec(text: str) -> SourceSpec:
    """Parse a command-line word to a specification.

    Forms: ``serper``; a ``.jsonl`` file of results; ``A+B`` or ``0.5*A+B`` (names or folders) for the weighted
    sum (default weight 1); ``module:object``; otherwise a folder (index or documents). An existing folder with ``+`` or
    ``:`` in its name is taken as a folder.
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
            content["weights"] = [float(weight or 1) for weight, _ in found]
        return validated(content, HybridSpec, file=f"source {text!r}")
    if is_code(text):
        return PythonSpec(python=text)
    return ResultsSpec(results=Path(text)) if text.endswith(".jsonl") else IndexSpec(index=Path(text))


def is_code(text: str) -> bool:
    """Whether a word is ``module:object`` and not the name of an existing file or folder."""
    return bool(_CODE.fullmatch(text)) and not Path(text).exists()


def keys_of(spec: SourceSpec | str) -> list[str]:
    """The environment variables with keys that the source needs. A search with a key may cost money."""
    return [key for part in parts_of(spec) if not isinstance(part, str) for key in part.keys]


def asks_service(spec: SourceSpec) -> bool:
    """Whether a search asks a service, which may be elsewhere, slow or cost money."""
    return any(not isinstance(part, str) and part.asks_service for part in parts_of(spec))


def parts_of(spec: SourceSpec | str) -> Iterator[SourceSpec | str]:
    """The specification, or those of a hybrid's parts."""
    if isinstance(spec, HybridSpec):
        for part in spec.hybrid:
            yield from parts_of(part)
    else:
        yield spec


def risk_of(part: SourceSpec | str, folder: Path) -> str | None:
    """What only the user may allow of a part that a file in ``folder`` defines; None if that is nothing."""
    if isinstance(part, str):
        return _IS_CODE if _CODE.fullmatch(part) else None
    return part.risk(folder)


def spec_from_yaml(content: Any, *, file: Path | str) -> SourceSpec:
    """Parse an entry of a ``sources.yaml``; ``file`` is its position, for errors."""
    kind = _kind(content)
    if kind is None or kind == "name":
        keys = content if isinstance(content, dict) else {}
        found = ", ".join(map(repr, keys)) or repr(content)
        preset = next(
            (f"; a preset is written {{http: {{preset: {key}}}}}" for key in keys if key in search_presets()), ""
        )
        raise UserError(f"expected {_ONE_OF}, found {found}{preset}", file=file)
    return validated(content, _KINDS[kind], file=file)


_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceEntry:
    """A source's specification and its position; relative paths are relative to the file."""

    spec: SourceSpec
    file: Path
    line: int


def read_sources(path: Path, *, named: bool = False) -> dict[str, SourceEntry]:
    """Name -> entry of a sources file; ``named``: entries may run code and send keys, because the user named it."""
    entries = {}
    for name, (line, content) in read_entries(path).items():
        if not _NAME.fullmatch(name) or name == "none":
            expected = "expected letters, digits, hyphens, dots and underscores, and not 'none'"
            raise UserError(f"{name!r} is not a valid source name; {expected}", file=path, line=line)
        spec = spec_from_yaml(content, file=f"{path}:{line}: source {name!r}")
        folder = path.absolute().parent
        risk = next(filter(None, (risk_of(part, folder) for part in parts_of(spec))), None)
        if risk and not named:
            remedy = f"use --sources-file {path} or MADKE_SOURCES={path}"
            why = f"source {name!r} {risk}, which is allowed only in a file that you name: {remedy}"
            raise UserError(why, file=path, line=line)
        entries[name] = SourceEntry(spec=spec, file=path, line=line)
    return entries


def add_source(path: Path, name: str, spec: SourceSpec) -> None:
    """Add a source to a file, or replace the one of the same name; concurrent calls wait for each other."""
    import yaml

    with dir_lock(path.parent):
        entries = {name: entry.spec for name, entry in read_sources(path).items()} if path.exists() else {}
        entries[name] = spec
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        write_file(path, yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
