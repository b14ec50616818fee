"""What a run is: everything that can change its results."""

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
"""Hexadecimal digits that are kept of a hash: a run of a million questions has a pair alike once in 37 million."""

_BY_QUESTION = ("questions", "pools", "first_round")
"""What a description says of each question; of further ones it says more."""


class RunSpec(BaseModel):
    """All that can change the results of a run, frozen into its ``run.json``. Runs with equal ones are the same run.

    The pools are part of it from the moment they are frozen; until then ``pools`` and ``sources`` are empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    """The dataset's file name, for people."""
    dataset: str | None = None
    """The published format that the file was read as; None for our own."""
    task: str | None = None
    """The task of questions that name none, where one was asked for."""
    tasks: Mapping[str, str] = {}
    """Task -> its code and a fingerprint of what prompts say of it, of those that are not ours."""
    questions: Mapping[str, str]
    """Id -> hash of the question with all that is known of it, in order; see :func:`question_hash`."""
    sample_seed: int | None = None
    """What they were drawn with; None for the first ones."""
    variant: str
    protocol: Protocol
    prompts_sha256: Mapping[str, str]
    """Fingerprint of every prompt file."""
    models: Mapping[str, str]
    """Role -> name of the model that plays it. Where it is asked is no part of a run; see ``endpoints`` in run.json."""
    source_specs: Mapping[str, str | None]
    """Source name -> how it was asked for; None for the name's default, or a pool file."""
    sources: Mapping[str, str] = {}
    """Source name -> what served it when its pools were built, index fingerprint included."""
    pools: Mapping[str, str] = {}
    """Question id -> hash of its line in the pool file; empty without knowledge."""
    searched: Mapping[str, str] = {}
    """Source name -> what serves it when debaters search; empty where they may not."""
    first_round: Mapping[str, str] = {}
    """Question id -> hash of its first-round stances, where they came from outside."""
    answer_scorer: str | None = None
    """The command of the answer scorer."""
    seed: int | None = None
    """Sampling seed; None: the servers draw their own."""
    repeats: int = 1

    def differences(self, other: RunSpec) -> list[str]:
        """What differs, as ``field: mine, theirs``, shortened for one line; empty if nothing does.

        Questions that only one of them has are no difference: a run may be extended.
        """
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        for name in _BY_QUESTION:
            both = [id_ for id_ in mine[name] if id_ in theirs[name]]
            for record in (mine, theirs):
                record[name] = {id_: record[name][id_] for id_ in both}
        return list(_differences("", mine, theirs))

    def extended(self, before: RunSpec) -> RunSpec:
        """The same run with the questions of an earlier command, too."""
        both = {name: {**getattr(before, name), **getattr(self, name)} for name in _BY_QUESTION}
        return self.model_copy(update=both)

    @property
    def first_round_sha256(self) -> str | None:
        """Fingerprint of all first-round stances that came from outside."""
        return short_hash(json.dumps(dict(self.first_round), sort_keys=True).encode()) if self.first_round else None


def short_hash(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256."""
    return sha256(content).hexdigest()[:_HASH]


def question_hash(question: Question) -> str:
    """The hash of a question with all that is known of it, whatever format of file it came from."""
    known = {each.name: getattr(question, each.name) for each in fields(question)}
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
