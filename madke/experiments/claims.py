"""Claims of papers that follow from their figures: a mean over datasets of one arm, against that of another."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from pydantic import BaseModel, Field

from madke._util.assets import asset
from madke._util.yaml_file import read_yaml

Place = tuple[str, str, str, str]
"""(model, arm, dataset, metric)."""


class Side(BaseModel, extra="forbid", frozen=True):
    """One of the two arms of a claim."""

    model: str
    arm: str


class DerivedClaim(BaseModel, extra="forbid", frozen=True):
    """A difference that a paper states."""

    says: str
    """The claim, in our words."""
    source: str
    published: float
    """``of`` minus ``than``, in shares; with ``relative``, as a part of ``than``."""
    relative: bool = False
    of: Side
    than: Side
    figures: Mapping[str, str] = Field(min_length=1)
    """Dataset -> metric; the datasets' means count the same."""

    def computed(self, values: Mapping[Place, float]) -> float | None:
        """The difference by these figures; None if one is missing."""
        means = []
        for side in (self.of, self.than):
            held = [values.get((side.model, side.arm, dataset, metric)) for dataset, metric in self.figures.items()]
            found = [value for value in held if value is not None]
            if len(found) < len(held):
                return None
            means.append(fmean(found))
        difference = means[0] - means[1]
        return difference / means[1] if self.relative else difference


class _File(BaseModel, extra="forbid", frozen=True):
    claims: tuple[DerivedClaim, ...]


def read_claims() -> tuple[DerivedClaim, ...]:
    """All claims of the papers, in the order of their file."""
    return read_yaml(asset("eval", "reproduction", "claims.yaml"), _File).claims
