"""``madke report``: a page, figures and tables of runs, or one debate as text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from madke._util.assets import require
from madke._util.terminal import output_width, say
from madke.cli import flags
from madke.cli.flags import OUTPUT, open_arms, option, refuse_overwriting
from madke.core.errors import UserError
from madke.runs.directory import question_files

if TYPE_CHECKING:
    from madke.report.tables import Table
    from madke.scoring.arms import Results


class TableForm(StrEnum):
    """Forms of table files."""

    csv = "csv"
    tex = "tex"


EPILOG = flags.epilog(flags.PREDICTION_FILES, flags.TASK_NAMES, "docs/extend.md explains the columns of --answers.")


def command(
    paths: flags.Paths,
    question: Annotated[str | None, option("Only print this question's debates as text.", "ID")] = None,
    trec: Annotated[
        Path | None, option("Only write pools as TREC runs, gold passages as qrels.", "FOLDER", OUTPUT)
    ] = None,
    inspect: Annotated[
        Path | None, option("Only write logs of Inspect AI, one for each run.", "FOLDER", OUTPUT)
    ] = None,
    out: Annotated[Path | None, option("Page. Default: report.html in the first PATH.", "FILE")] = None,
    figures: Annotated[
        Literal["pdf", "svg", "png"] | None, option("Also write figures/ next to the page.", panel=OUTPUT)
    ] = None,
    tables: Annotated[
        list[TableForm] | None,
        option("Also write tables/ next to the page, in this form. Repeatable.", panel=OUTPUT),
    ] = None,
    answers: Annotated[Path | None, option("Also write all answers: .jsonl or .parquet.", "FILE", OUTPUT)] = None,
    data: flags.DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    corrections: flags.CorrectionsOption = None,
) -> None:
    """Write one self-contained HTML page: settings, scores, tests, figures and all debates.

    Examples:
      madke report runs/first runs/second --out comparison.html
      madke report runs/first --question q-7
      madke report runs/first runs/second --trec trec --inspect logs
    """
    exports = trec or inspect
    if (exports or question is not None) and any((out, figures, tables, answers)):
        why = "an export writes no page" if exports else "--question writes no files"
        raise UserError(f"{why}; leave out --out, --figures, --tables and --answers")
    if exports:
        _export(open_arms(paths, data, dataset, task, columns=columns), paths, trec, inspect)
        return
    if question is not None:
        _show_debates(open_arms(paths, data, dataset, task, columns=columns), question)
        return
    from madke.report.export import ANSWER_FILES, write_answers
    from madke.report.figures import write_figures
    from madke.report.html import write_report
    from madke.report.tables import check_ending, write_table

    if figures is not None:
        require("figures need", "report", "matplotlib")
    folder = paths[0].parent if paths[0].is_file() else paths[0]
    if out is None and folder.exists() and not os.access(folder, os.W_OK):
        raise UserError("is read-only; give the page another place: --out FILE", file=folder)
    page = out or folder / "report.html"
    written = {"the page" if out is None else "--out": page, "--answers": answers}
    names = ["scores", "stages", "datasets", "tests", "tests_by_dataset", "published"]
    forms = tables or ()
    paths_of_tables = [page.parent / "tables" / f"{name}.{form}" for name in names for form in forms]
    written |= {f"--tables {path.name}": path for path in paths_of_tables}
    written |= {f"--figures {path.name}": path for path in (page.parent / "figures").glob(f"*.{figures}")}
    refuse_overwriting(written, [*paths, *question_files(data)], own="report.html")
    if answers is not None:
        check_ending(answers, ANSWER_FILES)
    results = open_arms(paths, data, dataset, task, corrections, columns=columns)
    title, source, extra = _experiment(paths)
    own, drawn, _ = write_report(results, page, title=title, source=source, tables=[*extra.values()])
    say(f"report: {page}")
    for path in write_figures(drawn, page.parent / "figures", figures) if figures else ():
        say(f"figure: {path}")
    for name, table in (own | extra).items():
        for form in forms:
            path = page.parent / "tables" / f"{name}.{form}"
            write_table(table, path)
            say(f"table: {path}")
    if answers is not None:
        write_answers(results, answers)
        say(f"answers: {answers}")


def _experiment(paths: Sequence[Path]) -> tuple[str | None, str | None, dict[str, Table]]:
    """Title, source and the table of published figures by its file name, if an experiment is the only path."""
    from madke.experiments.experiment import is_experiment, read_experiment
    from madke.report.reproduction import figures, published_table

    if len(paths) > 1 or not is_experiment(paths[0]):
        return None, None, {}
    recipe, folders = read_experiment(paths[0])
    table = published_table(recipe, figures(recipe, folders))
    return recipe.title, recipe.source, {"published": table} if table else {}


def _export(arms: Sequence[Results], paths: Sequence[Path], trec: Path | None, inspect: Path | None) -> None:
    """Write runs in the formats of other tools."""
    from madke.report.export import LOG, QRELS, RUN, file_name, write_inspect, write_trec

    written: dict[str, Path | None] = {}
    counts: dict[Path, int] = {}
    if trec:
        # Two runs whose names differ only in characters that no file name has would be one file.
        written |= {f"the TREC run of {arm.name}": trec / file_name(arm, RUN) for arm in arms}
        written |= {f"--trec {QRELS}": trec / QRELS}
    if inspect:
        written |= {f"the Inspect log of {arm.name}": inspect / file_name(arm, LOG) for arm in arms}
    refuse_overwriting(written, paths)
    if trec:
        counts |= {trec / name: n for name, n in write_trec(arms, trec).items()}
    if inspect:
        counts |= {inspect / name: n for name, n in write_inspect(arms, inspect).items()}
    for path, n in counts.items():
        say(f"{path}: {n:,} rows")


def _show_debates(results: Sequence[Results], question: str) -> None:
    from madke.report.debate_text import WIDTH, debate_text

    width = min(WIDTH, output_width())
    for arm in results:
        debates = [each for each in arm.transcripts() if each.id == question]
        if not debates:
            raise UserError(f"has no question {question!r}", file=arm.path)
        for transcript in debates:
            several = len(results) > 1 or len(debates) > 1
            where = f"== {arm.path}, repeat {transcript.repeat}\n" if several else ""
            say(where + debate_text(transcript, width))
