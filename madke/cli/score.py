"""``madke score``: scores of runs and of predictions from elsewhere, computed anew from the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import arms, options
from madke.cli.outputs import question_files, refuse_overwriting
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.runs.external import CommandScorer
    from madke.runs.grades import Grader
    from madke.runs.meter import Meter
    from madke.runs.results import Results
    from madke.scoring.scores import Scores

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_CONCURRENCY = 16


def command(
    paths: arms.Paths,
    data: arms.Data = None,
    dataset: options.Dataset = None,
    task: options.Task = None,
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
            help="Also what the table leaves out: calls and tokens by stage, cost, and how much of the prompts is a "
            "shared prefix.",
        ),
    ] = False,
    prices: options.Prices = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Count the shared prefix in tokens of this tokenizer (of Hugging Face, or a tokenizer.json), not in "
            "characters. hf/ models have their own.",
        ),
    ] = None,
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
    from madke.files import replacing
    from madke.llm.prices import read_prices
    from madke.report.answers import write_answers
    from madke.report.details import score_details
    from madke.report.table_files import write_table
    from madke.report.tables import score_table_by_dataset, score_table_of
    from madke.report.text import of_dataset, score_table
    from madke.runs.scored import require_answers, score_outside, score_run, scores_by_dataset, scores_of
    from madke.scoring.scores import scores_to_json

    for path in tables or ():
        _check_ending(path, ".csv", ".parquet", ".tex")
    if predictions is not None:
        _check_ending(predictions, ".jsonl", ".csv", ".parquet")
    scorers = _scorers(scorer or ())
    written = {"--out": out, "--predictions": predictions}
    written |= {f"--tables {n}": path for n, path in enumerate(tables or (), start=1)}
    script = grader.removeprefix("scripted/") if grader and grader.startswith("scripted/") else None
    named = [Path(name) for name in (tokenizer, script) if name]
    refuse_overwriting(written, [*paths, *question_files(data), prices, *named], own="metrics.json")
    priced = read_prices(prices) if prices else {}
    found = arms.open_arms(paths, data, dataset, task)
    if out is not None and len(found) > 1:
        raise UserError(f"--out is for the scores of one PATH, found {len(found)}; --json prints them all")
    who = _grader(grader, base_url, concurrency)
    if scorers:
        require_answers(found)
    if who:
        require_answers(found, references=True)
    for arm in found if scorers else ():
        score_outside(arm, scorers)
    failed = sum(_graded(arm, who) for arm in found) if who else 0
    scored = [
        (arm, scores_of(arm) if arm.path.is_file() else score_run(arm.path, prices=priced, tokenizer=tokenizer))
        for arm in found
    ]
    if out is not None:
        with replacing(out) as file:
            file.write(scores_to_json(scored[0][1]))
    apart = {arm.name: scores_by_dataset(arm) for arm in found} if by_dataset else {}
    if tables:
        whole = {arm.name: scores for arm, scores in scored}
        table = score_table_by_dataset(found, apart) if by_dataset else score_table_of(found, whole)
        for path in tables:
            write_table(table, path)
    if predictions is not None:
        write_answers(found, predictions)
    if as_json:
        for arm, scores in scored:
            text = _by_name(apart[arm.name]) if by_dataset else scores_to_json(scores, indent=None).decode()
            say_json(text, end="")
    else:
        rows = [(arm.name, scores) for arm, scores in scored]
        if by_dataset:
            rows = [
                (of_dataset(arm, dataset), scores) for arm, each in apart.items() for dataset, scores in each.items()
            ]
        console().print(score_table(rows))
        for arm, scores in scored if details else ():
            say(f"{arm.path}\n{score_details(scores)}\n")
    if failed:
        say(f"madke: {failed} answers have no grade; the same command again asks for them", err=True)
        raise typer.Exit(1)


def _by_name(scores: Mapping[str, Scores]) -> str:
    import json

    from madke.scoring.scores import scores_to_json

    found = {name: json.loads(scores_to_json(each)) for name, each in scores.items()}
    return json.dumps(found, ensure_ascii=False) + "\n"


def _check_ending(path: Path, *endings: str) -> None:
    """Refuse a file that could not be written before a grader is paid for."""
    if path.suffix not in endings:
        raise UserError(f"expected a file that ends in {' or '.join(endings)}", file=path)


def _graded(arm: Results, grader: Grader) -> int:
    """Grade an arm's answers; how many have no grade because their calls failed."""
    from madke.cli.console import resumable
    from madke.cli.progress import showing
    from madke.runs.grades import grade_results

    def line(meter: Meter) -> str:
        return (
            f"graded: {meter.done:,}/{meter.total:,} answers, {meter.calls_per_second:.1f} calls/s, "
            f"{meter.tokens:,} tokens, {meter.retries} retries, {meter.failed_calls} calls failed"
        )

    with resumable():
        return grade_results(arm, grader, watch=lambda meter: showing(lambda: line(meter)))


def _grader(model: str | None, base_url: str | None, concurrency: int | None) -> Grader | None:
    from madke.runs.grades import Grader

    if model is None:
        if base_url is not None or concurrency is not None:
            option = "--base-url" if base_url is not None else "--concurrency"
            raise UserError(f"{option} is for a grader; name its model with --grader")
        return None
    return Grader(model=model, base_url=base_url, concurrency=concurrency or _CONCURRENCY)


def _scorers(texts: Sequence[str]) -> dict[str, CommandScorer]:
    """Name -> scorer, from ``--scorer NAME=COMMAND``."""
    from madke.runs.external import CommandScorer
    from madke.scoring.metrics import METRICS
    from madke.scoring.rows import GRADER

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
