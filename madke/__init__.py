"""madke: batch question answering by debate between language models over a shared pool of retrieved knowledge.

:func:`ask` debates one question, :func:`run` a dataset, and :func:`stream` yields the events of a debate. Names are
loaded lazily: ``import madke`` alone loads little else but :mod:`madke.core.addresses`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from madke._version import __version__
from madke.core.addresses import guard_http_logs

if TYPE_CHECKING:
    from madke.api.debates import Debate, Run, aask, arun, ask, build_pools, compare, run, score, stream
    from madke.api.study import Study, study
    from madke.core import events
    from madke.core.chat import ChatModel, ChatRequest, Completion, Message, Purpose, Usage
    from madke.core.errors import CallError, UserError
    from madke.core.knowledge import Hits, KnowledgePool, Passage, Source, SourceCounts
    from madke.core.question import Question
    from madke.core.transcript import (
        Digest,
        Final,
        PoolEntry,
        Reflection,
        Round,
        Search,
        Selection,
        StageUsage,
        Stance,
        Transcript,
        Truncation,
        Turn,
        Verdict,
    )
    from madke.engine.protocol import Protocol
    from madke.experiments.experiment import ablate
    from madke.lemmas import adebate, debate
    from madke.report.comparison import Comparison
    from madke.retrieval.indexes.build import build_index
    from madke.runs.directory import RunRecord
    from madke.runs.request import RunOptions, RunRequest
    from madke.scoring.metrics import Metric, metric
    from madke.scoring.scores import Scores
    from madke.scoring.statistics import Estimate
    from madke.tasks.base import BaseTask

guard_http_logs()

_MODULES = {
    "madke.api.debates": "Debate Run aask arun ask build_pools compare run score stream",
    "madke.api.study": "Study study",
    "madke.core.chat": "ChatModel ChatRequest Completion Message Purpose Usage",
    "madke.core.errors": "CallError UserError",
    "madke.core.knowledge": "Hits KnowledgePool Passage Source SourceCounts",
    "madke.core.question": "Question",
    "madke.core.transcript": "Digest Final PoolEntry Reflection Round Search Selection StageUsage Stance "
    "Transcript Truncation Turn Verdict",
    "madke.engine.protocol": "Protocol",
    "madke.experiments.experiment": "ablate",
    "madke.retrieval.indexes.build": "build_index",
    "madke.lemmas": "adebate debate",
    "madke.report.comparison": "Comparison",
    "madke.runs.request": "RunOptions RunRequest",
    "madke.runs.directory": "RunRecord",
    "madke.scoring.metrics": "Metric metric",
    "madke.scoring.scores": "Scores",
    "madke.scoring.statistics": "Estimate",
    "madke.tasks.base": "BaseTask Task",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "BaseTask", "CallError", "ChatModel", "ChatRequest", "Comparison", "Completion", "Debate", "Digest", "Estimate",
    "Final", "Hits", "KnowledgePool", "Message", "Metric", "Passage", "PoolEntry", "Protocol", "Purpose", "Question",
    "Reflection", "Round", "Run", "RunOptions", "RunRecord", "RunRequest", "Scores", "Search", "Selection", "Source",
    "SourceCounts", "StageUsage", "Stance", "Study", "Transcript", "Truncation", "Turn", "Usage", "UserError",
    "Verdict", "__version__", "aask", "ablate", "adebate", "arun", "ask", "build_index", "build_pools", "compare",
    "debate", "events", "metric", "run", "score", "stream", "study",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a name of ``__all__`` on first use."""
    if name == "events":
        return import_module("madke.core.events")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
