"""MMLU-Med with and without retrieval: recorded replies of GPT-3.5 and GPT-4, scored from their raw text.

    python eval/mirage.py --data ../shared/data/recorded/mirage_mmlu_med [--out eval/mirage.md] [--keep FOLDER]

The folder holds four runs of MIRAGE (Xiong et al., 2024), 1,089 replies each: chain of thought alone, and over 32
retrieved snippets. They become a question file and files of predictions, as ``madke score PREDICTIONS --data
QUESTIONS`` takes them; ``--keep`` leaves them in a folder. What our parser reads is compared with what the benchmark's
own rule reads.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write, read_jsonl
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.data import read_dataset
from madke.scoring.arms import Results, open_results, read_arm
from madke.scoring.paired import PairedTest, paired_tests
from madke.scoring.scores import scores_of

METRIC = "choice_accuracy"
_BY_RULE = "_by_rule"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One run of MIRAGE."""

    name: str
    file: str
    published: float
    """Accuracy in percent, as the benchmark's table has it."""


RUNS = (
    Recorded(name="GPT-3.5, chain of thought", file="gpt-35-turbo-16k_cot", published=72.91),
    Recorded(name="GPT-3.5, retrieval", file="gpt-35-turbo-16k_rag_32", published=75.48),
    Recorded(name="GPT-4, chain of thought", file="gpt-4-32k_cot", published=89.44),
    Recorded(name="GPT-4, retrieval", file="gpt-4-32k_rag_32", published=87.24),
)
PAIRS = ((0, 1), (2, 3))
"""Without and with retrieval."""

_FIRST = re.compile(r"([A-D])(?:\Z| or| and|/|,)")
_NAMED = re.compile(r"[Oo]ption ([A-D])")
_BEHIND_COLON = re.compile(r":\s*([A-D])")
_MARKED = re.compile(r"([A-D])[.\":]")


def published_letter(reply: str) -> tuple[str, str]:
    """The letter that the benchmark's own evaluation takes from a reply, and how it came by it.

    It looks behind the last ``"answer_choice": "``, takes the first of several letters, any capital A to D behind a
    colon, and A where there is nothing.
    """
    said = reply.rpartition('"answer_choice": "')[2].strip()
    if found := _FIRST.match(said):
        return found[1], "the only letter" if said == found[1] else "the first of several letters"
    if found := _NAMED.search(said):
        return found[1], "a letter elsewhere in the text"
    if found := _BEHIND_COLON.search(said):
        return found[1], "a letter elsewhere in the text"
    if found := _MARKED.match(said):
        return found[1], "the first letter with its option"
    return "A", "no letter, so A"


def convert(data: Path, folder: Path) -> list[list[dict[str, Any]]]:
    """Write the questions and two files of predictions for each run, as ``madke score`` reads them.

    One holds the raw replies, the other the letters that the benchmark's own rule takes from them.

    Returns:
        The lines of each recorded file.

    Raises:
        UserError: A file is missing, is not as MIRAGE's are here, or is about other questions.
    """
    runs = [list(_lines(data / f"{run.file}.jsonl.gz")) for run in RUNS]
    questions = [_question(line) for line in runs[0]]
    _write(folder / "questions.jsonl", questions)
    for run, lines in zip(RUNS, runs, strict=True):
        if [_question(line) for line in lines] != questions:
            raise UserError("is about other questions than the first file", file=data / f"{run.file}.jsonl.gz")
        replies = [(line["id"], line["outputs"][0]) for line in lines]
        _write(folder / f"{run.file}.jsonl", [{"id": id_, "output": reply} for id_, reply in replies])
        letters = [{"id": id_, "answer": published_letter(reply)[0]} for id_, reply in replies]
        _write(folder / f"{run.file}{_BY_RULE}.jsonl", letters)
    return runs


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in read_jsonl(path):
        missing = [key for key in ("id", "question", "options", "gold", "outputs") if not line.get(key)]
        if missing:
            raise UserError(f"has no {missing[0]!r}; expected a recorded reply", file=path, line=number)
        yield line


def _question(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": line["id"],
        "question": line["question"],
        "choices": list(line["options"].values()),
        "golden_answers": [line["gold"]],
    }


def _write(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    with atomic_write(path) as file:
        file.writelines(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def main_table(arms: Sequence[Results], by_rule: Sequence[Results]) -> Iterator[str]:
    """Ours beside the published figure, a row a run."""
    yield "| run | n | ours, % (95 %) | not read | by MIRAGE's rule, % | published, % | ours - published |"
    yield "|---|---|---|---|---|---|---|"
    for run, arm, rule in zip(RUNS, arms, by_rule, strict=True):
        scores = scores_of(arm.transcripts())
        found = scores.metrics[METRIC]
        cells = (
            run.name,
            str(found.n),
            f"{100 * found.value:.2f} ({100 * found.low:.1f} to {100 * found.high:.1f})",
            str(scores.abstained + sum(scores.unread.values())),
            f"{100 * scores_of(rule.transcripts()).metrics[METRIC].value:.2f}",
            f"{run.published:.2f}",
            f"{100 * found.value - run.published:+.2f}",
        )
        yield f"| {' | '.join(cells)} |"


def difference_table(arms: Sequence[Results], runs: Sequence[Sequence[dict[str, Any]]]) -> Iterator[str]:
    """Where the two rules read another letter, and what that is worth in right answers."""
    yield "| run | MIRAGE's rule took | ours read | replies | right by MIRAGE's rule | right by ours |"
    yield "|---|---|---|---|---|---|"
    for run, arm, lines in zip(RUNS, arms, runs, strict=True):
        counts: Counter[tuple[str, str]] = Counter()
        theirs: Counter[tuple[str, str]] = Counter()
        ours: Counter[tuple[str, str]] = Counter()
        for transcript, line in zip(arm.transcripts(), lines, strict=True):
            letter, how = published_letter(line["outputs"][0])
            if letter != transcript.answer:
                key = (how, _read(transcript))
                counts[key] += 1
                theirs[key] += letter == line["gold"]
                ours[key] += transcript.answer == line["gold"]
        for key, count in counts.most_common():
            yield f"| {run.name} | {key[0]} | {key[1]} | {count} | {theirs[key]} | {ours[key]} |"


def _read(transcript: Transcript) -> str:
    return "nothing" if transcript.answer is None else "another letter"


def test_table(arms: Sequence[Results]) -> Iterator[str]:
    """The paired test of each model with retrieval against the same without."""
    read = [read_arm(arm.name, arm.transcripts()) for arm in arms]
    headings = ("comparison", "n", "difference, points (95 %)", "only without right", "only with right")
    tests = ("p, McNemar exact", "p, Holm", "smallest difference to be seen, points")
    yield f"| {' | '.join(headings + tests)} |"
    yield "|" + "---|" * len(headings + tests)
    for pair, found in zip(PAIRS, paired_tests([(read[a], read[b]) for a, b in PAIRS], [METRIC]), strict=True):
        yield _test_row(f"{RUNS[pair[0]].name} -> retrieval", found)


def _test_row(name: str, found: PairedTest) -> str:
    difference, discordant = found.difference, found.discordant
    assert discordant is not None, "a letter is right or wrong"
    cells = (
        name,
        str(found.n),
        f"{100 * difference.value:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f})",
        str(discordant.only_left),
        str(discordant.only_right),
        f"{found.p:.4f}",
        f"{found.p_holm:.4f}",
        "-" if found.detectable is None else f"{100 * found.detectable:.1f}",
    )
    return f"| {' | '.join(cells)} |"


PAGE = """# MMLU-Med from raw text: with and without retrieval

Written by `python eval/mirage.py --data ../shared/data/recorded/mirage_mmlu_med --out eval/mirage.md`: the recorded
replies of MIRAGE (Xiong et al., 2024) become questions and predictions (`{{"id", "output"}}`), which are scored by the
code of `madke score`. Intervals are Wilson's over questions.

{main}

## Why ours is not the published figure

The published figures follow from a rule that always finds a letter: behind the last `"answer_choice": "` the first of
several letters, else a capital A to D behind a colon, else A. The column *by MIRAGE's rule* is that rule, written anew
in the script, on the recorded replies. Our parser abstains where a reply names several letters, an option that does not
exist, or none ("None of the above", "Cannot be determined"), and an abstention is wrong. All replies that the two read
differently, and the right answers that they make; those are the whole difference:

{differences}

## Does retrieval help?

Read by our parser:

{tests}

Read by MIRAGE's rule:

{tests_by_rule}

p is two-sided; Holm corrects for the two tests of a table. *Smallest difference to be seen*: with 80 % power at alpha
0.05, given how often the two runs differ.
"""


def report(arms: Sequence[Results], by_rule: Sequence[Results], runs: Sequence[Sequence[dict[str, Any]]]) -> str:
    """The whole page."""
    return PAGE.format(
        main="\n".join(main_table(arms, by_rule)),
        differences="\n".join(difference_table(arms, runs)),
        tests="\n".join(test_table(arms)),
        tests_by_rule="\n".join(test_table(by_rule)),
    )


def main() -> int:
    """Read the arguments, score, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the four files")
    parser.add_argument("--out", type=Path, help="write the page here too")
    parser.add_argument("--keep", type=Path, help="leave questions and predictions in this folder")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = arguments.keep or Path(temporary)
            runs = convert(arguments.data, folder)
            questions = read_dataset(folder / "questions.jsonl")
            arms, by_rule = (
                open_results([folder / f"{run.file}{reading}.jsonl" for run in RUNS], questions)
                for reading in ("", _BY_RULE)
            )
            page = report(arms, by_rule, runs)
        print(page, end="")
        if arguments.out:
            with atomic_write(arguments.out) as file:
                file.write(page.encode())
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
