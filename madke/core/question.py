"""The question record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One question (or claim) of a dataset."""

    id: str = ""
    """Unique within its dataset. If empty, :func:`madke.run` and :func:`madke.ask` make one from the text."""
    question: str
    """The text; also the retrieval query, verbatim."""
    answers: tuple[str, ...] = ()
    """Gold answer first, then its aliases. For a ``choice``: letters. Empty when unknown."""
    task: str = "short_answer"
    """The answer format, a key of :data:`madke.tasks.TASKS`."""
    choices: tuple[str, ...] = ()
    """The options of a ``choice``, without letters, in order A, B, C, ..."""
    instructions: str = ""
    """Instructions of the person who asks, on the form of the answer. Debaters and summarizer read them."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the dataset. Scoring reads ``dataset``."""
