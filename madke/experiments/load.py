"""Calls and tokens of planned runs and of the stages of their pools, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from madke.core.chat import Message, Usage, shared_length
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.models.endpoint import read_models
from madke.models.prefixes import HOSTED_TOKENS
from madke.models.prices import Price, Prices, cost, estimated_usage, price_of, searches_for
from madke.retrieval.pools.stages import LLM, LOCAL, messages
from madke.runs.record import sessions_of
from madke.runs.request import RunOptions

PASSAGE = "word " * 100
"""A placeholder for passages of a missing pool: Wikipedia passages have a hundred words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Calls and tokens."""

    calls: float = 0
    paid: float = 0
    """Calls that no earlier run makes (in ``Planned.least``: can make); the tokens and cost below are for these."""
    prompt_tokens: float = 0
    completion_tokens: float = 0
    cost: float = 0
    """As if the server kept nothing."""
    cached_cost: float = 0
    """If it keeps every beginning of at least 1,024 tokens within a debate."""
    flex_cost: float = 0
    """As ``cost``, at the tier ``flex`` where the price has one; ``batch_cost``: in a batch API."""
    batch_cost: float = 0
    all_tokens: float = 0
    """Tokens of all calls, paid or not."""

    def __add__(self, other: Load) -> Load:
        return Load(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Load)})

    def __mul__(self, times: float) -> Load:
        return Load(**{f.name: getattr(self, f.name) * times for f in fields(Load)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The estimate for one run."""

    name: str
    debates: int
    """Questions times repeats."""
    least: Load
    """If every debate ends as early as possible."""
    most: Load
    """If every debate plays all rounds."""
    models: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    assumed_passages: bool = False
    """Whether placeholders replace passages, because no pool file contains all of the run's knowledge yet."""
    debaters: tuple[int, int] | None = None
    """Minimum and maximum number of debaters, if it depends on the cost of other runs."""


def load_of(usage: Usage, price: Price | None, times: float, paid: float) -> Load:
    """A call that is made ``times`` times, and paid ``paid`` times."""
    fresh = replace(usage, cached_tokens=0)
    return Load(
        calls=times,
        all_tokens=(usage.prompt_tokens + usage.completion_tokens) * times,
        paid=paid,
        prompt_tokens=usage.prompt_tokens * paid,
        completion_tokens=usage.completion_tokens * paid,
        cost=cost(fresh, price) * paid if price else 0,
        cached_cost=cost(usage, price) * paid if price else 0,
        flex_cost=cost(fresh, price.at(price.flex)) * paid if price else 0,
        batch_cost=cost(fresh, price.at(price.batch)) * paid if price else 0,
    )


def stage_load(
    wanted: Sequence[Knowledge], questions: Sequence[Question], retriever: str | None, prices: Prices, reply_tokens: int
) -> Load:
    """The calls for a pool of each question, by the models that cost money."""
    calls = (call for question in questions for call in _calls(wanted, question, retriever or "", reply_tokens))
    return sum((load_of(usage, price_of(model, prices), 1, 1) for model, usage in calls), Load())


def _calls(
    wanted: Sequence[Knowledge], question: Question, retriever: str, reply_tokens: int
) -> Iterator[tuple[str, Usage]]:
    """The model and the usage of each call; equal stages of several settings are one call."""
    for stage in dict.fromkeys(each.query for each in wanted if each.query != "none"):
        yield retriever, planned_usage(messages(stage, question.question), reply_tokens)
    listed = {(each.sources, each.query, each.rerank.candidates, each.rerank.model) for each in wanted if each.rerank}
    for sources, _, candidates, model in sorted(listed):
        if model.startswith(LOCAL):
            continue
        count = candidates * len(sources)
        if model == LLM:
            passages = [Passage(source="", key="", title="", text=PASSAGE, score=0, rank=n) for n in range(count)]
            yield retriever, planned_usage(messages("rerank", question.question, passages), reply_tokens)
        else:
            pairs = [Message(role="user", content=question.question + PASSAGE)] * count
            usage = replace(planned_usage(pairs, 0), searches=searches_for(count))
            yield model.partition("@")[0], usage


def planned_usage(prompt: Sequence[Message], reply_tokens: int, earlier: Sequence[Sequence[Message]] = ()) -> Usage:
    """The estimated usage of a call after ``earlier`` prompts."""
    usage = estimated_usage(prompt, "")
    shared = max((shared_length(prompt, each) for each in earlier), default=0) // 4
    cached = min(shared, usage.prompt_tokens) if shared >= HOSTED_TOKENS else 0
    return replace(usage, cached_tokens=cached, completion_tokens=reply_tokens)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What the duration is estimated from. The speed of a model is not assumed: models and machines differ too much."""

    options: RunOptions
    measured: tuple[float, Path] | None = None
    """Calls per second of earlier commands, and where they ran."""

    @property
    def is_known(self) -> bool:
        """Whether the time of a call is measured."""
        return self.measured is not None

    def seconds(self, plans: Sequence[Planned]) -> tuple[float, float]:
        """Of the shortest and of the longest debates; the runs follow each other.

        If the pace is not known, this is what the rate limits take at least, or 0.
        """
        least, most = (sum(self._of(plan, getattr(plan, bound)) for plan in plans) for bound in ("least", "most"))
        return least, most

    def basis(self, plans: Sequence[Planned]) -> str:
        """What the estimate rests on."""
        rpm, tpm = self._limits({model for plan in plans for model in plan.models})
        rates = [f"{rpm:,} calls per minute"] if rpm else []
        rates += [f"{tpm:,} tokens per minute"] if tpm else []
        parts = [f"at most {' and '.join(rates)}"] if rates else []
        if self.measured is not None:
            parts = [f"{self.measured[0]:.3g} calls/s, measured in {self.measured[1]}", *parts]
        return ", ".join(parts)

    def _of(self, plan: Planned, load: Load) -> float:
        rpm, tpm = self._limits(plan.models)
        calls, tokens = load.paid, load.prompt_tokens + load.completion_tokens
        at_pace = calls / self.measured[0] if self.measured is not None else 0.0
        return max(at_pace, calls * 60 / rpm if rpm else 0, tokens * 60 / tpm if tpm else 0)

    def _limits(self, models: Iterable[str]) -> tuple[int | None, int | None]:
        """Calls and tokens per minute: the lowest of the command's and of the models' entries."""
        known = read_models(self.options.models_file).entries
        sources = [self.options, *(known[model] for model in models if model in known)]
        rpm, tpm = (
            min((value for each in sources if (value := getattr(each, name)) is not None), default=None)
            for name in ("rpm", "tpm")
        )
        return rpm, tpm


def measured_pace(out: Path) -> tuple[float, Path] | None:
    """Calls per second of the earlier commands of a run, or of all arms of an experiment, and the folder ``out``.

    None if they made no calls.
    """
    runs = [run for run in (out, *sorted(out.glob("arms/*"))) if (run / "run.json").is_file()]
    sessions = [session for run in runs for session in sessions_of(run)]
    calls = sum(session.get("calls", 0) - session.get("failed_calls", 0) for session in sessions)
    seconds = sum(session.get("seconds", 0) for session in sessions)
    return (calls / seconds, out) if calls > 0 and seconds > 0 else None


def planned_range(least: float, most: float, *, digits: int = 0) -> str:
    """A range of figures, or one figure if both ends are printed the same."""
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return low if low == high else f"{low} to {high}"
