"""``madke export``: runs in the formats of other tools."""

from pathlib import Path
from typing import Annotated

import typer

from madke._util.terminal import say
from madke.cli import flags
from madke.cli.flags import option
from madke.cli.paths import open_arms, refuse_overwriting
from madke.core.errors import UserError

EPILOG = flags.epilog(
    "The tables hold prompts, replies and passages as text. docs/extend.md explains all columns.",
    "Examples:",
    "  madke export runs/first --parquet tables",
    "  madke export runs/first runs/second --trec trec",
    "  madke export runs/first --inspect logs",
)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Runs, experiments, or folders of them.")],
    parquet: Annotated[
        Path | None, option("Write questions, turns, calls and passages as Parquet tables.", "FOLDER")
    ] = None,
    trec: Annotated[Path | None, option("Write pools as TREC runs, gold passages as qrels.", "FOLDER")] = None,
    inspect: Annotated[Path | None, option("Write logs of Inspect AI, one for each run.", "FOLDER")] = None,
    task: flags.TaskOption = None,
) -> None:
    """Write runs in the formats of other tools."""
    from madke.export.inspect_log import log_file, write_inspect
    from madke.export.tables import FILES, write_tables
    from madke.export.trec import QRELS, run_file, write_trec

    if not (parquet or trec or inspect):
        raise UserError("nothing to write; expected --parquet, --trec or --inspect FOLDER")
    arms = open_arms(paths, None, None, task)
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
