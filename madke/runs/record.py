"""The description of a run, and ``run.json``: this description, the endpoints of its models, and its sessions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from madke._util.assets import versions
from madke._util.files import refuse_special, short_hash, write_file
from madke.core.chat import fields_of
from madke.core.errors import UserError
from madke.core.question import Question
from madke.data.first_round import Draw
from madke.engine.deferral import Deferring
from madke.engine.protocol import AnyProtocol

RUN_FORMAT = 2
"""Format version of ``run.json``. The first format had no number."""

_BY_QUESTION = ("questions", "pools", "first_round")
"""Fields with one entry per question; they grow when a run is extended."""


class RunRecord(BaseModel, extra="forbid", frozen=True):
    """Everything that can change the results of a run, frozen in its ``run.json``. Equal specs mean the same run.

    ``pools`` and ``sources`` are empty until the pools are frozen.
    """

    data: str
    """The dataset's file name, for display."""
    dataset: str | None = None
    """The published format of the file; None for madke's own."""
    task: str | None = None
    """The task requested for questions that name none."""
    tasks: Mapping[str, str] = {}
    """Custom task -> its code and a fingerprint of its prompt texts."""
    questions: Mapping[str, str]
    """Id -> hash of the question with all its fields, in order; see :func:`question_hash`."""
    sample_seed: int | None = None
    """Seed of the sample; None: the first questions."""
    variant: str
    wording: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """``paper``, or the name of the file that its words are from; None: the protocol's own."""
    protocol: AnyProtocol
    prompts_sha256: Mapping[str, str]
    """Fingerprint of every prompt file."""
    models: Mapping[str, str]
    """Role -> name of its model. Addresses are not part of the spec; see ``endpoints`` in run.json."""
    source_specs: Mapping[str, str | None]
    """Source name -> requested specification; None for the name's default, or a pool file."""
    sources: Mapping[str, str] = {}
    """Source name -> its description when the pools were built, with the index fingerprint."""
    pools: Mapping[str, str] = {}
    """Question id -> hash of its line in the pool file; empty without knowledge."""
    searched: Mapping[str, str] = {}
    """Source name -> its description for searches of debaters; empty if they may not search."""
    first_round: Mapping[str, str] = {}
    """Question id -> hash of its first-round stances, if they were supplied."""
    first_round_draw: Annotated[Draw | None, Field(exclude_if=lambda value: value is None)] = None
    """How they were drawn from another arm's stances; None: they were not."""
    answer_scorer: str | None = None
    """The command of the answer scorer."""
    seed: int | None = None
    """Sampling seed; None: the servers choose their own."""
    repeats: int = 1
    deferring: Annotated[Deferring | None, Field(exclude_if=lambda value: value is None)] = None
    """Which answers are left to a person; None: none."""

    def differences(self, other: RunRecord) -> list[str]:
        """The differences, as ``field: mine, not theirs``. Questions of only one spec are ignored: runs can grow."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        for name in _BY_QUESTION:
            both = [id_ for id_ in mine[name] if id_ in theirs[name]]
            for record in (mine, theirs):
                record[name] = {id_: record[name][id_] for id_ in both}
        return list(_differences("", mine, theirs))

    def extended(self, before: RunRecord) -> RunRecord:
        """The same run, extended by the questions of an earlier command."""
        both = {name: {**getattr(before, name), **getattr(self, name)} for name in _BY_QUESTION}
        return self.model_copy(update=both)

    @property
    def first_round_sha256(self) -> str | None:
        """Fingerprint of all supplied first-round stances; None without any."""
        return short_hash(json.dumps(dict(self.first_round), sort_keys=True).encode()) if self.first_round else None


def question_hash(question: Question) -> str:
    """The hash of a question with all its fields; independent of the format of its file."""
    known = fields_of(question)
    if not question.instructions:
        del known["instructions"]  # runs without instructions keep the hashes that earlier versions wrote
    return short_hash(json.dumps(known, sort_keys=True).encode())


def question_hashes(questions: Sequence[Question]) -> dict[str, str]:
    """Id -> hash, in order."""
    return {question.id: question_hash(question) for question in questions}


def _differences(path: str, mine: Any, theirs: Any) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            yield from _differences(f"{path}.{key}" if path else key, mine.get(key), theirs.get(key))
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for number, (own, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from _differences(f"{path}.{number}", own, other)
    elif mine != theirs:
        shown = "protocol" if path == "variant" else path  # as the option is called
        yield f"{shown}: {_short(mine)}, not {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """Files of a run that may be outside its directory."""

    calls: Path
    """The call store; the arms of an experiment share one."""
    pools: Path | None
    """The pool file; None without knowledge."""


def read_run(path: Path) -> RunRecord:
    """The description of the run in a directory; UserError (like all of this module) if ``run.json`` is invalid."""
    try:
        return RunRecord.model_validate(_record(path)["spec"])
    except (ValueError, KeyError):
        raise UserError("does not describe a run", file=path / "run.json") from None


def run_files(path: Path) -> RunFiles:
    """Paths of a run's calls and pools in its last session; the files may have been moved or removed since."""
    sessions = sessions_of(path)
    files = sessions[-1].get("files", {}) if sessions else {}
    calls, pools = files.get("calls", "calls.sqlite"), files.get("pools")
    return RunFiles(calls=path / str(calls), pools=None if pools is None else path / str(pools))


def endpoints_before(path: Path) -> Mapping[str, Any]:
    """The recorded endpoints of the run: model name -> ``address`` and ``dialect``."""
    return dict(_record(path)["endpoints"])


def sessions_of(path: Path) -> Sequence[Mapping[str, Any]]:
    """The work of each command, oldest first: :meth:`madke.runs.meter.Meter.session`, or only the start if killed."""
    return list(_record(path)["sessions"])


def tokens_of_sessions(path: Path) -> int:
    """Total prompt and completion tokens of all commands."""
    counted = (session.get(name) for session in sessions_of(path) for name in ("prompt_tokens", "completion_tokens"))
    return sum(count for count in counted if isinstance(count, int))


def begin_session(path: Path, spec: RunRecord, endpoints: Mapping[str, Any], files: RunFiles) -> None:
    """Write the present description, and a new session that starts now."""
    record: Mapping[str, Any] = _record(path) if (path / "run.json").is_file() else {"endpoints": {}, "sessions": []}
    pools = None if files.pools is None else os.path.relpath(files.pools, path)
    session = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": {"calls": os.path.relpath(files.calls, path), "pools": pools},
        "versions": versions(),
    }
    written = {
        "format": RUN_FORMAT,
        "spec": spec.model_dump(mode="json"),
        "endpoints": {**record["endpoints"], **endpoints},
        "sessions": [*record["sessions"], session],
    }
    write_record(path / "run.json", written)


def update_run(path: Path, spec: RunRecord) -> None:
    """Replace the description; the sessions stay."""
    write_record(path / "run.json", {**_record(path), "spec": spec.model_dump(mode="json")})


def note_endpoints(path: Path, endpoints: Mapping[str, Any]) -> None:
    """Add what is known of endpoints (:func:`madke.models.endpoint.endpoints_of`)."""
    record = _record(path)
    write_record(path / "run.json", {**record, "endpoints": {**record["endpoints"], **endpoints}})


def end_session(path: Path, session: Mapping[str, Any] | None) -> None:
    """Complete the last session; None removes it, for a command that had nothing to do."""
    record = _record(path)
    *before, last = record["sessions"]
    sessions = before if session is None and before else [*before, {**last, **(session or {})}]
    write_record(path / "run.json", {**record, "sessions": sessions})


def _record(path: Path) -> dict[str, Any]:
    record = read_record(path / "run.json", RUN_FORMAT, "a run")
    endpoints, sessions = record.get("endpoints"), record.get("sessions")
    if not (isinstance(endpoints, dict) and isinstance(sessions, list) and all(map(_is_session, sessions))):
        raise UserError("does not describe a run", file=path / "run.json")
    return record


def _is_session(session: Any) -> bool:
    """Whether what is read of a session has the expected types."""
    if not (isinstance(session, dict) and isinstance(session.get("versions", {}), dict)):
        return False
    files = session.get("files", {})
    return isinstance(files, dict) and all(isinstance(each, str | None) for each in files.values())


def read_record(file: Path, version: int, what: str) -> dict[str, Any]:
    """The JSON object in a file of this format version; UserError if there is none, or not of ``what``."""
    refuse_special(file)
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise UserError(f"does not describe {what}", file=file)
    if (found := record.get("format", 1)) != version:
        expected = f"this version of madke reads format {version}; choose another --out"
        raise UserError(f"has format {found!r}, but {expected}", file=file)
    return record


def write_record(file: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    # A path that is not UTF-8 has lone surrogates: the handler writes their JSON escapes.
    content = json.dumps(record, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace")
    write_file(file, content + b"\n")
