"""What a run is: everything that can change its results, frozen into ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ConfigDict

from madke.core.question import Question
from madke.engine.protocol import Protocol


class RunConfig(BaseModel):
    """A run's configuration. Two runs with equal ones are the same run; concurrency and retries do not count."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    """The dataset's file name, for people."""
    data_sha256: str
    """Of the questions as they were read, see :func:`questions_sha256`."""
    dataset: str | None = None
    """The published form that the file was read as; None for our own."""
    task: str | None = None
    """The task of lines that name none, where one was asked for."""
    questions: tuple[str, ...]
    """Ids, in order, after ``--limit``."""
    sample_seed: int | None = None
    """What they were drawn with; None for the first ones."""
    variant: str
    protocol: Protocol
    prompts_sha256: Mapping[str, str]
    """Fingerprint of every prompt file."""
    models: Mapping[str, str]
    """Role -> name of the model that plays it, endpoint included."""
    sources: Mapping[str, str]
    """Source name -> what served it when its pools were built, index fingerprint included."""
    source_specs: Mapping[str, str | None]
    """Source name -> how it was asked for on the command line; None for the name's default, or a pool file."""
    pools_sha256: str | None
    """Fingerprint of the pool file; None without knowledge."""
    searched: Mapping[str, str] = {}
    """Source name -> what serves it when debaters search; empty where they may not."""
    given_sha256: str | None = None
    """Fingerprint of the first-round stances that came from outside."""
    estimator: str | None = None
    """The command of the quality estimator."""
    seed: int | None
    repeats: int

    def differences(self, other: RunConfig) -> list[str]:
        """What differs, as ``field: mine, theirs``, shortened for one line; empty if nothing does."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        return list(_differences("", mine, theirs))


def questions_sha256(questions: Sequence[Question]) -> str:
    """SHA-256 of questions with all that is known of them, whatever form of file they came from."""
    names = [field.name for field in fields(Question)]
    lines = (json.dumps({name: getattr(question, name) for name in names}, sort_keys=True) for question in questions)
    return sha256("\n".join(lines).encode()).hexdigest()


def _differences(path: str, mine: Any, theirs: Any) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            yield from _differences(f"{path}.{key}" if path else key, mine.get(key), theirs.get(key))
    elif mine != theirs:
        yield f"{path}: {_short(mine)}, not {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
