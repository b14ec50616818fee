"""``madke compare``: runs side by side, question by question, and whether one is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from madke.cli import flags
from madke.cli.paths import Data, Paths, open_arms
from madke.core.errors import UserError
from madke.terminal import console, say, say_json

if TYPE_CHECKING:
    from madke.core.transcript import Transcript
    from madke.report.comparison import ComparedQuestion, Comparison
    from madke.scoring.arms import Results
    from madke.scoring.paired import PairedTest

    Shown = Sequence[ComparedQuestion]
    Tests = Sequence[PairedTest]


def command(
    paths: Paths,
    question: Annotated[
        str | None, typer.Option(help="Show the debates of this question id side by side, and nothing else.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Show only the first N questions; all are counted all the same.")
    ] = None,
    only_different: Annotated[
        bool, typer.Option("--only-different", help="Show only questions that the runs answered differently.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to test: em, f1, match, correct, cons_judge, co2_matcher, corrected, a scorer's name ... "
            "Repeatable. Default: every metric of the tasks, and what graders and scorers said.",
        ),
    ] = None,
    all_pairs: Annotated[
        bool,
        typer.Option("--all-pairs", help="Test each two of more than three runs, not only each with the first."),
    ] = False,
    data: Data = None,
    dataset: flags.Dataset = None,
    task: flags.Task = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Compare runs over the questions that all of them hold: answers, scores, and which of two is better.

    Each two runs (of more than three, each with the first) are tested on each metric, question by question: McNemar's
    exact test for right or wrong, a paired permutation test for others, corrected for their number (Holm). Of repeats
    the first is shown and counted by pairs; scores and tests are of the means over all of them, and with three or more
    there is a test across repeats too.
    """
    from madke.report.comparison import compare_runs

    results = open_arms(paths, data, dataset, task)
    if len(results) < 2:
        raise UserError(f"compare takes two runs or more, found {len(results)}; `madke report` shows one")
    if question is not None:
        if limit is not None or only_different or metric or all_pairs:
            raise UserError(
                "--question shows one question; leave out --limit, --only-different, --metric and --all-pairs"
            )
        _one_question(results, question, as_json)
        return
    comparison = compare_runs(results)
    shown = [row for row in comparison.questions if row.differs or not only_different][:limit]
    tests = comparison.tests(metric or (), all_pairs=all_pairs)
    across = comparison.repeat_tests(metric or (), all_pairs=all_pairs)
    show = _show_json if as_json else _show_tables
    show(comparison, shown, tests, across)


def _one_question(results: Sequence[Results], question: str, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from madke.report.comparison import compare
    from madke.report.debate_text import debate_columns

    debates = {arm.name: debates_of(arm, question) for arm in results}
    (compared,) = compare(debates).questions
    if as_json:
        say_json(json.dumps(asdict(compared), ensure_ascii=False))
        return
    first = [min(repeats, key=lambda transcript: transcript.repeat) for repeats in debates.values()]
    screen = console()
    screen.print(debate_columns(compared, first, screen.width))


def debates_of(arm: Results, question: str) -> list[Transcript]:
    """The debates of a question, its repeats in the order in which they ended."""
    found = [transcript for transcript in arm.transcripts() if transcript.id == question]
    if not found:
        raise UserError(f"holds no question {question!r}", file=arm.path)
    return found


def _show_json(comparison: Comparison, shown: Shown, tests: Tests, across: Tests) -> None:
    import json
    from dataclasses import asdict

    from madke.scoring.scores import scores_to_json

    found = {
        "questions": [asdict(row) for row in shown],
        "unshared": dict(comparison.unshared),
        "scores": {name: json.loads(scores_to_json(each)) for name, each in comparison.scores.items()},
        "pairs": [asdict(pair) for pair in comparison.pairs],
        "tests": [asdict(test) for test in tests],
        "repeat_tests": [asdict(test) for test in across],
        "notes": comparison.notes,
    }
    say_json(json.dumps(found, ensure_ascii=False))


def _show_tables(comparison: Comparison, shown: Shown, tests: Tests, across: Tests) -> None:
    from madke.report.comparison import NO_ROOM, cost_table, paired_table
    from madke.report.debate_text import pair_table, question_table
    from madke.report.score_tables import score_table
    from madke.report.tables import rich_table

    screen = console()
    if shown:
        screen.print(rich_table(question_table(shown)))
    counts = {"questions in all runs": len(comparison.questions), "shown": len(shown)}
    counts |= {f"only in {name}": count for name, count in comparison.unshared.items() if count}
    say("; ".join(f"{what}: {count}" for what, count in counts.items()))
    screen.print(score_table([*comparison.scores.items()]))
    screen.print(rich_table(cost_table(comparison.scores)))
    screen.print(rich_table(pair_table(comparison.pairs)))
    screen.print(rich_table(paired_table(tests), NO_ROOM))
    if across:
        screen.print(rich_table(paired_table(across, "Paired tests across repeats"), NO_ROOM))
    for note in comparison.notes:
        say(note)
