"""Runs for other tools: answers as one table, TREC runs and judgements, and logs of Inspect AI.

docs/extend.md explains the columns of the table. TREC gets the pools, and the gold passages of the questions (qrels).
In a log of Inspect, which Inspect itself writes, a sample is a debate, with its replies and its scores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import IO, Any
from urllib.parse import quote

from madke._util.assets import require
from madke._util.files import atomic_write, short_hash
from madke._version import __version__
from madke.core.transcript import Called, Transcript
from madke.models.model_names import split_address
from madke.report.tables import check_ending
from madke.runs.directory import sessions_of
from madke.scoring.arms import Results
from madke.scoring.debate_rows import DebateMeasures, correct, gold_of
from madke.scoring.metrics import metrics_of, texts_in
from madke.tasks import get_task


def file_name(arm: Results, ending: str) -> str:
    """A file name for an arm: its name, of which characters that no file name has are replaced, and the ending."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', arm.name).strip('-.') or 'run'}.{ending}"


# Answers

_COUNTS = (
    "calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
)  # fmt: skip

COLUMNS = (
    "run", "id", "repeat", "dataset", "question", "task", "choices", "gold", "answer", "status", "reading", "correct",
    "agreement", "agreed_by", "supporters", "dissent", "cited", "stop_reason", "final_by", "rounds", *_COUNTS,
    "seconds",
)  # fmt: skip
_TYPES = {
    **dict.fromkeys(("choices", "gold", "supporters", "dissent", "cited"), "texts"),
    **dict.fromkeys(("repeat", "rounds", *_COUNTS), "int64"),
    **dict.fromkeys(("correct", "seconds"), "float64"),
}
"""Column -> type in Parquet, if it is not text."""

ANSWER_FILES = (".jsonl", ".parquet")


def write_answers(results: Iterable[Results], path: Path) -> int:
    """Write the answers of runs, one row per question and repeat, atomically; returns their number.

    UserError: another suffix, the file cannot be written, or pyarrow is missing for Parquet.
    """
    check_ending(path, ANSWER_FILES)
    rows = [row for arm in results for row in answer_rows(arm)]
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(rows, file)
        else:
            file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    return len(rows)


def answer_rows(arm: Results) -> Iterator[dict[str, Any]]:
    """A row for each question and repeat of a run.

    ``correct`` is the task's first metric; None for a failed question or one without gold answers. ``supporters`` are
    the debaters for the answer, ``cited`` the passages that may be cited for it (source and key).
    """
    for t in arm.transcripts():
        row = {"run": arm.name, "id": t.id, "repeat": t.repeat, "dataset": t.dataset, "question": t.question}
        row |= {"task": t.task, "choices": t.choices, "gold": t.answers, "answer": t.answer, "status": t.status}
        row |= {"reading": t.reading, "correct": correct(t), **_end(t), "stop_reason": t.stop_reason}
        row |= {"final_by": t.final.by, "rounds": len(t.rounds)}
        yield row | {name: getattr(t.total, name) for name in (*_COUNTS, "seconds")}


def _end(transcript: Transcript) -> dict[str, Any]:
    agreement = transcript.agreement
    if agreement is None:
        return {"agreement": None, "agreed_by": None, "supporters": (), "dissent": (), "cited": ()}
    entries = {entry.n: f"{entry.source} {entry.key}" for entry in transcript.pool}
    supporters = (name for each in agreement.positions for name in each.supporters)
    return {
        "agreement": agreement.outcome,
        "agreed_by": agreement.by,
        "supporters": tuple(name for name in supporters if name not in agreement.dissent),
        "dissent": agreement.dissent,
        "cited": tuple(entries[n] for n in agreement.cited if n in entries),
    }


def _write_parquet(rows: Sequence[dict[str, Any]], file: IO[bytes]) -> None:
    require("Parquet files need", "report", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    types = {"texts": pyarrow.list_(pyarrow.string())}
    schema = [(name, types.get(kind := _TYPES.get(name, "string"), kind)) for name in COLUMNS]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(schema)), file)


# TREC

QRELS = "qrels.txt"
RUN, LOG = "run.txt", "eval"
"""Endings of the files of an arm."""


def write_trec(arms: Sequence[Results], folder: Path) -> dict[str, int]:
    """Write one run file per arm, and the judgements of all their questions; returns lines by file name.

    A run holds the pool that debaters read, in its order, without their own searches. Judgements are the questions'
    gold passages, or the pool's passages with gold titles. White space in ids and keys is percent-encoded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    judged: dict[tuple[str, str], None] = {}
    written = {}
    for arm in arms:
        lines, seen = 0, set[str]()
        with atomic_write(folder / file_name(arm, RUN)) as file:
            for transcript in arm.transcripts():
                judged |= dict.fromkeys((transcript.id, key) for key in _relevant(transcript))
                # Repeats read the same pool.
                if transcript.id in seen:
                    continue
                seen.add(transcript.id)
                for line in _ranking(transcript, _word(arm.name)):
                    file.write(line)
                    lines += 1
        written[file_name(arm, RUN)] = lines
    with atomic_write(folder / QRELS) as file:
        file.writelines(f"{_word(id_)} 0 {_word(key)} 1\n".encode() for id_, key in judged)
    return written | {QRELS: len(judged)}


def _ranking(transcript: Transcript, tag: str) -> Iterator[bytes]:
    # Two sources may hold passages with one key: TREC knows only the key, so the better place counts.
    keys = list(dict.fromkeys(entry.key for entry in transcript.pool if entry.asked_by is None))
    for n, key in enumerate(keys):
        yield f"{_word(transcript.id)} Q0 {_word(key)} {n + 1} {len(keys) - n} {tag}\n".encode()


def _relevant(transcript: Transcript) -> list[str]:
    gold, name_of = gold_of(transcript)
    keys = [entry.key for entry in transcript.pool if name_of(entry) in gold]
    # Gold keys are judged also if retrieval missed them; of a gold title, only keys in the pool are known.
    return [*keys, *sorted(gold)] if texts_in(transcript.metadata, "gold_passages") else keys


def _word(text: str) -> str:
    return re.sub(r"\s", lambda space: quote(space[0]), text) or "-"


# Inspect AI


def write_inspect(arms: Sequence[Results], folder: Path) -> dict[str, int]:
    """Write one log per arm; returns samples by file name.

    A sample's scores are the metrics of its task, as ``madke score`` counts them; failed and deferred debates, and
    those without gold answers, have none. Its messages are the replies of the debate. A log is held in memory
    while it is written.

    UserError: a run cannot be read, or inspect_ai is missing.
    """
    require("Inspect logs need", "inspect", "inspect_ai")
    from inspect_ai.log import write_eval_log

    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for arm in arms:
        log = _log_of(arm)
        write_eval_log(log, str(folder / file_name(arm, LOG)), format="eval")
        counts[file_name(arm, LOG)] = len(log.samples)
    return counts


def _log_of(arm: Results) -> Any:
    from inspect_ai import log as logs

    spec, start = arm.config, datetime.fromtimestamp(0, UTC)
    if sessions := sessions_of(arm.path) if arm.path.is_dir() else ():
        start = datetime.fromisoformat(str(sessions[0].get("started", start.isoformat()))).astimezone(UTC)
    models = {} if spec is None else {role: split_address(name)[0] for role, name in spec.models.items()}
    model = ", ".join(dict.fromkeys(models.values())) or "none"
    samples = [_sample(transcript, model) for transcript in arm.transcripts()]
    ids = list(dict.fromkeys(sample.id for sample in samples))
    done = spec is None or len(samples) == len(spec.questions) * spec.repeats
    identity = short_hash(f"{arm.name} {start.isoformat()}".encode())
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, score in sample.scores.items():
            values.setdefault(name, {}).setdefault(sample.id, []).append(score.value)
    scores = []
    for name, of in values.items():
        mean = logs.EvalMetric(name="mean", value=fmean(map(fmean, of.values())))
        kept = {"name": name, "scorer": name, "reducer": "mean", "scored_samples": len(of), "metrics": {"mean": mean}}
        scores.append(logs.EvalScore(**kept))
    return logs.EvalLog(
        status="success" if done else "cancelled",
        eval=logs.EvalSpec(
            **{name: identity for name in ("eval_id", "run_id", "task_id")},
            created=start.isoformat(),
            task=arm.name,
            solver="madke",
            dataset=logs.EvalDataset(name=spec.data if spec else arm.name, samples=len(ids), sample_ids=ids),
            model=model,
            config=logs.EvalConfig(epochs=spec.repeats if spec else 1),
            packages={"madke": __version__},
            metadata={"protocol": spec.variant if spec else "predictions", "models": models},
        ),
        results=logs.EvalResults(
            total_samples=len(samples), completed_samples=sum(each.error is None for each in samples), scores=scores
        ),
        samples=samples,
    )


def _sample(t: Transcript, models: str) -> Any:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    output = ModelOutput.from_content(model="madke", content=t.answer or "")
    values = DebateMeasures(t).row if t.answers and t.status not in ("failed", "deferred") else {}
    metrics = metrics_of(get_task(t.task))
    failed = t.final.error or "all calls of a round failed"
    about: dict[str, Any] = {"status": t.status, "stop_reason": t.stop_reason, "rounds": len(t.rounds)}
    about |= {name: getattr(t.total, name) for name in ("calls", "prompt_tokens", "completion_tokens")}
    replies = [ChatMessageAssistant(content=text) for text in _replies(t)]
    used = t.total
    usage = ModelUsage(  # Inspect counts tokens of a prefix cache apart from other input tokens
        input_tokens=used.prompt_tokens - used.cached_tokens,
        input_tokens_cache_read=used.cached_tokens,
        output_tokens=used.completion_tokens,
        total_tokens=used.prompt_tokens + used.completion_tokens,
    )
    return EvalSample(
        id=t.id,
        epoch=t.repeat + 1,
        input=t.question,
        choices=list(t.choices) or None,
        target=list(t.answers),
        messages=[ChatMessageUser(content=t.question), *replies, output.message],
        output=output,
        scores={name: Score(value=value, answer=t.answer) for name, value in values.items() if name in metrics},
        metadata={**t.metadata, **{f"madke_{name}": value for name, value in about.items()}},
        model_usage={models: usage},
        total_time=t.total.seconds,
        error=EvalError(message=failed, traceback="", traceback_ansi="") if t.status == "failed" else None,
    )


def _replies(t: Transcript) -> Iterator[str]:
    """What debaters and judge said, headed by round and speaker, and the reply that states the final answer."""
    for entry in t.rounds:
        replies: list[tuple[str, Called]] = [(turn.agent, turn.stance) for turn in entry.turns]
        replies += [("judge", entry.verdict)] if entry.verdict else []
        yield from (f"Round {entry.n}, {who}:\n{reply.error or reply.text}" for who, reply in replies)
    if t.final.by not in ("only", "judge") and t.final.text:
        yield f"Final, {t.final.by}:\n{t.final.text}"
