"""Dataset cards (``eval/datasets/NAME.yaml``), and questions from the Hugging Face repositories that they name."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from madke._util.assets import asset, require
from madke._util.yaml_file import read_yaml
from madke.core.errors import UserError, unknown
from madke.data.dataset import DatasetEntry, entries
from madke.data.formats import FORMATS
from madke.data.rows import Row

_Text = Annotated[str, Field(min_length=1)]


class HuggingFace(BaseModel, extra="forbid", frozen=True):
    """Where the dataset is on Hugging Face, as files that need no remote code."""

    repository: _Text
    configs: tuple[_Text | None, ...] = (None,)
    """Configurations to read, in order; None: the repository has only one."""
    split: _Text
    owner: bool
    """Whether the repository is the owner's and not a copy."""


class Card(BaseModel, extra="forbid", frozen=True):
    """One dataset. Its task is the ``task`` of its format."""

    title: _Text
    about: _Text
    paper: _Text
    owner: _Text
    licence: _Text
    get: _Text
    """The owner's page, and which files to download."""
    files: _Text
    """The files that the reader accepts, and the origin of ids."""
    splits: Annotated[dict[str, Annotated[int, Field(gt=0)]], Field(min_length=1)]
    """Name -> number of questions."""
    scored: _Text
    """The metrics, and what the literature reports."""
    faults: Annotated[tuple[_Text, ...], Field(min_length=1)]
    """Known errors of the dataset and common mistakes in its use."""
    papers: tuple[_Text, ...] = ()
    """How the papers that this project follows used it."""
    knowledge: str | None = None
    """Where the evidence for its answers is."""
    hugging_face: HuggingFace | None = None


def card(name: str) -> Card:
    """The card of a dataset; for an unknown name, UserError with the closest name."""
    if name not in FORMATS:
        raise unknown("dataset", name, FORMATS)
    return read_yaml(asset("eval", "datasets", f"{name}.yaml"), Card)


def cards() -> dict[str, Card]:
    """Name -> card of every dataset."""
    return {name: card(name) for name in FORMATS}


def read_hugging_face(
    dataset: str, *, split: str | None = None, copy: Path | None = None, task: str | None = None
) -> list[DatasetEntry]:
    """Read a split (default: the card's) of the repository that the dataset's card names; remote code is never run.

    ``copy`` is a folder with a copy of the repository; default: download it to the cache of ``datasets``.
    """
    repository = card(dataset).hugging_face
    if repository is None:
        raise UserError(f"the card of {dataset} names no Hugging Face repository; `madke datasets show {dataset}`")
    if copy is not None and not copy.is_dir():
        raise UserError("no such folder; expected a copy of the Hugging Face repository", file=copy)
    source = repository.repository if copy is None else str(copy)
    rows = (row for config in repository.configs for row in _rows(source, config, split or repository.split))
    return entries(FORMATS[dataset], rows, task=task, file=source)


def _rows(source: str, config: str | None, split: str) -> Iterator[Row]:
    require("Hugging Face datasets need the package", "datasets", "datasets")
    import datasets

    place = " ".join((source, *([config] if config else []), split))
    datasets.disable_progress_bars()
    # Without a network the client logs two warnings per attempt; the error below is enough.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        loaded = datasets.load_dataset(source, config, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"cannot be loaded from Hugging Face: {why}", file=place) from None
    for number, fields in enumerate(loaded, start=1):
        yield Row(fields=fields, file=place, number=number)
