"""Claims of papers that follow from their figures: a mean over figures of one arm, against that of another."""

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
    arm: str | tuple[str, ...]
    """Several: the best of them in each figure."""


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
    figures: Mapping[str, str | tuple[str, ...]] = Field(min_length=1)
    """Dataset -> metric, or several; all figures count the same."""

    def computed(self, values: Mapping[Place, float]) -> float | None:
        """The difference by these figures; None if one is missing."""
        means = []
        for side in (self.of, self.than):
            arms = _all(side.arm)
            found: list[float] = []
            for dataset, metrics in self.figures.items():
                for metric in _all(metrics):
                    held = [values.get((side.model, arm, dataset, metric)) for arm in arms]
                    known = [value for value in held if value is not None]
                    if len(known) < len(held):
                        return None
                    found.append(max(known))
            means.append(fmean(found))
        difference = means[0] - means[1]
        return difference / means[1] if self.relative else difference


def _all(named: str | tuple[str, ...]) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else named


class _File(BaseModel, extra="forbid", frozen=True):
    claims: tuple[DerivedClaim, ...]


def read_claims() -> tuple[DerivedClaim, ...]:
    """All claims of the papers, in the order of their file."""
    return read_yaml(asset("eval", "reproduction", "claims.yaml"), _File).claims
