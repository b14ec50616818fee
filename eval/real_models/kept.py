"""The kept results of the study: one compressed file per model, from which the page is written without a model."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eval.real_models.arms import ARMS, KINDS
from madke._util.files import atomic_write
from madke.core.errors import UserError
from madke.core.transcript import Transcript, from_json, to_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a run."""

    question: str
    stage: str
    agent: str
    round: int
    text: str
    outcome: str
    error: str | None
    finish: str
    prompt_tokens: int
    new_tokens: int
    seconds: float
    messages: tuple[tuple[str, str], ...] | None = None
    """(role, text) of each message; None if the prompts are not the project's own."""
    echo: float = 0.0
    """:func:`eval.real_models.measures.echo_share`."""
    example: bool = False
    """:func:`eval.real_models.measures.gives_example`."""

    def with_measures(self, *, echo: float, example: bool) -> Call:
        """The call with its measures."""
        return replace(self, echo=round(echo, 4), example=example)

    def without_messages(self) -> Call:
        """The call without its prompt."""
        return replace(self, messages=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCell:
    """The results of one run of the study."""

    model: str
    kind: str
    arm: str
    holds_gold: tuple[str, ...]
    """The ids of the questions whose pool holds a gold answer."""
    max_tokens: int
    version: str
    """The version of madke that ran it."""
    transcripts: tuple[Transcript, ...]
    calls: tuple[Call, ...]


def pooled(cells: Sequence[KeptCell]) -> KeptCell:
    """The transcripts and calls of several arms as those of one, ``all``."""
    return replace(
        cells[0],
        arm="all",
        transcripts=tuple(transcript for cell in cells for transcript in cell.transcripts),
        calls=tuple(call for cell in cells for call in cell.calls),
    )


def place(cell: KeptCell) -> tuple[int, int]:
    """Where the cell stands among those of its model."""
    return ARMS.index(cell.arm), [*KINDS].index(cell.kind)  # type: ignore[arg-type]


def write_kept(file: Path, cells: Iterable[KeptCell]) -> None:
    """Write the results of one model."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as opened, lzma.open(opened, "wb", preset=9) as packed:
        for cell in cells:
            own = {
                name: getattr(cell, name) for name in ("model", "kind", "arm", "holds_gold", "max_tokens", "version")
            }
            packed.write(_line("cell", own))
            for transcript in cell.transcripts:
                packed.write(b'{"transcript":' + to_json(transcript, exclude_defaults=True) + b"}\n")
            packed.writelines(_line("call", asdict(call)) for call in cell.calls)


def _line(name: str, record: Any) -> bytes:
    return json.dumps({name: record}, separators=(",", ":")).encode() + b"\n"


def read_kept(file: Path) -> list[KeptCell]:
    """The results of one model; UserError if the file is not one that :func:`write_kept` wrote."""
    found: list[KeptCell] = []
    try:
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for head, transcripts, calls in _cells(lines):
                found.append(KeptCell(**head, transcripts=tuple(transcripts), calls=tuple(calls)))
    except (OSError, EOFError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"holds no kept results: {error}", file=file) from error
    return found


def _cells(lines: Iterable[str]) -> Iterator[tuple[dict[str, Any], list[Transcript], list[Call]]]:
    current: tuple[dict[str, Any], list[Transcript], list[Call]] | None = None
    for line in lines:
        [(name, record)] = json.loads(line).items()
        if name == "cell":
            if current:
                yield current
            current = {**record, "holds_gold": tuple(record["holds_gold"])}, [], []
        elif current is None:
            raise ValueError("the first line describes no run")
        elif name == "transcript":
            current[1].append(from_json(json.dumps(record)))
        else:
            current[2].append(call_of(record))
    if current:
        yield current


def call_of(record: dict[str, Any]) -> Call:
    """The call in a JSON object."""
    messages = record.get("messages")
    pairs: Sequence[Sequence[str]] | None = messages
    return Call(**{**record, "messages": None if pairs is None else tuple((role, text) for role, text in pairs)})
