"""Figures for report pages and papers, drawn by matplotlib, which is imported on demand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from madke._util.files import write_file
from madke.report.figures import by_arm, by_setting, by_step
from madke.report.figures.canvas import Drawing, ImageFormat, arms_of, file_bytes, page_svg, style
from madke.scoring.arms import ArmValues, Results
from madke.scoring.scores import Scores
from madke.scoring.value_units import GRADER

__all__ = ["Drawing", "ImageFormat", "available", "draw", "page_svg", "write_figures"]


_FIGURES = (
    by_arm.accuracy_by_tokens,
    by_arm.accuracy_by_output_tokens,
    by_arm.accuracy_by_calls,
    by_step.gain_by_step,
    by_setting.source_ablation,
    by_setting.selection_ablation,
    by_setting.size_curves,
    by_setting.agents_curves,
    by_setting.rounds_curves,
    by_setting.stances_curves,
    by_arm.agreement_by_round,
    by_arm.disagreement_by_round,
    by_arm.minds_changed,
    by_arm.flips,
    by_arm.tokens_by_stage,
)
"""In the order of the page."""


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


_BY_GRADER = frozenset(
    {
        by_arm.accuracy_by_tokens,
        by_arm.accuracy_by_output_tokens,
        by_arm.accuracy_by_calls,
        by_setting.source_ablation,
        by_setting.selection_ablation,
        by_setting.size_curves,
        by_setting.agents_curves,
        by_setting.rounds_curves,
    }
)
"""The figures that Wang et al. draw with the GPT-4 score: the grader decides what is right, if it graded all arms."""


def draw(results: Sequence[Results], scores: Mapping[str, Scores], values: Sequence[ArmValues]) -> list[Drawing]:
    """All figures that the arms have data for, in order; needs matplotlib."""
    arms = arms_of(results, scores, values)
    graded = [replace(arm, scores=_by_grader(arm.scores)) for arm in arms if GRADER in arm.scores.metrics]
    drawings = []
    with style():
        for figure in _FIGURES:
            by_grader = figure in _BY_GRADER and len(graded) == len(arms)
            if (drawing := figure(graded if by_grader else arms)) is not None:
                note = " The grader says which answers are right." if by_grader else ""
                drawings.append(replace(drawing, caption=drawing.caption + note))
    return drawings


def _by_grader(scores: Scores) -> Scores:
    return replace(
        scores,
        correct=scores.metrics[GRADER],
        co2_judge=scores.co2_judge_grader,
        co2_matcher=scores.co2_matcher_grader,
    )


def write_figures(drawings: Sequence[Drawing], folder: Path, format: ImageFormat = "pdf") -> list[Path]:
    """Write each figure as a file ``NAME.FORMAT`` for papers, deterministically, after all are converted.

    ``pdf`` embeds fonts, ``svg`` has text as text, ``png`` has a white background. Returns the files in the order of
    the figures. UserError if the folder cannot be written.
    """
    files = {folder / f"{one.name}.{format}": file_bytes(one, format) for one in drawings}
    for path, data in files.items():
        write_file(path, data)
    return list(files)
