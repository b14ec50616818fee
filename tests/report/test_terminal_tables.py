"""Tables on terminals of 60 to 140 columns: whole words and figures, and a note of what is left out."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from madke._util.terminal import FittedTable, as_text, say, say_wrapped
from madke.core.transcript import Final
from madke.report.comparison import comparison_of, paired_table
from madke.report.debate_text import pair_table, question_table
from madke.report.score_tables import score_table
from madke.report.tables import rich_table
from madke.scoring.scores import scores_of
from madke.scoring.statistics import Estimate
from tests.report.run_folders import debate

WIDTHS = range(60, 141, 10)
RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


def runs(*names: str) -> Any:
    return {
        name: [debate(f"q{n}", [RIGHT if n % (k + 2) else WRONG] * 2) for n in range(12)]
        for k, name in enumerate(names)
    }


def tables_of(*names: str) -> list[Any]:
    """Every table of ``score`` and ``compare``, as terminals show it."""
    held = runs(*names)
    scores = {name: scores_of(each) for name, each in held.items()}
    found = comparison_of(held)
    shown = (question_table(found.questions), pair_table(found.pairs), paired_table(found.tests()))
    return [score_table([*scores.items()]), *(rich_table(table) for table in shown)]


def table_lines(text: str) -> list[str]:
    """The lines of the rows, without title and notes."""
    lines = text.splitlines()
    (rule,) = [n for n, line in enumerate(lines) if line.strip() and set(line.strip()) == {"─"}]
    end = next(n for n in range(rule, len(lines)) if not lines[n].strip())
    return lines[rule + 1 : end]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_of_score_and_compare_breaks_a_word_or_a_figure(width: int) -> None:
    for table in tables_of("no-knowledge", "wiki", "wiki+google"):
        wide, narrow = as_text(table, 1000), as_text(table, width)
        assert all(len(line) <= width for line in narrow.splitlines())
        whole = set(wide.split())
        assert {word for line in table_lines(narrow) for word in line.split()} <= whole
        # Every row keeps its first words and, with its figures, one line.
        assert [line.split()[0] for line in table_lines(wide)] == [
            line.split()[0] for line in table_lines(narrow) if line[1] != " "
        ]


_WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=30), min_size=1, max_size=6).map(" ".join)
_FIGURES = st.floats(-9_999_999, 9_999_999).map(lambda value: f"{value:,.1f} ±{abs(value) / 7:,.0f}")


def test_columns_that_do_not_fit_are_named() -> None:
    headings = [f"column{n}" for n in range(10)]
    text = as_text(FittedTable(headings, [["12345678"] * 10], headings, notes=["n: a note."]), 60)
    assert text.splitlines()[1].split() == ["column0", "column1", "column2", "column3", "column4", "column5"]
    assert text.endswith("n: a note.\nNot shown at this width: column6, column7, column8, column9.\n")
    assert "Not shown" not in as_text(FittedTable(headings, [["12345678"] * 10], headings), 140)


def test_lines_next_to_tables_wrap_between_words_on_a_terminal(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{'x' * 69} 95 % of them."
    say_wrapped(text, label="found", indent=7)
    assert capsys.readouterr().out == f"found  {text}\n"  # a script reads one line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    say_wrapped(text, label="found", indent=7)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"found  {'x' * 69}"
    assert second == "       95\N{NO-BREAK SPACE}% of them."


def test_a_path_on_a_terminal_is_never_split_and_text_in_front_keeps_its_indent(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder of the spring term" / ("with a long name " * 4).strip()
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "argv", ["madke", "run", f"--out={folder / 'run'}"])
    monkeypatch.setenv("COLUMNS", "80")
    say(f"report: {folder / 'run' / 'report.html'}: 12 debates\n  2 x {'word ' * 20}")
    first, second, third, *rest = capsys.readouterr().out.splitlines()
    assert (first, second, third) == ("report:", f"{folder / 'run' / 'report.html'}:", "12 debates")
    assert [line[:3] for line in rest] == ["  2", "  w"]
    say_wrapped(f"Java at {folder / 'run'}", label="java", indent=23)
    assert capsys.readouterr().out.splitlines() == [f"{'java':<23}Java at", f"{'':23}{folder / 'run'}"]
    say_wrapped("one of many words " * 9, label="endpoint", indent=23)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("low", "shown", "note"),
    [
        (0.4, "60.0 ±20", "±: half of the 95 % interval; brackets have its ends.\n"),
        (0.3, "60.0 [30 to 80]", "Brackets: the 95 % interval.\n"),
    ],
)
def test_a_note_explains_the_signs_that_stand_in_the_table(low: float, shown: str, note: str) -> None:
    correct = Estimate(value=0.6, low=low, high=0.8, n=20)
    text = as_text(score_table([("run", replace(scores_of(runs("run")["run"]), correct=correct))]))
    assert shown in text
    assert note in text
    assert text.count("95 % interval") == 1


def test_an_incomplete_run_says_so_in_its_row_and_below() -> None:
    scores = replace(scores_of(runs("run")["run"]), incomplete="12 of 40 (stopped at --deadline; ...)")
    text = as_text(score_table([("run", scores)]))
    assert "12 of 40  " in text
    assert "run: 12 of 40 (stopped at --deadline; ...)." in text


def test_a_run_whose_debates_all_failed_has_its_cause_first_and_no_row() -> None:
    good = runs("good")["good"]
    bad = [debate(each.id, [None], status="failed", final=failed(n)) for n, each in enumerate(good)]
    text = as_text(score_table([("good", scores_of(good)), ("bad", scores_of(bad))]))
    assert text.startswith("bad: all 12 debates failed: 11 x HTTP 401: no such key; 1 x timeout\n")
    assert [line.split()[0] for line in table_lines(text)] == ["good"]
    alone = as_text(score_table([("bad", replace(scores_of(bad), incomplete="12 of 40 (interrupted)"))]))
    assert alone.splitlines() == [text.splitlines()[0], "bad: 12 of 40 (interrupted)."]


def failed(n: int) -> Any:
    return Final(by="summarizer", status="failed", error="HTTP 401: no such key" if n else "timeout")
