"""The description of a run: everything that can change its results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ConfigDict

from madke.core.question import Question
from madke.engine.protocol import Protocol

_HASH = 16
"""Hexadecimal digits kept of a hash: a million questions have a collision with a probability of 1 in 37 million."""

_BY_QUESTION = ("questions", "pools", "first_round")
"""Fields with one entry per question; they grow when a run is extended."""


class RunSpec(BaseModel):
    """Everything that can change the results of a run, frozen in its ``run.json``. Equal specs mean the same run.

    ``pools`` and ``sources`` are empty until the pools are frozen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    protocol: Protocol
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
    answer_scorer: str | None = None
    """The command of the answer scorer."""
    seed: int | None = None
    """Sampling seed; None: the servers choose their own."""
    repeats: int = 1

    def differences(self, other: RunSpec) -> list[str]:
        """The differences, as ``field: mine, not theirs``. Questions of only one spec are ignored: runs can grow."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        for name in _BY_QUESTION:
            both = [id_ for id_ in mine[name] if id_ in theirs[name]]
            for record in (mine, theirs):
                record[name] = {id_: record[name][id_] for id_ in both}
        return list(_differences("", mine, theirs))

    def extended(self, before: RunSpec) -> RunSpec:
        """The same run, extended by the questions of an earlier command."""
        both = {name: {**getattr(before, name), **getattr(self, name)} for name in _BY_QUESTION}
        return self.model_copy(update=both)

    @property
    def first_round_sha256(self) -> str | None:
        """Fingerprint of all supplied first-round stances; None without any."""
        return short_hash(json.dumps(dict(self.first_round), sort_keys=True).encode()) if self.first_round else None


def short_hash(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256."""
    return sha256(content).hexdigest()[:_HASH]


def question_hash(question: Question) -> str:
    """The hash of a question with all its fields; independent of the format of its file."""
    known = {each.name: getattr(question, each.name) for each in fields(question)}
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
    elif mine != theirs:
        yield f"{path}: {_short(mine)}, not {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
