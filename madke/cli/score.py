"""``madke score``: scores of runs and of predictions from elsewhere, computed anew from the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import flags
from madke.cli.paths import Data, Paths, open_arms, question_files, refuse_overwriting
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.command_scorer import CommandScorer
    from madke.runs.meter import Meter
    from madke.scoring.arms import Results
    from madke.scoring.grading import Grader
    from madke.scoring.scores import Scores

    ByName = Mapping[str, Scores]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_CONCURRENCY = 16
_TABLES, _ANSWERS = (".csv", ".parquet", ".tex"), (".jsonl", ".csv", ".parquet")


def command(
    paths: Paths,
    data: Data = None,
    dataset: flags.Dataset = None,
    task: flags.Task = None,
    grader: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also have a model grade each answer against the references, as `madke run --model` names it. Its "
            "calls are kept (grades.sqlite) and not made again; its grades stand beside the scores of --scorer.",
        ),
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of an openai/ or azure/ grader.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help=f"The grader's calls under way at once. Default: {_CONCURRENCY}.")
    ] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="Also score the answers by a command that gets a JSON object a line (source, candidate, references) "
            "and answers each with a number: COMET, BLEURT. Kept in external.json. Repeatable.",
        ),
    ] = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also what the table leaves out: calls and tokens by stage (those that the provider had cached, too), "
            "and cost.",
        ),
    ] = False,
    prices: flags.Prices = None,
    by_dataset: Annotated[
        bool,
        typer.Option(
            "--by-dataset",
            help="A row of the table, and of --tables, for each dataset that the questions come from; with --json each "
            "PATH's object holds theirs by name.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the scores of one PATH here too, in the form of a run's metrics.json.")
    ] = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Write the score table, with marks against the first PATH, as .csv, .parquet, or .tex, which has the "
            "columns that fit a paper. Repeatable.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every answer with its question, as .jsonl, .csv or .parquet."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON, one object a PATH.")] = False,
) -> None:
    """Compute scores from transcripts or predictions and print them; a run's are written to its metrics.json too.

    What --grader and --scorer say is kept in a run's directory, or beside a file of predictions, under its name.

    Exit status: 0 done, 1 calls of the grader failed, 2 bad input, 130 interrupted.
    """
    from madke.files import atomic_write
    from madke.llm.prices import read_prices
    from madke.report.score_tables import score_table_by_dataset, score_table_of
    from madke.report.tables import write_answers, write_table
    from madke.scoring.scored import score_run, scores_by_dataset
    from madke.scoring.scores import scores_to_json

    _check_endings(tables or (), _TABLES)
    _check_endings([predictions] if predictions else (), _ANSWERS)
    commands = _scorers(scorer or ())
    written = {"--out": out, "--predictions": predictions}
    written |= {f"--tables {n}": path for n, path in enumerate(tables or (), start=1)}
    script = Path(grader.removeprefix("scripted/")) if grader and grader.startswith("scripted/") else None
    refuse_overwriting(written, [*paths, *question_files(data), prices, script], own="metrics.json")
    priced = read_prices(prices) if prices else {}
    arms = open_arms(paths, data, dataset, task)
    if out is not None and len(arms) > 1:
        raise UserError(f"--out is for the scores of one PATH, found {len(arms)}; --json prints them all")
    failed = _ask_outside(arms, _grader(grader, base_url, concurrency), commands)
    scores = {arm.name: score_run(arm, prices=priced) for arm in arms}
    apart = {arm.name: scores_by_dataset(arm) for arm in arms} if by_dataset else {}
    if out is not None:
        with atomic_write(out) as file:
            file.write(scores_to_json(scores[arms[0].name]))
    if tables:
        table = score_table_by_dataset(arms, apart) if apart else score_table_of(arms, scores)
        for path in tables:
            write_table(table, path)
    if predictions is not None:
        write_answers(arms, predictions)
    if as_json:
        _show_json(scores, apart)
    else:
        _show(arms, scores, apart, details=details)
    if failed:
        say(f"madke: {failed} answers have no grade; the same command again asks for them", err=True)
        raise typer.Exit(1)


def _check_endings(files: Sequence[Path], endings: Sequence[str]) -> None:
    """Refuse a file that could not be written before a grader is paid for."""
    for path in files:
        if path.suffix not in endings:
            raise UserError(f"expected a file that ends in {' or '.join(endings)}", file=path)


def _show_json(scores: ByName, apart: Mapping[str, ByName]) -> None:
    from madke.scoring.scores import scores_to_json

    for name, found in scores.items():
        if apart:
            by_name = {dataset: json.loads(scores_to_json(each)) for dataset, each in apart[name].items()}
            say_json(json.dumps(by_name, ensure_ascii=False))
        else:
            say_json(scores_to_json(found, indent=None).decode(), end="")


def _show(arms: Sequence[Results], scores: ByName, apart: Mapping[str, ByName], *, details: bool) -> None:
    from madke.report.score_tables import of_dataset, score_details, score_table

    rows = [(of_dataset(arm, dataset), found) for arm, each in apart.items() for dataset, found in each.items()]
    console().print(score_table(rows or list(scores.items())))
    for arm in arms if details else ():
        say(f"{arm.path}\n{score_details(scores[arm.name])}\n")


def _ask_outside(arms: Sequence[Results], grader: Grader | None, commands: Mapping[str, CommandScorer]) -> int:
    """Let scorers and the grader judge; how many answers have no grade because their calls failed."""
    from madke.cli.progress import counts, resumable, showing
    from madke.scoring.scored import ask_outside

    def line(meter: Meter) -> str:
        return f"graded: {meter.done:,}/{meter.total:,} answers, {counts(meter.progress())}"

    with resumable():
        return ask_outside(arms, grader, commands, watch=lambda meter: showing(lambda: line(meter)))


def _grader(model: str | None, base_url: str | None, concurrency: int | None) -> Grader | None:
    from madke.scoring.grading import Grader

    if model is None:
        if base_url is not None or concurrency is not None:
            option = "--base-url" if base_url is not None else "--concurrency"
            raise UserError(f"{option} is for a grader; name its model with --grader")
        return None
    return Grader(model=model, base_url=base_url, concurrency=concurrency or _CONCURRENCY)


def _scorers(texts: Sequence[str]) -> dict[str, CommandScorer]:
    """Name -> scorer, from ``--scorer NAME=COMMAND``."""
    from madke.command_scorer import CommandScorer
    from madke.scoring.debate_rows import GRADER
    from madke.scoring.metrics import METRICS

    scorers: dict[str, CommandScorer] = {}
    for text in texts:
        name, equals, line = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UserError(
                f"--scorer {text!r}: expected NAME=COMMAND, the name of letters, digits and . _ -, for instance "
                "--scorer comet='comet-env/bin/python comet_scorer.py'"
            )
        if name.lower() in (*METRICS, GRADER, "correct") or name.lower().startswith(("cons_", "co2_")):
            raise UserError(f"--scorer {text!r}: {name} is a metric of madke's own; choose another name")
        if name in scorers:
            raise UserError(f"--scorer {text!r}: {name} is given twice; expected a name for each scorer")
        scorers[name] = CommandScorer(line)
    return scorers
