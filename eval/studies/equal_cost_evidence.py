"""A page of the study: what debates do with contradicting documents (RAMDocs)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from eval.studies.equal_cost_kept import KeptStudy
from eval.studies.equal_cost_page import model_heading
from eval.studies.equal_cost_results import Arm, Results
from madke._util.files import write_file
from madke.core.transcript import Transcript
from madke.report.conflict_text import ConflictCounts, conflict_table, map_of
from madke.report.tables import Table, TableRow, count_cell, percent_cell, table_of
from madke.report.wrong_answers_table import wrong_answers_table
from madke.retrieval.pools.pool_file import PoolRecord
from madke.scoring.metrics import ALL_GOLDS
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate, estimate

CONFLICTS = "conflicts.md"
_PART = "ramdocs"
_DEBATES = ("gated", "mad", "mad-noise", "moa", "madke")
"""Arms in which debaters read each other. The others have one round."""

_ABOUT_CONFLICTS = """# Contradicting documents

<!-- Written by python -m eval.studies.equal_cost page. -->

The RAMDocs questions of the study: each has documents with a right answer and documents of misinformation. What debates
do with them, from the kept calls, without a model. `ramdocs.md` next to this page has what a reader saw in them.

The questions ask for one short answer, and about half of them have two right ones. `all golds`, the measure of RAMDocs'
owners, therefore hardly exceeds the share of questions with one gold answer: a debate would have to list two.
"""


def write_evidence_pages(studies: Sequence[KeptStudy], pools: Mapping[str, PoolRecord], folder: Path) -> None:
    """Write the page about contradicting documents."""
    results = [Results(study=study) for study in studies]
    write_file(folder / CONFLICTS, conflicts_page(results, pools).encode())


def conflicts_page(results: Sequence[Results], pools: Mapping[str, PoolRecord]) -> str:
    """The page about RAMDocs."""
    parts, notes = [_ABOUT_CONFLICTS], dict[str, None]()
    for found in results:
        arms = {name: arm.part(_PART) for name, arm in found.arms.items()}
        arms = {name: arm for name, arm in arms.items() if arm.transcripts}
        if not arms:
            continue
        first = next(iter(arms.values())).transcripts
        single = sum(len(each.answers) == 1 for each in first)
        parts += [
            model_heading(found.study.model, found),
            f"{len(first)} of these questions are from RAMDocs, {single} of them with one gold answer.",
            *_markdown(_answers_table(arms), notes),
            *_markdown(wrong_answers_table({name: scores_of(arm.transcripts) for name, arm in _debates(arms)}), notes),
            *_markdown(_disagreements(arms, pools), notes),
        ]
    return _page([*parts, *notes])


def _debates(arms: Mapping[str, Arm]) -> Iterator[tuple[str, Arm]]:
    return ((name, arm) for name, arm in arms.items() if name in _DEBATES)


def _answers_table(arms: Mapping[str, Arm]) -> Table:
    rows: list[TableRow] = [
        {
            "arm": f"`{name}`",
            "n": count_cell(len(arm.transcripts)),
            "match %": percent_cell(arm.mean("match")),
            "all golds %": percent_cell(arm.mean(ALL_GOLDS)),
            "adopted %": percent_cell(arm.mean("trapped")),
            "some debater adopted %": percent_cell(arm.mean("trapped_debater")),
            "stands in the pool %": percent_cell(_standing(arm.transcripts)),
            "cites %": percent_cell(_citing(arm.transcripts)),
        }
        for name, arm in arms.items()
    ]
    note = (
        "match: the answer is one of the gold answers. adopted: it is a listed wrong one. stands in the pool: of the "
        "answers given, those that a passage read by their supporters contains. cites: those with a passage that may "
        "be cited for them. Without passages there is neither."
    )
    return table_of("Final answers", rows, [note])


def _standing(transcripts: Sequence[Transcript]) -> Estimate | None:
    looked_up = [
        bool(each.agreement.positions[0].containing)
        for each in transcripts
        if each.answer is not None and each.pool and each.agreement is not None and each.agreement.positions
    ]
    return estimate(list(map(float, looked_up)))


def _citing(transcripts: Sequence[Transcript]) -> Estimate | None:
    answered = [each for each in transcripts if each.answer is not None and each.pool]
    return estimate([float(bool(each.agreement and each.agreement.cited)) for each in answered])


def _disagreements(arms: Mapping[str, Arm], pools: Mapping[str, PoolRecord]) -> Table:
    counts: dict[str, ConflictCounts] = {}
    for name, arm in arms.items():
        if max(len(entry.turns) for each in arm.transcripts for entry in each.rounds) < 2:
            continue
        counted = counts.setdefault(name, ConflictCounts())
        for transcript in arm.transcripts:
            if (found := map_of(transcript, pools.get(transcript.id))) is not None:
                counted.add(found)
    return conflict_table(counts)


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _markdown(table: Table | None, notes: dict[str, None]) -> Iterator[str]:
    """A table as Markdown. Its notes are collected: several tables share them."""
    if table is None:
        return
    yield f"**{table.title}**"
    lines = [table.columns, ["---"] * len(table.columns)]
    lines += [[cell.with_interval for cell in row] for row in table.rows]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes.update(dict.fromkeys(table.notes))
