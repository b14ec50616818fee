"""Tables of scores, tests and spending: what they say, and that text of others is text in every form."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke._util.terminal import printable, table_text
from madke.core.transcript import Final, StageUsage
from madke.report.comparison import comparison_of, family, paired_table
from madke.report.export import write_answers
from madke.report.scores import (
    dataset_table,
    marked_scores,
    score_details,
    score_table,
    scores_on_terminal,
    stage_table,
)
from madke.report.tables import NO_FIGURE, Cell, Table, latex, p_value, plain_table, table_csv, table_latex
from madke.scoring.arms import read_arm
from madke.scoring.scores import Spending, scores_of
from madke.scoring.statistics import Estimate
from tests.scoring import hand_made
from tests.support.transcripts import arm, compared, transcript

BAIKAL = "Lake Baikal"
HOSTILE = '=HYPERLINK("http://x")\\input{/etc/passwd}%$&#_^~<b>\x1b[31m\u202e\n& forged \\\\'


def debates(*answers: Any, **changes: Any) -> Any:
    return [
        transcript(f"q{n}", said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)
        for n, answer in enumerate(answers)
    ]


def scored(*arms: Any) -> Any:
    tests, _ = family([read_arm(each.name, each.transcripts()) for each in arms])
    return marked_scores({each.name: scores_of(each.transcripts()) for each in arms}, tests)


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
    assert [cell(table, 0, name).value for name in ("n", "abst.", "failed", "calls", "tokens")] == [4, 1, 1, 8, 440]
    correct = cell(table, 0, "correct (match) %")
    assert (correct.whole, correct.value) == ("33.3 (6.1 to 79.2)", pytest.approx(100 / 3))
    assert (correct.low, correct.high) == pytest.approx((6.149, 79.234), abs=1e-3)
    assert table.columns[:5] == ("arm", "n", "correct (match) %", "abst.", "failed")
    assert "match %" not in table.columns
    assert cell(table, 0, "rounds").whole == "1.00 (1.00 to 1.00)"
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
    comparison = comparison_of([left, fallible])
    assert note in paired_table(comparison.tests()).notes


def paired() -> Any:
    runs = {"one": debates(*[BAIKAL] * 8, "x"), "two": debates(*["x"] * 8, BAIKAL)}
    said = {name: {"comet": {(f"q{n}", 0): n / 10 + (name == "two") for n in range(9)}} for name in runs}
    return paired_table(compared(runs, said).tests(["em", "comet"]))


def test_a_table_of_tests_has_each_value_in_its_own_unit() -> None:
    table = paired()
    assert [cell(table, row, "value").text for row in range(2)] == ["EM %", "comet"]
    assert cell(table, 0, "difference").value == pytest.approx(-100 * 7 / 9)
    assert (cell(table, 0, "only first").value, cell(table, 0, "only second").value) == (8, 1)
    assert cell(table, 1, "difference").value == pytest.approx(1.0)
    assert cell(table, 1, "only first") == NO_FIGURE
    assert cell(table, 0, "p (Holm)").value == pytest.approx(0.0390625)
    assert cell(table, 0, "p (Holm)").mark == "*"
    assert {"McNemar, exact: EM.", "paired permutation: comet."} < set(table.notes)


@pytest.mark.parametrize(("p", "text"), [(0.00001, "< 0.0001"), (0.00213, "0.0021"), (0.03, "0.030"), (1.0, "1.000")])
def test_p_values_as_papers_print_them(p: float, text: str) -> None:
    assert p_value(p) == text


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


def test_datasets_are_columns_with_intervals_and_the_best_is_bold() -> None:
    def of(right: str) -> Any:
        given = {"nq": right, "fever": "x"}
        return [
            replace(each, id=f"{name}-{each.id}", metadata={"dataset": name})
            for name, answer in given.items()
            for each in debates(*[answer] * 12)
        ]

    runs = {"rag": of("x"), "debate": of(BAIKAL)}
    tests = compared(runs).dataset_tests()
    table = dataset_table([read_arm(name, each) for name, each in runs.items()], tests)
    assert table.columns == ("arm", "nq (match) %", "fever (match) %", "all %")
    assert [row[1].whole + row[1].mark for row in table.rows] == ["0.0 (0.0 to 24.2)", "100.0 (75.8 to 100.0)*"]
    assert r"debate & \textbf{100.0*} & 0.0 & \textbf{50.0} \\" in table_latex(table)
    assert "nq (match) % low" in table_csv(table).splitlines()[0]
    assert dataset_table([read_arm("one", debates(BAIKAL))], []) is None


@pytest.mark.parametrize(
    ("text", "escaped"), [("[1pt] x", "{[1pt] x}"), ("*best", "{*best}"), ("a_b", r"a\_b"), ("5 %", r"5 \%")]
)
def test_latex_escapes(text: str, escaped: str) -> None:
    assert latex(text) == escaped


def test_a_terminal_shows_no_markup_and_what_there_is_room_for(hostile: Any) -> None:
    text = plain_table(hostile, width=300)
    assert "\x1b" not in text
    assert "[31m" in text
    assert "1.5 ±0.5*" in text
    assert "1.5 (1 to 2)*" in plain_table(hostile, details=True, width=300)


@pytest.fixture
def answers(tmp_path: Path) -> Any:
    def write(name: Any, *arms: Any) -> Any:
        write_answers(arms, tmp_path / name)
        return tmp_path / name

    return write


def test_answers_as_json_lines(answers: Any) -> None:
    path = answers("out.jsonl", arm("one", debates(BAIKAL, None)), arm("two", debates("x", repeat=1)))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["run"], row["id"], row["repeat"], row["answer"], row["correct"], row["status"]) for row in rows] == [
        ("one", "q0", 0, BAIKAL, 1.0, "ok"),
        ("one", "q1", 0, None, 0.0, "abstained"),
        ("two", "q0", 1, "x", 0.0, "ok"),
    ]
    assert (rows[0]["gold"], rows[0]["question"]) == ([BAIKAL], "Which lake is the deepest?")


# On terminals


def runs(*names: str) -> Any:
    return {name: debates(*(BAIKAL if n % (k + 2) else "x" for n in range(12))) for k, name in enumerate(names)}


def table_lines(text: str) -> list[str]:
    """The lines of the rows, without title and notes."""
    lines = text.splitlines()
    (rule,) = [n for n, line in enumerate(lines) if line.strip() and set(line.strip()) == {"─"}]
    end = next(n for n in range(rule, len(lines)) if not lines[n].strip())
    return lines[rule + 1 : end]


def test_a_table_wraps_between_words_and_keeps_its_figures_whole() -> None:
    rows = [("one arm of a study", "50.0 (40 to 60)"), ("b", "60.0")]
    text = table_text(("arm", "right %"), rows, figures={"right %"}, notes=["a note"], width=30)
    assert [" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")] == [
        "arm right %",
        "one arm of a 50.0 (40 to 60)",
        "study",
        "b 60.0",
        "a note",
    ]


@pytest.mark.parametrize(("low", "figure"), [(0.4, "60.0 ±20"), (0.3, "60.0 [30 to 80]")])
def test_a_note_explains_the_signs_of_intervals(low: float, figure: str) -> None:
    correct = Estimate(value=0.6, low=low, high=0.8, n=20)
    text = scores_on_terminal({"run": replace(scores_of(runs("run")["run"]), correct=correct)})
    assert figure in text
    assert "±: half of the 95 % interval; brackets have its ends." in text
    assert text.count("95 % interval") == 1


def test_incomplete_and_failed_runs_say_so() -> None:
    good = scores_of(runs("good")["good"])
    stopped = replace(good, incomplete="12 of 40 (stopped at --deadline; ...)")
    text = scores_on_terminal({"run": stopped})
    assert "run: 12 of 40 (stopped at --deadline; ...)." in text
    errors = ["HTTP 401: no such key"] * 11 + ["timeout"]
    lost = [
        replace(each, status="failed", answer=None, final=Final(by="summarizer", status="failed", error=error))
        for each, error in zip(debates(*[None] * 12), errors, strict=True)
    ]
    text = scores_on_terminal({"good": good, "bad": scores_of(lost)})
    assert text.startswith("bad: all 12 debates failed: 11 x HTTP 401: no such key; 1 x timeout\n")
    assert [line.split()[0] for line in table_lines(text)] == ["good"]
    alone = scores_on_terminal({"bad": replace(scores_of(lost), incomplete="12 of 40 (interrupted)")})
    assert alone.splitlines() == [text.splitlines()[0], "bad: 12 of 40 (interrupted)."]


# Stages, details and spending


def figures_of(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows]


def test_stages_have_their_readable_share_calls_tokens_and_cost() -> None:
    used = StageUsage(calls=2, paid=1, prompt_tokens=2000, cached_tokens=500, completion_tokens=30, bound=1)
    played = [hand_made.debate([BAIKAL, None], usage={"speak": used})]
    scores = replace(scores_of(played), spending=Spending(cost={"speak": 1.5}))
    (row,) = [each for each in figures_of(stage_table({"one": scores})) if each["stage"] == "speak"]
    assert (row["run"], row["readable %"], row["cost"]) == ("one", "50.0", "1.5000")
    assert (row["calls"], row["paid"], row["bound by a schema"], row["cached"]) == ("2", "1", "1", "500")
    assert "retried" not in row


def line(details: str, start: str) -> str:
    (found,) = (each for each in details.splitlines() if each.startswith(start))
    return found


def test_details_give_values_of_debates_and_rounds_in_their_own_units() -> None:
    right, wrong = hand_made.RIGHT, hand_made.WRONG
    pool = hand_made.pool(("wiki", "w0", "Lake Baikal"), ("\x1b[2J", "g1", "Lakes"))
    selected = [[(0,), (0, 1)], [(0,), ()]]
    scores = scores_of([hand_made.debate([wrong, right], [right, right], selected=selected, pool=pool)])
    details = score_details(replace(scores, spending=Spending(cost={"speak": 1.5}, unpriced=("hf/\x1b[2J",))))
    assert "corrected 100.0, collapsed 0.0, oracle 100.0" in line(details, "of the debates: ")
    assert "no found 25.0, selected ids 1.00" in details
    assert "accuracy 0.0 > 100.0, right 50.0 > 100.0" in line(details, "round by round: ")
    assert line(details, "without a price").startswith("without a price, excluded from the cost: hf/")
    assert "\x1b" not in details
    played = [
        hand_made.debate([right, right], answer=right if (n, k) != (0, 0) else wrong, id_=f"q{n}", repeat=k)
        for n in range(2)
        for k in range(2)
    ]
    graded = scores_of(played, {"grader": {("q1", 0): 1.0, ("q1", 1): 1.0, ("q0", 0): 0.0}})
    details = score_details(graded)
    notes = score_table({"one": graded}).notes
    assert any("1 answer has no grade and is excluded from the grader's mean" in note for note in notes)
    assert line(details, "Co2 by the grader").startswith("Co2 by the grader by the judge -, by the matcher 50.0")


def test_details_tell_how_many_completion_tokens_were_reasoning() -> None:
    used = StageUsage(calls=1, paid=1, prompt_tokens=1200, completion_tokens=510, reasoning_tokens=500)
    details = score_details(scores_of([hand_made.debate([BAIKAL], usage={"speak": used})]))
    assert line(details, "speak") == "speak: 1 call, 1,200 prompt + 510 completion (500 reasoning) tokens"


def test_arms_whose_scores_are_all_equal_and_answers_that_cannot_be_read_are_warned_of() -> None:
    one, two = (scores_of(debates(*answers)) for answers in ((BAIKAL, "x"), ("x", "x")))
    equal = "Warning: All arms have the same scores by every measure"
    assert any(note.startswith(equal) for note in score_table({"a": one, "b": one}).notes)
    assert not any(note.startswith(equal) for note in score_table({"a": one, "b": two}).notes)
    unread = replace(one, unread={"unmarked": 1}, parse_failures={})
    assert "Warning: a: 1 of 2 final answers cannot be read; look at some of them." in score_table({"a": unread}).notes
