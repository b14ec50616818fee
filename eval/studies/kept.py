"""What is kept of a study: the calls and transcripts of one model in one compressed file, and debates from them.

From the file a stranger's machine runs the same debates again, without a model: every call is answered by the store.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write
from madke._version import __version__
from madke.core.chat import ChatRequest, Completion
from madke.core.errors import CallError, UserError
from madke.core.transcript import Transcript, from_json, to_json
from madke.engine.variant import load_variant
from madke.experiments.experiment import CALLS, arm_folder
from madke.experiments.recipe import Recipe
from madke.models.store import CallStore
from madke.runs.directory import read_run, read_transcripts


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptStudy:
    """The results of one model."""

    model: str
    served_as: str | None
    """The madke model that answered, if it was not served under the model's own name."""
    questions: int
    """The core arms have answered the first so many questions; another arm, as many as it has transcripts."""
    version: str
    """The version of madke that ran it."""
    prompts: Mapping[str, str]
    """Prompt file -> SHA-256."""
    transcripts: Mapping[str, Sequence[Transcript]]
    """Arm -> its transcripts, in the order of the questions."""


_HEAD = ("model", "served_as", "questions", "version", "prompts")
"""The fields in the first line of a file."""


def results_of(parts: Mapping[Path, Recipe], *, model: str, served_as: str | None) -> KeptStudy:
    """What experiments (folder -> recipe) found; all arms of one have the same questions."""
    folders = {arm.name: arm_folder(folder, arm.name) for folder, recipe in parts.items() for arm in recipe.all_arms()}
    transcripts = {arm: tuple(read_transcripts(folder)) for arm, folder in folders.items()}
    prompts: dict[str, str] = {}
    for folder in folders.values():
        prompts |= read_run(folder).prompts_sha256
    return KeptStudy(
        model=model,
        served_as=served_as,
        questions=len(next(iter(transcripts.values()))),
        version=__version__,
        prompts=prompts,
        transcripts=transcripts,
    )


def keep(parts: Mapping[Path, Recipe], file: Path, *, model: str, served_as: str | None) -> None:
    """Write what experiments asked and found.

    The first line describes the file; then come each call of their stores, once, and the transcripts of each arm.
    """
    study = results_of(parts, model=model, served_as=served_as)
    calls: dict[bytes, None] = {}
    for folder in parts:
        with CallStore(folder / CALLS) as store:
            calls |= dict.fromkeys(map(_line, store.export()))
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as opened, lzma.open(opened, "wb", preset=9) as packed:
        packed.write(_line({name: getattr(study, name) for name in _HEAD}))
        packed.writelines(calls)
        for arm, transcripts in study.transcripts.items():
            for each in transcripts:
                packed.write(_line({"arm": arm, "transcript": json.loads(to_json(each, exclude_defaults=True))}))


def read_study(file: Path) -> KeptStudy:
    """The results in a file that :func:`keep` wrote; UserError if it is none."""
    lines = read_lines(file)
    head = next(lines)
    found: dict[str, list[Transcript]] = {}
    for line in lines:
        if "transcript" in line:
            found.setdefault(line["arm"], []).append(from_json(json.dumps(line["transcript"])))
    return KeptStudy(**{name: head[name] for name in _HEAD}, transcripts=found)


def changed_prompts(kept: KeptStudy) -> list[str]:
    """The prompt files that are not those of the study: their calls cannot be found any more."""
    now: dict[str, str] = {}
    for folder in {file.partition("/")[0] for file in kept.prompts} - {"_shared", "tasks"}:
        now |= load_variant(folder).files
    return [file for file, sha256 in kept.prompts.items() if now.get(file) != sha256]


def differences(kept: KeptStudy, replayed: KeptStudy) -> list[str]:
    """The debates of a replay that differ from those that were kept, one line each."""
    found = []
    for arm, held in replayed.transcripts.items():
        before = {transcript.id: transcript for transcript in kept.transcripts[arm]}
        for new in held:
            old = before[new.id]
            if _told(old) != _told(new):
                why = new.final.error or f"answered {new.answer!r}, kept {old.answer!r}"
                found.append(f"{arm}, {new.id}: {why}")
    return found


def _told(transcript: Transcript) -> tuple[Any, ...]:
    """All that was said, and what was counted; not who paid, and not how long it took."""
    said = [[(turn.agent, turn.selection, turn.stance) for turn in entry.turns] for entry in transcript.rounds]
    verdicts = [entry.verdict for entry in transcript.rounds]
    total = transcript.total
    counts = (total.calls, total.prompt_tokens, total.completion_tokens)
    return transcript.answer, transcript.status, transcript.stop_reason, said, verdicts, transcript.final, counts


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def restore_calls(file: Path, store: Path) -> None:
    """Add the kept calls to a store, created if missing."""
    store.parent.mkdir(parents=True, exist_ok=True)
    with CallStore(store) as calls:
        calls.restore(entry for entry in read_lines(file) if "text" in entry or "call" in entry)


def asked_with_schemas(file: Path) -> bool:
    """Whether the kept calls are of a model that takes schemas, or of a server that was tried with them."""
    return any("call" in line and line["call"]["completion"].get("bound") is not None for line in read_lines(file))


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of kept calls, as objects; the first describes them."""
    try:
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise UserError(f"holds no kept calls: {error}", file=file) from error


class NoModel:
    """The model of a replay: it answers nothing, because every call must be among the kept ones."""

    def __init__(self, name: str = "none", *, takes_schemas: bool = True) -> None:
        self.name = name
        self.takes_schemas = takes_schemas
        """As the model whose calls are replayed: a call is found by its form."""

    async def complete(self, request: ChatRequest) -> Completion:
        """CallError: the call is not among the kept ones."""
        raise CallError(f"the {request.purpose.stage} call is not among the kept calls", retryable=False)
