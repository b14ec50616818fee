"""Indexes that others publish: where they are, how large, and what opens them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from madke.assets import asset
from madke.core.errors import unknown
from madke.yaml_file import read_yaml


class Published(BaseModel):
    """One published index in a format of pyserini's: a gzipped tar archive of its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lucene", "faiss"]
    about: str
    """What it is, in a line."""
    url: Annotated[str, Field(pattern=r"^https?://")]
    checksum: Annotated[str, Field(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]
    """Of the archive."""
    size: Annotated[int, Field(gt=0)]
    """Bytes of the archive."""
    unpacked: Annotated[int, Field(gt=0)]
    """Bytes on disk once it is unpacked, or somewhat more."""
    documents: Annotated[int, Field(gt=0)]
    encoder: str | None = None
    """faiss: what encodes the queries."""
    texts: str | None = None
    """faiss: the index that holds the passages' texts, by name."""

    @model_validator(mode="after")
    def _check(self) -> Published:
        complete = self.encoder is not None and self.texts is not None
        if self.kind == "faiss" and not complete:
            raise ValueError("kind faiss needs encoder and texts")
        if self.kind == "lucene" and (self.encoder or self.texts):
            raise ValueError("kind lucene has its own texts and no encoder")
        return self


# A name becomes that of a folder.
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Recipes(RootModel[dict[_Name, Published]]):
    pass


def published_indexes(recipes: Path | None = None) -> dict[str, Published]:
    """Name -> published index, of a file like ``indexes/published.yaml``, by default that one.

    Raises:
        UserError: The file is missing or wrong.
    """
    return read_yaml(recipes or asset("indexes", "published.yaml"), _Recipes).root


def published_index(name: str, recipes: Path | None = None) -> Published:
    """The published index of that name.

    Raises:
        UserError: There is none, or the file is missing or wrong.
    """
    known = published_indexes(recipes)
    if name not in known:
        raise unknown("published index", name, known)
    return known[name]
