"""The sources that ``--sources`` names, those of the shipped sample among them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from madke.assets import asset, cache_dir
from madke.core.errors import UserError, unknown
from madke.core.knowledge import Source
from madke.encoders import load_encoder
from madke.files import fingerprint
from madke.indexing.build import build_bm25, build_dense
from madke.knowledge.sources import open_spec
from madke.knowledge.sources.hybrid import HybridSource

_log = logging.getLogger(__name__)

NAMES = ("google", "wiki")
"""The names that need no specification."""


def parse_sources(text: str) -> dict[str, str | None]:
    """``"wiki=a+b,google"`` as ``{"wiki": "a+b", "google": None}``, in the order given.

    Raises:
        UserError: Nothing is named, a name or a specification is empty, or a name occurs twice.
    """
    specs: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, spec = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not spec):
            raise UserError(f"sources {text!r}: expected NAME[=SPEC],..., found {part!r}")
        if name in specs:
            raise UserError(f"sources {text!r}: {name!r} is named twice")
        specs[name] = spec or None
    return specs


def open_source(name: str, spec: str | None = None) -> Source:
    """The source of that name, from its specification or, for ``wiki`` and ``google``, by default.

    Without a specification, ``wiki`` is the rank fusion of a BM25 and a dense index over the sample passages, built
    with the first use and kept in the cache folder; ``google`` is Serper where ``SERPER_API_KEY`` is set, else the
    sample's snippets. The source's ``description`` says which.

    Raises:
        UserError: No such name, or the source cannot be opened.
    """
    if spec is not None:
        return open_spec(name, spec)
    if name == "wiki":
        return HybridSource([open_spec(name, str(folder)) for folder in sample_indexes()], name=name)
    if name == "google":
        if os.environ.get("SERPER_API_KEY", "").strip():
            return open_spec(name, "serper")
        _log.info("SERPER_API_KEY is not set: source 'google' is the sample's web-style snippets")
        return open_spec(name, str(asset("eval", "samples", "web.jsonl")))
    known = unknown("source", name, NAMES)
    raise UserError(f"{known}; any other name needs a specification: {name}=SPEC")


def sample_indexes() -> tuple[Path, Path]:
    """The BM25 and the dense index over the sample passages, built if the cache folder does not hold them.

    Raises:
        UserError: A package or Java is missing.
    """
    corpus = asset("indexes", "sample", "passages.jsonl")
    folder = cache_dir("indexes", f"sample-{fingerprint(corpus)[:16]}")
    build_bm25(corpus, folder / "bm25")
    build_dense(corpus, folder / "dense", encoder=load_encoder())
    return folder / "bm25", folder / "dense"
