"""How far graders agree with each other, and with the tasks' own metrics, on the same answers."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from madke.core.question import Question
from madke.report.human_grades import kappa
from madke.report.tables import Table, TableRow, count_cell, percent_cell, score_cell, table_of
from madke.scoring.arms import Results
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import METRICS, heading_of, is_binary, metrics_of
from madke.scoring.outside import answers_of, external_values, grader_of
from madke.scoring.value_units import is_grader
from madke.tasks import get_task

Graded = dict[tuple[str, str, str], float]
"""(question id, question, answer) -> right (1) or wrong (0)."""


def agreement_table(arms: Sequence[Results]) -> Table | None:
    """Each pair of graders, and each grader with each binary metric of the tasks; None without two of these.

    Each distinct answer to a question counts once, in however many arms it is. Abstained answers have no grade.
    """
    graded: dict[str, Graded] = {}
    metrics: dict[str, Graded] = {}
    models: dict[str, str] = {}
    for arm in arms:
        answers = answers_of(arm.transcripts())
        for name, values in external_values(arm).items():
            if not is_grader(name):
                continue
            models[name] = grader_of(arm, name) or name
            for key in answers.keys() & values.keys():
                question, answer = answers[key]
                place = (question.id, question.question, answer)
                graded.setdefault(name, {})[place] = values[key]
                for metric, value in _binary(question, answer).items():
                    metrics.setdefault(metric, {})[place] = value
    pairs = list(combinations(graded, 2))
    judges = graded | metrics
    rows = [
        _row(judges, models, *pair) for pair in (*pairs, *((name, metric) for name in graded for metric in metrics))
    ]
    if not rows:
        return None
    notes = [
        "same: share of equal grades for the n distinct answers that both graded, averaged by question, with a 95 % "
        "interval over questions. kappa: Cohen's; 0 is chance.",
        "People: grade a sheet (`madke annotate sheet`); `madke annotate read` compares them with every grader.",
    ]
    return table_of("Agreement of graders", rows, notes)


def _binary(question: Question, answer: str) -> dict[str, float]:
    names = (name for name in metrics_of(get_task(question.task)) if is_binary(name))
    return {name: METRICS[name](answer, question) for name in names}


def _row(judges: dict[str, Graded], models: dict[str, str], one: str, other: str) -> TableRow:
    left, right = judges[one], judges[other]
    both = [place for place in left if place in right]
    equal: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for place in both:
        equal[place[:2]].append(float(left[place] == right[place]))
    return {
        "grader": models[one],
        "and": models.get(other) or heading_of(other),
        "n": count_cell(len(both)),
        "same %": percent_cell(over_repeats(list(equal.values()))),
        "kappa": score_cell(kappa([left[n] for n in both], [right[n] for n in both]) if both else None, digits=".2f"),
    }
