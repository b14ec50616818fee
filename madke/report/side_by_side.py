"""Comparisons as text: a table of questions, counts of pairs, the debates of one question in columns.

Text of models, datasets and the web is shown without control characters and never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from madke.core.transcript import Round, Transcript, Turn, Verdict
from madke.report.comparison import ComparedQuestion, Outcome, Pair
from madke.report.debate_text import CONSENSUS, tie_word
from madke.report.tables import ORACLE, interval, one_line
from madke.tasks.choice import lettered

_SHORT = 60
_NARROWEST_COLUMN = 40
_GAP = 3

NO_ROOM = ("p", "effect")
"""What a terminal's table of tests leaves to ``--json`` and pages: uncorrected p values, and effects without a unit."""


def question_table(compared: Sequence[ComparedQuestion]) -> Table:
    """One row a question: its gold answer, and what each run answered, with a mark and the number of rounds."""
    caption = "+ right, - wrong (by the task's first metric; a figure: in percent); in brackets the rounds."
    table = Table("id", "question", "gold", box=box.SIMPLE_HEAD, pad_edge=False, caption=caption)
    table.caption_justify = "left"
    table.columns[0].overflow = "fold"
    for of_run in zip(*(row.runs for row in compared), strict=True):
        table.add_column(Text(_title(max(of_run, key=lambda outcome: outcome.repeats))), overflow="fold")
    for row in compared:
        texts = (_short(row.id), _short(row.question), _short(" | ".join(row.answers)))
        table.add_row(*map(Text, texts), *(Text(_cell(outcome)) for outcome in row.runs))
    return table


def pair_table(pairs: Sequence[Pair]) -> Table:
    """One row a pair of runs: on how many questions both were right, one of them, or neither, and the flip rate."""
    caption = (
        "of the first repeats; other answer: share of questions whose final answers differ, with its 95 % interval"
    )
    table = Table("first", "second", box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for heading in ("both right", "only first", "only second", "neither", "left out", "other answer %"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        counts = (pair.both, pair.only_first, pair.only_second, pair.neither, pair.left_out)
        table.add_row(
            Text(one_line(pair.first)), Text(one_line(pair.second)), *map(str, counts), interval(pair.other_answer)
        )
    return table


def debate_columns(compared: ComparedQuestion, transcripts: Sequence[Transcript], width: int) -> RenderableType:
    """The debates of one question in columns whose rounds stand side by side, as many in a row as there is room for."""
    head = [f"Question ({compared.id}): {compared.question}"]
    head += [f"({letter}) {choice}" for letter, choice in lettered(transcripts[0].choices)]
    head += [f"Gold: {' | '.join(compared.answers)}"] if compared.answers else []
    debates = list(zip(compared.runs, transcripts, strict=True))
    in_a_row = min(len(debates), max(1, width // (_NARROWEST_COLUMN + _GAP)))
    rows = [debates[start : start + in_a_row] for start in range(0, len(debates), in_a_row)]
    return Group(Text("\n".join(map(one_line, head)) + "\n"), *(_columns(row, in_a_row) for row in rows))


def _columns(debates: Sequence[tuple[Outcome, Transcript]], width: int) -> Table:
    """``width`` columns of equal width, the first of them filled."""
    grid = Table.grid(padding=(0, _GAP, 0, 0), expand=True)
    for _ in range(width):
        grid.add_column(ratio=1, overflow="fold")
    rounds = [[_round(entry, given=t.given and entry.n == 1) for entry in t.rounds] for _, t in debates]
    grid.add_row(*(Text(f"== {_title(outcome)}\n") for outcome, _ in debates))
    for entries in zip_longest(*rounds, fillvalue=""):
        grid.add_row(*map(Text, entries))
    grid.add_row(*(Text(_end(outcome, transcript)) for outcome, transcript in debates))
    return grid


def _title(outcome: Outcome) -> str:
    marks = [ORACLE] if outcome.oracle else []
    marks += [f"first of {outcome.repeats} repeats"] if outcome.repeats > 1 else []
    return f"{one_line(outcome.run)} ({'; '.join(marks)})" if marks else one_line(outcome.run)


def _round(entry: Round, *, given: bool) -> str:
    lines = [f"--- round {entry.n}{', given' if given else ''} ---"]
    lines += [f"{one_line(turn.agent)}: {_said(turn)}{_chosen(turn)}" for turn in entry.turns]
    if entry.verdict is not None:
        lines.append(f"Judge: {_found(entry.verdict)}")
    if entry.extracted is not None:
        lines.append(f"Judge, of all so far: {one_line(entry.extracted.answer or 'no answer')}")
    return "\n".join(lines) + "\n"


def _found(verdict: Verdict) -> str:
    words = [CONSENSUS[verdict.consensus]]
    words += [f"sides with {one_line(verdict.side)}"] if verdict.side is not None else []
    words += [f"says {one_line(verdict.answer)}"] if verdict.answer is not None else []
    return "; ".join(words)


def _said(turn: Turn) -> str:
    stance = turn.stance
    if stance.status == "failed":
        return f"failed: {_short(stance.error or 'unknown')}"
    return "no answer" if stance.answer is None else one_line(stance.answer)


def _chosen(turn: Turn) -> str:
    if turn.selection is None or turn.selection.error is not None:
        return ""
    return "; chose " + (" ".join(f"[{n}]" for n in turn.selection.ids) or "nothing")


def _end(outcome: Outcome, transcript: Transcript) -> str:
    judged = {None: "", 1.0: ", right", 0.0: ", wrong"}.get(outcome.correct, f", {_percent(outcome.correct)} %")
    final = transcript.final
    tie = f", a {tie_word(final)}" if final.tie else ""
    whose = f" (of {one_line(final.agent)})" if final.agent is not None else ""
    end = f"Final answer, by {one_line(final.by)}{whose}: {_answer(outcome)}{judged}{tie}\n"
    if outcome.tokens is None:
        return end
    return (
        f"{end}Ended by: {one_line(outcome.stop_reason)}. Rounds: {outcome.rounds}, calls: {outcome.calls}, "
        f"tokens: {outcome.tokens:,}.\n"
    )


def _cell(outcome: Outcome) -> str:
    mark = {None: "", 1.0: "+ ", 0.0: "- "}.get(outcome.correct, f"{_percent(outcome.correct)} ")
    rounds = "" if outcome.rounds is None else f" ({outcome.rounds})"
    return f"{mark}{_short(_answer(outcome))}{rounds}"


def _answer(outcome: Outcome) -> str:
    if outcome.status == "failed":
        return "failed"
    return "no answer" if outcome.answer is None else one_line(outcome.answer)


def _percent(correct: float | None) -> str:
    return f"{100 * (correct or 0):.0f}"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}\u2026"
