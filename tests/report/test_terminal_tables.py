"""Tables on terminals of 60 to 140 columns: whole words and figures, and a note of what is left out."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke._util.terminal import FittedTable, as_text, say, say_table, say_wrapped
from madke.core.transcript import Final
from madke.report.comparison import comparison_of, paired_table
from madke.report.debate_text import pair_table, question_table
from madke.report.score_tables import score_table
from madke.report.tables import Cell, Table, count_cell, percent_cell, rich_table, score_cell
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


@st.composite
def _columns(draw: Any) -> list[tuple[str, list[str], bool]]:
    """Headings, cells, and whether the cells hold figures."""
    rows = draw(st.integers(1, 4))
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=9))
    return [
        (
            f"H{n} {draw(_WORDS)}",
            draw(st.lists(_FIGURES if figures else _WORDS, min_size=rows, max_size=rows)),
            figures,
        )
        for n, figures in enumerate(kinds)
    ]


@given(columns=_columns(), width=st.integers(60, 140))
def test_every_word_of_every_shown_column_stands_on_one_line(
    columns: list[tuple[str, list[str], bool]], width: int
) -> None:
    headings, cells, _ = zip(*columns, strict=True)
    right_aligned = {heading for heading, _, figures in columns if figures}
    text = as_text(FittedTable(headings, list(zip(*cells, strict=True)), right_aligned), width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    body, _, note = text.partition("Not shown at this width: ")
    left_out = {int(number) for number in re.findall(r"H(\d+)", note)}
    shown = [column for n, column in enumerate(columns) if n not in left_out]
    # Columns are left out from the right.
    assert left_out == set(range(len(shown), len(columns)))
    words = set(body.split())
    for heading, texts, figures in shown:
        assert set(heading.split()) <= words
        for cell in texts:
            assert (cell in body) if figures else (set(cell.split()) <= words)


def test_columns_that_do_not_fit_are_named() -> None:
    headings = [f"column{n}" for n in range(10)]
    text = as_text(FittedTable(headings, [["12345678"] * 10], headings, notes=["n: a note."]), 60)
    assert text.splitlines()[1].split() == ["column0", "column1", "column2", "column3", "column4", "column5"]
    assert text.endswith("n: a note.\nNot shown at this width: column6, column7, column8, column9.\n")
    assert "Not shown" not in as_text(FittedTable(headings, [["12345678"] * 10], headings), 140)


def test_some_columns_are_left_out_before_others_and_their_notes_with_them() -> None:
    table = FittedTable(["id", "a", "b"], [["x" * 25, "y" * 25, "z" * 25]], notes=["id: the key.", "b: all."])
    assert as_text(replace(table, first_out=("id",)), 60).endswith("\nb: all.\nNot shown at this width: id.\n")
    assert as_text(table, 60).endswith("\nid: the key.\nNot shown at this width: b.\n")


def test_a_long_name_ends_its_lines_after_hyphens_so_that_figures_stay() -> None:
    name = "the-first-run-of-the-spring-term"
    text = as_text(FittedTable(["first", "second", "p"], [[name, name, "0.012 to 0.034"]], {"p"}), 60)
    assert "Not shown" not in text
    assert {"the-first-run-of-the-", "spring-term"} <= set(text.split())


def test_a_short_interval_is_in_the_cell_of_its_figure() -> None:
    found = Estimate(value=0.708, low=0.621, high=0.782, n=120)
    exact = Estimate(value=0.5, low=0.498, high=0.502, n=60_000)
    table = Table(title="", columns=("a %", "n"), rows=((percent_cell(found), count_cell(120)),) * 2)
    text = as_text(rich_table(table))
    assert "70.8 [62 to 78]" in text
    assert "70.8 (62.1 to 78.2)" in as_text(rich_table(table, details=True))
    assert percent_cell(exact).with_interval == "50.0 ±0.2"
    assert percent_cell(Estimate(value=0.0, low=0.0, high=0.354, n=7)).with_interval == "0.0 [0 to 35]"
    assert percent_cell(Estimate(value=0.3, low=-0.01, high=0.53, n=20), sign="+").with_interval == "+30.0 [-1 to +53]"
    assert score_cell(Estimate(value=0.998, low=0.99, high=0.999, n=20)).with_interval == "0.998 [0.990 to 0.999]"
    assert Cell(text="1 to 2", low=1, high=2).with_interval == "1 to 2"


def test_a_word_longer_than_any_column_is_broken_and_not_lost() -> None:
    word = "https://example.org/" + "x" * 80
    text = as_text(FittedTable(["a", "b"], [[word, "y"]]), 60)
    assert (text.count("x"), text.count("y")) == (81, 1)


def test_a_table_without_rows_has_its_headings(capsys: Any) -> None:
    say_table(("name", "size"), [])
    assert capsys.readouterr().out.split()[:2] == ["name", "size"]


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


def test_text_that_is_verbatim_keeps_its_lines(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    say("word " * 30, verbatim=True, end="")
    assert capsys.readouterr().out == "word " * 30


def test_counts_of_nothing_are_not_shown() -> None:
    text = as_text(score_table([("run", scores_of(runs("run")["run"]))]))
    assert "failed" not in text
    assert "abst." not in text
    failed = [*runs("run")["run"], debate("q12", [None], answer=None)]
    assert "abst." in as_text(score_table([("run", scores_of(failed))]))


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


def test_a_narrow_terminal_keeps_calls_and_tokens_and_leaves_out_further_scores() -> None:
    text = as_text(score_table([("a-run-of-spring", scores_of(runs("run")["run"]))]), 60)
    assert text.endswith("Not shown at this width: F1, match, Cons, Co2.\n")
    assert "Cons and Co2:" not in text


def test_unread_answers_are_called_wrong_only_where_answers_are_scored() -> None:
    scores = replace(scores_of(runs("run")["run"]), unread={"echoed": 1})
    assert "unread: the final text" in (text := as_text(score_table([("run", scores)])))
    assert "it is wrong." in text
    text = as_text(score_table([("run", replace(scores, correct=None, metrics={}))]))
    assert "unread: the final text" in text
    assert "wrong" not in text


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


def test_a_run_without_a_debate_has_no_row_of_dashes() -> None:
    none = replace(scores_of([]), incomplete="0 of 40 (killed; the same command goes on)")
    assert as_text(score_table([("run", none)])) == "run: 0 of 40 (killed; the same command goes on).\n"
