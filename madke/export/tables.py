"""Runs as four Parquet tables: questions, turns, calls and passages. docs/extend.md explains every column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write
from madke._util.parquet import FLAG, REAL, TEXT, TEXTS, WHOLE, WHOLES, write_rows
from madke.core.chat import Usage, fields_of
from madke.core.transcript import StageUsage, Transcript
from madke.models.store import CallStore, Recorded
from madke.runs.pools import recorded_pools
from madke.runs.record import run_files, sessions_of
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct

ExportRow = dict[str, Any]

_ROW_OF = {"run": TEXT, "id": TEXT, "repeat": WHOLE}
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_CALL_COUNTS = ("calls", "failed", *_TOKENS)

TABLE_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "questions": {
        **_ROW_OF,
        **dict.fromkeys(("dataset", "question", "task"), TEXT),
        **dict.fromkeys(("choices", "gold"), TEXTS),
        **dict.fromkeys(("answer", "status", "reading"), TEXT),
        "correct": REAL,
        **dict.fromkeys(("stop_reason", "final_by"), TEXT),
        **dict.fromkeys(("rounds", *_CALL_COUNTS), WHOLE),
        "seconds": REAL,
    },
    "turns": {
        **_ROW_OF,
        "round": WHOLE,
        **dict.fromkeys(("agent", "stage", "text", "answer", "status", "rule", "error"), TEXT),
        "confidence": REAL,
        "selected": WHOLES,
        "query": TEXT,
        "reads": TEXTS,
        "satisfied": FLAG,
        **dict.fromkeys(_CALL_COUNTS, WHOLE),
    },
    "calls": {
        **_ROW_OF,
        "round": WHOLE,
        **dict.fromkeys(("stage", "agent"), TEXT),
        "sample": WHOLE,
        **dict.fromkeys(("model", "prompt", "text", "reasoning", "outcome", "error", "finish_reason"), TEXT),
        **dict.fromkeys(_TOKENS, WHOLE),
        "estimated": FLAG,
        "attempts": WHOLE,
        "seconds": REAL,
    },
    "passages": {
        **_ROW_OF,
        "n": WHOLE,
        **dict.fromkeys(("source", "key", "title", "text", "asked_by", "query"), TEXT),
        "round": WHOLE,
        "selected_by": TEXTS,
        "cited": FLAG,
    },
}
"""Table -> column -> kind of its values."""

FILES = tuple(f"{name}.parquet" for name in TABLE_COLUMNS)


def write_tables(arms: Sequence[Results], folder: Path) -> dict[str, int]:
    """Write the tables of some runs into a folder, each atomically, with a ``run`` column; returns rows by table.

    UserError: a file cannot be read or written, or pyarrow is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name, columns in TABLE_COLUMNS.items():
        rows = (row for arm in arms for row in _ROWS[name](arm))
        with atomic_write(folder / f"{name}.parquet") as file:
            counts[name] = write_rows(file, columns, rows)
    return counts


def _key(arm: Results, t: Transcript) -> ExportRow:
    return {"run": arm.name, "id": t.id, "repeat": t.repeat}


def _counts(usage: StageUsage) -> ExportRow:
    return {name: getattr(usage, name) for name in _CALL_COUNTS}


def question_rows(arm: Results) -> Iterator[ExportRow]:
    """A row for each question and repeat of a run."""
    for t in arm.transcripts():
        asked = {"dataset": t.dataset, "question": t.question, "task": t.task, "choices": t.choices, "gold": t.answers}
        found = {"answer": t.answer, "status": t.status, "reading": t.reading, "correct": correct(t)}
        end = {"stop_reason": t.stop_reason, "final_by": t.final.by, "rounds": len(t.rounds)}
        yield _key(arm, t) | asked | found | end | _counts(t.total) | {"seconds": t.total.seconds}


def _turns(arm: Results) -> Iterator[ExportRow]:
    for t in arm.transcripts():
        for each in t.rounds:
            for turn in each.turns:
                said = turn.stance
                row = {name: getattr(said, name) for name in ("stage", "text", "answer", "status", "rule", "error")}
                yield (
                    _key(arm, t)
                    | {"round": each.n, "agent": turn.agent, "confidence": said.confidence}
                    | row
                    | {
                        "selected": None if turn.selection is None else turn.selection.ids,
                        "query": None if turn.search is None else turn.search.query,
                        "reads": turn.reads,
                        "satisfied": None if turn.reflection is None else turn.reflection.satisfied,
                    }
                    | ({} if turn.usage is None else _counts(turn.usage))
                )


def _calls(arm: Results) -> Iterator[ExportRow]:
    for call in recorded_calls(arm):
        purpose, reply = fields_of(call.purpose), fields_of(call.completion)
        usage = {each.name: getattr(call.completion.usage, each.name) for each in fields(Usage)}
        prompt = "\n\n".join(f"{each.role}: {each.content}" for each in call.messages)
        merged = {**purpose, **reply, **usage, "run": arm.name, "id": call.purpose.question}
        merged |= {"model": call.model, "prompt": prompt}
        yield {name: merged[name] for name in TABLE_COLUMNS["calls"]}


def _passages(arm: Results) -> Iterator[ExportRow]:
    """The pool of each debate. Texts are in the pool file: none if it is gone or has changed, or for an own search."""
    record_of = recorded_pools(arm.path, arm.config)
    for t in arm.transcripts():
        record = record_of(t.id) if t.pool else None
        texts = {(each.source, each.key): each.text for each in record.passages} if record else {}
        cited = t.agreement.cited if t.agreement else ()
        chosen: dict[int, dict[str, None]] = {}
        for turn in (turn for each in t.rounds for turn in each.turns if turn.selection is not None):
            for n in turn.selection.ids if turn.selection else ():
                chosen.setdefault(n, {})[turn.agent] = None
        for entry in t.pool:
            row = _key(arm, t) | fields_of(entry) | {"text": texts.get((entry.source, entry.key))}
            yield row | {"selected_by": list(chosen.get(entry.n, ())), "cited": entry.n in cited}


_ROWS: Mapping[str, Callable[[Results], Iterator[ExportRow]]] = {
    "questions": question_rows,
    "turns": _turns,
    "calls": _calls,
    "passages": _passages,
}
"""Table -> its rows of a run."""


# Recorded calls


def recorded_calls(arm: Results) -> Iterator[Recorded]:
    """In the order of writing; none if the call store is gone, or for predictions."""
    if not arm.path.is_dir() or not (file := run_files(arm.path).calls).is_file():
        return
    # In the store that the arms of an experiment share, calls carry the name of their arm.
    shared = file.resolve().parent != arm.path.resolve()
    with CallStore(file) as store:
        yield from store.recorded(payer=arm.path.resolve().name if shared else "")


def debates_with_calls(arm: Results) -> Iterator[tuple[Transcript, Sequence[Recorded]]]:
    """Each debate with its own calls by round. The calls of a whole run are held in memory."""
    calls: dict[str, list[Recorded]] = {}
    for call in recorded_calls(arm):
        calls.setdefault(call.purpose.question, []).append(call)
    for transcript in arm.transcripts():
        own = (call for call in calls.get(transcript.id, ()) if _is_of_debate(call, transcript))
        yield transcript, sorted(own, key=lambda call: call.purpose.round)


def _is_of_debate(call: Recorded, transcript: Transcript) -> bool:
    """Whether a stored call is one of those that the transcript counts; stores also hold searches and grades."""
    return call.purpose.stage in transcript.usage and call.purpose.repeat == transcript.repeat


def first_start(arm: Results) -> datetime:
    """The start of the run's first command; the beginning of 1970 if it is not known."""
    sessions = sessions_of(arm.path) if arm.path.is_dir() else ()
    try:
        return datetime.fromisoformat(str(sessions[0]["started"])).astimezone(UTC)
    except (IndexError, KeyError, ValueError):
        return datetime.fromtimestamp(0, UTC)
