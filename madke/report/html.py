"""Runs as one self-contained page: what was run, the scores, every debate. Everything inserted is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from madke.core.transcript import Transcript
from madke.files import replacing
from madke.report.text import debate_text, interval, percent, score_details
from madke.runs.config import RunConfig
from madke.runs.directory import read_config, read_transcripts
from madke.scoring.scores import Scores
from madke.terminal import printable


@dataclass(frozen=True, kw_only=True, slots=True)
class _ReportedRun:
    name: str
    settings: Mapping[str, str]
    scores: Scores
    transcripts: Iterable[Transcript]


def write_report(scores: Mapping[Path, Scores], out: Path) -> None:
    """Write one page about some runs, given the scores of each run directory.

    The page is written piece by piece: a large run is never held in memory as a whole.

    Raises:
        UserError: One of the directories is no run, or the page cannot be written.
    """
    runs = [
        _ReportedRun(
            name=str(directory),
            scores=scored,
            settings=_settings(read_config(directory)),
            transcripts=read_transcripts(directory),
        )
        for directory, scored in scores.items()
    ]
    environment = Environment(
        loader=PackageLoader("madke.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(printable=printable, debate_text=debate_text, percent=percent, interval=interval)
    environment.filters["details"] = score_details
    pieces = environment.get_template("report.html.j2").generate(runs=runs)
    with replacing(out) as file:
        file.writelines(piece.encode() for piece in pieces)


def _settings(config: RunConfig) -> dict[str, str]:
    knowledge = config.protocol.knowledge
    return {
        "data": f"{config.data}, {len(config.questions)} questions",
        "protocol": f"{config.variant} ({config.protocol.source})",
        "models": ", ".join(f"{role}: {model}" for role, model in config.models.items()),
        "knowledge": "none"
        if knowledge is None
        else f"{' + '.join(knowledge.sources)}, {knowledge.per_source} of each, selection {knowledge.select}",
        "seed, repeats": f"{config.seed}, {config.repeats}",
    }
