"""Tables of scores, tests and spending: what they say, and that text of others is text in every form."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from madke._util.terminal import printable, table_text
from madke.core.transcript import Final, StageUsage, Transcript
from madke.report.comparison import comparison_of, family, paired_table
from madke.report.scores import (
    dataset_table,
    marked_scores,
    score_details,
    score_table,
    scores_on_terminal,
    stage_table,
)
from madke.report.tables import NO_FIGURE, Cell, Table, latex, plain_table, table_csv, table_latex
from madke.scoring.arms import Results, read_arm
from madke.scoring.scores import Spending, scores_of
from madke.scoring.statistics import Estimate
from tests.scoring import hand_made
from tests.support.transcripts import arm, compared, transcript

BAIKAL = "Lake Baikal"
HOSTILE = '=HYPERLINK("http://x")\\input{/etc/passwd}%$&#_^~<b>\x1b[31m\u202e\n& forged \\\\'


def debates(*answers: str | None, **changes: Any) -> list[Transcript]:
    return [
        transcript(f"q{n}", said=[answer, BAIKAL], consensus=answer == BAIKAL, answer=answer, **changes)
        for n, answer in enumerate(answers)
    ]


def failed(debate: Transcript, error: str = "gone") -> Transcript:
    return replace(debate, status="failed", answer=None, final=Final(by="summarizer", status="failed", error=error))


def scored(*arms: Results) -> Table:
    tests, _ = family([read_arm(each.name, each.transcripts()) for each in arms])
    return marked_scores({each.name: scores_of(each.transcripts()) for each in arms}, tests)


def cell(table: Table, row: int, column: str) -> Cell:
    return table.rows[row][table.columns.index(column)]


def test_a_score_table_has_a_row_an_arm() -> None:
    (lost,) = debates(None, question="Which one failed?")
    table = scored(arm("one", [*debates(BAIKAL, "x", None), failed(lost)]), arm("two", debates(BAIKAL)))
    assert [row[0].text for row in table.rows] == ["one", "two"]
    assert [cell(table, 0, name).value for name in ("n", "abst.", "failed", "calls", "tokens")] == [4, 1, 1, 8, 440]
    correct = cell(table, 0, "correct (match) %")
    assert (correct.whole, correct.value) == ("33.3 (6.1 to 79.2)", pytest.approx(100 / 3))
    assert (correct.low, correct.high) == pytest.approx((6.149, 79.234), abs=1e-3)
    assert table.columns[:5] == ("arm", "n", "correct (match) %", "abst.", "failed")
    assert "match %" not in table.columns
    assert cell(table, 0, "rounds").whole == "1.00 (1.00 to 1.00)"


def test_arms_that_differ_from_the_first_are_marked_after_correction() -> None:
    table = scored(
        arm("bad", debates(*["x"] * 12)),
        arm("good", debates(*[BAIKAL] * 12)),
        arm("same", debates(*["x"] * 11, BAIKAL)),
    )
    for column in ("correct (match) %", "F1 %"):
        assert [cell(table, row, column).mark for row in range(3)] == ["", "*", ""]
    assert any(note.startswith("* differs from bad: p < 0.05 after Holm's correction") for note in table.notes)
    assert not any("*" in note for note in scored(arm("alone", debates(BAIKAL))).notes)


def test_a_mark_that_failed_debates_could_undo_is_withheld_and_said() -> None:
    # Nine questions to none are a difference; fifteen of 24 that failed could undo it.
    left = arm("left", debates(*["x"] * 8, *[BAIKAL] * 16))
    nine, lost = debates(*[BAIKAL] * 9), debates(*["x"] * 24)[9:]
    fallible = arm("right", [*nine, *map(failed, lost)])
    table = scored(left, fallible)
    assert cell(table, 1, "correct (match) %").mark == ""
    (note,) = [note for note in table.notes if "failed in only one run" in note]
    assert note.startswith("left and right: difference if questions that failed in only one run count against and for")
    assert "EM -29.2 and +33.3, so no mark" in note
    assert note in paired_table(comparison_of([left, fallible]).tests()).notes


def test_a_table_of_tests_has_each_value_in_its_own_unit() -> None:
    runs = {"one": debates(*[BAIKAL] * 8, "x"), "two": debates(*["x"] * 8, BAIKAL)}
    said = {name: {"comet": {(f"q{n}", 0): n / 10 + (name == "two") for n in range(9)}} for name in runs}
    table = paired_table(compared(runs, said).tests(["em", "comet"]))
    assert [cell(table, row, "value").text for row in range(2)] == ["EM %", "comet"]
    assert cell(table, 0, "difference").value == pytest.approx(-100 * 7 / 9)
    assert (cell(table, 0, "only first").value, cell(table, 0, "only second").value) == (8, 1)
    assert cell(table, 1, "difference").value == pytest.approx(1.0)
    assert cell(table, 1, "only first") == NO_FIGURE
    assert (cell(table, 0, "p (Holm)").value, cell(table, 0, "p (Holm)").mark) == (pytest.approx(0.0390625), "*")
    assert {"McNemar, exact: EM.", "paired permutation: comet."} < set(table.notes)


def test_datasets_are_columns_with_intervals_and_the_best_is_bold() -> None:
    def of(right: str) -> list[Transcript]:
        return [
            replace(each, id=f"{name}-{each.id}", metadata={"dataset": name})
            for name, answer in {"nq": right, "fever": "x"}.items()
            for each in debates(*[answer] * 12)
        ]

    runs = {"rag": of("x"), "debate": of(BAIKAL)}
    tests = compared(runs).dataset_tests()
    table = dataset_table([read_arm(name, each) for name, each in runs.items()], tests)
    assert table.columns == ("arm", "nq (match) %", "fever (match) %", "all %")
    assert [row[1].whole + row[1].mark for row in table.rows] == ["0.0 (0.0 to 24.2)", "100.0 (75.8 to 100.0)*"]
    assert r"debate & \textbf{100.0*} & 0.0 & \textbf{50.0} \\" in table_latex(table)
    assert dataset_table([read_arm("one", debates(BAIKAL))], []) is None


# Forms of a table


@pytest.fixture
def hostile() -> Table:
    figure = Cell(text="1.5", interval="1 to 2", value=1.5, low=1.0, high=2.0, mark="*")
    rows = (
        (Cell(text=HOSTILE), figure, Cell(text="3", value=3)),
        (Cell(text="plain"), NO_FIGURE, Cell(text="4", value=4)),
    )
    return Table(title=HOSTILE, columns=("arm", "score %", "=n"), rows=rows, notes=(HOSTILE,))


def test_csv_holds_plain_figures_and_safe_words(hostile: Table) -> None:
    assert list(csv.reader(io.StringIO(table_csv(hostile), newline=""))) == [
        ["arm", "score %", "score % low", "score % high", "score % mark", "'=n"],
        [f"'{printable(HOSTILE)}", "1.5", "1.0", "2.0", "*", "3"],
        ["plain", "", "", "", "", "4"],
    ]


def test_latex_shows_text_of_others_and_runs_none(hostile: Table) -> None:
    text = table_latex(hostile)
    lines = text.splitlines()
    assert "\\input" not in text
    assert "\x1b" not in text
    assert sum(line.endswith(r"\\") for line in lines) == 4
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert r"\begin{tabular}{lrr}" in lines
    assert r"\textbackslash{}input\{/etc/passwd\}\%\$\&\#\_" in text
    assert r"score \% & =n \\" in text
    # After the \\ of the row above, LaTeX would read these as its arguments.
    assert (latex("[1pt] x"), latex("*best")) == ("{[1pt] x}", "{*best}")


def test_a_terminal_shows_no_markup_and_short_or_exact_intervals(hostile: Table) -> None:
    text = plain_table(hostile, width=300)
    assert "\x1b" not in text
    assert "1.5 ±0.5*" in text
    assert "1.5 (1 to 2)*" in plain_table(hostile, details=True, width=300)


def test_a_table_wraps_between_words_and_keeps_its_figures_whole() -> None:
    rows = [("one arm of a study", "50.0 (40 to 60)"), ("b", "60.0")]
    text = table_text(("arm", "right %"), rows, figures={"right %"}, notes=["a note"], width=30)
    assert "50.0 (40 to 60)" in text
    assert [line.split()[0] for line in text.splitlines() if line.strip(" ─")] == ["arm", "one", "study", "b", "a"]


# Scores on a terminal, their notes and details


@pytest.mark.parametrize(("low", "figure"), [(0.4, "60.0 ±20"), (0.3, "60.0 [30 to 80]")])
def test_a_note_explains_the_signs_of_intervals(low: float, figure: str) -> None:
    correct = Estimate(value=0.6, low=low, high=0.8, n=20)
    text = scores_on_terminal({"run": replace(scores_of(debates(BAIKAL)), correct=correct)})
    assert figure in text
    assert text.count("±: half of the 95 % interval; brackets have its ends.") == text.count("95 % interval") == 1


def test_a_run_that_failed_has_its_reasons_above_the_table_and_no_row() -> None:
    errors = ["HTTP 401: no such key"] * 11 + ["timeout"]
    lost = scores_of(map(failed, debates(*[None] * 12), errors))
    why = "bad: all 12 debates failed: 11 x HTTP 401: no such key; 1 x timeout"
    first, *others = scores_on_terminal({"good": scores_of(debates(BAIKAL)), "bad": lost}).splitlines()
    assert first == why
    assert any(line.split()[:1] == ["good"] for line in others)
    assert not any("bad" in line for line in others)
    alone = scores_on_terminal({"bad": replace(lost, incomplete="12 of 40 (interrupted)")})
    assert alone.splitlines() == [why, "bad: 12 of 40 (interrupted)."]


def test_stages_have_their_readable_share_calls_tokens_and_cost() -> None:
    used = StageUsage(calls=2, paid=1, prompt_tokens=2000, cached_tokens=500, completion_tokens=30, bound=1)
    played = [hand_made.debate([BAIKAL, None], usage={"speak": used})]
    table = stage_table({"one": replace(scores_of(played), spending=Spending(cost={"speak": 1.5}))})
    rows = [dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows]
    (row,) = (row for row in rows if row["stage"] == "speak")
    assert (row["run"], row["readable %"], row["cost"]) == ("one", "50.0", "1.5000")
    assert (row["calls"], row["paid"], row["bound by a schema"], row["cached"]) == ("2", "1", "1", "500")
    assert "retried" not in row


def line_of(details: str, start: str) -> str:
    (found,) = (each for each in details.splitlines() if each.startswith(start))
    return found


def test_details_give_values_of_debates_rounds_and_stages_in_their_own_units() -> None:
    right, wrong = hand_made.RIGHT, hand_made.WRONG
    pool = hand_made.pool(("wiki", "w0", "Lake Baikal"), ("\x1b[2J", "g1", "Lakes"))
    selected = [[(0,), (0, 1)], [(0,), ()]]
    used = StageUsage(calls=1, paid=1, prompt_tokens=1200, completion_tokens=510, reasoning_tokens=500)
    played = hand_made.debate([wrong, right], [right, right], selected=selected, pool=pool, usage={"speak": used})
    spending = Spending(cost={"speak": 1.5}, unpriced=("hf/\x1b[2J",))
    details = score_details(replace(scores_of([played]), spending=spending))
    assert "corrected 100.0, collapsed 0.0, oracle 100.0" in line_of(details, "of the debates: ")
    assert "no found 25.0, selected ids 1.00" in details
    assert "accuracy 0.0 > 100.0, right 50.0 > 100.0" in line_of(details, "round by round: ")
    assert line_of(details, "speak") == "speak: 1 call, 1,200 prompt + 510 completion (500 reasoning) tokens"
    assert line_of(details, "without a price").startswith("without a price, excluded from the cost: hf/")
    assert "\x1b" not in details


def test_a_grader_has_its_co2_in_the_details_and_a_note_of_answers_without_a_grade() -> None:
    graded = scores_of(debates(BAIKAL, "x", "y"), {"grader": {("q0", 0): 1.0, ("q1", 0): 0.0}})
    assert line_of(score_details(graded), "Co2 by the grader") == (
        "Co2 by the grader by the judge 33.3 (6.1 to 79.2), by the matcher 33.3 (6.1 to 79.2)"
    )
    notes = score_table({"one": graded}).notes
    assert any("1 answer has no grade and is excluded from the grader's mean" in note for note in notes)


def test_a_note_holds_the_judge_and_the_summarizer_against_the_matcher() -> None:
    def judged(id_: str, said: list[str], answer: str = BAIKAL, *, consensus: bool = True) -> Transcript:
        return transcript(id_, said=said, consensus=consensus, answer=answer)

    debates = judged("a", [BAIKAL, "x"]), judged("b", [BAIKAL] * 2), judged("c", [BAIKAL] * 2, "y", consensus=False)
    scores = scores_of(debates)
    assert (scores.debate["false_same"].value, scores.debate["false_same"].n) == (0.5, 2)
    (note,) = (note for note in score_table({"run": scores}).notes if "wrong by the task's matcher" in note)
    assert note.startswith("run: wrong by the task's matcher: verdicts SAME 50.0 % (95 % ")
    assert "; verdicts DIFFERENT 100.0 % (95 % " in note
    assert "; new summaries 33.3 % (95 % " in note


def warnings(**arms: Any) -> list[str]:
    return [note for note in score_table(arms).notes if note.startswith("Warning: ")]


def test_signs_that_something_is_wrong_are_warned_of() -> None:
    one, two = (scores_of(debates(*answers)) for answers in ((BAIKAL, "x"), ("x", "x")))
    assert warnings(a=one, b=two) == []
    (equal,) = warnings(a=one, b=one)
    assert equal.startswith("Warning: All arms have the same scores by every measure")
    (sentences,) = warnings(a=scores_of(debates("It is Lake Baikal.")))
    assert sentences.startswith("Warning: a: EM is 0.0 % where match is 100.0 %.")
    (replies,) = warnings(a=scores_of(debates(BAIKAL, None)))
    assert replies.startswith("Warning: a: more than a tenth of the replies cannot be read (25 % of speak")
    unread = replace(one, unread={"unmarked": 1}, parse_failures={})
    assert warnings(a=unread) == ["Warning: a: 1 of 2 final answers cannot be read; look at some of them."]
