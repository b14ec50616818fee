"""madke: batch question answering by debate between language models over a shared pool of retrieved knowledge.

:func:`ask` debates one question, :func:`run` a dataset, and :func:`stream` yields the events of a debate. Names are
loaded lazily: ``import madke`` alone loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from madke.api.batch import Run as Run
    from madke.api.batch import arun as arun
    from madke.api.batch import build_pools as build_pools
    from madke.api.batch import compare as compare
    from madke.api.batch import run as run
    from madke.api.batch import score as score
    from madke.api.one_question import Debate as Debate
    from madke.api.one_question import aask as aask
    from madke.api.one_question import ask as ask
    from madke.api.one_question import stream as stream
    from madke.core import events as events
    from madke.core.chat import ChatModel as ChatModel
    from madke.core.chat import ChatRequest as ChatRequest
    from madke.core.chat import Completion as Completion
    from madke.core.chat import Message as Message
    from madke.core.chat import Purpose as Purpose
    from madke.core.chat import Usage as Usage
    from madke.core.errors import CallError as CallError
    from madke.core.errors import UserError as UserError
    from madke.core.knowledge import Hits as Hits
    from madke.core.knowledge import KnowledgePool as KnowledgePool
    from madke.core.knowledge import Passage as Passage
    from madke.core.knowledge import Source as Source
    from madke.core.knowledge import SourceCounts as SourceCounts
    from madke.core.question import Question as Question
    from madke.core.transcript import Digest as Digest
    from madke.core.transcript import Final as Final
    from madke.core.transcript import PoolEntry as PoolEntry
    from madke.core.transcript import Reflection as Reflection
    from madke.core.transcript import Round as Round
    from madke.core.transcript import Search as Search
    from madke.core.transcript import Selection as Selection
    from madke.core.transcript import StageUsage as StageUsage
    from madke.core.transcript import Stance as Stance
    from madke.core.transcript import Transcript as Transcript
    from madke.core.transcript import Truncation as Truncation
    from madke.core.transcript import Turn as Turn
    from madke.core.transcript import Verdict as Verdict
    from madke.engine.protocol import Protocol as Protocol
    from madke.experiments.ablation import ablate as ablate
    from madke.indexing.build import build_index as build_index
    from madke.lemmas import adebate as adebate
    from madke.lemmas import debate as debate
    from madke.report.comparison import Comparison as Comparison
    from madke.runs.options import RunOptions as RunOptions
    from madke.runs.spec import RunSpec as RunSpec
    from madke.scoring.metrics import Metric as Metric
    from madke.scoring.metrics import metric as metric
    from madke.scoring.scores import Scores as Scores
    from madke.scoring.statistics import Estimate as Estimate
    from madke.tasks.base import BaseTask as BaseTask
    from madke.tasks.base import Task as Task

__version__ = "0.2.0"

_MODULES = {
    "madke.api.one_question": "Debate aask ask stream",
    "madke.api.batch": "Run arun build_pools compare run score",
    "madke.core.chat": "ChatModel ChatRequest Completion Message Purpose Usage",
    "madke.core.errors": "CallError UserError",
    "madke.core.knowledge": "Hits KnowledgePool Passage Source SourceCounts",
    "madke.core.question": "Question",
    "madke.core.transcript": "Digest Final PoolEntry Reflection Round Search Selection StageUsage Stance "
    "Transcript Truncation Turn Verdict",
    "madke.engine.protocol": "Protocol",
    "madke.experiments.ablation": "ablate",
    "madke.indexing.build": "build_index",
    "madke.lemmas": "adebate debate",
    "madke.report.comparison": "Comparison",
    "madke.runs.options": "RunOptions",
    "madke.runs.spec": "RunSpec",
    "madke.scoring.metrics": "Metric metric",
    "madke.scoring.scores": "Scores",
    "madke.scoring.statistics": "Estimate",
    "madke.tasks.base": "BaseTask Task",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted([*_MODULE_OF, "__version__", "events"])


def __getattr__(name: str) -> Any:
    """Load a name of ``__all__`` on first use."""
    if name == "events":
        return import_module("madke.core.events")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
