"""``madke support``: how well the passages that answers cite support them; answers in TREC RAG's format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from madke._util.terminal import console, say, say_json
from madke.cli import flags
from madke.cli.flags import GRADING, OUTPUT, option, switch
from madke.cli.paths import refuse_overwriting
from madke.core.errors import UserError

if TYPE_CHECKING:
    from madke.data.rag_answers import RagAnswer

EPILOG = flags.epilog(
    flags.MODEL_NAMES,
    """Entailment judges: a chat model, hf/NAME of a cross-encoder trained on NLI, or a COMMAND that reads JSON lines of
    source (text) and candidate (statement), and prints a number from 0 (no support) to 1 for each. Judgements are
    kept in entailment.sqlite.""",
    """Measures: ALCE's citation recall and precision, TREC RAG's support (full 1, partial 0.5), nugget scores.""",
    "Examples:",
    "  madke support runs/mine --entailment openai/gpt-4o-mini",
    "  madke support answers.jsonl --pools pools.jsonl --entailment hf/cross-encoder/nli-deberta-v3-base",
    "  madke support runs/mine --export answers.jsonl",
)


def command(
    path: Annotated[
        Path, flags.typer.Argument(metavar="PATH", help="A run, or answers in TREC RAG's format (.jsonl).")
    ],
    entailment: Annotated[str | None, option("Judge of support, see below.", "JUDGE", GRADING)] = None,
    base_url: flags.BaseUrl = None,
    nuggets: Annotated[Path | None, option("Nuggets: JSON lines of qid and nuggets.", "FILE", GRADING)] = None,
    pools: Annotated[Path | None, option("Pool file with the passages that an answer file cites.", "FILE")] = None,
    cache: Annotated[Path | None, option("Where judgements are kept. Default: next to PATH.", "FILE", GRADING)] = None,
    export: Annotated[Path | None, option("Write the answers in TREC RAG's format.", "FILE", OUTPUT)] = None,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.", OUTPUT)] = False,
) -> None:
    """Measure how well cited passages support answers. Read and write answers in TREC RAG's format."""
    from madke.data.rag_answers import write_rag_answers
    from madke.report.tables import Cell, Table, count_cell, percent_cell, rich_table
    from madke.scoring.citations import settled
    from madke.scoring.entailment import Entailment
    from madke.scoring.outside import companion_file
    from madke.scoring.support import means, measured, read_nuggets

    if entailment is None and export is None:
        raise UserError("nothing to do: give --entailment JUDGE, or --export FILE")
    refuse_overwriting({"--export": export, "--cache": cache}, [path, pools, nuggets], own="entailment.sqlite")
    answers, pool = _answers(path, pools)
    if not answers:
        raise UserError("has no answer", file=path)
    if export is not None:
        say(f"answers: {export}: {write_rag_answers(answers, export)}", err=as_json)
    if entailment is None:
        return
    texts = _texts(pool, {answer.id for answer in answers})
    wanted = read_nuggets(nuggets) if nuggets else {}
    store = cache or companion_file(path, "entailment.sqlite")
    judge = Entailment(judge=entailment, store=store, base_url=base_url)
    found = means(settled(lambda support: measured(answers, texts, wanted, support), judge.ask))
    if as_json:
        say_json({"entailment": entailment, "scores": found})
        return
    rows = tuple((Cell(text=name), percent_cell(mean), count_cell(mean.n)) for name, mean in found.items())
    notes = (f"Support by {entailment}. ALCE counts the first 3 citations of a sentence.",)
    table = Table(title="Citations", columns=("measure", "mean %", "n"), rows=rows, notes=notes)
    console().print(rich_table(table, details=True))


def _answers(path: Path, pools: Path | None) -> tuple[list["RagAnswer"], Path | None]:
    """The answers at a path, and the file of the passages that they cite."""
    from madke.data.rag_answers import read_rag_answers
    from madke.runs.spec import run_files
    from madke.scoring.arms import open_results
    from madke.scoring.support import answer_of_debate

    if path.is_file():
        return list(read_rag_answers(path)), pools
    (arm,) = open_results([path], None)
    found = (answer_of_debate(transcript, arm.name) for transcript in arm.transcripts() if transcript.repeat == 0)
    return [answer for answer in found if answer is not None], pools or run_files(path).pools


def _texts(pools: Path | None, ids: set[str]) -> dict[tuple[str, str], str]:
    """(Question id, reference) -> passage; a reference is a key, or source and key."""
    from madke.pools.pool_file import pool_records

    found: dict[tuple[str, str], str] = {}
    for _, record in pool_records(pools) if pools is not None else ():
        for passage in record.passages if record.id in ids else ():
            text = f"{passage.title}\n{passage.text}" if passage.title else passage.text
            found[record.id, passage.key] = found[record.id, f"{passage.source} {passage.key}"] = text
    return found
