"""How replies are read: recorded text against the fields that hold the truth.

    python -m eval.parser --data RECORDED --out eval/parser.md

The folder holds MIRAGE's letters, the debates of Liang et al., agents' traces (FEVER) and EVOUNA's answers. Sets whose
file is missing are left out. ``--out`` replaces the table of a page.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from madke._util.files import read_jsonl, write_file
from madke.core.question import Question
from madke.engine.parse.answer import answer_of
from madke.engine.parse.decisions import parse_verdict
from madke.tasks import TASKS

_SHOWN = range(32)


class Item(NamedTuple):
    """One recorded text, what it says (None: no value), and how it is read."""

    text: str
    truth: Any
    read: Callable[[str], Any]


def _reader(task: str, choices: tuple[str, ...] = ()) -> Callable[[str], str | None]:
    question = Question(id="recorded", question="?", task=task, choices=choices)
    return lambda text: answer_of(text, TASKS[task], question, shown=_SHOWN).value


def _mirage(file: Path) -> Iterator[Item]:
    for _, line in read_jsonl(file):
        told = re.findall(r'"answer_choice":\s*"([A-D])[".:)]', line["outputs"][0])
        yield Item(line["outputs"][0], told[-1] if told else None, _reader("choice", tuple(line["options"].values())))


def _verdicts(file: Path) -> Iterator[Item]:
    for _, line in read_jsonl(file):
        for message in line["players"]["Moderator"]:
            if message["role"] == "assistant":
                truth = "preference': 'Yes'" in message["content"]
                yield Item(message["content"], truth, lambda text: parse_verdict(text).value.consensus)


def _labels(file: Path) -> Iterator[Item]:
    read = _reader("claim")
    for _, line in read_jsonl(file):
        yield Item(line["transcript"], read(f"The answer is [{line['info']['answer'] or ''}]."), read)


def _sentences(file: Path) -> Iterator[Item]:
    for item in json.loads(gzip.decompress(file.read_bytes())):
        for system in ("fid", "gpt35", "chatgpt", "gpt4", "newbing"):
            if text := item.get(f"answer_{system}"):
                yield Item(text, text, _reader("short_answer"))


SETS: tuple[tuple[str, str, Callable[[Path], Iterator[Item]], bool], ...] = (
    ("MIRAGE GPT-3.5 CoT, letters", "mirage_mmlu_med/gpt-35-turbo-16k_cot.jsonl.gz", _mirage, True),
    ("MIRAGE GPT-4 RAG, letters", "mirage_mmlu_med/gpt-4-32k_rag_32.jsonl.gz", _mirage, True),
    ("Liang moderators, verdicts", "mad_commonmt_debates_100.jsonl.gz", _verdicts, True),
    ("FEVER ReAct, labels", "react_fever_250.jsonl.gz", _labels, True),
    ("EVOUNA NQ, sentences and phrases", "evouna/NQ_1800.json.gz", _sentences, False),
)
"""Name, file, items, and whether the truth is known; otherwise only the share that is read counts."""


_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def table(data: Path) -> str:
    """One row per set: how many texts are read rightly, not at all, or wrongly."""
    lines = ["| set | texts | right or read | missed | wrong |", "| --- | --- | --- | --- | --- |"]
    for name, file, items, has_truth in SETS:
        if not (data / file).is_file():
            continue
        counts: Counter[str] = Counter()
        for item in items(data / file):
            value = item.read(item.text)
            right = value == item.truth if has_truth else value is not None
            counts["right" if right else "missed" if value is None else "wrong"] += 1
        lines.append(f"| {name} | {counts.total()} | {counts['right']} | {counts['missed']} | {counts['wrong']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the recorded text")
    parser.add_argument("--out", type=Path, required=True, help="the page whose table is replaced")
    arguments = parser.parse_args()
    page = arguments.out.read_text(encoding="utf-8")
    write_file(arguments.out, _TABLE.sub(lambda _: table(arguments.data), page).encode())


if __name__ == "__main__":
    main()
