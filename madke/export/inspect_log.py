"""Runs as logs of Inspect AI, written by Inspect itself: a sample is a debate, with its calls and its scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from madke._util.assets import require
from madke._util.files import short_hash
from madke._version import __version__
from madke.core.transcript import Transcript
from madke.export.trec import file_stem
from madke.models.model_names import split_address
from madke.models.store import CallStore, Recorded
from madke.runs.directory import run_files, sessions_of
from madke.scoring.arms import Results
from madke.scoring.debate_rows import DebateMeasures
from madke.scoring.metrics import metrics_of
from madke.tasks import get_task

_STOP_REASONS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}


def log_file(arm: Results) -> str:
    """The file name of an arm's log."""
    return f"{file_stem(arm)}.eval"


def write_inspect(arms: Sequence[Results], folder: Path) -> dict[str, int]:
    """Write one log per arm; returns samples by file name.

    A sample's scores are the metrics of its task, as ``madke score`` counts them; failed and deferred debates, and
    those without gold answers, have none. A log is held in memory while it is written, with the texts of all calls.

    UserError: a run cannot be read, or inspect_ai is missing.
    """
    require("Inspect logs need", "inspect", "inspect_ai")
    from inspect_ai.log import write_eval_log

    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for arm in arms:
        log = _log_of(arm)
        write_eval_log(log, str(folder / log_file(arm)), format="eval")
        counts[log_file(arm)] = len(log.samples)
    return counts


def _log_of(arm: Results) -> Any:
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        EvalStats,
    )

    spec, start = arm.config, datetime.fromtimestamp(0, UTC)
    if sessions := sessions_of(arm.path) if arm.path.is_dir() else ():
        start = datetime.fromisoformat(str(sessions[0].get("started", start.isoformat()))).astimezone(UTC)
    samples = [_sample(transcript, calls, start) for transcript, calls in _debates_with_calls(arm)]
    models = {} if spec is None else {role: split_address(name)[0] for role, name in spec.models.items()}
    ids = list(dict.fromkeys(sample.id for sample in samples))
    done = spec is None or len(samples) == len(spec.questions) * spec.repeats
    identity = short_hash(f"{arm.name} {start.isoformat()}".encode())
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, score in sample.scores.items():
            values.setdefault(name, {}).setdefault(sample.id, []).append(score.value)
    scores = []
    for name, of in values.items():
        mean = EvalMetric(name="mean", value=fmean(map(fmean, of.values())))
        kept = {"name": name, "scorer": name, "reducer": "mean", "scored_samples": len(of), "metrics": {"mean": mean}}
        scores.append(EvalScore(**kept))
    return EvalLog(
        status="success" if done else "cancelled",
        eval=EvalSpec(
            **{name: identity for name in ("eval_id", "run_id", "task_id")},
            created=start.isoformat(),
            task=arm.name,
            solver="madke",
            dataset=EvalDataset(name=spec.data if spec else arm.name, samples=len(ids), sample_ids=ids),
            model=", ".join(dict.fromkeys(models.values())) or "none",
            config=EvalConfig(epochs=spec.repeats if spec else 1),
            packages={"madke": __version__},
            metadata={"protocol": spec.variant if spec else "predictions", "models": models},
        ),
        results=EvalResults(
            total_samples=len(samples), completed_samples=sum(each.error is None for each in samples), scores=scores
        ),
        stats=EvalStats(
            started_at=start.isoformat(),
            completed_at=max((sample.completed_at for sample in samples), default=start.isoformat()),
            model_usage=_summed(sample.model_usage for sample in samples),
        ),
        samples=samples,
    )


def _sample(t: Transcript, calls: Sequence[Recorded], began: datetime) -> Any:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    output = ModelOutput.from_content(model="madke", content=t.answer or "")
    values = DebateMeasures(t).row if t.answers and t.status not in ("failed", "deferred") else {}
    metrics = metrics_of(get_task(t.task))
    failed = t.final.error or "all calls of a round failed"
    events, now = [], began  # runs record no times: calls follow each other
    for call in calls:
        events.append(_event(call, now))
        now += timedelta(seconds=call.completion.seconds)
    about = {"status": t.status, "stop_reason": t.stop_reason, "rounds": len(t.rounds), "calls": t.total.calls}
    return EvalSample(
        id=t.id,
        epoch=t.repeat + 1,
        input=t.question,
        choices=list(t.choices) or None,
        target=list(t.answers),
        messages=[ChatMessageUser(content=t.question), output.message],
        output=output,
        scores={name: Score(value=value, answer=t.answer) for name, value in values.items() if name in metrics},
        metadata={**t.metadata, **{f"madke_{name}": value for name, value in about.items()}},
        events=events,
        model_usage=_summed({event.model: event.output.usage} for event in events),
        started_at=began.isoformat(),
        completed_at=now.isoformat(),
        total_time=(now - began).total_seconds(),
        error=EvalError(message=failed, traceback="", traceback_ansi="") if t.status == "failed" else None,
    )


def _event(call: Recorded, began: datetime) -> Any:
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ContentReasoning,
        ContentText,
        GenerateConfig,
        ModelOutput,
        ModelUsage,
    )

    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    reply, purpose, (model, *_) = call.completion, call.purpose, split_address(call.model)
    output = ModelOutput.from_content(
        model=model,
        content=[
            *([ContentReasoning(reasoning=reply.reasoning)] if reply.reasoning else []),
            ContentText(text=reply.text),
        ],
        stop_reason=_STOP_REASONS.get(reply.finish_reason, "unknown"),
        error=reply.error,
    )
    output.time = reply.seconds
    output.usage = ModelUsage(  # Inspect counts tokens of a prefix cache apart from other input tokens
        input_tokens=reply.usage.prompt_tokens - reply.usage.cached_tokens,
        input_tokens_cache_read=reply.usage.cached_tokens,
        output_tokens=reply.usage.completion_tokens,
        reasoning_tokens=reply.usage.reasoning_tokens,
        total_tokens=reply.usage.prompt_tokens + reply.usage.completion_tokens,
    )
    return ModelEvent(
        model=model,
        role=f"{purpose.agent}, {purpose.stage}, round {purpose.round}",
        input=[kinds[each.role](content=each.content) for each in call.messages],
        tools=[],
        tool_choice="none",
        config=GenerateConfig(max_tokens=reply.max_tokens),
        output=output,
        error=reply.error if reply.outcome != "ok" else None,
        retries=reply.attempts - 1,
        timestamp=began,
        completed=began + timedelta(seconds=reply.seconds),
        working_time=reply.seconds,
    )


def _summed(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for part in parts:
        for model, usage in part.items():
            total[model] = total[model] + usage if model in total else usage
    return total


def _debates_with_calls(arm: Results) -> Iterator[tuple[Transcript, Sequence[Recorded]]]:
    """Each debate with its own calls by round; none if the call store is gone, or for predictions.

    The calls of a whole run are held in memory.
    """
    calls: dict[tuple[str, int], list[Recorded]] = {}
    if arm.path.is_dir() and (file := run_files(arm.path).calls).is_file():
        # In the store that the arms of an experiment share, calls carry the name of their arm.
        shared = file.resolve().parent != arm.path.resolve()
        with CallStore(file) as store:
            for call in store.recorded(payer=arm.path.resolve().name if shared else ""):
                calls.setdefault((call.purpose.question, call.purpose.repeat), []).append(call)
    for t in arm.transcripts():
        # Stores also hold searches and grades.
        own = (call for call in calls.get((t.id, t.repeat), ()) if call.purpose.stage in t.usage)
        yield t, sorted(own, key=lambda call: call.purpose.round)
