"""The sources that ``--sources`` names: from a ``sources.yaml``, fetched, or those of the shipped sample."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from madke.assets import asset, cache_dir
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Source
from madke.files import fingerprint
from madke.indexing.build import build_index
from madke.knowledge.asking import BUILT_IN, SOURCES, OwnSource
from madke.knowledge.source_spec import (
    Entry,
    HybridSpec,
    IndexSpec,
    PythonSpec,
    ResultsSpec,
    SerperSpec,
    SourceSpec,
    add_source,
    at_home,
    is_code,
    open_spec,
    parse_spec,
    read_sources,
)

_log = logging.getLogger(__name__)

_FILE = "sources.yaml"
_DEEPEST = 8
"""Hybrids of hybrids of ...: each level may double what is opened."""
_LAYOUT = 3
"""Of the cached sample indexes: with another one, those that an earlier version built are not taken."""
_chosen: Path | None = None


def source_specs(text: str | None, default: Sequence[str]) -> dict[str, str | None]:
    """:func:`parse_sources` of ``--sources``: ``"none"`` is no source at all, None the protocol's ``default`` ones."""
    if text is None:
        return dict.fromkeys(default)
    return {} if text.strip() == "none" else parse_sources(text)


def parse_sources(text: str) -> dict[str, str | None]:
    """``"wiki=a+b,google"`` as ``{"wiki": "a+b", "google": None}``, in the order given."""
    specs: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, spec = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not spec):
            raise UserError(f"sources {text!r}: expected NAME[=SPEC],..., found {part!r}")
        if name in specs:
            raise UserError(f"sources {text!r}: {name!r} is named twice")
        specs[name] = spec or None
    return specs


def use_sources_file(file: Path | None) -> None:
    """Take the names of sources from this file, which may name code, before ``MADKE_SOURCES``; None: no longer."""
    global _chosen
    _chosen = file


def known_sources() -> dict[str, str]:
    """Name -> where it comes from, of every source that needs no specification.

    These are the entries of the file that :func:`use_sources_file` or ``MADKE_SOURCES`` names, else of
    ``./sources.yaml`` where there is one; the indexes that ``madke index fetch`` registered; the built-in ones; and
    those of installed packages (entry points). A name stands for the first that has it.
    """
    declared = {name: str(entry.file) for name, entry in _declared().items()}
    others = {name: "built in" if name in BUILT_IN else "an installed package" for name in SOURCES}
    # The order is that of the look-up.
    return declared | others | declared


def is_sample(name: str, spec: str | None) -> bool:
    """Whether a source is the shipped sample, which knows next to nothing of anybody's own questions."""
    if spec is not None or name not in BUILT_IN or name in _declared():
        return False
    return name != "google" or isinstance(_built_in(name), ResultsSpec)


def register(name: str, spec: IndexSpec) -> Path:
    """Give an index a name for this user, whatever folder they work in; returns the file that names it now."""
    file = cache_dir() / _FILE
    add_source(file, name, spec.under(Path.cwd()))
    return file


def open_source(name: str, spec: str | Source | None = None) -> Source:
    """The source of that name, from its specification or else from the first place that knows it.

    ``wiki`` is, by default, the rank fusion of ``wiki-bm25`` and ``wiki-dense``, indexes of the sample passages that
    are built with their first use and kept in the cache folder; ``google`` is Serper where ``SERPER_API_KEY`` is set,
    else the sample's snippets. The source's ``description`` says what serves it.

    Args:
        name: What its passages are marked with.
        spec: See :func:`madke.knowledge.source_spec.parse_spec`; or a source of your own.

    Raises:
        UserError: No such name, a source that is made of itself, or one that cannot be opened.
    """
    if not isinstance(spec, str | None):
        return OwnSource(spec, name)
    resolved = resolve(name, spec)
    try:
        return open_spec(name, resolved)
    except UserError as error:
        raise _error(str(error), None if spec is not None else _declared().get(name)) from None


def resolve(name: str, spec: str | None = None) -> SourceSpec:
    """What :func:`open_source` opens: no names and no relative paths are left in it.

    A part of a hybrid, and a word of the command line that is no other specification, is a declared name (of a file, or
    fetched), else a folder, else a built-in name or one of an installed package.
    """
    declared = _declared()
    if spec is not None:
        parsed = parse_spec(spec)
        return _resolved(spec if isinstance(parsed, IndexSpec) else parsed, None, (), declared)
    if name in declared:
        return _resolved(name, None, (), declared)
    if found := _built_in(name):
        return found
    places: dict[str, list[str]] = {}
    for known, place in known_sources().items():
        places.setdefault(place, []).append(known)
    where = "; ".join(f"{', '.join(names)}: {place}" for place, names in places.items())
    raise UserError(
        f"{unknown('source', name, known_sources())} ({where}); "
        f"any other name needs a specification, {name}=SPEC or an entry in {_FILE}"
    )


def source_paths(specs: Mapping[str, str | None]) -> list[Path]:
    """The files and folders that sources are read from, as far as they are named; nothing is opened or built."""
    declared = _declared()
    left: list[tuple[SourceSpec | str, Entry | None]] = []
    for name, text in specs.items():
        spec = parse_spec(text) if text else name
        if text or name in declared:
            left.append((text if text and isinstance(spec, IndexSpec) else spec, None))
    found: list[Path] = []
    seen: set[str] = set()
    while left:
        spec, entry = left.pop()
        if isinstance(spec, HybridSpec):
            left += [(part, entry) for part in spec.hybrid]
        elif not isinstance(spec, str):
            found += [value for _, value in spec.under(_folder(entry)) if isinstance(value, Path)]
        elif spec not in declared:
            found.append(_folder(entry) / at_home(Path(spec)))
        elif spec not in seen:
            seen.add(spec)
            left.append((declared[spec].spec, declared[spec]))
    return found


def _resolved(
    spec: SourceSpec | str, entry: Entry | None, above: tuple[str, ...], declared: Mapping[str, Entry]
) -> SourceSpec:
    """``spec`` stands in ``entry`` (None: on the command line), as a part of the declared names ``above``."""
    if isinstance(spec, HybridSpec):
        parts = tuple(_resolved(part, entry, above, declared) for part in spec.hybrid)
        return spec.model_copy(update={"hybrid": parts})
    if not isinstance(spec, str):
        return spec.under(_folder(entry))
    if is_code(spec):
        return PythonSpec(python=spec)
    if own := declared.get(spec):
        if len(above) == _DEEPEST:
            raise _error(f"hybrids nest deeper than {_DEEPEST}: {' -> '.join((*above, spec))}", entry)
        if spec in above:
            raise _error(f"source {spec!r} is made of itself: {' -> '.join((*above, spec))}", entry)
        return _resolved(own.spec, own, (*above, spec), declared)
    folder = _folder(entry) / at_home(Path(spec))
    found = IndexSpec(index=folder) if folder.is_dir() else _built_in(spec)
    if found is None:
        raise _error(f"no folder {spec!r}, and {unknown('source', spec, known_sources())}", entry)
    return found


def _folder(entry: Entry | None) -> Path:
    return entry.file.absolute().parent if entry else Path.cwd()


def _error(message: str, entry: Entry | None) -> UserError:
    return UserError(message, file=entry.file, line=entry.line) if entry else UserError(message)


def _declared() -> dict[str, Entry]:
    """The entries of the user's file and, for names that it has not, of what was registered."""
    named = _chosen or os.environ.get("MADKE_SOURCES")
    own = at_home(Path(named or _FILE))
    registered = cache_dir() / _FILE
    found = read_sources(own, code=bool(named)) if named or own.exists() else {}
    return found | (read_sources(registered) if registered.exists() else {}) | found


def _built_in(name: str) -> SourceSpec | None:
    if name == "wiki":
        return HybridSpec(hybrid=(_sample("bm25"), _sample("dense")))
    if name in ("wiki-bm25", "wiki-dense"):
        return _sample("bm25" if name == "wiki-bm25" else "dense")
    if name != "google":
        return PythonSpec(python=name) if name in SOURCES else None
    if os.environ.get("SERPER_API_KEY", "").strip():
        return SerperSpec()
    _log.info("SERPER_API_KEY is not set: source 'google' is the sample's web-style snippets")
    return ResultsSpec(results=asset("eval", "samples", "web.jsonl"))


def _sample(kind: Literal["bm25", "dense"]) -> IndexSpec:
    """The BM25 or the dense index over the sample passages, built if the cache folder does not hold it."""
    corpus = asset("indexes", "sample", "passages.jsonl")
    folder = cache_dir("indexes", f"sample-{_LAYOUT}-{fingerprint(corpus)[:16]}") / kind
    build_index(corpus, folder, kind)
    return IndexSpec(index=folder)
