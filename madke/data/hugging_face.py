"""Published datasets from Hugging Face, by the package ``datasets``; code of others is never run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from madke.core.errors import UserError
from madke.data.cards import card
from madke.data.dataset import Entry, entries
from madke.data.formats import get_format
from madke.data.published_rows import Row


def read_hugging_face(
    dataset: str, *, split: str | None = None, copy: Path | None = None, task: str | None = None
) -> list[Entry]:
    """The entries of a split of the repository that the dataset's card names.

    Args:
        dataset: Its name (:data:`madke.data.formats.FORMATS`).
        split: By default the card's.
        copy: A folder with a copy of the repository, for machines without a network; by default it is downloaded, into
            the cache of ``datasets``.
        task: The answer format, in place of the dataset's.

    Raises:
        UserError: The card names no repository, ``datasets`` is not installed, the repository cannot be loaded, or one
            of its rows is wrong.
    """
    repository = card(dataset).hugging_face
    if repository is None:
        raise UserError(f"the card of {dataset} names no Hugging Face repository; `madke datasets show {dataset}`")
    if copy is not None and not copy.is_dir():
        raise UserError("is no folder; expected a copy of the Hugging Face repository", file=copy)
    source = repository.repository if copy is None else str(copy)
    part = split or repository.split
    rows = (row for config in repository.configs for row in _rows(source, config, part))
    return entries(get_format(dataset), rows, task=task, file=source)


def _rows(source: str, config: str | None, split: str) -> Iterator[Row]:
    try:
        import datasets
    except ImportError:
        raise UserError("Hugging Face datasets need a package that is missing: pip install 'madke[datasets]'") from None
    place = " ".join((source, *([config] if config else []), split))
    try:
        with _quiet():
            loaded = datasets.load_dataset(source, config, split=split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"cannot be loaded from Hugging Face: {why}", file=place) from None
    for number, fields in enumerate(loaded, start=1):
        yield Row(fields=fields, file=place, number=number)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars; and without a network the client warns of each try, twice, which the error says once."""
    import datasets
    from huggingface_hub import utils

    shown = [module for module in (datasets, utils) if not module.are_progress_bars_disabled()]
    client = logging.getLogger("huggingface_hub")
    before = client.level
    client.setLevel(logging.ERROR)
    for module in shown:
        module.disable_progress_bars()
    try:
        yield
    finally:
        client.setLevel(before)
        for module in shown:
            module.enable_progress_bars()
