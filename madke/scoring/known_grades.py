"""Grades that were paid for: a prompt that one arm has asked is not asked again for another arm or run."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from madke.core.chat import Message

GRADES = "grades.sqlite"

Known = dict[tuple[str, str], bool]
"""(grader, :func:`prompt_key`) -> whether the answer is right."""


def prompt_key(messages: Sequence[Message]) -> str:
    """A hash of a prompt."""
    return sha256("\0".join(f"{each.role}\0{each.content}" for each in messages).encode()).hexdigest()


def grade_stores(stores: Iterable[Path]) -> list[Path]:
    """The existing ones of these stores, and those of all other arms of their experiments."""
    found: dict[Path, None] = {}
    for store in stores:
        found[store] = None
        arms = store.parent.parent
        if arms.name == "arms" and (arms.parent / "experiment.json").is_file():
            found |= dict.fromkeys(sorted(arms.glob(f"*/{GRADES}")))
    return [store for store in found if store.is_file()]
