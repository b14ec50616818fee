"""Tables of the report page: figures that lead to debates, best values, and meanings of headings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from urllib.parse import urlencode

from madke.report.reproduction import PUBLISHED
from madke.report.tables import NO_FIGURE, Cell, Table
from madke.scoring.metrics import METRICS, heading_of


@dataclass(frozen=True, kw_only=True, slots=True)
class PageCell:
    """A cell of a table on the page. Its texts may be untrusted."""

    text: str
    interval: str = ""
    mark: str = ""
    best: bool = False
    href: str = ""
    """Address of the debates behind the figure; empty if there are none."""
    order: float | None = None
    """Figure that the table is sorted by. Words are sorted by their text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageColumn:
    """A heading of a table on the page."""

    heading: str
    meaning: str
    """Empty if the heading says it."""
    words: bool
    """Whether the column has no figures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTable:
    """A table of the page. The first column names the row."""

    title: str
    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    notes: tuple[str, ...]

    @property
    def stacked(self) -> bool:
        """Whether a phone shows each row as a list, because a table of words has no narrow columns."""
        return all(column.words for column in self.columns)


def page_table(table: Table, runs: Collection[str], first: str) -> PageTable:
    """A table for the page. The words that a row starts with are one name, so that no figure loses its name.

    ``first``: heading of the metric that decides which debates are right.
    """
    table = table.shown()
    places = range(len(table.columns))
    words = [not table.has_figures(n) and any(row[n] != NO_FIGURE for row in table.rows) for n in places]
    named = 1 if all(words) else max(1, sum(1 for _ in takewhile(bool, words)))
    joined = " \N{MIDDLE DOT} ".join
    columns = [PageColumn(heading=joined(table.columns[:named]), meaning="", words=True)]
    for heading, only_words in [*zip(table.columns, words, strict=True)][named:]:
        columns.append(PageColumn(heading=heading, meaning=meaning(heading, table.notes), words=only_words))
    best = [table.best(n) if named == 1 else "" for n in places]
    rows = []
    for row in table.rows:
        texts = [cell.text for cell in row[:named]]
        of_row = [text for text in texts if text in runs and PUBLISHED not in texts]
        decisive = f"{first} %" in texts or "correct %" in texts
        name = PageCell(text=joined(texts).replace(" %", "\N{NO-BREAK SPACE}%"), mark=row[0].mark)
        cells = []
        for heading, cell, top in [*zip(table.columns, row, best, strict=True)][named:]:
            href = _debates(heading, cell, of_row, decisive) if of_row and cell.value is not None else ""
            order = cell.low if cell.value is None else cell.value
            is_best = bool(top) and cell.text == top
            shown = PageCell(text=cell.text, interval=cell.interval, mark=cell.mark, best=is_best)
            cells.append(replace(shown, href=href, order=order))
        rows.append((name, *cells))
    notes = [*table.notes]
    if any(cell.href for row in rows for cell in row):
        notes.append(f"Each figure opens its debates.{' Bold: the highest value of the column.' if any(best) else ''}")
    return PageTable(title=table.title, columns=tuple(columns), rows=tuple(rows), notes=tuple(notes))


_BEHIND = {
    "correct": "right",
    "Co2": "right",
    "Cons": "divided",
    "failed": "failed",
    "abst.": "abstained",
    "unread": "unread",
    **dict.fromkeys(("difference", "p", "p (Holm)", "effect"), "differ"),
}
"""Heading -> outcome of the debates that its figures lead to. The others lead to all debates."""


def _debates(heading: str, cell: Cell, runs: Sequence[str], decisive: bool) -> str:
    """Address of the debates behind a figure of one run or of a pair."""
    outcome = _BEHIND.get(name_of(heading), "")
    if heading == "of second":
        return debates_link(runs[1])
    if heading in ("only first", "only second"):
        if not cell.value:
            return ""
        if not decisive:  # the list knows which debates are right by the first metric only
            return debates_link(*runs, outcome="differ")
        right, other = runs if heading == "only first" else reversed(runs)
        return f"#debates?{urlencode([('show', 'all'), ('cell', f'right:{right}'), ('cell', f'missed:{other}')])}"
    if outcome and cell.value == (100 if outcome == "divided" else 0):  # no debate has this outcome
        return debates_link(*runs) if cell.low is not None else ""
    return debates_link(*runs, outcome=outcome)


def debates_link(run: str, other: str = "", *, outcome: str = "") -> str:
    """Address of a run's debates in the list, next to those of another run."""
    parts = {"run": run, "with": other, "outcome": outcome}
    return f"#debates?{urlencode({name: part for name, part in parts.items() if part})}"


_MEANINGS: Mapping[str, str] = {
    "correct": "Share of questions with a right final answer, by the metric in parentheses, the task's first.",
    "grader": "A model that reads the gold answer says that the answer is right.",
    "Cons": "Consistency: debaters give the same last answer, right or wrong.",
    "Co2": "Consistent and correct: debaters give the same last answer, and the final answer is right.",
    "Co2 by grader": "As Co2, but a grading model says what is right.",
    "rounds": "Mean number of rounds of a debate.",
    "calls": "Calls of models and services in the whole run, also those answered by the call store.",
    "paid": "Calls that were sent to a model. The others were answered by the call store.",
    "tokens": "Prompt and completion tokens of the whole run.",
    "abst.": "Abstained: debates whose final text declines to answer. They count as wrong.",
    "deferred": "Debates whose answer is left to a person. No mean includes them.",
    "failed": "Debates without a result, because calls failed. No mean includes them.",
    "hit": "Share of questions with a relevant passage among the first k.",
    "recall": "Mean share of a question's relevant passages that are among the first k.",
    "nDCG": "Discounted gain of the first k passages, by relevance and rank, as a share of the best order's.",
    "MRR": "Mean of 1 / rank of the first relevant passage; 0 if there is none.",
    "of first": "Mean of the first run on the compared questions.",
    "of second": "Mean of the second run on the compared questions.",
    "only first": "Questions that only the first run has right.",
    "only second": "Questions that only the second run has right.",
    "p": "Chance of such a difference if the runs were equally good, for this test alone.",
    "p (Holm)": "p, corrected for the number of pairs that are tested on this value. Below 0.05: marked with *.",
}
"""Heading without its unit -> meaning, for headings that no note of their table explains."""


def meaning(heading: str, notes: Sequence[str]) -> str:
    """The meaning of a heading: the part of a note that explains it, or else ours, or that of its metric."""
    name = name_of(heading)
    for note in notes:
        for sentence in note.split(". "):
            names, colon, text = sentence.partition(": ")
            if colon and name in (each.strip() for each in names.replace(" and ", ",").split(",")):
                return f"{text[:1].upper()}{text[1:].rstrip('.')}."
    own = next((METRICS[each].explanation for each in METRICS.used() if heading_of(each) == name), "")
    return _MEANINGS.get(name) or own


def name_of(heading: str) -> str:
    """The heading without its unit, the k of ``hit@k``, and the name of the metric in ``correct (METRIC)``."""
    return "correct" if heading.startswith("correct (") else heading.removesuffix(" %").partition("@")[0]
