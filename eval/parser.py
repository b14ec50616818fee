"""How often the parser reads what real models wrote: recorded text against the fields that hold the truth.

    python eval/parser.py --data ../shared/data/recorded [--out eval/parser.md] [--verbose]

The folder holds MIRAGE's letters, the debates of Liang et al., Exchange-of-Thought's solutions, BIG-Bench Hard chains
of thought and agents' traces (FEVER, HotpotQA). Sets whose file is missing are left out. ``--verbose`` lists each text
that was read otherwise than its truth says, and each that has a value which was not read.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

from madke._util.files import atomic_write, read_jsonl
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Verdict
from madke.engine.parse import Form, Marker, Parsed, parse_answer, parse_selection, parse_verdict, without_reasoning
from madke.engine.parse.short import MOST_WORDS
from madke.tasks import TASKS
from madke.tasks.answer_text import squad_normalize

SIDES = ("Affirmative side", "Negative side")
SHOWN = range(32)
"""Numbers of passages that a call may have seen: MIRAGE's runs were given 32."""
CLOSING = re.compile(r"answer is (\([A-Z]\)|yes|no|\$?[\d,]*\d(?:\.\d+)?)\.?\"?$")
"""The formula that few-shot examples taught; what a text ends with in this form is its answer beyond doubt."""

HAND_READ = {
    "AQuA": "0-1:E 0-2:E 1-0:E 1-2:E 6-0:D 6-2:D 8-0:E 10-1:D 10-2:C 12-0:C 17-2:E 22-1:A 23-1:C 34-1:E 35-1:D 36-2:D "
    "44-1:E",
    "CSQA": "4-2:D 5-1:C 13-1:D 20-0:D 22-0:D 22-2:B",
    "StrategyQA": "0-0:yes 1-0:no 2-0:no 2-1:no 3-2:yes 5-0:no 7-0:yes 7-1:yes 7-2:yes 13-2:yes 18-0:yes 18-2:yes "
    "19-0:yes 19-2:yes 23-0:no 23-1:no 23-2:no 25-1:yes 25-2:yes 29-1:yes 32-1:yes 32-2:yes 36-0:yes 39-0:yes 39-2:no "
    "43-0:yes",
    "GSM8K": "0-1:18 2-0:70000 2-1:70000 2-2:70000 3-1:540 3-2:540 4-1:20 5-0:64 7-1:220 7-2:3 8-0:45 8-1:315 8-2:195 "
    "10-2:366 12-0:13 12-1:12 12-2:12 14-0:60% 14-1:60% 14-2:60% 15-0:125 15-1:125 15-2:125 16-0:230 16-1:230 16-2:230 "
    "19-2:4 20-0:15_and_2/3_liters 20-1:15.67_liters_of_water_in_the_remaining_24_liters 20-2:15.67 21-0:14 21-1:14 "
    "21-2:14 23-0:8 23-1:8 23-2:8 24-0:26 24-1:26 24-2:26 25-1:2 25-2:2 26-0:243 29-0:104 29-1:104 29-2:104 31-0:80 "
    "31-1:80 31-2:80 34-2:23 35-0:9 38-0:10 39-0:18 40-0:8 41-1:1200 41-2:1200 42-1:26 43-0:48 43-1:227 43-2:1 44-1:20 "
    "45-1:104 47-1:800 48-1:8",
}
"""Answers of the texts of Exchange-of-Thought that end otherwise, read by eye; those not named settle on none."""

REMARKS = {
    "FEVER ReAct 3522": "the file's fault: the text ends with a label, which the environment refused for a line break",
    "MIRAGE GPT-3.5 RAG clinical_knowledge-083": "the field holds an option's text, 156, and the task's reader cannot "
    "tell it from another option, 15.6",
    "EoT GSM8K": "the last sentence has two numbers and the last one is not the answer",
    "EoT StrategyQA 1-0": "the question is worded as a statement, so it is not known to be a yes/no question",
    "EoT StrategyQA 36-2": "begins with No and ends with doubts about the question",
    "EVOUNA 1544 chatgpt": "the last line is a number, and the text above it says more",
    "EVOUNA short": "longer phrases in lower case, parts of sentences, and texts with a colon, such as some titles",
}
"""What looking at a disagreement, or at those of a set, showed."""

HOW = {
    "f": "a field of the file: the label, answer or translation that was recorded from this text",
    "j": 'the field `"answer_choice"` of the text, if it is a letter, a letter with its option, or an option; several '
    "letters, or words such as *cannot be determined*, are no value",
    "p": "the text itself under Python's own parser, in this script only (no verdict is strict JSON)",
    "n": "every number of the text in brackets or behind the word document, found by a plain pattern: the chosen ones "
    "must be among them",
    "c": 'the closing formula "the answer is X."; texts that end otherwise were read by eye',
    "w": "the whole text: a system that writes nothing but the answer",
    "u": "none: answers in running text, written without a marker in mind",
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """How a text is parsed, and how plain patterns would read it."""

    parse: Callable[[str], Parsed[Any]]
    baseline: Callable[[str], Any] | None = None

    def __call__(self, text: str) -> Parsed[Any]:
        """What the parser reads."""
        return self.parse(text)


@dataclass(frozen=True, slots=True)
class Item:
    """One recorded text, how it is parsed, and what it says."""

    id: str
    text: str
    parse: Grammar
    truth: Any
    """None where the text has no value."""
    same: Callable[[Any, Any], bool] = eq

    def outcome(self, value: Any) -> str:
        """``right``, ``wrong``, ``missed`` (it has a value, none was read) or ``none`` (rightly no value)."""
        if value is None:
            return "none" if self.truth is None else "missed"
        return "right" if self.truth is not None and self.same(value, self.truth) else "wrong"


@dataclass(frozen=True, slots=True)
class RecordedSet:
    """Texts of one source under one grammar."""

    name: str
    file: str
    grammar: str
    judged: str
    """A key of :data:`HOW`."""
    items: Callable[[Path], Iterator[Item]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What became of one text."""

    name: str
    value: Any
    rule: str
    truth: Any
    outcome: str
    """See :meth:`Item.outcome`."""
    baseline: str | None
    """The outcome of the plain patterns; None where they do not apply."""


def load(recorded: RecordedSet, data: Path) -> list[Item]:
    """The texts of a set.

    Raises:
        UserError: The file is not of the form in which it was published.
    """
    try:
        return list(recorded.items(data / recorded.file))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, SyntaxError, OSError) as error:
        why = f"{type(error).__name__} {error}"
        raise UserError(f"is not as {recorded.name} was published: {why}", file=data / recorded.file) from None


def read_items(name: str, items: Iterable[Item]) -> list[Read]:
    """Parse every text of a set."""
    reads = []
    for item in items:
        parsed = item.parse(without_reasoning(item.text))
        value = None if parsed.status == "abstained" or parsed.value in (None, ()) else parsed.value
        plain = item.outcome(item.parse.baseline(item.text)) if item.parse.baseline else None
        reads.append(
            Read(
                name=f"{name} {item.id}",
                value=value,
                rule=parsed.rule,
                truth=item.truth,
                outcome=item.outcome(value),
                baseline=plain,
            )
        )
    return reads


# --- the sets ----------------------------------------------------------------------------------------------------


BASELINE = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"<answer>(.*?)</answer>",
        r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}",
        r"\bfinish\[([^\n]*)\]",
        r"####\s*([^\n]+)",
        r"[\"'][^\"'\n]*(?:answer|choice)[^\"'\n]*[\"']\s*:\s*[\"']([^\"'\n]*)[\"']",
        r"\banswer(?:\s+is)?:?\s+[(\[*$\"]*([^\n.)\]*\"]+)",
        r"\(([A-Z])\)",
        r"\[([^\[\]\n]+)\]",
    )
)
"""Plain patterns in order of trust: the last match of the first pattern with a readable match is the answer."""
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def baseline(read: Callable[[str], str | None], *, is_math: bool) -> Callable[[str], str | None]:
    """The baseline for a task's reader; mathematics falls back to the last number."""

    def plainly(text: str) -> str | None:
        for pattern in (*BASELINE, *([NUMBER] if is_math else [])):
            found = pattern.findall(text)
            value = read(found[-1].strip()) if found else None
            if value is not None:
                return value
        return None

    return plainly


def answers(task: str, choices: Sequence[str] = (), marker: Marker = "brackets", asked: str = "?") -> Grammar:
    """The answer grammar for a task, as for a call that was shown :data:`SHOWN`, and its baseline."""
    question = Question(id="recorded", question=asked, task=task, choices=tuple(choices))
    is_math = task == "math"
    form = Form(is_math=is_math, is_yes_no=TASKS[task].asks_yes_or_no(question))

    def read(raw: str) -> str | None:
        return TASKS[task].read(raw, question)

    return Grammar(
        lambda text: parse_answer(text, read, marker, shown=SHOWN, form=form), baseline(read, is_math=is_math)
    )


def mirage_letters(path: Path) -> Iterator[Item]:
    """MIRAGE's multiple choice, in JSON that often is none."""
    for _, line in read_jsonl(path):
        text, options = line["outputs"][0], line["options"]
        told = re.findall(r'"answer_choice":\s*"([^"]*)"', text)
        truth = _letter(told[-1], options) if told else None
        yield Item(line["id"], text, answers("choice", list(options.values())), truth)


def mirage_ids(path: Path) -> Iterator[Item]:
    """The document numbers that MIRAGE's retrieval runs name."""
    for _, line in read_jsonl(path):
        text = line["outputs"][0]
        groups = re.findall(r"\[([\d,\s-]+)\]|\bdocuments? (\d+(?:(?:, | and |, and )\d+)*)", text, re.IGNORECASE)
        named = {int(n) for group in groups for n in re.findall(r"\d+", " ".join(group))}
        yield Item(line["id"], text, Grammar(_ids), named & set(range(32)) or None, _all_named)


def moderator_verdicts(path: Path) -> Iterator[Item]:
    """Each moderator's verdict in the debates of Liang et al."""
    for number, line in read_jsonl(path):
        for turn, text in enumerate(_said(line, "Moderator"), start=1):
            told = ast.literal_eval(text)
            side = next((side for side in SIDES if side.split()[0] in told["Supported Side"]), None)
            truth = (told["Whether there is a preference"] == "Yes", side, told["Correct Translation"].strip() or None)
            yield Item(f"{number}-{turn}", text, Grammar(_verdict), truth, _is_judged)


def final_translations(path: Path) -> Iterator[Item]:
    """The record that ends each debate, the moderator's or the judge's, against the translation on file."""
    for number, line in read_jsonl(path):
        text = [*_said(line, "Moderator"), *_said(line, "Judge")][-1]
        yield Item(str(number), text, Grammar(_verdict), line["debate translation"].strip() or None, _is_translation)


def thought_exchanges(task: str, marker: Marker) -> Callable[[Path], Iterator[Item]]:
    """Three solutions a question, of Exchange-of-Thought."""

    def items(path: Path) -> Iterator[Item]:
        by_eye = dict(pair.split(":") for pair in HAND_READ[path.stem].split())
        for number, line in read_jsonl(path):
            listed = line["question"].partition("Answer Choices:")[2]
            same = partial(TASKS[task].same, question=Question(id="", question="", task=task))
            choices = [part.strip() for part in re.split(r"\([A-E]\)", listed)[1:]]
            parse = answers(task, choices, marker, line["question"])
            for sample, text in enumerate(line["response_list"]):
                id = f"{number - 1}-{sample}"
                truth = _closing(text) or by_eye.get(id, "").replace("_", " ") or None
                yield Item(id, text, parse, truth, same)

    return items


def big_bench_hard(path: Path) -> Iterator[Item]:
    """Codex on logical deduction; four texts are cut off before they answer."""
    for number, line in enumerate(_json(path)["outputs"]):
        options = line["input"].rpartition("Options:")[2].partition("\nA:")[0]
        parse = answers("choice", re.split(r"\n?\([A-Z]\) ", options)[1:], "parentheses")
        yield Item(str(number), line["prediction"], parse, _closing(line["prediction"]))


def fever_labels(path: Path) -> Iterator[Item]:
    """The label that a ReAct agent finished with."""
    for _, line in read_jsonl(path):
        yield Item(str(line["question_idx"]), line["transcript"], answers("claim"), line["info"]["answer"] or None)


def fireact_answers(path: Path) -> Iterator[Item]:
    """The answer that a FireAct agent finished with, recorded in its normalised form."""
    for id, line in _json(path).items():
        yield Item(id, line["traj"], answers("short_answer"), line["pred"] or None, _same_words)


def searcher_answers(path: Path) -> Iterator[Item]:
    """The answer in R1-Searcher's ``<answer>`` tag, behind its reasoning."""
    for number, line in read_jsonl(path):
        text, told = line["gen_text_store"], line["pred_ans"].strip() or None
        yield Item(str(number - 1), text, answers("short_answer"), told)


def bare_answers(path: Path) -> Iterator[Item]:
    """Answers of a system that writes nothing else, mostly up to five words."""
    for number, line in enumerate(_json(path)):
        text = line["answer_fid"] or ""
        yield Item(str(number), text, answers("short_answer"), text or None, _same_words)


def running_text(path: Path) -> Iterator[Item]:
    """Answers of four systems to open questions, in sentences; those of few words may be no sentences."""
    for number, line in enumerate(_json(path)):
        for system in ("gpt35", "chatgpt", "gpt4", "newbing"):
            text = line[f"answer_{system}"] or ""
            if len(text.split()) > MOST_WORDS:
                yield Item(f"{number} {system}", text, answers("short_answer"), None)


def _ids(text: str) -> Parsed[tuple[int, ...]]:
    parsed = parse_selection(text, size=32, limit=3)
    return Parsed(value=parsed.value.ids, status=parsed.status, rule=parsed.rule, span=parsed.span)


def _verdict(text: str) -> Parsed[Verdict]:
    return parse_verdict(text, sides=SIDES)


def _is_judged(judged: Verdict, told: tuple[bool, str | None, str | None]) -> bool:
    return (judged.consensus, judged.side, judged.answer) == told


def _is_translation(judged: Verdict, told: str) -> bool:
    # The file has lost the apostrophes of its translations.
    return _same_words(judged.answer or "", told)


def _same_words(value: str, told: str) -> bool:
    return squad_normalize(value) == squad_normalize(told)


def _all_named(ids: tuple[int, ...], named: set[int]) -> bool:
    return named.issuperset(ids)


def _closing(text: str) -> str | None:
    closing = CLOSING.search(text.strip())
    return closing.group(1).strip("()") if closing else None


def _said(line: dict[str, Any], role: str) -> list[str]:
    """The records among a role's messages."""
    messages = line["players"].get(role, ())
    return [m["content"] for m in messages if m["role"] == "assistant" and m["content"].startswith("{")]


def _letter(told: str, options: dict[str, str]) -> str | None:
    """The letter that the field holds: alone, with its option's text, or as exactly one option's text."""
    lettered = re.match(r"([A-D])(?:\Z|[.)]\s*)", told.strip())
    if lettered:
        letter, text = lettered.group(1), told.strip()[lettered.end() :]
        return letter if not text or SequenceMatcher(a=text, b=options[letter]).ratio() > 0.8 else None
    same = [key for key, option in options.items() if option.strip(" .") == told.strip(" .")]
    return same[0] if len(same) == 1 else None


def _json(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


_MIRAGE = "mirage_mmlu_med/{}.jsonl.gz"
_RAG35, _RAG4 = _MIRAGE.format("gpt-35-turbo-16k_rag_32"), _MIRAGE.format("gpt-4-32k_rag_32")
_DEBATES, _EOT = "mad_commonmt_debates_100.jsonl.gz", "eot_gpt35/{}.jsonl"
_LETTER, _YES_NO = thought_exchanges("choice", "parentheses"), thought_exchanges("short_answer", "brackets")

SETS = (
    RecordedSet("MIRAGE GPT-3.5 CoT", _MIRAGE.format("gpt-35-turbo-16k_cot"), "letter", "j", mirage_letters),
    RecordedSet("MIRAGE GPT-4 CoT", _MIRAGE.format("gpt-4-32k_cot"), "letter", "j", mirage_letters),
    RecordedSet("MIRAGE GPT-3.5 RAG", _RAG35, "letter", "j", mirage_letters),
    RecordedSet("MIRAGE GPT-4 RAG", _RAG4, "letter", "j", mirage_letters),
    RecordedSet("MIRAGE GPT-3.5 RAG", _RAG35, "ids", "n", mirage_ids),
    RecordedSet("MIRAGE GPT-4 RAG", _RAG4, "ids", "n", mirage_ids),
    RecordedSet("Liang moderators", _DEBATES, "verdict", "p", moderator_verdicts),
    RecordedSet("Liang final records", _DEBATES, "its answer", "f", final_translations),
    RecordedSet("EoT AQuA", _EOT.format("AQuA"), "letter in ( )", "c", _LETTER),
    RecordedSet("EoT CSQA", _EOT.format("CSQA"), "letter in ( )", "c", _LETTER),
    RecordedSet("EoT GSM8K", _EOT.format("GSM8K"), "math", "c", thought_exchanges("math", "brackets")),
    RecordedSet("EoT StrategyQA", _EOT.format("StrategyQA"), "free text", "c", _YES_NO),
    RecordedSet("BBH logical", "bbh_codex_cot_logical.json.gz", "letter in ( )", "c", big_bench_hard),
    RecordedSet("FEVER ReAct", "react_fever_250.jsonl.gz", "label", "f", fever_labels),
    RecordedSet("HotpotQA FireAct", "fireact_hotpotqa_llama2_7b.json.gz", "free text", "f", fireact_answers),
    RecordedSet("HotpotQA R1-Searcher", "r1searcher_hotpotqa_250.jsonl.gz", "free text", "f", searcher_answers),
    RecordedSet("EVOUNA short", "evouna/NQ_1800.json.gz", "bare text", "w", bare_answers),
    RecordedSet("EVOUNA", "evouna/NQ_1800.json.gz", "free text", "u", running_text),
)


# --- the same texts, made harder ---------------------------------------------------------------------------------


def cut_off(item: Item) -> Iterator[Item]:
    """The text up to each twentieth of it. What is left may say less, and nothing else."""
    for twentieth in range(1, 20):
        yield replace(item, text=item.text[: len(item.text) * twentieth // 20], same=_says_nothing_else)


def without_field(item: Item) -> Iterator[Item]:
    """The reasoning alone, which may name the letter in words."""
    yield replace(item, text=item.text.partition('"answer_choice"')[0])


def cited(item: Item) -> Iterator[Item]:
    """The text with a citation behind every sentence, against what is read of it without."""
    said = without_reasoning(item.text)
    text = re.sub(r"(?<=[a-z]{3}[.!?])(?=\s|\Z)", " [3][12]", said)
    yield replace(item, text=text, truth=item.parse(said).value, same=eq)


def ended_early(item: Item) -> Iterator[Item]:
    """The text up to the end of each line but its last, where no answer stands, under the rules without a marker."""
    ends = [line.end() for line in re.finditer(r"[^\n]*\w[^\n]*", without_reasoning(item.text))][:-1]
    parse = replace(item.parse, parse=partial(_without_marker, item.parse))
    for end in ends:
        yield replace(item, text=without_reasoning(item.text)[:end], parse=parse, same=_same_words)


def alone(item: Item) -> Iterator[Item]:
    """The first half of the text, ended by its answer alone on the last line."""
    said = without_reasoning(item.text)
    if item.truth is not None and len(said.splitlines()) > 1:
        half = "\n".join(said.splitlines()[: len(said.splitlines()) // 2])
        parse = replace(item.parse, parse=partial(_without_marker, item.parse))
        yield replace(item, text=f"{half}\nThat is all.\n{item.truth}", parse=parse, same=_same_words)


def _without_marker(parse: Grammar, text: str) -> Parsed[Any]:
    parsed = parse(text)
    return parsed if parsed.rule in ("short", "short_line", "yes_no") else replace(parsed, value=None)


def _says_nothing_else(value: Any, truth: Any) -> bool:
    if isinstance(value, Verdict):
        read = (value.consensus, value.side, value.answer)
        return all(one in (None, told) for one, told in zip(read, truth, strict=True))
    return bool(value == truth)


ANSWERS = ("letter", "letter in ( )", "free text", "label")
"""Without mathematics, where nothing is a citation."""
HARDER: tuple[tuple[str, tuple[str, ...], Callable[[Item], Iterator[Item]]], ...] = (
    ("letters, cut off at every twentieth", ("letter",), cut_off),
    ("letters, without the field that holds them", ("letter",), without_field),
    ("verdicts, cut off at every twentieth", ("verdict",), cut_off),
    (
        "free text, ended after each line but the last: what the rules without a marker read",
        ("free text",),
        ended_early,
    ),
    ("free text, half of it, then the answer alone on the last line", ("free text",), alone),
    ("all answers but mathematics, with citations behind every sentence", ANSWERS, cited),
)
"""A description, the grammars whose texts are taken, and what is done to them."""


# --- the page ----------------------------------------------------------------------------------------------------

COLUMNS = (
    *("set", "grammar", "texts", "with a value", "right", "missed", "wrong", "rightly none"),
    *("baseline right", "baseline wrong", "rules", "truth"),
)


def page(results: Sequence[tuple[RecordedSet, list[Read]]], harder: Sequence[tuple[str, list[Read]]]) -> str:
    """The tables and what is to be said about them, as Markdown."""
    lines = [
        "# What the parser reads of recorded text",
        "",
        "Written by `python eval/parser.py --data ../shared/data/recorded --out eval/parser.md`. *Missed*: the text",
        "has a value and none was read. *Wrong*: another value was read, or there is none. A missed value costs a",
        "vote, a wrong one a result, so the grammars abstain in doubt. They were written with these texts at hand: the",
        "figures show the remaining misses, not what to expect of other texts. *Baseline*: eight plain patterns (tag,",
        'box, Finish, ####, JSON, "answer is", last (X), last [X]) and the last number for mathematics.',
        "",
        *_row(COLUMNS),
        *_row(["---"] * len(COLUMNS)),
    ]
    for recorded, reads in results:
        outcomes = Counter(read.outcome for read in reads)
        with_value = sum(read.truth is not None for read in reads)
        plain = Counter(read.baseline for read in reads)
        right = _share(outcomes["right"], with_value)
        baselines = ("-", "-") if plain[None] else (_share(plain["right"], with_value), plain["wrong"])
        rules = ", ".join(f"{rule} {n}" for rule, n in Counter(read.rule for read in reads).most_common())
        counts = (outcomes["missed"], outcomes["wrong"], outcomes["none"])
        cells = (recorded.name, recorded.grammar, len(reads), with_value, right, *counts, *baselines)
        lines += _row([*cells, rules, recorded.judged])
    judged = {recorded.judged for recorded, _ in results}
    lines += ["", "How the truth was found:", "", *(f"- **{key}**: {HOW[key]}." for key in HOW if key in judged)]
    disagreeing = [read for _, reads in results for read in reads if read.outcome in ("wrong", "missed")]
    lines += ["", "Disagreements, each looked at (`--verbose` lists them):", ""]
    lines += [f"- {read.name}, {read.outcome}: {REMARKS[read.name]}." for read in disagreeing if read.name in REMARKS]
    rest = Counter((read.name.rpartition(" ")[0], read.outcome) for read in disagreeing if read.name not in REMARKS)
    lines += [f"- {name}, {n} {outcome}: {REMARKS.get(name, 'not explained')}." for (name, outcome), n in rest.items()]
    lines += ["", "The same texts, made harder:", ""]
    lines += [*_row(["what", "texts", "same value", "no value", "another value"]), *_row(["---"] * 5)]
    for what, reads in harder:
        outcomes = Counter(read.outcome for read in reads)
        lines += _row([what, len(reads), outcomes["right"], outcomes["missed"] + outcomes["none"], outcomes["wrong"]])
    return "\n".join(lines) + "\n"


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f} %)" if total else "0"


def _row(cells: Sequence[object]) -> list[str]:
    return [f"| {' | '.join(map(str, cells))} |"]


def main() -> int:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the recorded text")
    parser.add_argument("--out", type=Path, help="where to write the page (default: to the screen)")
    parser.add_argument("--verbose", action="store_true", help="list the texts that were read otherwise, or not at all")
    arguments = parser.parse_args()
    try:
        present = [recorded for recorded in SETS if (arguments.data / recorded.file).is_file()]
        if not present:
            raise UserError(f"none of the recorded sets is in {arguments.data}: expected files such as {SETS[0].file}")
        items = {recorded: load(recorded, arguments.data) for recorded in present}
        results = [(recorded, read_items(recorded.name, items[recorded])) for recorded in present]
        harder = []
        for what, grammars, change in HARDER:
            chosen = [item for recorded in present if recorded.grammar in grammars for item in items[recorded]]
            harder.append((what, read_items(what, (hard for item in chosen for hard in change(item)))))
        if arguments.verbose:
            shown = [read for _, reads in results for read in reads if read.outcome in ("wrong", "missed")]
            shown += [read for _, reads in harder for read in reads if read.outcome == "wrong"]
            for read in shown:
                print(f"{read.outcome}\t{read.name}\tread {read.value!r} ({read.rule})\tsays {read.truth!r}")
        if arguments.out:
            with atomic_write(arguments.out) as file:
                file.write(page(results, harder).encode())
        else:
            print(page(results, harder), end="")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
