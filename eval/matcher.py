"""How well the matcher of short answers agrees with people, on EVOUNA's human judgements (Wang et al., 2023).

    python -m eval.matcher --data RECORDED/evouna --out eval/matcher.md

The folder holds ``NQ_1800.json.gz`` and ``TQ_1000.json.gz``: questions with golden answers separated by slashes, five
systems' answers, and for each a person's "right" or "wrong". Questions marked improper are left out, as EVOUNA does.
Rules were written from the first half of each file; which rules stay was decided on both halves. The column
``baseline`` is a matcher of twenty lines in this script (containment, token F1, number words); the shipped one must
beat it. The files in ``eval/grades`` hold what models graded (:func:`madke.scoring.scored.ask_outside`).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from operator import eq
from pathlib import Path
from typing import NamedTuple

from madke._util.files import write_file
from madke.core.question import Question
from madke.report.human_grades import kappa
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import exact_match, token_f1
from madke.scoring.scored import NO_GRADE
from madke.scoring.statistics import Estimate
from madke.tasks import get_task
from madke.tasks.base import squad_normalize
from madke.tasks.short_answer import same as same_answer

FILES = {"NQ": "NQ_1800.json.gz", "TriviaQA": "TQ_1000.json.gz"}
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
SHORT_WORDS = 6
TASK = get_task("short_answer")
# A slash separates golds, except inside a season such as 1979/80 or a speed such as 160km/hour.
BETWEEN_GOLDS = re.compile(r"(?<!\d{4})(?<!\dkm)/|(?<!\dkm)/(?!\d\d(?!\d))")
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
GRADES = Path(__file__).parent / "grades"
"""Files of grades: model, question, system, and True, False or why there is none."""

Matcher = Callable[["Judged"], bool]


class Judged(NamedTuple):
    """One answer that a person judged."""

    dataset: str
    system: str
    id: str
    question: str
    golds: tuple[str, ...]
    answer: str
    right: bool

    @property
    def asked(self) -> Question:
        """The question with its golds."""
        return Question(id=self.id, question=self.question, answers=self.golds)


def _tokens(text: str) -> list[str]:
    words = squad_normalize(text.replace("-", " ")).split()
    return [str(NUMBERS.index(word)) if word in NUMBERS else word for word in words]


def _contains(told: Sequence[str], gold: Sequence[str]) -> bool:
    return bool(gold) and f" {' '.join(gold)} " in f" {' '.join(told)} "


def _states(told: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether a text contains a gold, or shares half of its words with it."""
    shared = (Counter(told) & Counter(gold)).total()
    return _contains(told, gold) or (shared > 0 and 4 * shared >= len(told) + len(gold))


def baseline_same(left: str, right: str) -> bool:
    """Whether two answers have the same numbers, and contain one another or share half of their words."""
    one, other = _tokens(left), _tokens(right)
    same_numbers = {word for word in one if word.isdigit()} == {word for word in other if word.isdigit()}
    return same_numbers and (_states(one, other) or _states(other, one))


MATCHERS: dict[str, Matcher] = {
    "EM": lambda one: exact_match(one.answer, one.asked) == 1,
    "F1 >= 0.5": lambda one: token_f1(one.answer, one.asked) >= 0.5,
    "contained": lambda one: any(
        _contains(squad_normalize(one.answer).split(), squad_normalize(gold).split()) for gold in one.golds
    ),
    "baseline": lambda one: any(_states(_tokens(one.answer), _tokens(gold)) for gold in one.golds),
    "same": lambda one: any(TASK.same(one.answer, gold, one.asked) for gold in one.golds),
    "accepts": cache(lambda one: TASK.accepts(one.answer, one.asked)),
}


def read_judged(folder: Path) -> tuple[list[Judged], list[Judged]]:
    """The judged answers of the first and of the second half of each file; improper questions are left out."""
    halves: tuple[list[Judged], list[Judged]] = ([], [])
    for dataset, name in FILES.items():
        items = json.loads(gzip.decompress((folder / name).read_bytes()))
        for at, item in enumerate(items):
            golds = () if item["improper"] else tuple(BETWEEN_GOLDS.split(item["golden_answer"]))
            for system in SYSTEMS if golds else ():
                answer, right = item[f"answer_{system}"], item[f"judge_{system}"]
                if isinstance(answer, str) and isinstance(right, bool):
                    judged = Judged(dataset, system, f"{dataset}-{at}", item["question"], golds, answer, right)
                    halves[at >= len(items) / 2].append(judged)
    return halves


def by_system(judged: Sequence[Judged]) -> Iterable[tuple[str, str, list[Judged]]]:
    """Set, system and its answers; at the end the answers of both sets, by phrase and by sentence."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in judged:
        groups[one.dataset, one.system].append(one)
        groups["both", "fid" if one.system == "fid" else "the other four"].append(one)
    for (dataset, system), found in sorted(groups.items(), key=lambda group: group[0][0] == "both"):
        yield dataset, system, found


def agreement(found: Sequence[Judged], said: Sequence[bool]) -> tuple[Estimate, str]:
    """The share of answers judged as people judge them, and its interval over questions in percent."""
    by_question: dict[str, list[float]] = defaultdict(list)
    for one, judged in zip(found, said, strict=True):
        by_question[one.id].append(float(judged == one.right))
    same = over_repeats(list(by_question.values()))
    assert same is not None
    return same, f"{100 * same.low:.1f} to {100 * same.high:.1f}"


def _kappa(found: Sequence[Judged], said: Sequence[bool]) -> str | None:
    agreed = kappa([*map(float, said)], [float(one.right) for one in found])
    return None if agreed is None else f"{agreed:.2f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def systems_table(judged: Sequence[Judged]) -> str:
    """Precision / recall / accuracy of each matcher by set and system, in percent."""
    rows = []
    for dataset, system, found in by_system(judged):
        right = [one.right for one in found]
        said = {name: [*map(matcher, found)] for name, matcher in MATCHERS.items()}
        same, interval = agreement(found, said["accepts"])
        share = f"{100 * sum(right) / len(right):.0f} %"
        rows.append([dataset, system, len(found), same.n, share, *(_cell(right, each) for each in said.values())])
        rows[-1].append(interval)
    return _table(["set", "system", "n", "questions", "right", *MATCHERS, "accuracy of accepts, 95 %"], rows)


def _cell(right: Sequence[bool], found: Sequence[bool]) -> str:
    """Precision / recall / accuracy of what was found right."""
    both = sum(truth and said for truth, said in zip(right, found, strict=True))
    shares = both / max(sum(found), 1), both / max(sum(right), 1), sum(map(eq, right, found)) / len(right)
    return "{:.1f} / {:.1f} / **{:.1f}**".format(*(100 * share for share in shares))


def people_table(judged: Sequence[Judged]) -> str:
    """Percent of the answers on which each matcher and people agree, and Cohen's kappa."""
    rows = []
    for dataset, system, found in by_system(judged):
        cells = []
        for matcher in MATCHERS.values():
            said = [*map(matcher, found)]
            same = sum(map(eq, said, (one.right for one in found)))
            cells.append(f"{100 * same / len(found):.1f} ({_kappa(found, said) or '-'})")
        rows.append([dataset, system, len(found), *cells])
    return _table(["set", "system", "n", *MATCHERS], rows)


def agreement_table(judged: Sequence[Judged]) -> str:
    """How often two answers of at most six words to one question count as the same, by what people said of both."""
    same: dict[str, Callable[[str, str], bool]] = {
        "EM": lambda left, right: squad_normalize(left) == squad_normalize(right),
        "F1 >= 0.5": lambda left, right: token_f1(left, Question(id="", question="", answers=(right,))) >= 0.5,
        "baseline": baseline_same,
        "same": same_answer,
    }
    by_question: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        if len(one.answer.split()) <= SHORT_WORDS:
            by_question[one.id].append(one)
    pairs: dict[str, list[tuple[str, str]]] = {"both right": [], "one right, one wrong": []}
    for answers in by_question.values():
        for one, other in combinations(answers, 2):
            if one.right or other.right:
                kind = "both right" if one.right == other.right else "one right, one wrong"
                pairs[kind].append((one.answer, other.answer))
    rows = [
        [kind, len(found), *(f"{100 * sum(f(*p) for p in found) / max(len(found), 1):.1f} %" for f in same.values())]
        for kind, found in pairs.items()
    ]
    return _table(["people say", "pairs", *same], rows)


PAGE = """# The matcher of short answers, against people

Written by `eval/matcher.py` from EVOUNA: questions of NQ and TriviaQA, answered by five systems and judged by people.
`fid` answers with a phrase, the other four with sentences. Cells: precision / recall / **accuracy** of "right", in
percent. `baseline` is twenty lines of containment, token F1 and number words, kept in the script: the rules of
`madke/tasks/short_answer.py` must beat it. `same` compares an answer with each gold, as it compares two debaters'
answers; `accepts` is what the metric `match` reports. `same` is not meant to find a gold in a sentence. Intervals are
over questions: several answers to one are averaged first.

Rules were written from the first half of each file. Which rules stay was decided on both halves (issue 13), so the
second half is no longer unseen: its figures are slightly optimistic.

## Held out (second half of each file)

{held_out}

## Agreement with people (held out)

Percent of the answers that are judged as people judge them, and Cohen's kappa, which is 0 where chance alone would
agree as often.

{people}
{graded}
## Development (first half: the rules were made on it)

{development}

## Agreement of two answers (held out; answers of at most {words} words, all pairs of systems on one question)

The same answer should be found among both right (aliases apart), and not where one is right and one wrong.

{agreement}
"""
GRADED = """
## With a grader: {model} (held out, {questions})

It graded {n} of {asked} answers; {unread} replies held no grade and {failed} calls failed, which are left out.
It saw the question, all golds, the answer and worked examples, at temperature 0.
"""


def graded_part(held_out: Sequence[Judged], file: Path) -> str:
    """The part of the page about a grader, next to matchers of the answers that it graded."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = {(row["question"], row["system"]): row for row in csv.DictReader(lines)}
    asked = [one for one in held_out if (one.id, one.system) in rows]
    # Equal answers to a question have one grade.
    grades = {(one.id, one.answer): rows[one.id, one.system]["grade"] for one in asked}
    graded = [one for one in asked if grades[one.id, one.answer] in ("True", "False")]
    unread = sum(grades[one.id, one.answer] == NO_GRADE for one in asked)
    ids = {name: len({one.id for one in asked if one.dataset == name}) for name in FILES}
    told = GRADED.format(
        model=next(iter(rows.values()))["model"],
        questions=" and ".join(f"the first {count} questions of {name}" for name, count in ids.items()),
        n=len(graded),
        asked=len(asked),
        unread=unread,
        failed=len(asked) - len(graded) - unread,
    )
    if not graded:
        return told
    says = []
    matchers: dict[str, Matcher] = {
        "grader": lambda one: grades[one.id, one.answer] == "True",
        "accepts": MATCHERS["accepts"],
        "EM": MATCHERS["EM"],
        "always right": lambda one: True,
    }
    for name, matcher in matchers.items():
        said = [*map(matcher, graded)]
        same, interval = agreement(graded, said)
        shown = f", kappa {found}" if (found := _kappa(graded, said)) else ""
        says.append(f"`{name}` agrees with people on {100 * same.value:.1f} % of the answers ({interval}{shown}).")
    return f"{told}\n{' '.join(says)} *always right* says so of every answer.\n"


def main() -> None:
    """Read the arguments, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the two files")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    arguments = parser.parse_args()
    development, held_out = read_judged(arguments.data)
    page = PAGE.format(
        held_out=systems_table(held_out),
        people=people_table(held_out),
        graded="".join(graded_part(held_out, file) for file in sorted(GRADES.glob("*.csv"))),
        development=systems_table(development),
        agreement=agreement_table(held_out),
        words=SHORT_WORDS,
    )
    write_file(arguments.out, page.encode())


if __name__ == "__main__":
    main()
