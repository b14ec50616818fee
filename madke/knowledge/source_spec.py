"""Source specifications: typed records, read from a command-line word or an entry of a ``sources.yaml``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, model_validator

from madke._util.assets import cache_dir
from madke._util.files import dir_lock, write_file
from madke._util.yaml_file import read_entries, validated
from madke.core.errors import UserError
from madke.core.knowledge import Source
from madke.knowledge.asking import own_source
from madke.knowledge.command_search import CommandOptions, CommandSearch
from madke.knowledge.fusion import HybridSource, Method
from madke.knowledge.http_search import HttpOptions, HttpSearch
from madke.knowledge.index_sources import DocumentSource, open_index
from madke.knowledge.mcp_search import McpOptions, McpSearch
from madke.knowledge.serper import Serper, SerperOptions
from madke.knowledge.web import SnippetsSource
from madke.knowledge.web_source import Service, WebSource
from madke.knowledge.wikipedia import Wikipedia, WikipediaOptions

_PART = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*\*)?\s*([^\s*][^*]*)")
"""A part of ``A+B`` with an optional weight."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"[\w.-]+")


def at_home(path: Path) -> Path:
    """The path with ``~`` expanded; ``~name`` of an unknown user is unchanged."""
    return Path(os.path.expanduser(path))


class _Spec(BaseModel, frozen=True, extra="forbid"):
    def under(self, folder: Path) -> Self:
        """A copy with relative paths taken from ``folder`` and ``~`` expanded."""
        paths = {name: folder / at_home(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class IndexSpec(_Spec):
    """An index folder: see :func:`madke.knowledge.index_sources.open_index`."""

    index: Path
    encoder: str | None = None
    texts: Path | None = None


class DocumentsSpec(_Spec):
    """A folder of documents: see :class:`madke.knowledge.index_sources.DocumentSource`."""

    documents: Path
    encoder: str | None = None


_Default = BeforeValidator(lambda options: {} if options is None else options)


class SerperSpec(_Spec):
    """Google's results through Serper."""

    serper: Annotated[SerperOptions, _Default] = SerperOptions()


class HttpSpec(_Spec):
    """A search service over HTTP."""

    http: HttpOptions


class WikipediaSpec(_Spec):
    """Wikipedia's search API."""

    wikipedia: Annotated[WikipediaOptions, _Default] = WikipediaOptions()


class _ProgramSpec(_Spec):
    def under(self, folder: Path) -> Self:
        """A copy whose program runs in ``folder``, or in its own folder below it."""
        ((kind, options),) = self
        return self.model_copy(update={kind: options.model_copy(update={"folder": folder / at_home(options.folder)})})


class McpSpec(_ProgramSpec):
    """A tool of an MCP server."""

    mcp: McpOptions


class CommandSpec(_ProgramSpec):
    """A program that answers queries."""

    command: CommandOptions


class ResultsSpec(_Spec):
    """A file of web-style results: see :class:`madke.knowledge.web.SnippetsSource`."""

    results: Path


class PythonSpec(_Spec):
    """A source defined in code: ``module:object``, or the name of an entry point."""

    python: Annotated[str, Field(min_length=1)]


class HybridSpec(_Spec):
    """A fusion of several sources; see :func:`madke.knowledge.fusion.fuse`."""

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


WebSpec = SerperSpec | HttpSpec | WikipediaSpec | McpSpec | CommandSpec
SourceSpec = IndexSpec | DocumentsSpec | HybridSpec | ResultsSpec | PythonSpec | WebSpec

_MODELS: dict[str, type[SourceSpec]] = {next(iter(model.model_fields)): model for model in get_args(SourceSpec)}
"""By kind, which is the name of the first field."""
_SERVICES: dict[str, Callable[[Any], Service]] = {
    "serper": Serper,
    "http": HttpSearch,
    "wikipedia": Wikipedia,
    "mcp": McpSearch,
    "command": CommandSearch,
}
_ONE_OF = f"one of {', '.join(_MODELS)}"


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "name"
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    return next((kind for kind in _MODELS if kind in keys), None)


_Part = Annotated[
    Annotated[str, Field(min_length=1), Tag("name")]
    | Annotated[IndexSpec, Tag("index")]
    | Annotated[DocumentsSpec, Tag("documents")]
    | Annotated[HybridSpec, Tag("hybrid")]
    | Annotated[SerperSpec, Tag("serper")]
    | Annotated[HttpSpec, Tag("http")]
    | Annotated[WikipediaSpec, Tag("wikipedia")]
    | Annotated[McpSpec, Tag("mcp")]
    | Annotated[CommandSpec, Tag("command")]
    | Annotated[ResultsSpec, Tag("results")]
    | Annotated[PythonSpec, Tag("python")],
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
    services = (part for part in parts_of(spec) if isinstance(part, WebSpec))
    return [key for service in services for _, options in service for key in options.keys]


def asks_service(spec: SourceSpec) -> bool:
    """Whether a search asks a service, which may be elsewhere, slow or cost money."""
    return any(isinstance(part, WebSpec) for part in parts_of(spec))


def asked_here(spec: SourceSpec) -> bool:
    """Whether only this process may query it: services (one cache and limits), documents (cached here), and code."""
    return asks_service(spec) or any(isinstance(part, DocumentsSpec | PythonSpec) for part in parts_of(spec))


def parts_of(spec: SourceSpec | str) -> Iterator[SourceSpec | str]:
    """The specification, or those of a hybrid's parts."""
    if isinstance(spec, HybridSpec):
        for part in spec.hybrid:
            yield from parts_of(part)
    else:
        yield spec


def open_spec(name: str, spec: SourceSpec) -> Source:
    """Open the source of a resolved specification (see :func:`madke.knowledge.named.resolve`)."""
    if isinstance(spec, HybridSpec):
        parts = [open_spec(name, part) for part in spec.hybrid if not isinstance(part, str)]
        return HybridSource(parts, name=name, fusion=spec.fusion, weights=spec.weights)
    if isinstance(spec, WebSpec):
        ((kind, options),) = spec
        cache = cache_dir("serper" if kind == "serper" else "searches") / "answers.sqlite"
        return WebSource(_SERVICES[kind](options), options, name=name, cache=cache)
    if isinstance(spec, ResultsSpec):
        return SnippetsSource(spec.results, name=name)
    if isinstance(spec, PythonSpec):
        return own_source(spec.python, name)
    if isinstance(spec, DocumentsSpec):
        return DocumentSource(spec.documents, name=name, encoder=spec.encoder)
    return open_index(name, spec.index, encoder=spec.encoder, texts=spec.texts)


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
        risk = next(filter(None, (_risk(part, folder) for part in parts_of(spec))), None)
        if risk and not named:
            remedy = f"use --sources-file {path} or MADKE_SOURCES={path}"
            why = f"source {name!r} {risk}, which is allowed only in a file that you name: {remedy}"
            raise UserError(why, file=path, line=line)
        entries[name] = SourceEntry(spec=spec, file=path, line=line)
    return entries


def _risk(part: SourceSpec | str, folder: Path) -> str | None:
    """What a part does that nobody but the user may decide."""
    if isinstance(part, PythonSpec) or (isinstance(part, str) and _CODE.fullmatch(part)):
        return "is Python code"
    if isinstance(part, CommandSpec):
        return "is a command"
    if isinstance(part, McpSpec):
        return "is an MCP server"
    if isinstance(part, DocumentsSpec) and not part.under(folder).documents.resolve().is_relative_to(folder.resolve()):
        return f"reads documents outside of this folder ({part.documents})"
    return "sends a key" if isinstance(part, HttpSpec) and part.http.keys else None


def spec_from_yaml(content: Any, *, file: Path | str) -> SourceSpec:
    """Parse an entry of a ``sources.yaml``; ``file`` is its position, for errors."""
    kind = _kind(content)
    if kind is None or kind == "name":
        found = ", ".join(map(repr, content)) if content and isinstance(content, dict) else repr(content)
        raise UserError(f"expected {_ONE_OF}, found {found}", file=file)
    return validated(content, _MODELS[kind], file=file)


def add_source(path: Path, name: str, spec: SourceSpec) -> None:
    """Add a source to a file, or replace the one of the same name; concurrent calls wait for each other."""
    import yaml

    with dir_lock(path.parent):
        entries = {name: entry.spec for name, entry in read_sources(path).items()} if path.exists() else {}
        entries[name] = spec
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        write_file(path, yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
