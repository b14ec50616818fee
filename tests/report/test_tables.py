"""Tables: what stands in them, and that text of others is text in every form."""

import csv
import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from madke._util.terminal import printable
from madke.report import tables
from madke.report.answer_files import write_answers
from madke.report.comparison import comparison_of, paired_table
from madke.report.score_tables import score_table, score_table_of
from madke.report.tables import (
    Cell,
    Table,
    csv_cell,
    latex,
    p_value,
    rich_table,
    table_csv,
    table_latex,
    write_table,
)
from madke.scoring.arms import Results
from madke.scoring.scores import scores_of
from tests.report.test_compare import shown
from tests.support.transcripts import transcript

BAIKAL = "Lake Baikal"
HOSTILE = '=HYPERLINK("http://x")\\input{/etc/passwd}%$&#_^~<b>\x1b[31m\u202e\n& forged \\\\'


def debates(*answers: Any, **changes: Any) -> Any:
    return [
        transcript(f"q{n}", said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)
        for n, answer in enumerate(answers)
    ]


def arm(name: Any, transcripts: Any, path: Any = Path("nowhere")) -> Any:
    return Results(name=name, path=path, config=None, transcripts=partial(iter, transcripts))


def scored(*arms: Any) -> Any:
    return score_table_of(arms, {each.name: {None: scores_of(each.transcripts())} for each in arms})


def cell(table: Any, row: Any, column: Any) -> Any:
    return table.rows[row][table.columns.index(column)]


def test_a_score_table_has_a_row_an_arm() -> None:
    table = scored(
        arm(
            "one",
            [*debates(BAIKAL, "x", None), transcript("q9", said=[None], consensus=False, answer=None, status="failed")],
        ),
        arm("two", debates(BAIKAL)),
    )
    assert [row[0].text for row in table.rows] == ["one", "two"]
    counts = [cell(table, 0, name).value for name in ("questions", "answered", "failed", "calls", "paid", "tokens")]
    assert counts == [4, 2, 1, 8, 4, 440]
    correct = cell(table, 0, "correct (match) %")
    assert (correct.whole, correct.value) == ("33.3 (6.1 to 79.2)", pytest.approx(100 / 3))
    assert (correct.low, correct.high) == pytest.approx((6.149, 79.234), abs=1e-3)
    assert table.columns[:5] == ("arm", "correct (match) %", "abst.", "failed", "EM %")
    assert "match %" not in table.columns
    assert cell(table, 0, "readable: speak %").value == pytest.approx(100 * (1 + 1 + 0 + 0.5) / 4)
    assert cell(table, 0, "rounds").whole == "1.00 (1.00 to 1.00)"
    assert "sd over repeats" not in table.columns
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_arms_that_differ_from_the_first_are_marked_after_correction() -> None:
    table = scored(
        arm("bad", debates(*["x"] * 12)),
        arm("good", debates(*[BAIKAL] * 12)),
        arm("same", debates(*["x"] * 11, BAIKAL)),
    )
    assert [cell(table, row, "correct (match) %").mark for row in range(3)] == ["", "*", ""]
    assert [cell(table, row, "F1 %").mark for row in range(3)] == ["", "*", ""]
    assert any(
        note.startswith("* differs from bad: p < 0.05 after Holm's correction over the tests of the same value (")
        for note in table.notes
    )
    assert not any("*" in note for note in scored(arm("alone", debates(BAIKAL))).notes)


def test_what_answers_from_elsewhere_took_is_unknown() -> None:
    arms = [arm("run", debates(BAIKAL)), arm("elsewhere", debates(BAIKAL, usage={}))]
    scores = {each.name: scores_of(each.transcripts()) for each in arms}
    table = scored(*arms)
    for name in ("rounds", "calls", "paid", "tokens"):
        assert cell(table, 1, name) is tables.NO_FIGURE
        assert cell(table, 0, name).value is not None
    lines = shown(score_table(list(scores.items())), 200).splitlines()
    headings = next(line for line in lines if line.split()[:1] == ["run"])
    unknown = next(line for line in lines if line.split()[:1] == ["elsewhere"])
    for name in ("rounds", "calls", "tokens"):  # aligned to the right
        assert unknown[: headings.index(name) + len(name)].split()[-1] == "-"


def test_a_note_says_how_intervals_over_several_datasets_are_made() -> None:
    debates = [
        transcript(name, said=["x"], consensus=False, answer="x", metadata={"dataset": name})
        for name in ("fever", "hotpotqa", "nq_open")
    ]
    said = {n: " ".join(scored(arm("pooled", debates[:n])).notes) for n in (1, 2, 3)}
    for n in (2, 3):
        assert "Several datasets are pooled as one sample" in said[n]
    assert "dataset" not in said[1]


def test_runs_with_repeats_have_an_interval_over_repeats() -> None:
    repeats = [*debates(BAIKAL, "x"), *debates(BAIKAL, BAIKAL, repeat=1)]
    table = scored(arm("one", repeats), arm("two", debates(BAIKAL, "x")))
    over = cell(table, 0, "over repeats %")
    # Means of 50 and 100; t with one degree of freedom is wider than all shares.
    assert (over.value, over.low, over.high) == (75, 0, 100)
    assert cell(table, 1, "over repeats %") == tables.NO_FIGURE


def test_a_mark_that_failed_debates_could_undo_is_withheld_and_said() -> None:
    left = arm("left", debates(*["x"] * 12))
    right = debates(*[BAIKAL] * 9, "x", "x", "x")
    lost = [replace(each, status="failed", answer=None) for each in right[9:]]
    fallible = arm("right", [*right[:9], *lost])
    marked, unmarked = scored(left, arm("right", right)), scored(left, fallible)
    assert (cell(marked, 1, "correct (match) %").mark, cell(unmarked, 1, "correct (match) %").mark) == ("*", "*")
    # Nine questions to none are a difference; fifteen of 24 that failed could undo it.
    lost = [replace(each, status="failed", answer=None) for each in debates(*["x"] * 24)[9:]]
    left, fallible = arm("left", debates(*["x"] * 8, *[BAIKAL] * 16)), arm("right", [*right[:9], *lost])
    table = scored(left, fallible)
    assert cell(table, 1, "correct (match) %").mark == ""
    (note,) = [note for note in table.notes if "failed in only one run" in note]
    assert note.startswith("left and right: difference if questions that failed in only one run count against and for")
    assert "EM -29.2 and +33.3, so no mark" in note
    comparison = comparison_of({each.name: each.transcripts() for each in (left, fallible)})
    assert note in paired_table(comparison.tests()).notes


def test_each_dataset_can_have_its_own_row_and_its_own_marks() -> None:
    def of(name: Any, dataset: Any, *answers: Any) -> Any:
        return [replace(each, id=f"{dataset}-{each.id}", metadata={"dataset": dataset}) for each in debates(*answers)]

    bad = arm("bad", [*of("bad", "fever", *["x"] * 12), *of("bad", "nq", *["x"] * 12)])
    good = arm("good", [*of("good", "fever", *[BAIKAL] * 12), *of("good", "nq", *["x"] * 12)])
    apart = {
        each.name: {
            dataset: scores_of(t for t in each.transcripts() if t.dataset == dataset) for dataset in ("fever", "nq")
        }
        for each in (bad, good)
    }
    table = score_table_of([bad, good], apart)
    assert [row[0].text for row in table.rows] == ["bad: fever", "bad: nq", "good: fever", "good: nq"]
    assert [cell(table, row, "correct (match) %").mark for row in range(4)] == ["", "", "*", ""]
    assert any(note.startswith("* differs from the first arm on the same dataset: p < 0.05") for note in table.notes)


def paired() -> Any:
    runs = {"one": debates(*[BAIKAL] * 8, "x"), "two": debates(*["x"] * 8, BAIKAL)}
    said = {name: {"comet": {(f"q{n}", 0): n / 10 + (name == "two") for n in range(9)}} for name in runs}
    return paired_table(comparison_of(runs, said).tests(["em", "comet"]))


def test_every_share_of_a_debate_is_compared_in_percent_and_a_count_is_not() -> None:
    runs = {"one": debates(BAIKAL, "x"), "two": debates(BAIKAL, BAIKAL)}
    table = paired_table(comparison_of(runs).tests(["cons_matcher", "disagreement", "rounds"]))
    assert [cell(table, row, "value").text for row in range(3)] == ["cons_matcher %", "disagreement %", "rounds"]
    assert [cell(table, row, "of second").value for row in range(3)] == [100.0, 0.0, 1.0]


def test_a_table_of_tests_has_each_value_in_its_own_unit() -> None:
    table = paired()
    assert [cell(table, row, "value").text for row in range(2)] == ["EM %", "comet"]
    assert cell(table, 0, "difference").value == pytest.approx(-100 * 7 / 9)
    assert (cell(table, 0, "only first").value, cell(table, 0, "only second").value) == (8, 1)
    assert cell(table, 1, "difference").value == pytest.approx(1.0)
    assert cell(table, 1, "only first") == tables.NO_FIGURE
    assert cell(table, 0, "p").value == pytest.approx(0.0390625)
    assert cell(table, 0, "p (Holm)").mark == "*"
    assert {"McNemar, exact: EM.", "paired permutation: comet."} < set(table.notes)


@pytest.mark.parametrize(("p", "text"), [(0.00001, "< 0.0001"), (0.00213, "0.0021"), (0.03, "0.030"), (1.0, "1.000")])
def test_p_values_as_papers_print_them(p: float, text: str) -> None:
    assert p_value(p) == text


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "-", "+1 apple"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


def test_cells_hold_no_control_characters() -> None:
    assert csv_cell("a\x00b\x1b[2J\u202ec\nd") == "ab[2Jc\nd"
    assert csv_cell("\r\x1b=1") == "'=1"


@pytest.mark.parametrize("text", ["", "-5", "+0.5", "-1e-9", ".5", "-.5", "5.", "a=b", "Lake Baikal", " =1", "'=1"])
def test_numbers_and_other_text_stay_as_they_are(text: str) -> None:
    assert csv_cell(text) == text


@pytest.fixture
def hostile() -> Any:
    return Table(
        title=HOSTILE,
        columns=("arm", "score %", "=n"),
        rows=(
            (
                Cell(text=HOSTILE),
                Cell(text="1.5", interval="1 to 2", value=1.5, low=1.0, high=2.0, mark="*"),
                Cell(text="3", value=3),
            ),
            (Cell(text="plain"), Cell(text="-"), Cell(text="4", value=4)),
        ),
        notes=(HOSTILE,),
    )


def test_csv_holds_plain_figures_and_safe_words(hostile: Any) -> None:
    rows = list(csv.reader(io.StringIO(table_csv(hostile), newline="")))
    assert rows[0] == ["arm", "score %", "score % low", "score % high", "score % mark", "'=n"]
    assert rows[1] == [f"'{printable(HOSTILE)}", "1.5", "1.0", "2.0", "*", "3"]
    assert rows[2] == ["plain", "", "", "", "", "4"]


def test_parquet_has_typed_columns(hostile: Any, tmp_path: Path) -> None:
    write_table(hostile, tmp_path / "table.parquet")
    table = parquet.read_table(tmp_path / "table.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "arm": "string",
        "score %": "double",
        "score % low": "double",
        "score % high": "double",
        "score % mark": "string",
        "=n": "int64",
    }
    assert table.column("score %").to_pylist() == [1.5, None]
    assert table.schema.metadata[b"title"].decode() == HOSTILE


def test_latex_shows_text_of_others_and_runs_none(hostile: Any) -> None:
    text = table_latex(hostile)
    lines = text.splitlines()
    assert "\\input" not in text
    assert "\x1b" not in text
    assert sum(line.endswith(r"\\") for line in lines) == 4
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert r"\begin{tabular}{lrr}" in lines
    assert r"\textbackslash{}input\{/etc/passwd\}\%\$\&\#\_" in text
    assert r"score \% & =n \\" in text


@pytest.mark.parametrize(
    ("text", "escaped"), [("[1pt] x", "{[1pt] x}"), ("*best", "{*best}"), ("a_b", r"a\_b"), ("5 %", r"5 \%")]
)
def test_latex_escapes(text: str, escaped: str) -> None:
    assert latex(text) == escaped


def test_a_terminal_shows_no_markup_and_what_there_is_room_for(hostile: Any) -> None:
    text = shown(rich_table(hostile, without=("score %",)), 300)
    assert "\x1b" not in text
    assert "1.5" not in text
    assert "[31m" in text
    assert "1.5 ±0.5*" in shown(rich_table(hostile), 300)
    assert "1.5 (1 to 2)*" in shown(rich_table(hostile, details=True), 300)


@pytest.fixture
def answers(tmp_path: Path) -> Any:
    def write(name: Any, *arms: Any) -> Any:
        write_answers(arms, tmp_path / name)
        return tmp_path / name

    return write


def test_answers_as_json_lines(answers: Any) -> None:
    path = answers("out.jsonl", arm("one", debates(BAIKAL, None)), arm("two", debates("x", repeat=1)))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["arm"], row["id"], row["repeat"], row["answer"], row["correct"], row["status"]) for row in rows] == [
        ("one", "q0", 0, BAIKAL, 1.0, "ok"),
        ("one", "q1", 0, None, 0.0, "abstained"),
        ("two", "q0", 1, "x", 0.0, "ok"),
    ]
    assert (rows[0]["gold"], rows[0]["question"]) == ([BAIKAL], "Which lake is the deepest?")


def test_answers_as_csv_are_safe_for_spreadsheets(answers: Any) -> None:
    path = answers("out.csv", arm("=one", debates(HOSTILE, None, golds=("a", "=b"))))
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["arm"], first["answer"], first["gold"]) == ("'=one", f"'{printable(HOSTILE)}", "a | =b")
    assert (second["answer"], second["correct"]) == ("", "0.0")


def test_answers_as_parquet(answers: Any) -> None:
    path = answers("out.parquet", arm("one", debates(BAIKAL, None)))
    rows = parquet.read_table(path).to_pylist()
    assert [(row["id"], row["gold"], row["answer"], row["correct"]) for row in rows] == [
        ("q0", [BAIKAL], BAIKAL, 1.0),
        ("q1", [BAIKAL], None, 0.0),
    ]
