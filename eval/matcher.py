"""How well the matcher of short answers agrees with people, on EVOUNA's human judgements (Wang et al., 2023).

    python eval/matcher.py --data ../shared/data/recorded/evouna --out eval/matcher.md
    python eval/matcher.py --data ../shared/data/recorded/evouna --grader openai/gpt-4o --limit 100

With ``--grader`` a model grades the answers too, as ``madke score --grader`` has them graded, and all are compared over
the answers that it graded. Its calls are kept in the file of ``--grades``, so that the same command asks only once.
``--keep FILE`` writes its grades to a file; the page has those of all files in ``eval/grades``.

The folder holds ``NQ_1800.json.gz`` and ``TQ_1000.json.gz``: questions with golden answers separated by slashes, five
systems' answers, and for each a person's "right" or "wrong". Questions marked improper are left out, as EVOUNA does.
Rules were written from the first half of each file; which rules stay was decided on both halves. The column
``baseline`` is a matcher of twenty lines in this script (containment, token F1, number words); the shipped one must
beat it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import eq
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write, write_file
from madke.core.errors import UserError
from madke.core.question import Question
from madke.report.human_grades import kappa
from madke.scoring.debate_rows import over_repeats
from madke.scoring.metrics import exact_match, token_f1
from madke.scoring.scored import NO_GRADE, Grader, Grades, grade
from madke.tasks import get_task
from madke.tasks.answer_text import squad_normalize
from madke.tasks.short_answer import same as same_answer

FILES = {"NQ": "NQ_1800.json.gz", "TriviaQA": "TQ_1000.json.gz"}
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
SHORT_WORDS = 6
TASK = get_task("short_answer")
# A slash separates golds, except inside a season such as 1979/80 or a speed such as 160km/hour.
BETWEEN_GOLDS = re.compile(r"(?<!\d{4})(?<!\dkm)/|(?<!\dkm)/(?!\d\d(?!\d))")

Matcher = Callable[[str, Question], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One answer that a person judged."""

    dataset: str
    system: str
    question: Question
    answer: str
    right: bool


def contained(answer: str, question: Question) -> bool:
    """Whether a gold's normalised tokens stand in a row in the answer's."""
    return any(f" {squad_normalize(gold)} " in f" {squad_normalize(answer)} " for gold in question.answers)


def remembering(matcher: Matcher) -> Matcher:
    """The same matcher, which looks at each answer once: several tables ask."""
    known: dict[tuple[str, str], bool] = {}

    def found(answer: str, question: Question) -> bool:
        key = question.id, answer
        if key not in known:
            known[key] = matcher(answer, question)
        return known[key]

    return found


NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def baseline_same(left: str, right: str) -> bool:
    """Whether two answers have the same numbers, and contain one another or share half of their words.

    The yardstick for the matcher's own rules: twenty lines of containment, token F1 and number words.
    """
    one, other = _tokens(left), _tokens(right)
    if {word for word in one if word.isdigit()} != {word for word in other if word.isdigit()}:
        return False
    return _baseline_states(one, other) or _baseline_states(other, one)


def baseline(answer: str, question: Question) -> bool:
    """Whether the answer contains a gold, or shares half of its words with one."""
    return any(_baseline_states(_tokens(answer), _tokens(gold)) for gold in question.answers)


def _tokens(text: str) -> list[str]:
    words = squad_normalize(text.replace("-", " ")).split()
    return [str(NUMBERS.index(word)) if word in NUMBERS else word for word in words]


def _baseline_states(told: Sequence[str], gold: Sequence[str]) -> bool:
    shared = (Counter(told) & Counter(gold)).total()
    contained = bool(gold) and f" {' '.join(gold)} " in f" {' '.join(told)} "
    return contained or (shared > 0 and 4 * shared >= len(told) + len(gold))


MATCHERS: dict[str, Matcher] = {
    "EM": lambda answer, question: exact_match(answer, question) == 1,
    "F1 >= 0.5": lambda answer, question: token_f1(answer, question) >= 0.5,
    "contained": contained,
    "baseline": baseline,
    "same": lambda answer, question: any(TASK.same(answer, gold, question) for gold in question.answers),
    "accepts": remembering(TASK.accepts),
}
GRADER, ALWAYS = "grader", "always right"
KEPT = Path(__file__).parent / "grades"
"""Files of grades: model, question, system, and True, False or why there is none."""


def read_judged(folder: Path) -> tuple[list[Judged], list[Judged]]:
    """The judged answers of the first and of the second half of each file."""
    halves: tuple[list[Judged], list[Judged]] = ([], [])
    for dataset, name in FILES.items():
        try:
            with gzip.open(folder / name, "rt", encoding="utf-8") as file:
                items = json.load(file)
        except (OSError, ValueError) as error:
            raise UserError(f"is no gzipped JSON that can be read ({error})", file=folder / name) from None
        for at, item in enumerate(items):
            halves[at >= len(items) / 2].extend(_judged(dataset, at, item))
    return halves


def _judged(dataset: str, at: int, item: dict[str, Any]) -> Iterable[Judged]:
    if item["improper"]:
        return
    golds = tuple(BETWEEN_GOLDS.split(item["golden_answer"]))
    question = Question(id=f"{dataset}-{at}", question=item["question"], answers=golds)
    for system in SYSTEMS:
        answer, right = item[f"answer_{system}"], item[f"judge_{system}"]
        if isinstance(answer, str) and isinstance(right, bool):
            yield Judged(dataset=dataset, system=system, question=question, answer=answer, right=right)


def first_questions(judged: Sequence[Judged], limit: int | None) -> list[Judged]:
    """The answers to the first so many questions of each set."""
    ids: dict[str, dict[str, None]] = defaultdict(dict)
    for one in judged:
        ids[one.dataset][one.question.id] = None
    kept = {id_ for found in ids.values() for id_ in list(found)[:limit]}
    return [one for one in judged if one.question.id in kept]


def by_system(judged: Sequence[Judged]) -> Iterable[tuple[str, str, list[Judged]]]:
    """Set, system and its answers; at the end the answers of both sets, by phrase and by sentence."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in judged:
        groups[one.dataset, one.system].append(one)
        groups["both", "fid" if one.system == "fid" else "the other four"].append(one)
    for (dataset, system), found in sorted(groups.items(), key=lambda group: group[0][0] == "both"):
        yield dataset, system, found


def systems_table(judged: Sequence[Judged], matchers: Mapping[str, Matcher]) -> Iterable[str]:
    """Precision / recall / accuracy of each matcher by set and system, in percent."""
    last = list(matchers)[-1]
    yield "| set | system | n | questions | right | " + " | ".join(matchers) + f" | accuracy of {last}, 95 % |"
    yield "|" + "---|" * (6 + len(matchers))
    for dataset, system, found in by_system(judged):
        right = [one.right for one in found]
        said = {name: [matcher(one.answer, one.question) for one in found] for name, matcher in matchers.items()}
        cells = " | ".join(_cell(right, column) for column in said.values())
        by_question: dict[str, list[float]] = defaultdict(list)
        for one, judged_right, expected in zip(found, said[last], right, strict=True):
            by_question[one.question.id].append(float(judged_right == expected))
        same = over_repeats(list(by_question.values()))
        assert same is not None
        interval = f"{100 * same.low:.1f} to {100 * same.high:.1f}"
        share = f"{100 * sum(right) / len(right):.0f} %"
        yield f"| {dataset} | {system} | {len(found)} | {same.n} | {share} | {cells} | {interval} |"


def people_table(judged: Sequence[Judged], matchers: Mapping[str, Matcher]) -> Iterable[str]:
    """Percent of the answers on which each matcher and people agree, and Cohen's kappa."""
    yield "| set | system | n | " + " | ".join(matchers) + " |"
    yield "|" + "---|" * (3 + len(matchers))
    for dataset, system, found in by_system(judged):
        right = [float(one.right) for one in found]
        cells = []
        for matcher in matchers.values():
            said = [float(matcher(one.answer, one.question)) for one in found]
            found_kappa = kappa(said, right)
            shown = "-" if found_kappa is None else f"{found_kappa:.2f}"
            cells.append(f"{100 * sum(map(eq, said, right)) / len(right):.1f} ({shown})")
        yield f"| {dataset} | {system} | {len(found)} | {' | '.join(cells)} |"


def _cell(right: Sequence[bool], found: Sequence[bool]) -> str:
    """Precision / recall / accuracy of what was found right."""
    both = sum(truth and said for truth, said in zip(right, found, strict=True))
    agreed = sum(truth == said for truth, said in zip(right, found, strict=True))
    shares = both / max(sum(found), 1), both / max(sum(right), 1), agreed / len(right)
    return "{:.1f} / {:.1f} / **{:.1f}**".format(*(100 * share for share in shares))


def short_answers(judged: Sequence[Judged]) -> Iterable[list[Judged]]:
    """The answers of at most six words, by question."""
    by_question: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        if len(one.answer.split()) <= SHORT_WORDS:
            by_question[one.question.id].append(one)
    return by_question.values()


def agreement_table(judged: Sequence[Judged]) -> Iterable[str]:
    """How often two short answers to one question count as the same, by what people said of both."""
    same: dict[str, Callable[[str, str], bool]] = {
        "EM": lambda left, right: squad_normalize(left) == squad_normalize(right),
        "F1 >= 0.5": lambda left, right: token_f1(left, Question(id="", question="", answers=(right,))) >= 0.5,
        "baseline": baseline_same,
        "same": same_answer,
    }
    pairs: dict[str, list[tuple[str, str]]] = {"both right": [], "one right, one wrong": []}
    for answers in short_answers(judged):
        for one, other in combinations(answers, 2):
            if one.right and other.right:
                pairs["both right"].append((one.answer, other.answer))
            elif one.right != other.right:
                pairs["one right, one wrong"].append((one.answer, other.answer))
    yield "| people say | pairs | " + " | ".join(same) + " |"
    yield "|" + "---|" * (2 + len(same))
    for kind, found in pairs.items():
        shares = [100 * sum(matcher(*pair) for pair in found) / max(len(found), 1) for matcher in same.values()]
        yield f"| {kind} | {len(found)} | " + " | ".join(f"{share:.1f} %" for share in shares) + " |"


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

It graded {n} of {asked} answers; {unread} replies held no grade and {failed} calls failed, which are left out of all
columns. It saw the question, all golds, the answer and worked examples, at temperature 0.
"""
COMPARED = """
{says} *{always}* says so of every answer.

{table}

Agreement with people, percent and kappa:

{people}
"""


def graded_part(judged: Sequence[Judged], grades: Grades) -> str:
    """The part of the page about a grader, and all matchers over the answers that it graded."""

    def found(answer: str, question: Question) -> bool:
        return grades.right[question.id, answer]

    graded = [one for one in judged if (one.question.id, one.answer) in grades.right]
    missing = [grades.missing.get((one.question.id, one.answer)) for one in judged]
    unread = missing.count(NO_GRADE)
    matchers: dict[str, Matcher] = {**MATCHERS, ALWAYS: lambda answer, question: True, GRADER: found}
    ids = {name: len({one.question.id for one in judged if one.dataset == name}) for name in FILES}
    told = GRADED.format(
        model=grades.model,
        questions=" and ".join(f"the first {count} questions of {name}" for name, count in ids.items()),
        n=len(graded),
        asked=len(judged),
        unread=unread,
        failed=len(judged) - len(graded) - unread,
    )
    if not graded:
        return told
    return told + COMPARED.format(
        says=" ".join(_summary(graded, {name: matchers[name] for name in (GRADER, "accepts", "EM", ALWAYS)})),
        always=ALWAYS,
        table="\n".join(systems_table(graded, matchers)),
        people="\n".join(people_table(graded, matchers)),
    )


def _summary(judged: Sequence[Judged], matchers: Mapping[str, Matcher]) -> Iterable[str]:
    """A sentence for each matcher: agreement with people over all answers, with an interval over questions."""
    right = [float(one.right) for one in judged]
    for name, matcher in matchers.items():
        said = [float(matcher(one.answer, one.question)) for one in judged]
        by_question: dict[str, list[float]] = defaultdict(list)
        for one, equal in zip(judged, map(eq, said, right), strict=True):
            by_question[one.question.id].append(float(equal))
        same = over_repeats(list(by_question.values()))
        assert same is not None
        found = kappa(said, right)
        shown = "" if found is None else f", kappa {found:.2f}"
        interval = f"{100 * same.low:.1f} to {100 * same.high:.1f}"
        yield f"`{name}` agrees with people on {100 * same.value:.1f} % of the answers ({interval}{shown})."


def kept_grades(judged: Sequence[Judged], grades: Grades) -> str:
    """The grades as a file: no texts of the data, only whose answer to which question."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["model", "question", "system", "grade"])
    for one in judged:
        place = one.question.id, one.answer
        grade_of = str(grades.right[place]) if place in grades.right else grades.missing.get(place, "")
        table.writerow([grades.model, one.question.id, one.system, grade_of])
    return text.getvalue()


def read_kept(judged: Sequence[Judged], file: Path) -> tuple[list[Judged], Grades]:
    """The answers that were graded, and their grades."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = {(row["question"], row["system"]): row for row in csv.DictReader(lines)}
    asked = [one for one in judged if (one.question.id, one.system) in rows]
    found = {(one.question.id, one.answer): rows[one.question.id, one.system]["grade"] for one in asked}
    right = {place: said == "True" for place, said in found.items() if said in ("True", "False")}
    missing = {place: said for place, said in found.items() if place not in right}
    return asked, Grades(model=next(iter(rows.values()))["model"], right=right, missing=missing)


def report(development: Sequence[Judged], held_out: Sequence[Judged], graded: str = "") -> str:
    """The whole page."""
    return PAGE.format(
        held_out="\n".join(systems_table(held_out, MATCHERS)),
        people="\n".join(people_table(held_out, MATCHERS)),
        graded=graded,
        development="\n".join(systems_table(development, MATCHERS)),
        agreement="\n".join(agreement_table(held_out)),
        words=SHORT_WORDS,
    )


def main() -> int:
    """Read the arguments, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the two files")
    parser.add_argument("--out", type=Path, help="write the page here too")
    parser.add_argument("--grader", metavar="MODEL", help="a model that grades the held-out answers too")
    parser.add_argument("--base-url", help="the endpoint of an openai/ or azure/ grader")
    parser.add_argument("--limit", type=int, metavar="N", help="grade only the first N questions of each set")
    parser.add_argument("--concurrency", type=int, default=16, metavar="N", help="calls at a time (%(default)s)")
    parser.add_argument(
        "--grades",
        type=Path,
        default=Path("matcher.grades.sqlite"),
        metavar="FILE",
        help="where the grader's calls are kept (%(default)s)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the grades here, for the page: eval/grades/NAME.csv"
    )
    arguments = parser.parse_args()
    if arguments.grader is None and any(
        each is not None for each in (arguments.base_url, arguments.limit, arguments.keep)
    ):
        parser.error("--base-url, --limit and --keep are for a grader; name its model with --grader")
    try:
        development, held_out = read_judged(arguments.data)
        graded = "".join(graded_part(*read_kept(held_out, file)) for file in sorted(KEPT.glob("*.csv")))
        if arguments.grader is not None:
            asked = first_questions(held_out, arguments.limit)
            grader = Grader(model=arguments.grader, base_url=arguments.base_url, concurrency=arguments.concurrency)
            grades = grade(((one.question, one.answer) for one in asked), grader, arguments.grades)
            graded = graded_part(asked, grades)
            if arguments.keep is not None:
                write_file(arguments.keep, kept_grades(asked, grades).encode())
        page = report(development, held_out, graded)
        print(page)
        if arguments.out:
            with atomic_write(arguments.out) as file:
                file.write(page.encode())
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
