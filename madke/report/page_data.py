"""Data of the report page, in pieces: compressed blocks of passages and debates, then the index of debates."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from hashlib import blake2b
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import to_json

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.report.tables import ORACLE
from madke.runs.run_json import run_files
from madke.runs.run_pools import PoolLines
from madke.scoring.arms import ArmValues, Results
from madke.scoring.debate_rows import gold_numbers
from madke.scoring.metrics import METRICS, metrics_of, question_of
from madke.scoring.scores import shortened, total_usage
from madke.tasks import get_task

_MOST_WAITING = 4
"""Blocks that wait to be packed."""


class Blocks:
    """Numbered items in invisible elements: item ``n`` is item ``n % size`` of block ``n // size``."""

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._name = name
        self._count = 0
        self._open: list[Any] = []
        self._packer = ThreadPoolExecutor(1)
        self._full: deque[Future[str]] = deque()

    def add(self, item: Any) -> int:
        """Add a JSON value. Return its number."""
        self._open.append(item)
        self._count += 1
        if len(self._open) == self.size:
            self._close()
        return self._count - 1

    def full(self, *, rest: bool = False) -> str:
        """Elements of blocks that are packed, and of all that are too many to wait; with ``rest``, of all blocks."""
        if rest and self._open:
            self._close()
        elements = []
        while self._full and (rest or self._full[0].done() or len(self._full) > _MOST_WAITING):
            elements.append(self._full.popleft().result())
        return "".join(elements)

    def _close(self) -> None:
        items, self._open = self._open, []
        # In a thread, because packing takes as long as everything else and leaves the other core to it.
        name = f"{self._name}-{(self._count - 1) // self.size}"
        self._full.append(self._packer.submit(element, name, items))


def element(name: str, value: Any) -> str:
    """A JSON value as an element with this id: gzip, base64."""
    packed = gzip.compress(to_json(value), 4, mtime=0)
    return f'<script type="application/gzip" id="{name}">{b64encode(packed).decode()}</script>\n'


Held = Literal["none", "held", "missing", "changed"]
"""State of a run's passages: it has none, they are available, or their file is missing or changed."""


class PassageTexts:
    """Numbers of passage texts. Equal texts share a number. Pools are read one by one."""

    def __init__(self) -> None:
        self.blocks = Blocks("texts", 200)
        self._numbers: dict[bytes, int] = {}
        self._frozen: Mapping[str, str] = {}
        self._lines: PoolLines | None = None

    def open(self, results: Results) -> Held:
        """Switch to the passages of this run."""
        frozen = results.config.pools if results.config else {}
        if frozen and frozen == self._frozen:
            return "held"
        self._frozen, self._lines = {}, None
        if not frozen:
            return "none"
        try:
            file = run_files(results.path).pools
            if file is None or not file.is_file():
                return "missing"
            lines = PoolLines(file, frozen)
        except UserError:
            return "missing"
        if lines.hashes != frozen:
            return "changed"
        self._lines = lines
        self._frozen = frozen
        return "held"

    def of(self, transcript: Transcript) -> list[int | None]:
        """The number of ``[text, url, date]`` of each passage in the pool; None if the pool file lacks it."""
        record = self._lines.record(transcript.id) if self._lines is not None else None
        if record is None:
            return []
        held = {(passage.source, passage.key): passage for passage in reversed(record.passages)}
        passages = [held.get((entry.source, entry.key)) for entry in transcript.pool]
        return [self._number(found.text, found.url, found.date) if found else None for found in passages]

    def _number(self, text: str, url: str | None, date: str | None) -> int:
        key = blake2b(repr((text, url, date)).encode("utf-8", "replace"), digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = self.blocks.add([text, url, date])
        return self._numbers[key]


OUTCOMES: Mapping[str, str] = {
    "right": "right",
    "wrong": "wrong",
    "partly": "partly right",
    "abstained": "abstained",
    "failed": "failed",
    "corrected": "corrected: wrong after round 1, right at the end",
    "collapsed": "collapsed: right after round 1, wrong at the end",
    "divided": "no consensus",
    "trapped": "trapped: gave an answer listed as wrong",
    "degraded": "degraded: a call failed",
    "shortened": "shortened: a prompt was too long",
    "oracle": ORACLE,
}
"""Outcome -> label. The first five exclude each other."""

_VALUES = ("correct", "corrected", "collapsed", "trapped", "cons_judge", "cons_matcher")
"""Values of a debate that determine its outcomes."""


class Index:
    """Small values of all debates, in the order of their bodies."""

    def __init__(self) -> None:
        self._arm: ArmValues
        self._runs: list[dict[str, Any]] = []
        self._questions: dict[tuple[str, str], tuple[str, str, str, str, str]] = {}
        self._place: dict[str, int] = {}
        names = ("question", "repeat", "answer", "outcomes", "score", "rounds", "calls", "tokens")
        self._columns: dict[str, list[Any]] = {name: [] for name in names}

    def begin(self, results: Results, arm: ArmValues, held: Held) -> None:
        """Switch to the debates of this run, with the values of ``arm``."""
        self._arm = arm
        first = len(self._columns["question"])
        self._runs.append({"name": results.name, "first": first, "count": 0, "texts": held})
        for place, id_ in enumerate(results.config.questions if results.config else ()):
            self._place.setdefault(id_, place)

    def add(self, transcript: Transcript) -> None:
        """Add the next debate."""
        key, repeat, held = (transcript.id, transcript.question), transcript.repeat, self._arm.values
        values = {name: held[name][key][repeat] for name in _VALUES if repeat in held.get(name, {}).get(key, {})}
        gold = " | ".join(transcript.answers)
        self._questions.setdefault(key, (*key, gold, transcript.task, transcript.dataset or ""))
        used = total_usage(transcript.usage.values()) if transcript.usage else None
        names = list(OUTCOMES)
        added = {
            "question": key,
            "repeat": transcript.repeat,
            "answer": transcript.answer,
            "outcomes": sum(1 << names.index(name) for name in _outcomes(transcript, values)),
            "score": values.get("correct"),
            # Predictions from files have no usage.
            "rounds": len(transcript.rounds) if used else None,
            "calls": used.calls if used else None,
            "tokens": used.tokens if used else None,
        }
        for name, value in added.items():
            self._columns[name].append(value)
        self._runs[-1]["count"] += 1

    def json(self) -> dict[str, Any]:
        """The index for the page's script, with questions in the order of the data if known."""
        last = len(self._place)
        order = sorted(self._questions, key=lambda key: self._place.get(key[0], last))
        place = {key: n for n, key in enumerate(order)}
        fields = ("id", "text", "gold", "task", "dataset")
        columns = zip(*(self._questions[key] for key in order), strict=True)
        return {
            "runs": self._runs,
            "outcomes": OUTCOMES,
            "questions": dict(zip(fields, columns, strict=False)) or {field: [] for field in fields},
            "debates": self._columns | {"question": [place[key] for key in self._columns["question"]]},
        }


def _outcomes(transcript: Transcript, values: Mapping[str, float]) -> Iterator[str]:
    score = values.get("correct")
    if transcript.status != "ok":
        yield transcript.status
    elif score is not None:
        yield "right" if score == 1 else "wrong" if score == 0 else "partly"
    yield from (name for name in ("corrected", "collapsed", "trapped") if values.get(name))
    if values.get("cons_judge", values.get("cons_matcher")) == 0:
        yield "divided"
    if transcript.degraded:
        yield "degraded"
    if shortened(transcript):
        yield "shortened"
    if transcript.oracle:
        yield "oracle"


def data_elements(results: Sequence[Results], arms: Sequence[ArmValues]) -> Iterator[str]:
    """Elements for the page, the index last. Memory holds a few blocks, and a small row per item."""
    index, texts = Index(), PassageTexts()
    bodies = Blocks("debates", 100)
    for one, arm in zip(results, arms, strict=True):
        index.begin(one, arm, texts.open(one))
        for transcript in one.transcripts():
            index.add(transcript)
            bodies.add(_body(transcript, texts.of(transcript)))
            yield bodies.full()
            yield texts.blocks.full()
    yield bodies.full(rest=True)
    yield texts.blocks.full(rest=True)
    yield element("index", index.json() | {"sizes": {"debates": bodies.size, "texts": texts.blocks.size}})


def _body(transcript: Transcript, texts: Sequence[int | None]) -> dict[str, Any]:
    """One debate: its transcript without default values, numbers of its passages, scores of its answers, its gold."""
    body: dict[str, Any] = _adapter().dump_python(transcript, mode="json", exclude_defaults=True)
    return body | {"texts": list(texts), "scores": _scores(transcript), "gold": gold_numbers(transcript)}


def _scores(transcript: Transcript) -> dict[str, float]:
    """Answer -> the task's first metric, for the final answer and the debaters' answers."""
    if not transcript.answers:
        return {}
    question = question_of(transcript)
    metric = METRICS[metrics_of(get_task(transcript.task))[0]]
    given = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns} | {transcript.answer}
    return {answer: metric(answer, question) for answer in sorted(filter(None, given))}


@cache
def _adapter() -> TypeAdapter[Transcript]:
    return TypeAdapter(Transcript)
