"""The scores of a run directory."""

from __future__ import annotations

from pathlib import Path

from madke.files import replacing
from madke.runs.directory import read_transcripts
from madke.scoring.scores import Scores, score, scores_to_json


def score_run(directory: Path) -> Scores:
    """Score a run from its transcripts and write its ``metrics.json``.

    Raises:
        UserError: The directory is no run, or cannot be written to.
    """
    scores = score(read_transcripts(directory))
    with replacing(directory / "metrics.json") as file:
        file.write(scores_to_json(scores))
    return scores
