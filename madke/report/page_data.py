"""Data of the report page, in pieces: compressed blocks of passages, debates and prompts, then the index."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from madke.core.errors import UserError
from madke.core.transcript import UNREAD_STATUSES, Called, Transcript
from madke.core.transcript import to_json as transcript_to_json
from madke.models.store import CallStore, Recorded
from madke.report.debate_text import agreement_in
from madke.report.tables import ORACLE
from madke.retrieval.pools.pool_file import PoolLines
from madke.runs.record import run_files
from madke.scoring.arms import ArmValues, QuestionKey, Results
from madke.scoring.debate_rows import gold_numbers
from madke.scoring.metrics import METRICS, metrics_of, question_of
from madke.scoring.scores import is_shortened
from madke.tasks import get_task

_DEBATES, _TEXTS = 100, 200
"""Items of a block."""


class Blocks:
    """Numbered items in invisible elements: item ``n`` is item ``n % size`` of block ``n // size``."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size
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


TextState = Literal["none", "held", "missing", "changed"]
"""State of a run's passages: it has none, they are available, or their file is missing or changed."""


class PassageTexts:
    """The texts of passages. Pools are read one by one."""

    def __init__(self) -> None:
        self.blocks = Blocks("texts", _TEXTS)
        self._frozen: Mapping[str, str] = {}
        self._lines: PoolLines | None = None

    def open(self, results: Results) -> TextState:
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
        self._frozen, self._lines = frozen, lines
        return "held"

    def of(self, transcript: Transcript) -> list[int | None]:
        """The number of ``[text, url, date]`` of each passage in its pool; None if the pool file lacks it."""
        if self._lines is None or (record := self._lines.record(transcript.id)) is None:
            return []
        by_key = {(passage.source, passage.key): passage for passage in reversed(record.passages)}
        passages = [by_key.get((entry.source, entry.key)) for entry in transcript.pool]
        return [self.blocks.number_of((each.text, each.url, each.date)) if each else None for each in passages]


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

_VALUES = ("correct", "corrected", "collapsed", "trapped", "cons_judge", "cons_matcher")
"""Values of a debate that determine its outcomes."""


class Index:
    """Small values of all debates, in the order of their bodies."""

    def __init__(self) -> None:
        self._runs: list[dict[str, Any]] = []
        self._questions: dict[tuple[str, str], tuple[str, str, str, str, str]] = {}
        self._place: dict[str, int] = {}
        self._debates: list[tuple[QuestionKey, int, str | None, int, int | None, int | None, int | None]] = []
        """Question, repeat, answer, outcomes, rounds, calls and tokens of each. Predictions have no usage."""

    def begin(self, results: Results, state: TextState) -> None:
        """Switch to the debates of this run."""
        self._runs.append({"name": results.name, "first": len(self._debates), "count": 0, "texts": state})
        for place, id_ in enumerate(results.config.questions if results.config else ()):
            self._place.setdefault(id_, place)

    def add(self, transcript: Transcript) -> None:
        """Add the next debate."""
        key = (transcript.id, transcript.question)
        gold = " | ".join(transcript.answers)
        self._questions.setdefault(key, (*key, gold, transcript.task, transcript.dataset or ""))
        used = transcript.total if transcript.usage else None
        figures = (len(transcript.rounds), used.calls, used.tokens) if used else (None, None, None)
        kind = "unread" if transcript.reading in UNREAD_STATUSES else transcript.reading
        outcomes = {
            kind: kind != "ok",
            "degraded": transcript.degraded,
            "shortened": is_shortened(transcript),
            "oracle": transcript.oracle,
        }
        bits = _bits(name for name, holds in outcomes.items() if holds)
        self._debates.append((key, transcript.repeat, transcript.answer, bits, *figures))
        self._runs[-1]["count"] += 1

    def json(self, arms: Sequence[ArmValues]) -> dict[str, Any]:
        """The index for the page's script, with the values of the runs and questions in the data's order if known."""
        last = len(self._place)
        order = sorted(self._questions, key=lambda key: self._place.get(key[0], last))
        place = {key: n for n, key in enumerate(order)}
        fields = ("id", "text", "gold", "task", "dataset")
        columns = zip(*(self._questions[key] for key in order), strict=True)
        of_run = (arm for arm, run in zip(arms, self._runs, strict=True) for _ in range(run["count"]))
        rows = []
        for arm, (key, repeat, answer, before, *figures) in zip(of_run, self._debates, strict=True):
            outcomes, score = _valued(arm, key, repeat, before)
            rows.append((place[key], repeat, answer, outcomes, score, *figures))
        names = ("question", "repeat", "answer", "outcomes", "score", "rounds", "calls", "tokens")
        return {
            "runs": self._runs,
            "outcomes": OUTCOMES,
            "questions": dict(zip(fields, columns, strict=False)) or {field: [] for field in fields},
            "debates": dict(zip(names, zip(*rows, strict=True), strict=False)) or {name: [] for name in names},
        }


def _valued(arm: ArmValues, key: QuestionKey, repeat: int, outcomes: int) -> tuple[int, float | None]:
    """The outcomes of a debate, with those that depend on its values; and its score."""
    held = {name: arm.values.get(name, {}).get(key, {}) for name in _VALUES}
    values = {name: repeats[repeat] for name, repeats in held.items() if repeat in repeats}
    score = values.get("correct")
    found = [name for name in ("corrected", "collapsed", "trapped") if values.get(name)]
    if score is not None and not outcomes & _bits(("abstained", "unread", "failed", "deferred")):
        found.append("right" if score == 1 else "wrong" if score == 0 else "partly")
    if values.get("cons_judge", values.get("cons_matcher")) == 0:
        found.append("divided")
    return outcomes | _bits(found), score


def _bits(outcomes: Iterable[str]) -> int:
    return sum(_BITS[name] for name in outcomes)


_BITS = {name: 1 << n for n, name in enumerate(OUTCOMES)}


def page_data(results: Sequence[Results], arms: Sequence[ArmValues]) -> Iterator[str]:
    """The elements of the page's data, the index last. Memory holds a few blocks, and a small row per item."""
    index, texts = Index(), PassageTexts()
    bodies, prompts = Blocks("debates", _DEBATES), Blocks("prompts", _TEXTS)
    for one in results:
        few = len(one.config.questions) * one.config.repeats <= MOST_DEBATES if one.config else False
        calls = calls_of(one, prompts) if few else {}
        index.begin(one, texts.open(one))
        for transcript in one.transcripts():
            index.add(transcript)
            bodies.add(_body(transcript, texts.of(transcript), calls.get((transcript.id, transcript.repeat), ())))
            for blocks in (bodies, texts.blocks, prompts):
                yield from blocks.take()
    for blocks in (bodies, texts.blocks, prompts):
        yield from blocks.take(rest=True)
    sizes = {"debates": _DEBATES, "texts": _TEXTS, "prompts": _TEXTS}
    yield _element("index", to_json(index.json(arms) | {"sizes": sizes}))


def _body(transcript: Transcript, texts: Sequence[int | None], calls: Sequence[PageCall]) -> bytes:
    """One debate: its transcript without default values; its passages, gold passages, scores of answers, and calls."""
    own = {"texts": texts, "scores": _scores(transcript), "gold": gold_numbers(transcript), "calls": calls}
    known = replace(transcript, agreement=agreement_in(transcript))
    return transcript_to_json(known, exclude_defaults=True)[:-1] + b"," + to_json(own)[1:]


def _scores(transcript: Transcript) -> dict[str, float]:
    if not transcript.answers:
        return {}
    question = question_of(transcript)
    metric = METRICS[metrics_of(get_task(transcript.task))[0]]
    given = {transcript.answer, *(turn.stance.answer for entry in transcript.rounds for turn in entry.turns)}
    return {answer: metric(answer, question) for answer in sorted(filter(None, given))}


MOST_DEBATES = 1_000
"""Runs of more debates have no prompts on the page: it would be several times as large."""


class PageCall(NamedTuple):
    """One call on the page. Texts are numbers."""

    stage: str
    agent: str
    round: int
    model: str
    messages: tuple[tuple[str, int], ...]
    """Role and text of each message."""
    reply: int
    outcome: str


DebateCalls = Mapping[tuple[str, int], Sequence[PageCall]]
"""Question id and repeat -> calls, in the order of writing."""


def calls_of(results: Results, texts: Blocks) -> DebateCalls:
    """The calls of a run that its call store has; empty if the store is gone or cannot be read.

    In a store that arms share, a call that another arm made is taken for this run's only if the run has its reply, and
    no other prompt with the same purpose has the same reply.
    """
    if not results.path.is_dir() or not (file := run_files(results.path).calls).is_file():
        return {}
    shared = file.resolve().parent != results.path.resolve()
    own = results.path.resolve().name if shared else ""
    found: defaultdict[tuple[str, int], list[PageCall]] = defaultdict(list)
    try:
        with CallStore(file) as store:
            made = set()
            for call in store.recorded(payer=own):
                made.add(call.purpose)
                found[_key(call)].append(_page_call(call, texts))
            for call in _borrowed(store, results) if shared else ():
                if call.purpose not in made:
                    found[_key(call)].append(_page_call(call, texts))
    except UserError:
        return {}
    return found


def _borrowed(store: CallStore, results: Results) -> Iterator[Recorded]:
    """Calls of a shared store whose reply this run has, unless two prompts of one purpose have it."""
    said = {(each.id, each.repeat): {*_replies(each)} for each in results.transcripts()}
    found: dict[tuple[object, str], Recorded | None] = {}
    for call in store.recorded():
        text = call.completion.text
        if text in said.get(_key(call), ()):
            before = found.setdefault((call.purpose, text), call)
            if before is not None and before.messages != call.messages:
                found[call.purpose, text] = None
    yield from filter(None, found.values())


def _replies(transcript: Transcript) -> Iterator[str]:
    for entry in transcript.rounds:
        for turn in entry.turns:
            yield from _texts(turn.stance, turn.selection, turn.reflection)
        yield from _texts(*entry.remarks, entry.verdict, entry.digest, entry.extracted)
    yield from _texts(transcript.final)


def _texts(*replies: Called | None) -> Iterator[str]:
    return (reply.text for reply in replies if reply is not None and reply.text)


def _key(call: Recorded) -> tuple[str, int]:
    return call.purpose.question, call.purpose.repeat


def _page_call(call: Recorded, texts: Blocks) -> PageCall:
    def number_of(text: str) -> int:
        return texts.number_of(text.encode("utf-8", "replace").decode())  # models do emit lone surrogates

    return PageCall(
        stage=call.purpose.stage,
        agent=call.purpose.agent,
        round=call.purpose.round,
        model=call.model,
        messages=tuple((message.role, number_of(message.content)) for message in call.messages),
        reply=number_of(call.completion.text or call.completion.error or ""),
        outcome=call.completion.outcome,
    )
