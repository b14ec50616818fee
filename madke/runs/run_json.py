"""``run.json``: what a run is, where its models were asked, and what each command did for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import replacing
from madke.runs.spec import RunSpec
from madke.versions import versions

FORMAT = 2
"""Of ``run.json``. The first one had no number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """What a run reads and writes that need not lie in its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What one command did for a run, in the end; a command that was killed leaves only its beginning."""

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
    """How many calls the limiter let through at once: :class:`madke.llm.limiter.LimiterState`."""


def read_spec(path: Path) -> RunSpec:
    """The description of the run in a directory.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    try:
        return RunSpec.model_validate(_record(path)["spec"])
    except (ValueError, KeyError):
        raise UserError("does not describe a run", file=path / "run.json") from None


def run_files(path: Path) -> RunFiles:
    """Where a run's calls and pools are, as its last session says; they may have been moved or removed since.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    sessions = _record(path)["sessions"]
    said = sessions[-1].get("files", {}) if sessions else {}
    pools = said.get("pools")
    return RunFiles(
        calls=path / str(said.get("calls", "calls.sqlite")), pools=None if pools is None else path / str(pools)
    )


def endpoints_before(path: Path) -> Mapping[str, Any]:
    """Where the run's models were asked: model name -> ``address`` and ``dialect``.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    endpoints: Mapping[str, Any] = _record(path)["endpoints"]
    return endpoints


def sessions_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """What each command did, the first one first; see :class:`Session`.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    sessions: Sequence[Mapping[str, Any]] = _record(path)["sessions"]
    return sessions


def tokens_of_sessions(path: Path) -> int:
    """Prompt and completion tokens that all commands counted.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours.
    """
    counted = (session.get(name) for session in sessions_of(path) for name in ("prompt_tokens", "completion_tokens"))
    return sum(count for count in counted if isinstance(count, int))


def begin_session(path: Path, spec: RunSpec, endpoints: Mapping[str, Any], files: RunFiles, started: str) -> None:
    """Write what the run is now, and that a command begins to work on it.

    Args:
        path: The run's directory.
        spec: What the run is.
        endpoints: Model name -> where and how it is asked.
        files: Where its calls and pools are.
        started: ISO 8601, UTC.

    Raises:
        UserError: The directory cannot be written to.
    """
    record: Mapping[str, Any] = _record(path) if (path / "run.json").is_file() else {"sessions": []}
    session = {
        "started": started,
        "files": {
            "calls": os.path.relpath(files.calls, path),
            "pools": None if files.pools is None else os.path.relpath(files.pools, path),
        },
        "versions": versions(),
    }
    _write(
        path,
        {
            "format": FORMAT,
            "spec": spec.model_dump(mode="json"),
            "endpoints": {**record.get("endpoints", {}), **endpoints},
            "sessions": [*record["sessions"], session],
        },
    )


def end_session(path: Path, session: Session | None, endpoints: Mapping[str, Any]) -> None:
    """Complete the last session; None removes it, where the command had nothing to do.

    Args:
        path: The run's directory.
        session: What the command did.
        endpoints: Model name -> where and how it was asked in the end: a dialect is found out on the way.

    Raises:
        UserError: ``run.json`` is missing or is not one of ours, or the directory cannot be written to.
    """
    record = _record(path)
    *before, last = record["sessions"]
    kept = [*before, last] if session is None and not before else before
    sessions = kept if session is None else [*before, {**last, **asdict(session)}]
    _write(path, {**record, "endpoints": {**record["endpoints"], **endpoints}, "sessions": sessions})


def _record(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValueError:
        record = None
    if isinstance(record, dict) and record.get("format", 1) != FORMAT:
        found = record.get("format", 1)
        raise UserError(
            f"is of format {found!r}, and this version of madke reads {FORMAT}; choose another --out", file=file
        )
    if not isinstance(record, dict) or not _is_sound(record):
        raise UserError("does not describe a run", file=file)
    return record


def _is_sound(record: Mapping[str, Any]) -> bool:
    """Whether what we read of it beside the spec is what we write."""
    sessions = record.get("sessions")
    if not isinstance(record.get("endpoints"), dict) or not isinstance(sessions, list):
        return False
    said = [session.get("files", {}) if isinstance(session, dict) else None for session in sessions]
    return all(
        isinstance(files, dict)
        and isinstance(files.get("calls", ""), str)
        and isinstance(files.get("pools"), str | None)
        for files in said
    )


def _write(path: Path, record: Mapping[str, Any]) -> None:
    with replacing(path / "run.json") as file:
        file.write(json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")
