"""The table of wrong answers that a dataset lists: adopted, resisted and given up, by run, model and round."""

from collections.abc import Mapping, Sequence

from madke.report.tables import Cell, Table, TableRow, count_cell, percent_cell, table_of
from madke.scoring.arms import Results
from madke.scoring.metrics import ALL_GOLDS
from madke.scoring.scores import Scores

TITLE = "Wrong answers that the dataset lists"
_NOTES = (
    "adopted: share of debaters whose answer is one. right: share whose answer is right. resisted: of the debaters "
    "that held none and were shown one (in round 1 by the passages, later by a debater whose stance they read), the "
    "share that still holds none. given up: of those that held one in the round before, the share that no longer does.",
    "final: the answer of the debate. all golds: it names every gold answer and no wrong one, as RAMDocs' owners ask. "
    "A debate that has ended keeps its last adopted and right. With 95 % intervals over questions.",
)


def wrong_answers_table(scores: Mapping[str, Scores], models: Mapping[str, str] | None = None) -> Table | None:
    """A row for each round of each arm, and one for its final answers; None if no question lists wrong answers.

    ``models``: arm -> its model, for a column.
    """
    rows = [
        {"run": name, **({"model": models.get(name, "")} if models else {}), **row}
        for name, found in scores.items()
        for row in _rows(found)
    ]
    return table_of(TITLE, rows, _NOTES) if rows else None


def _rows(scores: Scores) -> Sequence[TableRow]:
    adopted = scores.by_round.get("adopted", ())
    if not adopted:
        return ()
    rows: list[TableRow] = []
    for place, found in enumerate(adopted):
        figures = {
            heading: percent_cell(scores.by_round.get(name, adopted)[place] if name in scores.by_round else None)
            for heading, name in _COLUMNS.items()
        }
        n = count_cell(found.n) if found is not None else Cell(text="-")
        rows.append({"round": str(place + 1), "n": n, **figures})
    trapped = scores.debate.get("trapped")
    if trapped is not None:
        last: TableRow = {"round": "final", "n": count_cell(trapped.n), "adopted %": percent_cell(trapped)}
        rows.append({**last, "all golds %": percent_cell(scores.metrics.get(ALL_GOLDS))})
    return rows


_COLUMNS = {"adopted %": "adopted", "right %": "unmisled", "resisted %": "resisted", "given up %": "given_up"}


def models_of(results: Sequence[Results]) -> dict[str, str]:
    """Arm -> the models of its debaters, in short; empty for predictions from elsewhere."""
    return {
        arm.name: ", ".join(dict.fromkeys(model.rpartition("/")[2] for model in arm.config.models.values()))
        for arm in results
        if arm.config is not None
    }
