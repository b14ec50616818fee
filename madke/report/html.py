"""A self-contained report page of runs: settings, scores, tests, figures and all debates.

Debates, passages and prompts are in compressed blocks, which the page's script unpacks when they are read.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b, sha256
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from pydantic_core import to_json

from madke._util.files import atomic_write
from madke._util.terminal import printable
from madke.core.errors import UserError, count_of
from madke.core.transcript import UNREAD_STATUSES, Transcript
from madke.core.transcript import to_json as transcript_to_json
from madke.report import figures
from madke.report.chart import charts, key_of
from madke.report.comparison import BY_DATASET, family, paired_table
from madke.report.protocol_text import changed_settings
from madke.report.scores import all_failed, cause, dataset_table, marked_scores, score_details, stage_table
from madke.report.tables import NO_FIGURE, ORACLE, Table, TableRow, table_of
from madke.report.verdict import finding
from madke.retrieval.pools import PoolRecord
from madke.runs.directory import recorded_calls, run_files, sessions_of
from madke.runs.runner import recorded_pools
from madke.scoring.arms import ArmValues, QuestionKey, Results, open_results
from madke.scoring.debate_rows import DebateMeasures, gold_of
from madke.scoring.metrics import METRICS, common_metric, heading_of
from madke.scoring.paired import PairedTest
from madke.scoring.scored import arm_of, scored_arm
from madke.scoring.scores import Scores, is_shortened

_SCRIPTS = (
    "dom", "data", "search", "list", "matrix", "pool", "agreement", "calls", "debate", "summary", "app",
)  # fmt: skip
"""Joined to one script in this order."""

READER = "offline"
"""The kind of the model that extracts answers from passages."""


def write_report(
    runs: Sequence[Path | str | Results],
    out: Path | str,
    *,
    scores: Sequence[Scores] = (),
    values: Sequence[ArmValues] = (),
    title: str | None = None,
    source: str | None = None,
    verdict: Sequence[str] = (),
    tables: Sequence[Table] = (),
    tested: bool = True,
) -> tuple[dict[str, Table], list[figures.Drawing], str]:
    """Write the report page of runs, atomically. UserError if a run cannot be read or the page cannot be written.

    The page is self-contained: debates and passages are compressed in it, and its security policy allows only its own
    script and no requests. Data is written in pieces; memory holds a small row per debate and passage. Known
    ``scores``, and the ``values`` behind them, are not computed again. ``verdict``: the first lines of the
    page, by default the finding. ``source`` is a line below them; ``tables`` follow the page's own.
    ``tested``: False leaves out all tests, for results that were looked at before they were complete.

    Returns:
        The page's own tables by name: ``scores``, ``stages``, with two or more runs ``tests``, over several datasets
        ``datasets`` and ``tests_by_dataset``; its figures; its finding.
    """
    results = open_results(runs)
    read = [
        (scores[n], values[n] if values else arm_of(arm)) if scores else scored_arm(arm)
        for n, arm in enumerate(results)
    ]
    named, arms = {arm.name: each for each, arm in read}, [arm for _, arm in read]
    tests, within = family(arms) if tested else ([], [])
    further = {
        "datasets": dataset_table(arms, within),
        "tests_by_dataset": paired_table(within, BY_DATASET) if within else None,
    }
    known = {name: table for name, table in further.items() if table is not None}
    own = {"scores": marked_scores(named, tests), "stages": stage_table(named)}
    own |= {"tests": paired_table(tests)} if tests else {}
    drawings = figures.draw(results, named, arms) if figures.available() else []
    shared, different = _settings(results)
    script = _asset(*(f"script/{name}.js" for name in _SCRIPTS))
    sentence = finding(arms, named, tests)
    key = key_of(named)
    pieces = _template([*named]).generate(
        title=title or (results[0].name if len(results) == 1 else f"{len(results)} runs"),
        source=source,
        verdict=verdict or [sentence],
        lead=_lead(results, named),
        worth=[
            (name if len(named) > 1 else "", each.shadow.sentence, each.shadow.price)
            for name, each in named.items()
            if each.shadow is not None
        ],
        reader=_reader(results),
        alerts=[*_alerts(named), *dict.fromkeys(f"{arm.corrected}." for arm in results if arm.corrected)],
        incomplete=any(each.incomplete for each in named.values()),
        key=key,
        charts=[*charts(named, key)],
        scores=None if all(map(all_failed, named.values())) else own["scores"],
        stages=own["stages"],
        tests=_by_value(arms, tests),
        against=arms[0].name if len(arms) > 2 and {test.left for test in tests} == {arms[0].name} else None,
        tables=[*known.values(), *tables],
        figures=[each for each in drawings if not each.name.startswith("accuracy-by-")],  # the chart shows them
        shared=shared,
        different=different,
        details=[(arm.name, score_details(named[arm.name])) for arm in results],
        style=_asset("style.css"),
        script=script,
        script_hash=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        data=page_data(results, arms),
    )
    with atomic_write(Path(out)) as file:
        file.writelines(piece.encode("utf-8", "replace") for piece in pieces)
    return own | known, drawings, sentence


def _template(runs: Sequence[str]) -> Template:
    templates = PackageLoader("madke.report", "templates")
    environment = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    of_page = partial(page_table, runs=runs)
    environment.filters.update(printable=printable, page_table=of_page, image=_image, unbroken=unbroken)
    return environment.get_template("report.html.j2")


def _image(drawing: figures.Drawing) -> str:
    """The figure as the address of an image."""
    return f"data:image/svg+xml;base64,{b64encode(figures.file_bytes(drawing, 'svg')).decode()}"


_UNBROKEN = re.compile(r"(?<=\w) (?=%)|(?<=\b[np]) (?=[=<])|(?<=[=<]) (?=[\d.])")


def unbroken(text: str) -> str:
    """The text without line breaks inside ``p = 0.065``, ``n = 20`` and ``95 %``."""
    return _UNBROKEN.sub("\N{NO-BREAK SPACE}", text)


def _asset(*names: str) -> str:
    folder = files("madke.report") / "page"
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _lead(results: Sequence[Results], scores: Mapping[str, Scores]) -> str:
    questions = max(scores[arm.name].questions for arm in results)
    debates = sum(scores[arm.name].transcripts for arm in results)
    facts = [f"{count_of(questions, 'question')}, {count_of(debates, 'debate')}"]
    specs = [arm.config for arm in results if arm.config]
    models = {without_folders(model) for spec in specs for model in spec.models.values()}
    named = ({spec.data for spec in specs}, {spec.variant for spec in specs}, models)
    facts += [", ".join(sorted(names)) for names in named if 0 < len(names) <= 3]
    return " \N{MIDDLE DOT} ".join(facts)


def _by_value(arms: Sequence[ArmValues], tests: Sequence[PairedTest]) -> dict[str, Table]:
    """Heading -> tests of one value, the tasks' first metric first."""
    first = common_metric(arm.first_metric for arm in arms)
    values = dict.fromkeys(sorted((test.metric for test in tests), key=lambda metric: metric != first))
    return {heading_of(value): paired_table([test for test in tests if test.metric == value]) for value in values}


def _reader(results: Sequence[Results]) -> str:
    """A warning about runs whose answers come from the offline reader; empty if there are none."""
    played = {arm.name: arm.config.models.values() for arm in results if arm.config}
    read = [name for name, models in played.items() if any(model.partition("/")[0] == READER for model in models)]
    if not read:
        return ""
    which = "These answers" if len(read) == len(results) else f"The answers of {', '.join(read)}"
    return (
        f"{which} come from {READER}, the built-in reader: it extracts spans from passages and is not a language "
        "model. Scores say nothing about language models."
    )


def _alerts(scores: Mapping[str, Scores]) -> Iterator[str]:
    yield from (f"Incomplete: {name}, {each.incomplete}." for name, each in scores.items() if each.incomplete)
    for name, each in scores.items():
        if each.read_golds:
            yield f"{name}: {ORACLE} in {each.read_golds} of {each.transcripts} debates."
        if all_failed(each):
            yield cause(name, each)
        elif each.failed and each.correct_if_failed:
            low, high = each.correct_if_failed
            yield (
                f"{name}: {each.failed} of {each.transcripts} debates failed and are excluded from scores. "
                f"Including them, correct is between {100 * low:.1f} % (all wrong) and {100 * high:.1f} % (all right)."
            )


def _settings(results: Sequence[Results]) -> tuple[dict[str, str], Table | None]:
    """The settings that all runs share, and a table of the others."""
    each = [_settings_of(arm) for arm in results]
    values = {name: [settings.get(name, "") for settings in each] for name in {k: None for s in each for k in s}}
    shared = {name: row[0] for name, row in values.items() if len(set(row)) == 1}
    if len(shared) == len(values):
        return shared, None
    rows: list[TableRow] = [
        {"run": arm.name, **{name: row[n] for name, row in values.items() if name not in shared}}
        for n, arm in enumerate(results)
    ]
    return shared, table_of("Settings that differ", rows)


def _settings_of(arm: Results) -> dict[str, str]:
    if arm.config is None:
        return {"data": f"prediction file {arm.path.name}"}
    config, sessions = arm.config, sessions_of(arm.path)
    versions = sessions[-1].get("versions", {}) if sessions else {}
    settings = {
        "data": f"{config.data}, {count_of(len(config.questions), 'question')}",
        "dataset": config.dataset or "",
        "sample seed": "" if config.sample_seed is None else str(config.sample_seed),
        "protocol": f"{config.variant} ({config.protocol.source})",
        "models": ", ".join(f"{role}: {without_folders(model)}" for role, model in config.models.items()),
        "settings": ", ".join(changed_settings(config.protocol)) or "all defaults",
        "sources": "; ".join(f"{source}: {without_folders(served)}" for source, served in config.sources.items()),
        "answer scorer": without_folders(config.answer_scorer or ""),
        "first round": "given" if config.first_round else "",
        "seed, repeats": f"{config.seed}, {config.repeats}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    return {name: value for name, value in settings.items() if value}


_FOLDERS = re.compile(
    r"(?<=\()[^(),:]*/(?=[^/(),]+, \w+\))"  # (FOLDER/NAME, FINGERPRINT), as sources describe an index
    r"|(?<![\w:/.~])(?:~|\.\.?)?/(?:[^\s/(),;]+/)*"  # an absolute or relative path, but not a URL
    r"|(?<=\w/)/(?:[^\s/(),;]+/)*"  # the path in hf//PATH and scripted//PATH
)


def without_folders(text: str) -> str:
    """The text with each local path reduced to its last part."""
    return _FOLDERS.sub("", text)


# Tables of the page

_MEANINGS: Mapping[str, str] = {
    "correct": "Share of questions with a right final answer, by the metric in parentheses, the task's first.",
    "grader": "A model that reads the gold answer says that the answer is right.",
    "Cons": "Consistency: debaters give the same last answer, right or wrong.",
    "Co2": "Consistent and correct: debaters give the same last answer, and the final answer is right.",
    "rounds": "Mean number of rounds of a debate.",
    "calls": "Calls of models and services in the whole run, also those answered by the call store.",
    "paid": "Calls that were sent to a model. The others were answered by the call store.",
    "tokens": "Prompt and completion tokens of the whole run.",
    "abst.": "Abstained: debates whose final text declines to answer. They count as wrong.",
    "deferred": "Debates whose answer is left to a person. No mean includes them.",
    "failed": "Debates without a result, because calls failed. No mean includes them.",
    "p (Holm)": "Chance of such a difference if the runs were equally good, corrected for the number of pairs that are "
    "tested on this value. Below 0.05: marked with *.",
}
"""Heading without its unit -> meaning."""


def page_table(table: Table, runs: Collection[str]) -> dict[str, Any]:
    """A table for the page. The words that a row starts with are one name, so that no figure loses its name."""
    places = range(len(table.columns))
    words = [not table.has_figures(n) and any(row[n] != NO_FIGURE for row in table.rows) for n in places]
    named = 1 if all(words) else max(1, sum(1 for _ in takewhile(bool, words)))
    joined = " \N{MIDDLE DOT} ".join
    best = [table.best(n) if named == 1 else "" for n in places]
    rows = []
    for row in table.rows:
        texts = [cell.text for cell in row[:named]]
        cells = [(cell, bool(top) and cell.text == top) for cell, top in zip(row, best, strict=True)][named:]
        of_run = [f"#debates?run={quote(text, safe='')}" for text in texts if text in runs]
        name = joined(texts).replace(" %", "\N{NO-BREAK SPACE}%")
        rows.append({"name": name, "mark": row[0].mark, "href": of_run[0] if len(of_run) == 1 else "", "cells": cells})
    headings = [(heading, meaning(heading), words[n]) for n, heading in enumerate(table.columns)][named:]
    notes = [*table.notes, *(["Bold: the highest value of the column."] if any(best) else [])]
    return {
        "title": table.title,
        "columns": [(joined(table.columns[:named]), "", True), *headings],
        "rows": rows,
        "notes": notes,
        "stacked": all(words),  # a phone shows each row as a list, because a table of words has no narrow columns
    }


def meaning(heading: str) -> str:
    """The meaning of a heading: ours, or that of its metric; empty if there is none."""
    name = "correct" if heading.startswith("correct (") else heading.removesuffix(" %")
    own = (METRICS[each].explanation for each in METRICS.used() if heading_of(each) == name)
    return _MEANINGS.get(name) or next(own, "").replace("`", "")


# Debates of the page

_SIZES = {"debates": 100, "texts": 200, "prompts": 200}
"""Kind -> items of a block."""

MAX_DEBATES = 1_000
"""Runs of more debates have no prompts on the page: it would be several times as large."""


class Blocks:
    """Numbered items in invisible elements: item ``n`` is item ``n % size`` of block ``n // size``."""

    def __init__(self, name: str) -> None:
        self._name, self._size = name, _SIZES[name]
        self._count = 0
        self._open: list[bytes] = []
        self._full: list[str] = []
        self._numbers: dict[bytes, int] = {}

    def add(self, item: bytes) -> int:
        """Add an item, as JSON. Return its number."""
        self._open.append(item)
        self._count += 1
        if len(self._open) == self._size:
            self._close()
        return self._count - 1

    def number_of(self, value: Any) -> int:
        """The number of an item. Equal items share one."""
        item = to_json(value)
        key = blake2b(item, digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = self.add(item)
        return self._numbers[key]

    def take(self, *, rest: bool = False) -> Iterator[str]:
        """Elements of the full blocks since the last call; with ``rest``, of all."""
        if rest and self._open:
            self._close()
        yield from self._full
        self._full.clear()

    def _close(self) -> None:
        name = f"{self._name}-{(self._count - 1) // self._size}"
        self._full.append(_element(name, b"[" + b",".join(self._open) + b"]"))
        self._open.clear()


def _element(name: str, value: bytes) -> str:
    """A JSON value as an element with this id: gzip, base64."""
    packed = gzip.compress(value, 2, mtime=0)  # level 4 makes a page 6 % smaller and takes half as much time again
    return f'<script type="application/gzip" id="{name}">{b64encode(packed).decode()}</script>\n'


OUTCOMES: Mapping[str, str] = {
    "right": "right",
    "wrong": "wrong",
    "partly": "partly right",
    "abstained": "abstained",
    "unread": "no readable answer: unmarked, only its prompt given back, or cut off",
    "failed": "failed",
    "deferred": "deferred to a person",
    "corrected": "corrected: wrong after round 1, right at the end",
    "collapsed": "collapsed: right after round 1, wrong at the end",
    "divided": "no consensus",
    "trapped": "trapped: gave an answer listed as wrong",
    "degraded": "degraded: a call failed",
    "shortened": "shortened: a prompt was too long",
    "oracle": ORACLE,
}
"""Outcome -> label. The first seven exclude each other."""

_BITS = {name: 1 << n for n, name in enumerate(OUTCOMES)}


def page_data(results: Sequence[Results], arms: Sequence[ArmValues]) -> Iterator[str]:
    """The elements of the page's data, the index last. Memory holds a few blocks, and a small row per debate."""
    blocks = {kind: Blocks(kind) for kind in _SIZES}
    runs: list[dict[str, Any]] = []
    questions: dict[QuestionKey, tuple[str, ...]] = {}
    places: dict[str, int] = {}
    rows: list[tuple[QuestionKey, tuple[Any, ...]]] = []
    record_of = recorded_pools(Path(), None)
    of_file: tuple[Path, Mapping[str, str]] | None = None
    for one, arm in zip(results, arms, strict=True):
        config = one.config
        calls: Mapping[tuple[str, int], Sequence[PageCall]] = {}
        if config is not None and len(config.questions) * config.repeats <= MAX_DEBATES:
            calls = calls_of(one, blocks["prompts"])
        pools = run_files(one.path).pools if config else None
        file = (pools.resolve(), config.pools) if config and pools else None
        if file != of_file:  # arms of an experiment share their pools
            record_of, of_file = recorded_pools(one.path, config), file
        for place, id_ in enumerate(config.questions if config else ()):
            places.setdefault(id_, place)
        first = len(rows)
        for t in one.transcripts():
            key = (t.id, t.question)
            questions.setdefault(key, (*key, " | ".join(t.answers), t.task, t.dataset or ""))
            used = t.total if t.usage else None  # predictions have none
            outcomes, score = _outcomes(t, arm)
            figures = (len(t.rounds), used.calls, used.tokens) if used else (None, None, None)
            rows.append((key, (t.repeat, t.answer, outcomes, score, *figures)))
            texts = _texts(t, record_of(t.id), blocks["texts"])
            blocks["debates"].add(_body(t, score, texts, calls.get((t.id, t.repeat), ())))
            for each in blocks.values():
                yield from each.take()
        runs.append({"name": one.name, "first": first, "count": len(rows) - first})
    for each in blocks.values():
        yield from each.take(rest=True)
    order = sorted(questions, key=lambda key: places.get(key[0], len(places)))
    number = {key: n for n, key in enumerate(order)}
    index = {
        "runs": runs,
        "outcomes": OUTCOMES,
        "questions": _columns(("id", "text", "gold", "task", "dataset"), [questions[key] for key in order]),
        "debates": _columns(
            ("question", "repeat", "answer", "outcomes", "score", "rounds", "calls", "tokens"),
            [(number[key], *row) for key, row in rows],
        ),
        "sizes": _SIZES,
    }
    yield _element("index", to_json(index))


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


def _outcomes(t: Transcript, arm: ArmValues) -> tuple[int, float | None]:
    """The outcomes of a debate as bits, and its score."""

    def value(name: str) -> float | None:
        return arm.values.get(name, {}).get((t.id, t.question), {}).get(t.repeat)

    kind: str = "unread" if t.reading in UNREAD_STATUSES else t.reading
    outcomes = [kind] if kind != "ok" else []
    marks = {"degraded": t.degraded, "shortened": is_shortened(t), "oracle": t.oracle}
    outcomes += [name for name, holds in marks.items() if holds]
    outcomes += [name for name in ("corrected", "collapsed", "trapped") if value(name)]
    score, judge = value("correct"), value("cons_judge")
    if score is not None and kind not in ("abstained", "unread", "failed", "deferred"):
        outcomes.append("right" if score == 1 else "wrong" if score == 0 else "partly")
    if (value("cons_matcher") if judge is None else judge) == 0:
        outcomes.append("divided")
    return sum(_BITS[name] for name in outcomes), score


def _texts(transcript: Transcript, record: PoolRecord | None, texts: Blocks) -> list[int | None]:
    """The number of ``[text, url, date]`` of each passage in its pool; None if the pool file lacks it."""
    if record is None:
        return []
    by_key = {(passage.source, passage.key): passage for passage in reversed(record.passages)}
    passages = [by_key.get((entry.source, entry.key)) for entry in transcript.pool]
    return [texts.number_of((each.text, each.url, each.date)) if each else None for each in passages]


def _body(transcript: Transcript, known: float | None, texts: Sequence[int | None], calls: Sequence[PageCall]) -> bytes:
    """One debate: its transcript without default values; its passages, gold passages, scores of answers, and calls.

    ``known``: the score of the final answer; None if it is not known.
    """
    scores = {}
    if transcript.answers:
        debate = DebateMeasures(transcript)
        answers = {transcript.answer, *(turn.stance.answer for entry in transcript.rounds for turn in entry.turns)}
        for answer in sorted(filter(None, answers)):
            scores[answer] = debate.score(answer) if known is None or answer != transcript.answer else known
    gold_keys, name_of = gold_of(transcript)
    gold = [entry.n for entry in transcript.pool if name_of(entry) in gold_keys]
    own = {"texts": texts, "scores": scores, "gold": gold, "calls": calls}
    return transcript_to_json(transcript, exclude_defaults=True)[:-1] + b"," + to_json(own)[1:]


PageCall = tuple[str, str, int, str, Sequence[tuple[str, int]], int, str]
"""Stage, agent, round, model, role and text of each message, reply, outcome. Texts and the reply are numbers."""


def calls_of(results: Results, texts: Blocks) -> Mapping[tuple[str, int], Sequence[PageCall]]:
    """Question id and repeat -> the calls that the run made itself; empty if its call store is gone or cannot be read.

    Those of other arms of an experiment, whose replies it took from the shared store, are not among them.
    """
    calls: defaultdict[tuple[str, int], list[PageCall]] = defaultdict(list)

    def number_of(text: str) -> int:
        return texts.number_of(text.encode("utf-8", "replace").decode())  # models do emit lone surrogates

    try:
        for call in recorded_calls(results.path):
            purpose, completion = call.purpose, call.completion
            messages = [(message.role, number_of(message.content)) for message in call.messages]
            reply = number_of(completion.text or completion.error or "")
            fields = purpose.stage, purpose.agent, purpose.round, call.model, messages, reply, completion.outcome
            calls[purpose.question, purpose.repeat].append(fields)
    except UserError:
        return {}
    return calls
