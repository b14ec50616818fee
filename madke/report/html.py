"""Runs as one self-contained page: what was run, the scores, every debate. Everything inserted is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from madke.core.transcript import Transcript
from madke.engine.protocol import Knowledge
from madke.files import replacing
from madke.report.diagram import changed_settings
from madke.report.text import ORACLE, debate_text, interval, percent, score_details
from madke.runs.config import RunConfig
from madke.runs.directory import read_config, read_transcripts
from madke.scoring.rows import correct
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
    environment.filters["mark"] = _mark
    pieces = environment.get_template("report.html.j2").generate(runs=runs, oracle=ORACLE)
    with replacing(out) as file:
        file.writelines(piece.encode() for piece in pieces)


def _mark(transcript: Transcript) -> str:
    """Whether the answer was right, by the task's first metric; empty where nobody can tell."""
    value = correct(transcript)
    return "" if value is None else "right" if value == 1 else "wrong" if value == 0 else f"{100 * value:.0f} %"


def _settings(config: RunConfig) -> dict[str, str]:
    settings = {
        "data": f"{config.data}, {len(config.questions)} questions",
        "protocol": f"{config.variant} ({config.protocol.source})",
        "models": ", ".join(f"{role}: {model}" for role, model in config.models.items()),
        "knowledge": _knowledge(config.protocol.knowledge),
        "settings": changed_settings(config.protocol),
        "estimator": config.estimator or "",
        "first round": f"given from outside ({config.given_sha256[:12]})" if config.given_sha256 else "",
        "seed, repeats": f"{config.seed}, {config.repeats}",
    }
    return {name: value for name, value in settings.items() if value}


def _knowledge(knowledge: Knowledge | None) -> str:
    if knowledge is None:
        return "none"
    counts = ", ".join(f"{knowledge.count(source)} of {source}" for source in knowledge.sources)
    searches = ", debaters may search" if knowledge.requery else ""
    return f"{counts}; selection {knowledge.select}{searches}"
