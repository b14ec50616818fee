"""What is known of each published dataset: ``eval/datasets/NAME.yaml``, one card a format."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from madke.assets import asset
from madke.data.formats import FORMATS, get_format
from madke.yaml_file import read_yaml

_Text = Annotated[str, Field(min_length=1)]


class HuggingFace(BaseModel):
    """Where the dataset is on Hugging Face, as files that need no code of others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: _Text
    configs: tuple[_Text | None, ...] = (None,)
    """Read one after the other; None: the repository has only one."""
    split: _Text
    """The one that is read where none is named."""
    owner: bool
    """Whether the repository is the owner's, not a copy by others."""


class Card(BaseModel):
    """One dataset. What its questions are asked as is the format's ``task``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: _Text
    about: _Text
    """What is asked, in a sentence or two."""
    paper: _Text
    owner: _Text
    licence: _Text
    get: _Text
    """The owner's page, and which files of it."""
    files: _Text
    """What the reader takes, and where ids come from."""
    splits: Annotated[dict[str, Annotated[int, Field(gt=0)]], Field(min_length=1)]
    """Name -> questions."""
    scored: _Text
    """Which metrics, and what the literature reports."""
    faults: Annotated[tuple[_Text, ...], Field(min_length=1)]
    """What is known to be wrong with it, or easy to get wrong."""
    papers: tuple[_Text, ...] = ()
    """How the papers that this project follows used it."""
    knowledge: str | None = None
    """Where its evidence is."""
    hugging_face: HuggingFace | None = None


def card(name: str) -> Card:
    """The card of a dataset.

    Raises:
        UserError: There is no such dataset (the message suggests the nearest), or its card is wrong.
    """
    return read_yaml(asset("eval", "datasets", f"{get_format(name).name}.yaml"), Card)


def cards() -> dict[str, Card]:
    """Name -> card of every dataset.

    Raises:
        UserError: A card is missing or wrong.
    """
    return {name: card(name) for name in FORMATS}
