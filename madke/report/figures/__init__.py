"""Figures for report pages and papers, drawn by matplotlib, which is imported on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from madke.assets import install
from madke.core.errors import UserError
from madke.files import atomic_write
from madke.report.figures import by_arm, by_setting
from madke.report.figures.canvas import Drawing, DrawnArm, Format, arms_of, file_bytes, page_svg, style
from madke.scoring.arms import ArmValues, Results, read_arm
from madke.scoring.scores import Scores

__all__ = ["Figure", "Format", "available", "draw", "write_figures"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A figure for a page. The caption is plain text that must be escaped."""

    name: str
    """Unique on the page, of lower-case letters and hyphens."""
    title: str
    caption: str
    svg: str
    """An ``<svg>`` element with unique ids that takes width, text colour and font from its container."""


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues] = ()) -> list[Figure]:
    """All figures that the arms have data for, in order. UserError if matplotlib is not installed.

    ``values``: those of the arms, if the caller has them already.
    """
    with _drawings(results, scores, values or _values(results)) as drawings:
        return [Figure(name=one.name, title=one.title, caption=one.caption, svg=page_svg(one)) for one in drawings]


def write_figures(
    results: Sequence[Results], scores: Mapping[str, Scores], folder: Path, format: Format = "pdf"
) -> list[Path]:
    """Write each figure as a file ``NAME.FORMAT`` for papers, deterministically, after all are drawn.

    ``pdf`` embeds fonts, ``svg`` has text as text, ``png`` has a white background. Returns the files in the order of
    :func:`draw`. UserError if matplotlib is not installed or the folder cannot be written.
    """
    with _drawings(results, scores, _values(results)) as drawings:
        files = {folder / f"{one.name}.{format}": file_bytes(one, format) for one in drawings}
    for path, data in files.items():
        with atomic_write(path) as file:
            file.write(data)
    return list(files)


def _values(results: Sequence[Results]) -> list[ArmValues]:
    return [read_arm(one.name, one.transcripts()) for one in results]


@contextmanager
def _drawings(
    results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues]
) -> Iterator[list[Drawing]]:
    if not available():
        raise UserError(f"figures need matplotlib: {install('report')}")
    arms = arms_of(results, scores)
    tallies = {arm.name: by_arm.tally(arm) for arm in values}
    with style():
        yield [drawing for drawing in _all(arms, tallies) if drawing is not None]


def _all(arms: Sequence[DrawnArm], tallies: Mapping[str, by_arm.Tally]) -> Iterator[Drawing | None]:
    yield by_arm.accuracy_by_tokens(arms)
    yield by_arm.accuracy_by_calls(arms)
    yield by_setting.source_ablation(arms)
    yield by_setting.selection_ablation(arms)
    yield by_setting.agents_curves(arms)
    yield by_setting.rounds_curves(arms)
    yield by_arm.agreement_by_round(arms)
    yield by_arm.disagreement_by_round(arms)
    yield by_arm.flips(arms, tallies)
    yield by_arm.accuracy_by_repeat(arms, tallies)
    yield by_arm.tokens_by_stage(arms)
