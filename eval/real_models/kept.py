"""The kept results of the study: one compressed file per model, from which the page is written without a model."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from madke.core.errors import UserError
from madke.core.transcript import Transcript, from_json

KINDS = {
    "before": "0.3.0",
    "paper": "the paper's wording",
    "few-words": "plain: a few words only",
    "named-passage": "plain: one sentence, then `Answer:`",
    "free": "now, no schemas",
    "bound": "now, schemas",
}
"""Which prompts: 0.3.0's, the paper's wording, two plain baselines, and 0.4.0's without and with schemas."""
BASELINES = ("few-words", "named-passage")
PROTOCOLS = ("standard", "rag", "cot", "mad", "madke")
"""From the cheapest to the dearest."""
SWAPPED = "swapped"
"""One reply of ``madke`` to a given first round, in which one debater is right and the other wrong."""
ARMS = ("standard", "rag", "cot", "mad", SWAPPED, "madke")


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
    """The share of the reply's words that it repeats from its prompt, see the page's head."""
    example: bool = False
    """Whether the reply names the answer of an example of the prompts."""


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
    return ARMS.index(cell.arm), [*KINDS].index(cell.kind)


def read_kept(file: Path) -> list[KeptCell]:
    """The results of one model; UserError if the file holds none."""
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
            current[2].append(_call(record))
    if current:
        yield current


def _call(record: dict[str, Any]) -> Call:
    """The call in a JSON object."""
    messages = record.get("messages")
    pairs: Sequence[Sequence[str]] | None = messages
    return Call(**{**record, "messages": None if pairs is None else tuple((role, text) for role, text in pairs)})
