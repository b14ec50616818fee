"""``run.json``: the description of a run, the endpoints of its models, and the work of each command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.files import atomic_write
from madke.runs.spec import RunSpec
from madke.versions import versions

FORMAT = 2
"""Format version of ``run.json``. The first format had no number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """Files of a run that may be outside its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


def read_spec(path: Path) -> RunSpec:
    """The description of the run in a directory; UserError (like all of this module) if ``run.json`` is invalid."""
    try:
        return RunSpec.model_validate(_record(path)["spec"])
    except (ValueError, KeyError):
        raise UserError("does not describe a run", file=path / "run.json") from None


def run_files(path: Path) -> RunFiles:
    """Paths of a run's calls and pools in its last session; the files may have been moved or removed since."""
    sessions = sessions_of(path)
    files = sessions[-1].get("files", {}) if sessions else {}
    pools = files.get("pools")
    return RunFiles(
        calls=path / str(files.get("calls", "calls.sqlite")), pools=None if pools is None else path / str(pools)
    )


def endpoints_before(path: Path) -> Mapping[str, Any]:
    """The recorded endpoints of the run: model name -> ``address`` and ``dialect``."""
    endpoints: Mapping[str, Any] = _record(path)["endpoints"]
    return endpoints


def sessions_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """The work of each command, oldest first: :meth:`madke.runs.meter.Meter.session`, or only the start if killed."""
    sessions: Sequence[Mapping[str, Any]] = _record(path)["sessions"]
    return sessions


def tokens_of_sessions(path: Path) -> int:
    """Total prompt and completion tokens of all commands."""
    counted = (session.get(name) for session in sessions_of(path) for name in ("prompt_tokens", "completion_tokens"))
    return sum(count for count in counted if isinstance(count, int))


def begin_session(path: Path, spec: RunSpec, endpoints: Mapping[str, Any], files: RunFiles, started: str) -> None:
    """Write the present description, and a new session that starts at ``started`` (ISO 8601, UTC)."""
    record: Mapping[str, Any] = _record(path) if (path / "run.json").is_file() else {"endpoints": {}, "sessions": []}
    pools = None if files.pools is None else os.path.relpath(files.pools, path)
    session = {
        "started": started,
        "files": {"calls": os.path.relpath(files.calls, path), "pools": pools},
        "versions": versions(),
    }
    written = {
        "format": FORMAT,
        "spec": spec.model_dump(mode="json"),
        "endpoints": {**record["endpoints"], **endpoints},
        "sessions": [*record["sessions"], session],
    }
    write_record(path / "run.json", written)


def update_spec(path: Path, spec: RunSpec) -> None:
    """Replace the description; the sessions stay."""
    write_record(path / "run.json", {**_record(path), "spec": spec.model_dump(mode="json")})


def end_session(path: Path, session: Mapping[str, Any] | None, endpoints: Mapping[str, Any]) -> None:
    """Complete the last session; None removes it, for a command that had nothing to do."""
    record = _record(path)
    *before, last = record["sessions"]
    sessions = before if session is None and before else [*before, {**last, **(session or {})}]
    # Dialects are detected while the run makes calls.
    write_record(path / "run.json", {**record, "endpoints": {**record["endpoints"], **endpoints}, "sessions": sessions})


def _record(path: Path) -> dict[str, Any]:
    record = read_record(path / "run.json", FORMAT, "a run")
    if not _is_sound(record):
        raise UserError("does not describe a run", file=path / "run.json")
    return record


def _is_sound(record: Mapping[str, Any]) -> bool:
    """Whether the fields other than the spec have the expected types."""
    sessions = record.get("sessions")
    if not isinstance(record.get("endpoints"), dict) or not isinstance(sessions, list):
        return False
    return all(
        isinstance(session, dict)
        and isinstance(files := session.get("files", {}), dict)
        and isinstance(files.get("calls", ""), str)
        and isinstance(files.get("pools"), str | None)
        for session in sessions
    )


def read_record(file: Path, version: int, what: str) -> dict[str, Any]:
    """The JSON object in a file of this format version; UserError if there is none, or not of ``what``."""
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise UserError(f"does not describe {what}", file=file)
    if (found := record.get("format", 1)) != version:
        expected = f"this version of madke reads format {version}; choose another --out"
        raise UserError(f"has format {found!r}, but {expected}", file=file)
    return record


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    with atomic_write(file) as opened:
        opened.write(json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")
