"""``run.json``: what a run is, where its files are, and what each command did for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import replacing
from madke.runs.config import RunConfig
from madke.versions import versions


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """What a run reads and writes that need not lie in its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What one command did for a run: an entry of ``sessions`` in ``run.json``. One that was killed leaves none."""

    started: str
    """ISO 8601, UTC."""
    seconds: float
    ended: str
    """``finished``, or what stopped it."""
    questions: int
    """Debates that got an outcome."""
    failed: int
    left_over: int
    calls: int
    """Calls that were made; those that the call store answered are not among them."""
    failed_calls: int
    retries: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None
    """In the currency of the price file; None without one."""
    concurrency: Mapping[str, float] | None
    """How many calls the limiter let through at once: :class:`madke.llm.LimiterState`."""


def read_config(path: Path) -> RunConfig:
    """The configuration in a run directory.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    try:
        return RunConfig.model_validate(_record(path)["config"])
    except (ValueError, KeyError):
        raise UserError("is not a run's configuration", file=path / "run.json") from None


def _record(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not _is_sound(record):
        raise UserError("is not a run's configuration", file=file)
    return record


def _is_sound(record: Mapping[str, Any]) -> bool:
    """Whether what we read of it beside the configuration is what we write."""
    files, sessions = record.get("files", {}), record.get("sessions", [])
    return (
        isinstance(files, dict)
        and isinstance(files.get("calls", ""), str)
        and isinstance(files.get("pools", ""), str | None)
        and isinstance(sessions, list)
        and all(isinstance(session, dict) for session in sessions)
    )


def run_files(path: Path) -> RunFiles:
    """Where a run's calls and pools are, as its ``run.json`` says; they may have been moved or removed since.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    said = _record(path).get("files", {})
    pools = said.get("pools")
    return RunFiles(
        calls=path / said.get("calls", "calls.sqlite"),
        pools=path / pools if pools is not None else None,
    )


def begin_run(path: Path, config: RunConfig, files: RunFiles) -> None:
    """Write the ``run.json`` of a new run.

    Raises:
        UserError: The directory cannot be written to.
    """
    _write(path, {"config": config.model_dump(mode="json"), "files": _said(path, files), "versions": versions()})


def moved(path: Path, files: RunFiles) -> None:
    """Say where the files of a run are now, if they were somewhere else.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours, or the directory cannot be written to.
    """
    record = _record(path)
    if record.get("files") != (now := _said(path, files)):
        _write(path, {**record, "files": now})


def sessions_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """What each command did, the first one first; see :class:`Session`.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    sessions: Sequence[Mapping[str, Any]] = _record(path).get("sessions", ())
    return sessions


def tokens_of_sessions(path: Path) -> int:
    """Prompt and completion tokens that all commands counted.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    counted = (session.get(name) for session in sessions_of(path) for name in ("prompt_tokens", "completion_tokens"))
    return sum(count for count in counted if isinstance(count, int))


def _said(path: Path, files: RunFiles) -> dict[str, str | None]:
    return {
        "calls": os.path.relpath(files.calls, path),
        "pools": None if files.pools is None else os.path.relpath(files.pools, path),
    }


def add_session(path: Path, session: Session) -> None:
    """Add what a command did.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours, or the directory cannot be written to.
    """
    record = _record(path)
    _write(path, {**record, "sessions": [*record.get("sessions", ()), asdict(session)]})


def _write(path: Path, record: Mapping[str, Any]) -> None:
    with replacing(path / "run.json") as file:
        file.write(json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")
