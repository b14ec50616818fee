"""Run the study of real models, and write its page.

    python -m eval.real_models --model qwen-0.5b --url http://127.0.0.1:8905/v1 --files FOLDER --before CHECKOUT
    python -m eval.real_models --replay                      # write the page again from the kept results
    python -m eval.real_models --dev --model qwen-0.5b --url URL --only rag,free      # while writing prompts
    python -m eval.real_models --show RUN --samples 3        # stage measures and sample replies of any run

Each combination of model, prompts and arm is one ``madke run`` in WORK/MODEL/PROMPTS/ARM. Kill the command at any time:
the same command goes on where it was, and loses at most the call in flight. Serve one model at a time, with one slot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval.command_line import folder_of, names_of
from eval.real_models.arms import ARMS, BASELINES, KINDS, MAX_TOKENS, Cell, Setup, cells, check_only
from eval.real_models.kept import KeptCell, read_kept
from eval.real_models.models import MODELS, StudyModel, check_file
from eval.real_models.questions import Split, write_splits
from eval.real_models.show import shown
from eval.real_models.study import keep, run_study
from eval.real_models.table import page, read_otherwise
from eval.studies.reread import reread_arm
from madke._util.files import write_file
from madke.core.errors import UserError, unknown
from madke.retrieval.pools.pool_file import PoolRecord, read_pools
from madke.variants import load_variant

_HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the options say; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _main(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def _main(options: argparse.Namespace) -> int:
    if options.make_questions:
        write_splits(_data(options), options.questions)
        return 0
    if options.show:
        pools = read_pools(options.pools) if options.pools else {}
        prompts = options.prompts or _HERE.parents[1] / "prompts"
        print(shown(options.show, pools, samples=options.samples, prompts=prompts, with_prompt=options.with_prompt))
        return 0
    if options.replay:
        _write_page(options)
        return 0
    return _study(options)


def _study(options: argparse.Namespace) -> int:
    models = [_model(name) for name in options.model or MODELS]
    check_only(options.only, [*MODELS])
    if len(models) > 1 or not (options.url or options.keep or options.plan):
        raise UserError("name one --model and the --url of the endpoint that serves it")
    [model] = models
    if options.files:
        check_file(model, options.files / f"{model.key}.gguf")
    elif not options.dev:
        raise UserError("name the folder of the model's file with --files: its SHA-256 is checked")
    split = "dev" if options.dev else "heldout"
    setup = Setup(
        work=options.work / split,
        split=Split.of(options.questions, split),
        limit=options.limit or (60 if options.dev else model.questions),
        swapped=options.swapped,
        url=options.url or "",
        before=options.before,
        paper=options.paper,
        concurrency=options.concurrency,
        max_tokens=options.max_tokens,
        only=options.only,
    )
    if options.plan:
        print("\n".join(f"{cell.model},{cell.kind},{cell.arm}" for cell in cells(models, setup)))
        return 0
    whole = options.keep or run_study(models, setup)
    if options.dev:
        print(page(keep(models, setup, options.work / "dev-calls")))
    elif not options.only:
        keep(models, setup, options.calls)
        _write_page(options)
    return 0 if whole else 1


def _write_page(options: argparse.Namespace) -> None:
    kept = [cell for file in sorted(options.calls.glob("*.jsonl.xz")) for cell in read_kept(file)]
    _, pools = Split.of(options.questions, "heldout").read()
    anew = [read_anew(cell, pools) for cell in kept]
    write_file(options.page, f"{page(anew)}{read_otherwise(kept, anew)}".encode())


def read_anew(cell: KeptCell, pools: Mapping[str, PoolRecord]) -> KeptCell:
    """A kept run with today's readings of its texts; with other prompts, it is read as the shipped protocol."""
    how = Cell(model=cell.model, kind=cell.kind, arm=cell.arm)  # type: ignore[arg-type]
    own = _HERE / "baselines" if how.kind in BASELINES else None
    protocol = (load_variant(how.protocol, own) if own else load_variant(how.protocol)).protocol
    transcripts = reread_arm(cell.transcripts, protocol, pools if protocol.knowledge else {}).transcripts
    return replace(cell, transcripts=tuple(transcripts))


def _model(name: str) -> StudyModel:
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]


def _data(options: argparse.Namespace) -> Path:
    data: Path | None = options.data
    if data is None:
        raise UserError("name the folder of the data with --data or MADKE_DATA")
    return data / "wiki_passages" if (data / "wiki_passages").is_dir() else data


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.real_models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    does = parser.add_argument_group("instead of running the study").add_mutually_exclusive_group()
    does.add_argument("--replay", action="store_true", help="only write the page, from the kept results")
    does.add_argument(
        "--show", type=Path, metavar="RUN", help="print the stage measures and replies of a run directory"
    )
    does.add_argument("--make-questions", action="store_true", help="make the questions and pools from --data")
    does.add_argument("--keep", action="store_true", help="keep what is finished so far, and write the page")
    does.add_argument("--plan", action="store_true", help="list what would run, as model,prompts,arm")
    asked = parser.add_argument_group("models")
    asked.add_argument("--model", action="append", metavar="NAME", help=f"one of {', '.join(MODELS)}")
    asked.add_argument("--url", metavar="URL", help="endpoint that serves the model, such as http://127.0.0.1:8905/v1")
    asked.add_argument(
        "--files",
        type=Path,
        metavar="FOLDER",
        default=folder_of("REAL_MODELS"),
        help="folder of the model files NAME.gguf, whose SHA-256 is checked (default: REAL_MODELS)",
    )
    asked.add_argument("--concurrency", type=int, default=1, metavar="N", help="calls at a time (default 1)")
    asked.add_argument("--max-tokens", type=int, default=MAX_TOKENS, metavar="N", help=f"default {MAX_TOKENS}")
    what = parser.add_argument_group("what runs")
    what.add_argument(
        "--only",
        type=names_of,
        action="append",
        default=[],
        metavar="NAMES",
        help=f"only what has all of these names, such as rag,free; repeatable. Prompts: {', '.join(KINDS)}; "
        f"arms: {', '.join(ARMS)}. Keeps nothing and leaves the page",
    )
    what.add_argument("--limit", type=int, metavar="N", help="questions (default 100, of the 1.5B 60; 60 with --dev)")
    what.add_argument("--swapped", type=int, default=40, metavar="N", help="questions of the swapped arm (default 40)")
    what.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="a checkout of 0.3.0: its prompts, run by its code"
    )
    what.add_argument("--paper", type=Path, metavar="FOLDER", help="protocols in the paper's wording, as for --prompts")
    what.add_argument("--dev", action="store_true", help="development questions; keep nothing, print the page")
    where = parser.add_argument_group("files")
    where.add_argument(
        "--data", type=Path, default=folder_of("MADKE_DATA"), metavar="FOLDER", help="default: MADKE_DATA"
    )
    where.add_argument("--questions", type=Path, default=_HERE / "split", metavar="FOLDER", help="questions and pools")
    where.add_argument("--work", type=Path, default=Path("runs/real_models"), metavar="FOLDER", help="run directories")
    where.add_argument("--calls", type=Path, default=_HERE / "calls", metavar="FOLDER", help="kept results")
    where.add_argument("--page", type=Path, default=_HERE.with_suffix(".md"), metavar="FILE", help="the page")
    shows = parser.add_argument_group("with --show")
    shows.add_argument("--samples", type=int, default=2, metavar="N", help="replies of each stage (default 2)")
    shows.add_argument("--with-prompt", action="store_true", help="print the messages too")
    shows.add_argument("--pools", type=Path, metavar="FILE", help="the run's pools: passages may be quoted")
    shows.add_argument(
        "--prompts", type=Path, metavar="FOLDER", help="the run's prompts: their examples (default: ours)"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
