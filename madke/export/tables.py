"""Runs as four Parquet tables: questions, turns, calls and passages. docs/extend.md explains every column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from madke._util.assets import require
from madke._util.files import atomic_write
from madke.core.chat import Usage, fields_of
from madke.core.transcript import StageUsage, Transcript
from madke.export.recorded_calls import recorded_calls
from madke.runs.pools import recorded_pools
from madke.scoring.arms import Results
from madke.scoring.debate_rows import correct

ExportRow = dict[str, Any]

_TEXT, _TEXTS, _WHOLE, _WHOLES, _REAL, _FLAG = "text", "texts", "whole", "wholes", "real", "flag"
_ROW_OF = {"run": _TEXT, "id": _TEXT, "repeat": _WHOLE}
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_CALL_COUNTS = ("calls", "failed", *_TOKENS)

TABLE_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "questions": {
        **_ROW_OF,
        **dict.fromkeys(("dataset", "question", "task"), _TEXT),
        **dict.fromkeys(("choices", "gold"), _TEXTS),
        **dict.fromkeys(("answer", "status", "reading"), _TEXT),
        "correct": _REAL,
        **dict.fromkeys(("stop_reason", "final_by"), _TEXT),
        **dict.fromkeys(("rounds", *_CALL_COUNTS), _WHOLE),
        "seconds": _REAL,
    },
    "turns": {
        **_ROW_OF,
        "round": _WHOLE,
        **dict.fromkeys(("agent", "stage", "text", "answer", "status", "rule", "error"), _TEXT),
        "confidence": _REAL,
        "selected": _WHOLES,
        "query": _TEXT,
        "reads": _TEXTS,
        "satisfied": _FLAG,
        **dict.fromkeys(_CALL_COUNTS, _WHOLE),
    },
    "calls": {
        **_ROW_OF,
        "round": _WHOLE,
        **dict.fromkeys(("stage", "agent"), _TEXT),
        "sample": _WHOLE,
        **dict.fromkeys(("model", "prompt", "text", "reasoning", "outcome", "error", "finish_reason"), _TEXT),
        **dict.fromkeys(_TOKENS, _WHOLE),
        "estimated": _FLAG,
        "attempts": _WHOLE,
        "seconds": _REAL,
    },
    "passages": {
        **_ROW_OF,
        "n": _WHOLE,
        **dict.fromkeys(("source", "key", "title", "text", "asked_by", "query"), _TEXT),
        **dict.fromkeys(("round", "before"), _WHOLE),
        "selected_by": _TEXTS,
        "cited": _FLAG,
    },
}
"""Table -> column -> kind of its values."""

FILES = tuple(f"{name}.parquet" for name in TABLE_COLUMNS)
_ROWS_AT_A_TIME = 1000


def write_tables(arms: Sequence[Results], folder: Path) -> dict[str, int]:
    """Write the tables of some runs into a folder, each atomically, with a ``run`` column; returns rows by table.

    UserError: a file cannot be read or written, or pyarrow is missing.
    """
    require("Parquet files need", "report", "pyarrow")
    folder.mkdir(parents=True, exist_ok=True)
    rows_of: Mapping[str, Callable[[Results], Iterator[ExportRow]]] = {
        "questions": _questions,
        "turns": _turns,
        "calls": _calls,
        "passages": _passages,
    }
    return {
        name: _write(folder / f"{name}.parquet", columns, (row for arm in arms for row in rows_of[name](arm)))
        for name, columns in TABLE_COLUMNS.items()
    }


def _write(path: Path, columns: Mapping[str, str], rows: Iterable[ExportRow]) -> int:
    import pyarrow
    from pyarrow import parquet

    text, whole = pyarrow.string(), pyarrow.int64()
    types = {_TEXT: text, _TEXTS: pyarrow.list_(text), _WHOLE: whole, _WHOLES: pyarrow.list_(whole)}
    types |= {_REAL: pyarrow.float64(), _FLAG: pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    count, waiting = 0, iter(rows)
    with atomic_write(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(waiting, _ROWS_AT_A_TIME)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _key(arm: Results, t: Transcript) -> ExportRow:
    return {"run": arm.name, "id": t.id, "repeat": t.repeat}


def _counts(usage: StageUsage) -> ExportRow:
    return {name: getattr(usage, name) for name in _CALL_COUNTS}


def _questions(arm: Results) -> Iterator[ExportRow]:
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
