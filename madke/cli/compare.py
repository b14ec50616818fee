"""``madke compare``: runs side by side, question by question, with paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from madke._util.terminal import say, say_json, say_wrapped
from madke.cli import flags
from madke.cli.flags import PREDICTION_FILES, DataOption, Paths, open_arms, option, switch
from madke.core.errors import UserError
from madke.scoring.logs import is_log, read_logs

EPILOG = flags.epilog(
    PREDICTION_FILES,
    flags.TASK_NAMES,
    "Metrics: em, f1, match, correct, cons_judge, co2_matcher, corrected, ..., and names of graders and scorers.",
    "Tests: every pair of up to six runs; of more, each run against the first. McNemar's exact test for right or "
    "wrong, a paired permutation test for other metrics, with Holm's correction.",
    "Several datasets: there are also tests within each, corrected over all datasets and pairs. A mean of different "
    "metrics (EM for some questions, label accuracy for others) is only tested within datasets.",
    "Repeats: the table of questions shows the first. Scores and tests use the mean over all repeats.",
    "Logs of other tools: Inspect's .eval and .json, lm-eval's samples_*.jsonl, and any JSON Lines of id and right "
    "(true, false, 0 to 1), or of id, answer and gold, with calls, tokens and cost if known. Questions are joined by "
    "their ids; a run of madke may be among them.",
)


def command(
    paths: Paths,
    only_different: Annotated[bool, switch("--only-different", "Show only questions with different answers.")] = False,
    metric: Annotated[list[str] | None, option("Metric to test, see below. Default: all. Repeatable.", "NAME")] = None,
    details: Annotated[bool, switch("--details", "Show whole intervals.")] = False,
    data: DataOption = None,
    dataset: flags.Dataset = None,
    columns: flags.Columns = None,
    task: flags.TaskOption = None,
    margin: Annotated[float, option("Of logs: a difference of fewer points is none that matters.", "POINTS")] = 10,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.")] = False,
) -> None:
    """Compare runs, or logs of other tools, on their shared questions: answers, scores and paired tests.

    Examples:
      madke compare runs/first runs/second --only-different
      madke compare logs/first.eval samples_nq.jsonl mine.jsonl --margin 5
    """
    of_predictions = data or dataset or columns or task
    if not of_predictions and any(is_log(path) for path in paths):
        _compare_logs(paths, margin, as_json=as_json)
        return
    from madke.report.comparison import BY_DATASET, compare_runs, paired_table, question_table
    from madke.report.scores import oddities, scores_on_terminal
    from madke.report.tables import plain_table
    from madke.report.verdict import finding

    results = open_arms(paths, data, dataset, task, columns=columns)
    if len(results) < 2:
        raise UserError(f"expected two or more runs, found {len(results)}; `madke report` shows one")
    comparison = compare_runs(results)
    shown = [row for row in comparison.questions if row.differs or not only_different]
    tests = comparison.tests(metric or ())
    within = comparison.dataset_tests(metric or ())
    sentence = finding(comparison.arms, comparison.scores, tests)
    if as_json:
        output: dict[str, object] = {"questions": shown, "unshared": comparison.unshared, "scores": comparison.scores}
        output |= {"tests": tests, "dataset_tests": within, "notes": comparison.notes}
        say_json(output | {"finding": sentence, "warnings": [*oddities(comparison.scores)]})
        return
    if shown:
        say(plain_table(question_table(shown)))
    counts = {"questions in all runs": len(comparison.questions), "shown": len(shown)}
    counts |= {f"only in {name}": count for name, count in comparison.unshared.items() if count}
    say("; ".join(f"{what}: {count}" for what, count in counts.items()))
    say(scores_on_terminal(comparison.scores, details=details))
    say(plain_table(paired_table(tests), details=details))
    if within:
        say(plain_table(paired_table(within, BY_DATASET), details=details))
    for text in (*comparison.notes, sentence):
        say_wrapped(text)


def _compare_logs(paths: Sequence[Path], margin: float, *, as_json: bool) -> None:
    from madke.report.comparison import compare_logs, logs_table, paired_table
    from madke.report.tables import plain_table
    from madke.report.verdict import log_finding

    logs = read_logs(paths)
    if len(logs) < 2:
        raise UserError(f"expected two or more logs or runs, found {len(logs)}")
    if not 0 < margin < 100:
        raise UserError(f"--margin {margin:g}: expected points between 0 and 100")
    tests = compare_logs(logs)
    sentences = [log_finding(test, margin / 100) for test in tests]
    if as_json:
        shown = [{"name": log.name, "path": str(log.path), "right": log.right, "cost": log.cost} for log in logs]
        say_json({"logs": shown, "tests": tests, "findings": sentences})
        return
    for sentence in sentences:
        say_wrapped(sentence)
    for table in (logs_table(logs), paired_table(tests)):
        say(plain_table(table))
