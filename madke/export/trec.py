"""Pools as TREC runs, and the gold passages of the questions as TREC judgements (qrels)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from madke._util.files import atomic_write
from madke.core.transcript import Transcript
from madke.scoring.arms import Results
from madke.scoring.debate_rows import gold_of
from madke.scoring.metrics import listed

QRELS = "qrels.txt"


def run_file(arm: Results) -> str:
    """The file name of an arm's run."""
    return f"{file_stem(arm)}.run.txt"


def file_stem(arm: Results) -> str:
    """An arm's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", arm.name).strip("-.") or "run"


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
        with atomic_write(folder / run_file(arm)) as file:
            for transcript in arm.transcripts():
                judged |= dict.fromkeys((transcript.id, key) for key in _relevant(transcript))
                # Repeats read the same pool.
                if transcript.id in seen:
                    continue
                seen.add(transcript.id)
                for line in _ranking(transcript, _word(arm.name)):
                    file.write(line)
                    lines += 1
        written[run_file(arm)] = lines
    with atomic_write(folder / QRELS) as file:
        file.writelines(f"{_word(id_)} 0 {_word(key)} 1\n".encode() for id_, key in judged)
    return written | {QRELS: len(judged)}


def _ranking(transcript: Transcript, tag: str) -> Iterator[bytes]:
    # Two sources may hold passages with one key: TREC knows only the key, so the better place counts.
    keys = list(dict.fromkeys(entry.key for entry in transcript.pool if entry.asked_by is None))
    for n, key in enumerate(keys):
        yield f"{_word(transcript.id)} Q0 {_word(key)} {n + 1} {len(keys) - n} {tag}\n".encode()


def _relevant(transcript: Transcript) -> list[str]:
    wanted, name_of = gold_of(transcript)
    found = [entry.key for entry in transcript.pool if name_of(entry) in wanted]
    # Gold keys are judged also if retrieval missed them; of a gold title, only keys in the pool are known.
    return [*found, *sorted(wanted)] if listed(transcript.metadata, "gold_passages") else found


def _word(text: str) -> str:
    return re.sub(r"\s", lambda space: quote(space[0]), text) or "-"
