"""Tables and the chart of the report page: figures that lead to debates, best values, and meanings of headings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import urlencode

from madke.report.page_data import OUTCOMES
from madke.report.reproduction import PUBLISHED
from madke.report.tables import NO_FIGURE, Cell, Table, percent_cell
from madke.scoring.metrics import METRICS, heading_of
from madke.scoring.scores import Scores
from madke.scoring.votes import DIFFICULTY


@dataclass(frozen=True, kw_only=True, slots=True)
class PageCell:
    """A cell of a table on the page. Its texts may be untrusted."""

    text: str
    interval: str = ""
    mark: str = ""
    best: bool = False
    href: str = ""
    """Address of the debates behind the figure; empty if there are none."""
    opens: str = ""
    """What ``href`` leads to, in words."""
    order: float | None = None
    """Figure that the table is sorted by. Words are sorted by their text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageColumn:
    """A heading of a table on the page."""

    heading: str
    meaning: str
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
    places = range(len(table.columns))
    words = [not table.has_figures(n) and any(row[n] is not NO_FIGURE for row in table.rows) for n in places]
    named = 1 if all(words) else max(1, sum(1 for _ in takewhile(bool, words)))
    joined = " \N{MIDDLE DOT} ".join
    meanings = " ".join(dict.fromkeys(map(explanation, table.columns[:named])))
    columns = [PageColumn(heading=joined(table.columns[:named]), meaning=meanings, words=True)]
    for heading, only_words in [*zip(table.columns, words, strict=True)][named:]:
        columns.append(PageColumn(heading=heading, meaning=explanation(heading), words=only_words))
    best = [_best(table, n) if named == 1 else "" for n in places]
    rows = []
    for row in table.rows:
        texts = [cell.text for cell in row[:named]]
        of_row = [text for text in texts if text in runs and PUBLISHED not in texts]
        decisive = f"{first} %" in texts or "correct %" in texts
        figures = [*zip(table.columns, row, best, strict=True)][named:]
        name = PageCell(text=joined(texts).replace(" %", "\N{NO-BREAK SPACE}%"), mark=row[0].mark)
        rows.append((name, *(_cell(*each, of_row, decisive) for each in figures)))
    notes = [*table.notes]
    if any(cell.href for row in rows for cell in row):
        bold = " Bold: the highest value of the column." if any(best) else ""
        notes.append(f"Each figure opens its debates.{bold}")
    return PageTable(title=table.title, columns=tuple(columns), rows=tuple(rows), notes=tuple(notes))


def _best(table: Table, column: int) -> str:
    """The highest share of a column as it is printed; empty if there is none, or all are equal."""
    cells = [row[column] for row in table.rows if row[column].value is not None]
    if not cells or not table.columns[column].endswith("%") or ": " in table.columns[column]:
        return ""
    best = max(cells, key=lambda cell: cell.value or 0.0).text
    return best if any(cell.text != best for cell in cells) else ""


_BEHIND = {
    "correct": "right",
    "Co2": "right",
    "Cons": "divided",
    "failed": "failed",
    "abst.": "abstained",
    "unread": "unread",
}
_BEHIND |= dict.fromkeys(("difference", "p", "p (Holm)", "effect"), "differ")
"""Heading -> outcome of the debates that its figures lead to. The others lead to all debates."""


def _cell(heading: str, cell: Cell, best: str, runs: Sequence[str], decisive: bool = False) -> PageCell:
    href, opens = _debates(heading, cell, runs, decisive) if runs and cell.value is not None else ("", "")
    return PageCell(
        text=cell.text,
        interval=cell.interval,
        mark=cell.mark,
        best=bool(best) and cell.text == best,
        href=href,
        opens=opens,
        order=cell.low if cell.value is None else cell.value,
    )


def _debates(heading: str, cell: Cell, runs: Sequence[str], decisive: bool) -> tuple[str, str]:
    """Address and description of the debates behind a figure of one run or of a pair."""
    outcome = _BEHIND.get(name_of(heading), "")
    if heading == "of second":
        return debates_link(runs[1])
    if heading in ("only first", "only second"):
        if not cell.value:
            return "", ""
        if not decisive:  # the list knows which debates are right by the first metric only
            return debates_link(*runs, outcome="differ")
        right, other = runs if heading == "only first" else reversed(runs)
        parts = [("show", "all"), ("cell", f"right:{right}"), ("cell", f"missed:{other}")]
        return f"#debates?{urlencode(parts)}", f"Questions that {right} has right and {other} has not"
    if outcome and cell.value == (100 if outcome == "divided" else 0):  # no debate has this outcome
        return debates_link(*runs) if cell.low is not None else ("", "")
    return debates_link(*runs, outcome=outcome)


def debates_link(run: str, other: str = "", *, outcome: str = "") -> tuple[str, str]:
    """Address of a run's debates in the list, next to those of another run, and what it opens in words."""
    parts = {"run": run, "with": other, "outcome": outcome}
    kind = "those that differ" if outcome == "differ" else OUTCOMES.get(outcome, "")
    words = f"Debates of {run}{f' and {other}' if other else ''}{f': {kind}' if kind else ''}"
    return f"#debates?{urlencode({name: part for name, part in parts.items() if part})}", words


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The share of right answers of one run."""

    name: PageCell
    figure: PageCell
    share: Cell
    note: str
    """What limits the figure: an incomplete run, failed debates."""


def bars(scores: Mapping[str, Scores]) -> Iterator[Bar]:
    """The chart: one bar with an interval per run."""
    for name, found in scores.items():
        failed = f"{found.failed:,} of {found.transcripts:,} debates failed" if found.failed else ""
        note = "; ".join(filter(None, ((found.incomplete or "").partition(" (")[0], failed)))
        share = percent_cell(found.correct)
        href, opens = debates_link(name)
        figure = _cell("correct %", share, "", [name])
        yield Bar(name=PageCell(text=name, href=href, opens=opens), figure=figure, share=share, note=note)


_BY = "By the judge's last verdict; with m, by the task's matcher."
_PLANNED = "as planned before the start, from the fewest to the most."

EXPLANATIONS: Mapping[str, str] = {
    "arm": "A run, or the predictions of another system, with the name of its folder or file.",
    "run": "A run, with the name of its folder.",
    # Scores
    "n": "Number of questions that are counted.",
    "correct": "Share of questions with a right final answer, by the metric in parentheses, the task's first.",
    "over repeats": "Correct, with an interval over repeats of these same questions.",
    "sd over repeats": "Standard deviation of correct between repeats, in points.",
    "grader": "A model that reads the gold answer says that the answer is right.",
    "effective votes": f"How many independent votes the votes for an answer were worth. {DIFFICULTY}",
    "answer words": "Median length of the final answers, in words.",
    "ungraded": "Share of answers with a gold answer that have no grade.",
    "Cons": f"Consistency: debaters give the same last answer, right or wrong. {_BY}",
    "Co2": f"Consistent and correct: debaters give the same last answer, and the final answer is right. {_BY}",
    "Co2 by grader": "As Co2, but a grading model says what is right.",
    "rounds": "Mean number of rounds of a debate.",
    "calls": "Calls of models and services in the whole run, also those answered by the call store.",
    "paid": "Calls that were sent to a model. The others were answered by the call store.",
    "tokens": "Prompt and completion tokens of the whole run.",
    "distinct prompt tokens": "Prompt tokens that no earlier prompt of the same debate began with.",
    "cached prompt tokens": "Prompt tokens that the server took from its cache, as it reported.",
    "cut prompts": "Calls whose prompt the server cut without an error.",
    "questions": "Number of different questions.",
    "debates": "Questions times repeats.",
    "answered": "Debates with a readable final answer.",
    "incomplete": "How many debates of the run are done, and why not all.",
    "abst.": "Abstained: debates whose final text declines to answer. They count as wrong.",
    "unread": "Debates whose final text holds no marked answer, only gives back its prompt, or was cut off; wrong.",
    "deferred": "Debates whose answer is left to a person. No mean includes them.",
    "failed": "Debates without a result, because calls failed. No mean includes them.",
    # Retrieval
    "retriever": "A source of passages, or a fusion of several.",
    "depth": "The most passages of a question.",
    "hit": "Share of questions with a relevant passage among the first k.",
    "recall": "Mean share of a question's relevant passages that are among the first k.",
    "nDCG": "Discounted gain of the first k passages, by relevance and rank, as a share of the best order's.",
    "MRR": "Mean of 1 / rank of the first relevant passage; 0 if there is none.",
    # Paired tests
    "first": "The first run of the pair.",
    "second": "The second run of the pair.",
    "value": "The metric that is compared.",
    "of first": "Mean of the first run on the compared questions.",
    "of second": "Mean of the second run on the compared questions.",
    "difference": "Second minus first, with its 95 % interval, in points for shares.",
    "only first": "Questions that only the first run has right.",
    "only second": "Questions that only the second run has right.",
    "p": "Chance of such a difference if the runs were equally good, for this test alone.",
    "p (Holm)": "p, corrected for the number of pairs that are tested on this value. Below 0.05: marked with *.",
    "effect": "Size of the effect. g: share of differing questions in favour of the second, minus 0.5 (0.05 small, "
    "0.15 medium, 0.25 large). d: mean difference divided by its standard deviation.",
    "detectable": "The smallest difference that this many questions detect with 80 % power.",
    # Listed wrong answers
    "round": "After this round; final: the answer of the debate.",
    "adopted": "Share of debaters whose answer the dataset lists as wrong.",
    "right": "Share of debaters whose answer is right.",
    "resisted": "Of debaters that held no listed wrong answer and were shown one, the share that still holds none.",
    "given up": "Of debaters that held a listed wrong answer before, the share that no longer does.",
    # Experiments
    "dataset": "The questions' dataset.",
    "model": "The model that plays the roles.",
    "figures": "Published by the paper, or ours with the 95 % interval and the verdict.",
    "average": "Mean over datasets, each counting the same.",
    "not comparable because": "What differs from the paper: model, questions, index, grader; or failed debates.",
    "claim": "A difference that the paper states, in our words.",
    "stated, points": "As the paper states it.",
    "from published figures": "Computed from the paper's own tables.",
    "from ours": "Computed from this experiment.",
    "calls planned": f"Calls of the arm, {_PLANNED}",
    "new calls planned": f"Calls that no other arm makes first, {_PLANNED}",
    "new calls": "Calls that this arm has sent to a model.",
    "tokens planned": f"Tokens of the new calls, {_PLANNED}",
    "cost": "Cost of the new calls, in the currency of the prices.",
    # Settings
    "data": "The question file.",
    "sample seed": "Seed that chose the questions from the file.",
    "protocol": "Rules of the debate: the variant, and the paper that it follows.",
    "models": "The model of each role.",
    "knowledge": "Passages per source in the pool.",
    "settings": "Settings that differ from the protocol's defaults.",
    "sources": "What serves each source of passages.",
    "answer scorer": "The model that scores answers.",
    "first round": "Where the stances of the first round come from.",
    "seed, repeats": "Seed of the run, and number of debates per question.",
    "versions": "Versions of the programs that made the run.",
}
"""Heading without its unit -> meaning, for all columns of tables but metrics, which bring their own."""


_READINGS = {
    "readable": "that hold a value of the requested kind, or decline to give one",
    "abstained": "that decline to give a value",
    "unmarked": "without a value",
    "echoed": "that only give back their request: rules, examples, the question",
    "contradictory": "whose conclusions differ",
    "cut": "that were stopped at max_tokens before a value",
}


def explanation(heading: str) -> str:
    """The meaning of a heading. Metrics of other packages have a general one."""
    status = heading.partition(": ")[0]
    if status == "bound":
        return "Calls of this stage whose reply was asked for with a JSON schema."
    if status in _READINGS:
        return f"Share of this stage's replies {_READINGS[status]}."
    name = name_of(heading)
    own = next((METRICS[each].explanation for each in METRICS.used() if heading_of(each) == name), "")
    other = "A metric of the task, as a share." if heading.endswith("%") else "An external score, on its own scale."
    return EXPLANATIONS.get(name) or own or other


def name_of(heading: str) -> str:
    """The heading without its unit, the k of ``hit@k``, and the name of the metric in ``correct (METRIC)``."""
    return "correct" if heading.startswith("correct (") else heading.removesuffix(" %").partition("@")[0]
