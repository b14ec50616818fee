"""Published datasets by name, each read as its owner ships it; and the readers of plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from madke.core.errors import unknown
from madke.core.question import Question
from madke.core.registry import Registry
from madke.data.exams import EXAMS
from madke.data.open_answers import OPEN_ANSWERS
from madke.data.published_rows import Format

FORMATS = {format_.name: format_ for format_ in (*OPEN_ANSWERS, *EXAMS)}
"""Name -> format of every dataset of ours; each has a card in ``eval/datasets/``."""

DatasetReader = Callable[[Path], Iterable[Question]]
"""Somebody's reader: the questions of a file."""

READERS: Registry[Format | DatasetReader] = Registry(
    "dataset",
    FORMATS,
    "madke.datasets",
    check=lambda value: None if callable(value) else f"is {type(value).__name__}; expected a function of a path",
)
"""What ``--dataset`` takes: our formats, the readers of plugins, and ``module:object``."""


def get_format(name: str) -> Format:
    """The format of a dataset of ours.

    Raises:
        UserError: There is none; the message suggests the nearest name.
    """
    if name not in FORMATS:
        raise unknown("dataset", name, FORMATS)
    return FORMATS[name]
