"""List the published datasets, show the card of one, or convert its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from madke._util.files import atomic_write
from madke._util.terminal import say, say_json, say_table, say_wrapped
from madke.cli import flags
from madke.cli.flags import refuse_overwriting
from madke.core.errors import UserError, count_of
from madke.data.dataset import card, read_published
from madke.data.formats import FORMATS, READERS
from madke.data.questions import question_to_json
from madke.retrieval.pools import PoolRecord, write_pools
from madke.runs.directory import question_files
from madke.tasks import get_task

app = typer.Typer(help=__doc__)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Dataset.")]


@app.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    as_json: Annotated[bool, flags.switch("--json", "Print JSON lines: name, title, task, licence, splits.")] = False,
) -> None:
    """List the published datasets that --dataset reads. `show NAME` prints a card, `convert` writes JSONL."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise UserError(f"--json before {context.invoked_subcommand} applies to the list; put it after the verb")
        return

    known = {name: card(name) for name in FORMATS}
    if as_json:
        for name, about in known.items():
            shown = {key: about[key] for key in ("title", "licence", "splits")}
            say_json({"name": name, "task": FORMATS[name].task, **shown})
        return
    rows = [
        (name, about["title"], FORMATS[name].task, _list_text(about["splits"]), about["licence"])
        for name, about in known.items()
    ]
    say_table(("name", "dataset", "task", "questions", "licence"), rows)


@app.command()
def show(
    name: _Name, as_json: Annotated[bool, flags.switch("--json", "Print the card as a JSON object.")] = False
) -> None:
    """Print the card of a dataset: origin, licence, splits, task and known errors."""
    shown, task = card(name), get_task(FORMATS[name].task)
    if as_json:
        say_json({"name": name, "task": task.name, "metrics": task.metrics, **shown})
        return
    lines = [("name", name), ("task", f"{task.name} ({', '.join(task.metrics)})")]
    for key, value in shown.items():
        texts = value if isinstance(value, list) else [_list_text(value) if isinstance(value, dict) else value]
        lines += [(key.replace("_", " "), text) for text in texts]
    for label, text in lines:
        say_wrapped(text, label=label, indent=max(len(label) for label, _ in lines) + 2)


def _list_text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value:,}" if type(value) is int else f"{key} {value}" for key, value in values.items())


@app.command()
def convert(
    name: _Name,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Published file (MMLU: or folder).")],
    out: Annotated[Path, flags.option("Question file to write (JSONL).", "FILE")],
    pools: Annotated[Path | None, flags.option("Also write the dataset's passages as a pool file.", "FILE")] = None,
    task: Annotated[
        str | None, flags.option("Answer format. Default: the dataset's.", "TASK", names=("--task", "-t"))
    ] = None,
) -> None:
    """Write a published dataset as the JSONL that madke reads without --dataset.

    In the pool file, source context has all passages of a question and source gold those with evidence.
    """
    READERS[name]
    refuse_overwriting({"--out": out, "--pools": pools}, question_files(path))
    entries = read_published(path, name, task=task)
    if pools is not None:
        if not any(entry.passages for entry in entries):
            raise UserError(f"--pools: these questions of {name} have no passages")
        sources = {"gold": f"{name}: passages with evidence", "context": f"{name}: all passages of the question"}
        records = (
            PoolRecord(id=each.question.id, question=each.question.question, passages=each.passages, sources=sources)
            for each in entries
        )
        write_pools(pools, records)
    with atomic_write(out) as output:
        output.writelines(question_to_json(entry.question) + b"\n" for entry in entries)
    say(f"{out}: {count_of(len(entries), 'question')}")
    if pools is not None:
        written = sum(passage.source == "context" for entry in entries for passage in entry.passages)
        say(f"{pools}: {count_of(written, 'passage')}")
