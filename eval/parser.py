"""How replies are read: recorded text against the fields that hold the truth, and kept calls against 0.4.0's readings.

    python eval/parser.py --data ../shared/data/recorded --out eval/parser.md [--verbose KIND]

The folder holds MIRAGE's letters, the debates of Liang et al., agents' traces (FEVER) and EVOUNA's answers. Sets whose
file is missing are left out. ``--verbose`` prints the texts of one kind.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval.studies.kept import read_lines
from madke._util.files import write_file
from madke.core.knowledge import Passage
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, from_json
from madke.engine.parse import ParseContext, Parsed, answer_of, parse_verdict
from madke.engine.reading import quoted
from madke.retrieval.pools.pool_file import read_pools
from madke.tasks import TASKS

_HERE = Path(__file__).parent
_STUDY = _HERE / "studies" / "equal-cost"
_SHOWN = range(32)

DEFENDED = {
    "unmarked -> ok": "a plain sentence or phrase is an answer, in every protocol alike",
    "ok -> contradictory": "conclusions in the requested form differ, and the reply does not take the first one back",
    "ok -> ok": "conclusions that agree count as one; a closing quotation mark stays, an explanation after a name goes",
    "echoed -> ok": "a peer's words are a stance; only the request itself is an echo",
    "unmarked -> abstained": "the reply says that the passages hold no answer",
    "unmarked -> contradictory": "the first conclusions of a reply that repeats itself until it is cut off differ",
    "echoed -> contradictory": "as above, in a peer's words",
    "unmarked -> echoed": "the reply only begins the requested sentence again",
    "cut -> ok": "a conclusion that is complete counts, also where the reply goes on until it is cut off",
    "cut -> contradictory": "as in a reply that is not cut off",
    "abstained -> ok": "an earlier version had called a plain sentence abstained",
    "ok -> echoed": "the answer of an example, or the request's rules and material given back",
    "ok -> cut": "the answer itself is cut off",
    "cut -> abstained": "the reply declines before it is cut off",
    "abstained -> unmarked": "as above, of a reply that speaks of itself",
    "ok -> unmarked": "the only conclusion stands in the line or paragraph of another debater",
}
"""Old and new status -> why the reading changed."""


class Item(NamedTuple):
    """One recorded text, what it says (None: no value), and how it is read."""

    text: str
    truth: Any
    read: Callable[[str], Any]


def _reader(task: str, choices: tuple[str, ...] = ()) -> Callable[[str], str | None]:
    question = Question(id="recorded", question="?", task=task, choices=choices)
    return lambda text: answer_of(text, TASKS[task], question, shown=_SHOWN).value


def _mirage(file: Path) -> Iterator[Item]:
    for line in _json_lines(file):
        told = re.findall(r'"answer_choice":\s*"([A-D])[".:)]', line["outputs"][0])
        yield Item(line["outputs"][0], told[-1] if told else None, _reader("choice", tuple(line["options"].values())))


def _verdicts(file: Path) -> Iterator[Item]:
    for line in _json_lines(file):
        for message in line["players"]["Moderator"]:
            if message["role"] == "assistant":
                truth = "preference': 'Yes'" in message["content"]
                yield Item(message["content"], truth, lambda text: parse_verdict(text).value.consensus)


def _labels(file: Path) -> Iterator[Item]:
    read = _reader("claim")
    for line in _json_lines(file):
        yield Item(line["transcript"], read(f"The answer is [{line['info']['answer'] or ''}]."), read)


def _sentences(file: Path) -> Iterator[Item]:
    for item in json.loads(gzip.decompress(file.read_bytes())):
        for system in ("fid", "gpt35", "chatgpt", "gpt4", "newbing"):
            if text := item.get(f"answer_{system}"):
                yield Item(text, text, _reader("short_answer"))


def _json_lines(file: Path) -> Iterator[Any]:
    raw = file.read_bytes()
    yield from map(json.loads, (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode().splitlines())


SETS: tuple[tuple[str, str, Callable[[Path], Iterator[Item]], bool], ...] = (
    ("MIRAGE GPT-3.5 CoT, letters", "mirage_mmlu_med/gpt-35-turbo-16k_cot.jsonl.gz", _mirage, True),
    ("MIRAGE GPT-4 RAG, letters", "mirage_mmlu_med/gpt-4-32k_rag_32.jsonl.gz", _mirage, True),
    ("Liang moderators, verdicts", "mad_commonmt_debates_100.jsonl.gz", _verdicts, True),
    ("FEVER ReAct, labels", "react_fever_250.jsonl.gz", _labels, True),
    ("EVOUNA NQ, sentences and phrases", "evouna/NQ_1800.json.gz", _sentences, False),
)
"""Name, file, items, and whether the truth is known; otherwise only the share that is read counts."""


class Reading(NamedTuple):
    """A stance that was read by 0.4.0 and is read now."""

    text: str
    question: str
    old: Stance
    new: Parsed[str | None]

    @property
    def kind(self) -> str | None:
        """The change; None if there is none."""
        if (self.old.answer, self.old.status) == (self.new.value, self.new.status):
            return None
        return f"{self.old.status} -> {self.new.status}"


def kept_readings() -> Iterator[Reading]:
    """Every stance in free text of the kept study."""
    pools = {id: pool.passages for id, pool in read_pools(_STUDY / "study.pools.jsonl.gz").items()}
    for file in sorted((_STUDY / "calls").glob("*.jsonl.xz")):
        bodies: dict[str, str] = {}
        requests: dict[tuple[Any, ...], str] = {}
        for line in read_lines(file):
            if "body" in line:
                bodies[line["text"]] = line["body"]
            elif "call" in line:
                call = line["call"]
                asked = "\n\n".join(bodies[key] for _, key in call["messages"])
                purpose = call["purpose"]
                key = (purpose["question"], purpose["agent"], purpose["round"], call["completion"]["text"].strip())
                requests[key] = asked
            elif "transcript" in line:
                yield from _stances(from_json(json.dumps(line["transcript"])), pools, requests)


def _stances(
    transcript: Transcript, pools: Mapping[str, Sequence[Passage]], requests: dict[tuple[Any, ...], str]
) -> Iterator[Reading]:
    question = Question(
        id=transcript.id, question=transcript.question, task=transcript.task, choices=transcript.choices
    )
    passages = [p for passage in (pools.get(question.id, ())) for p in
                (" ".join(passage.title.split()), " ".join(passage.text.split()))]  # fmt: skip
    said: list[tuple[str, Stance]] = []
    for entry in transcript.rounds:
        for turn in entry.turns:
            stance = turn.stance
            if stance.rule == "given" or stance.rule == "schema" or stance.status == "failed":
                continue
            others = tuple(old.text for agent, old in said if agent != turn.agent)
            own = "\n".join(old.text for agent, old in said if agent == turn.agent)
            texts = [*others, *own.splitlines()]
            evidence = (question.question, *question.choices, *passages, *(s.answer for _, s in said if s.answer))
            context = ParseContext(
                request=requests.get((question.id, turn.agent, entry.n, stance.text.strip()), ""),
                material=(*evidence, *texts, *map(quoted, texts)),
                evidence=evidence,
                others=others,
                own=own,
                speaker=turn.agent,
                question=question.question,
            )
            shown = turn.selection.ids if turn.selection else range(len(passages) // 2)
            task = TASKS[question.task]
            new = answer_of(stance.text, task, question, "plain", shown=shown, cut=stance.cut, context=context)
            if stance.cut and new.status == "unmarked":
                new = Parsed(value=None, status="cut", rule=new.rule)
            yield Reading(stance.text, question.question, stance, new)
        said += [(turn.agent, turn.stance) for turn in entry.turns]


def page(data: Path, readings: list[Reading]) -> str:
    """The tables and what is to be said about them, as Markdown."""
    lines = [
        "# How replies are read",
        "",
        "Written by `python eval/parser.py --data ../shared/data/recorded --out eval/parser.md`.",
        "",
        "## Recorded text",
        "",
        "*Right*: the value that a field of the file, or its closing formula, holds. *Missed*: none was read. *Wrong*:",
        "another one, or one where the text has none. Of EVOUNA only the share that is read is known.",
        "",
        "| set | texts | right or read | missed | wrong |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, file, items, has_truth in SETS:
        if not (data / file).is_file():
            continue
        counts: Counter[str] = Counter()
        for item in items(data / file):
            value = item.read(item.text)
            right = value == item.truth if has_truth else value is not None
            counts["right" if right else "missed" if value is None else "wrong"] += 1
        lines.append(f"| {name} | {counts.total()} | {counts['right']} | {counts['missed']} | {counts['wrong']} |")
    changed = defaultdict(list)
    for reading in readings:
        changed[reading.kind].append(reading)
    lines += [
        "",
        "## What changed since 0.4.0",
        "",
        f"{len(readings)} stances in free text of the kept calls (`eval/studies/equal-cost/calls`),",
        f"{len(changed[None])} read as 0.4.0 read them. The others, by old and new status:",
        "",
        "| change | stances | rules now | why |",
        "| --- | --- | --- | --- |",
    ]
    for kind, held in sorted(changed.items(), key=lambda entry: -len(entry[1])):
        if kind is not None:
            rules = ", ".join(f"{rule} {n}" for rule, n in Counter(r.new.rule for r in held).most_common())
            lines.append(f"| {kind} | {len(held)} | {rules} | {DEFENDED.get(kind, '')} |")
    lines += [
        "",
        "**One grammar.** In 0.5.0 the parsers of answers, verdicts, selections, picks and grades became readings",
        "of one grammar. Of 65,441 readings (every kept call and stance of the studies and the recorded text, by",
        "all parsers that may meet it) four values changed. Three replies that offer two options (*either (A) or",
        "(C) could be the answer*) are `contradictory` and were unmarked. One that says that the answer is not",
        "provided declines and was read as a sentence. A verdict as a list of `key: value` lines is none; no kept",
        "call holds one.",
        "",
        "**Where contradiction begins.** 205 distinct replies of the equal-cost study hold conclusions in the",
        "requested form that differ. The last one is right in 52 of them, the first one in 69 (by `match`): the last",
        "word of a small model is no correction. None of these replies takes its first conclusion back in words of its",
        "own. So conclusions that differ are `contradictory`, unless a sentence between them begins with such words",
        "(*no*, *wait*, *actually*, *however*, *on second thought*, *I was wrong*), or only one is called *final*.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the recorded text")
    parser.add_argument("--out", type=Path, help="where to write the page (default: to the screen)")
    parser.add_argument("--verbose", metavar="KIND", help="print the texts of one kind, such as 'unmarked -> ok'")
    arguments = parser.parse_args()
    readings = list(kept_readings())
    wanted = [reading for reading in readings if arguments.verbose and reading.kind == arguments.verbose]
    for text, asked, old, new in {reading.text: reading for reading in wanted}.values():
        print(f"{asked}\n  old {old.answer!r}, new {new.value!r} ({new.rule})\n  {text!r}")
    text = page(arguments.data, readings)
    if arguments.out:
        write_file(arguments.out, text.encode())
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
