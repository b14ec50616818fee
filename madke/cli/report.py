"""``madke report``: a page, figures and tables of runs, or one debate as text."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from madke._util.assets import require
from madke._util.files import atomic_write
from madke._util.terminal import output_width, say, say_json, say_wrapped
from madke.cli import flags
from madke.cli.compare import debates_of
from madke.cli.flags import OUTPUT, option, switch
from madke.cli.paths import (
    PREDICTION_FILES,
    CorrectionsOption,
    DataOption,
    Paths,
    open_arms,
    refuse_overwriting,
)
from madke.cli.progress import exit_status, status_line
from madke.core.errors import UserError
from madke.experiments.experiment import is_experiment
from madke.runs.directory import is_being_written, question_files
from madke.runs.record import read_run

if TYPE_CHECKING:
    from madke.report.figures import Drawing
    from madke.report.tables import Table
    from madke.scoring.arms import Results


class TableForm(StrEnum):
    """Forms of table files."""

    csv = "csv"
    parquet = "parquet"
    tex = "tex"


EPILOG = flags.epilog(
    PREDICTION_FILES,
    flags.TASK_NAMES,
    flags.QRELS_FORM,
    "A tex table has only the columns that fit in a paper. Parquet tables hold prompts, replies and passages as text; "
    "docs/extend.md explains their columns.",
)


def command(
    paths: Paths,
    question: Annotated[str | None, option("Only print this question's debates as text.", "ID")] = None,
    conflicts: Annotated[
        bool,
        switch("--conflicts", "Only print, where debaters differ: who held which answer, and what says so."),
    ] = False,
    as_json: Annotated[bool, switch("--json", "With --conflicts: print one JSON object per debate.")] = False,
    parquet: Annotated[
        Path | None, option("Only write questions, turns, calls and passages as Parquet tables.", "FOLDER", OUTPUT)
    ] = None,
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
    answers: Annotated[Path | None, option("Also write all answers: .jsonl, .csv or .parquet.", "FILE", OUTPUT)] = None,
    watch: Annotated[
        bool, switch("--watch", "Follow runs that are under way: update the page until they end.", OUTPUT)
    ] = False,
    backbone: Annotated[
        list[str] | None, option("Only show published figures of these models. Repeatable.", "NAME", OUTPUT)
    ] = None,
    qrels: Annotated[Path | None, option("Measure retrieval with these judgements, see below.", "FILE")] = None,
    least: flags.Relevance = 1,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    corrections: CorrectionsOption = None,
) -> None:
    """Write one self-contained HTML page: settings, scores, tests, figures and all debates.

    Examples:
      madke report runs/first runs/second --out comparison.html
      madke report runs/first --question q-7
      madke report runs/first --conflicts --json
      madke report runs/first runs/second --trec trec --parquet tables
    """
    files = {"--out": out, "--figures": figures, "--tables": tables, "--answers": answers, "--watch": watch}
    exports = {"--parquet": parquet, "--trec": trec, "--inspect": inspect}
    if any(exports.values()):
        _refuse("an export writes no page", {**files, "--question": question, "--conflicts": conflicts})
        _export(open_arms(paths, data, dataset, task, columns=columns), paths, parquet, trec, inspect)
        return
    if question is not None or conflicts or as_json:
        _refuse(f"{'--conflicts' if conflicts or as_json else '--question'} writes no files", files)
        results = open_arms(paths, data, dataset, task, columns=columns)
        _print_debates(results, question, conflicts=conflicts, as_json=as_json)
        return
    from madke.cli.retrieval import pools_table
    from madke.report.files import write_answers, write_table
    from madke.report.html import write_report

    if figures is not None:
        require("figures need", "report", "matplotlib")
    if watch:
        others = {"--figures": figures, "--tables": tables, "--answers": answers, "--qrels": qrels, "--data": data}
        _refuse("--watch writes only the page of runs", {**others, "--corrections": corrections})
    folder = paths[0].parent if paths[0].is_file() else paths[0]
    if out is None and folder.exists() and not os.access(folder, os.W_OK):
        raise UserError("is read-only; give the page another place: --out FILE", file=folder)
    page = out or folder / "report.html"
    written = {"the page" if out is None else "--out": page, "--answers": answers}
    names = ["scores", "stages", "datasets", "tests", "tests_by_dataset", "wrong_answers", "published", "retrieval"]
    forms = tables or ()
    paths_of_tables = [page.parent / "tables" / f"{name}.{form}" for name in names for form in forms]
    written |= {f"--tables {path.name}": path for path in paths_of_tables}
    written |= {f"--figures {path.name}": path for path in (page.parent / "figures").glob(f"*.{figures}")}
    refuse_overwriting(written, [*paths, *question_files(data), qrels], own="report.html")
    if watch:
        follow(paths, page, lambda reload: write_report(open_arms(paths, None, None, task), page, reload=reload))
        return
    results = open_arms(paths, data, dataset, task, corrections, columns=columns)
    title, source, published = _experiment(paths, backbone or ())
    retrieval = {} if qrels is None else {"retrieval": pools_table(results, qrels, least)}
    extra = [*published.values(), *retrieval.values()]
    own, drawn, _ = write_report(results, page, title=title, source=source, tables=extra)
    say(f"report: {page}")
    if figures is not None:
        _write_figures(drawn, page, figures, one=len(results) == 1)
    for name, table in (own | published | retrieval).items():
        for form in forms:
            path = page.parent / "tables" / f"{name}.{form}"
            write_table(table, path)
            say(f"table: {path}")
    if answers is not None:
        write_answers(results, answers)
        say(f"answers: {answers}")


def _refuse(why: str, given: Mapping[str, object]) -> None:
    if any(given.values()):
        *others, last = given
        raise UserError(f"{why}; leave out {', '.join(others)} and {last}")


def _write_figures(drawn: Sequence[Drawing], page: Path, form: Literal["pdf", "svg", "png"], *, one: bool) -> None:
    from madke.report.figures import write_figures

    for path in write_figures(drawn, page.parent / "figures", form):
        say(f"figure: {path}")
    if not drawn:
        say(f"no figure: {'this run has' if one else 'these runs have'} no data for one")


def _experiment(paths: Sequence[Path], backbones: Sequence[str]) -> tuple[str | None, str | None, dict[str, Table]]:
    """Title, source and the table of published figures by its file name, if an experiment is the only path."""
    from madke.experiments.experiment import is_experiment, read_experiment
    from madke.report.reproduction import figures, published_table

    if len(paths) > 1 or not is_experiment(paths[0]):
        if backbones:
            raise UserError("--backbone selects published figures; it needs the folder of one experiment")
        return None, None, {}
    recipe, folders = read_experiment(paths[0])
    table = published_table(recipe, figures(recipe, folders, models=backbones))
    return recipe.title, recipe.source, {"published": table} if table else {}


def _export(
    arms: Sequence[Results], paths: Sequence[Path], parquet: Path | None, trec: Path | None, inspect: Path | None
) -> None:
    """Write runs in the formats of other tools."""
    from madke.export.inspect_log import log_file, write_inspect
    from madke.export.tables import FILES, write_tables
    from madke.export.trec import QRELS, run_file, write_trec

    written = {f"--parquet {name}": parquet / name for name in FILES} if parquet else {}
    if trec:
        # Two runs whose names differ only in characters that no file name has would be one file.
        written |= {f"the TREC run of {arm.name}": trec / run_file(arm) for arm in arms}
        written |= {f"--trec {QRELS}": trec / QRELS}
    if inspect:
        written |= {f"the Inspect log of {arm.name}": inspect / log_file(arm) for arm in arms}
    refuse_overwriting(written, paths)
    counts = {parquet / f"{name}.parquet": n for name, n in write_tables(arms, parquet).items()} if parquet else {}
    if trec:
        counts |= {trec / name: n for name, n in write_trec(arms, trec).items()}
    if inspect:
        counts |= {inspect / name: n for name, n in write_inspect(arms, inspect).items()}
    for path, n in counts.items():
        say(f"{path}: {n:,} rows")


def _print_debates(results: Sequence[Results], question: str | None, *, conflicts: bool, as_json: bool) -> None:
    if conflicts:
        _show_conflicts(results, question, as_json=as_json)
    elif question is None or as_json:
        raise UserError("--json needs --conflicts")
    else:
        _show_debates(results, question)


def _show_debates(results: Sequence[Results], question: str) -> None:
    from madke.report.debate_text import WIDTH, debate_text

    width = min(WIDTH, output_width())
    for arm in results:
        found = debates_of(arm, question)
        for transcript in found:
            several = len(results) > 1 or len(found) > 1
            where = f"== {arm.path}, repeat {transcript.repeat}\n" if several else ""
            say(where + debate_text(transcript, width))


def _show_conflicts(results: Sequence[Results], question: str | None, *, as_json: bool) -> None:
    """The maps of all debates with more than one answer, or of one question's debates; below them a table."""
    from madke.report.debate_text import conflict_lines, conflict_table, maps_of
    from madke.report.tables import plain_table

    maps = {arm.name: [*maps_of(arm)] for arm in results}
    for arm in results:
        if question is not None:
            debates_of(arm, question)  # UserError for an unknown one
        for found in maps[arm.name]:
            if found.id != question if question is not None else not found.is_conflict:
                continue
            if as_json:
                say_json({"run": arm.name, **asdict(found)})
            else:
                where = f"== {arm.path}, repeat {found.repeat}\n" if len(results) > 1 or found.repeat else ""
                say_wrapped(where + "\n".join(conflict_lines(found)))
                say("")
    if not as_json and question is None:
        say(plain_table(conflict_table(maps)))


RELOAD_SECONDS = 10
_POLL_SECONDS = 1.0
_LEAST_SECONDS = 3.0
_REST = 4
"""Pause after writing the page, in units of the time that it took: large runs are not slowed down by their page."""


class _Run:
    """A run under way, and how many debates it has. Only what was appended is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.transcripts = path / "transcripts.jsonl"
        self.debates = self._read = 0

    @property
    def begun(self) -> bool:
        return (self.path / "run.json").is_file() and self.transcripts.is_file()

    def look(self) -> int:
        """The number of debates now."""
        with self.transcripts.open("rb") as file:
            if file.seek(0, 2) < self._read:  # a resumed run dropped debates to repeat them
                self.debates = self._read = 0
            file.seek(self._read)
            while block := file.read(1 << 20):
                self._read += len(block)
                self.debates += block.count(b"\n")
        return self.debates


def follow(paths: Sequence[Path], page: Path, write: Callable[[int | None], object]) -> None:
    """Call ``write`` with the seconds between reloads when debates have landed, and without when all runs have ended.

    On Ctrl-C the page stays as it is, without its reloads.
    """
    for path in paths:
        if path.is_file() or is_experiment(path):
            raise UserError("expected the directory of a run, which --watch follows", file=path)
    runs = [_Run(path) for path in paths]
    try:
        with status_line() as show:
            _wait(runs, show)
            total = sum(len(spec.questions) * spec.repeats for spec in map(read_run, paths))
            _follow(runs, page, total, write, show)
        write(None)
    except KeyboardInterrupt as interrupt:
        if page.is_file():
            from madke.report.html import RELOADS

            with page.open("rb") as old, atomic_write(page) as new:
                new.writelines(line for line in old if not line.startswith(RELOADS.encode()))
        say("madke: interrupted; the page stays, the same command goes on with it", err=True)
        raise typer.Exit(exit_status(interrupt)) from None
    done = sum(run.look() for run in runs)
    state = "has ended" if done >= total else "is no longer under way"
    say(f"report: {page}, {done:,} of {total:,} debates; {'the run' if len(runs) == 1 else 'the last run'} {state}")


def _wait(runs: Sequence[_Run], show: Callable[[str], None]) -> None:
    said = False
    while waiting := [run for run in runs if not run.begun]:
        text = f"waiting for {waiting[0].path}: no run has begun there yet (Ctrl-C ends)"
        if not said:
            say(text, err=True)
            said = True
        show(text)
        time.sleep(_POLL_SECONDS)


def _follow(
    runs: Sequence[_Run], page: Path, total: int, write: Callable[[int | None], object], show: Callable[[str], None]
) -> None:
    written, due = 0, 0.0
    while any(is_being_written(run.path) for run in runs):
        done = sum(run.look() for run in runs)
        if done and done != written and time.monotonic() >= due:
            started = time.monotonic()
            write(RELOAD_SECONDS)
            if not written:
                say(f"report: {page}; the open page reloads itself while the run goes on (Ctrl-C ends)")
            written, ended = done, time.monotonic()
            due = ended + max(_LEAST_SECONDS, _REST * (ended - started))
        show(f"{done:,} of {total:,} debates, {written:,} on the page")
        time.sleep(_POLL_SECONDS)
