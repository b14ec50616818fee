"""Data of the report page, in pieces: compressed blocks of passages, debates and prompts, then the index."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from madke.core.errors import UserError
from madke.core.transcript import UNREAD_STATUSES, Transcript
from madke.core.transcript import to_json as transcript_to_json
from madke.report.tables import ORACLE
from madke.retrieval.pools import PoolRecord
from madke.runs.directory import recorded_calls, run_files
from madke.runs.runner import recorded_pools
from madke.scoring.arms import ArmValues, QuestionKey, Results
from madke.scoring.debate_rows import DebateMeasures, gold_of
from madke.scoring.scores import is_shortened

_SIZES = {"debates": 100, "texts": 200, "prompts": 200}
"""Kind -> items of a block."""

MOST_DEBATES = 1_000
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
        if config is not None and len(config.questions) * config.repeats <= MOST_DEBATES:
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
    found = [kind] if kind != "ok" else []
    marks = {"degraded": t.degraded, "shortened": is_shortened(t), "oracle": t.oracle}
    found += [name for name, holds in marks.items() if holds]
    found += [name for name in ("corrected", "collapsed", "trapped") if value(name)]
    score, judge = value("correct"), value("cons_judge")
    if score is not None and kind not in ("abstained", "unread", "failed", "deferred"):
        found.append("right" if score == 1 else "wrong" if score == 0 else "partly")
    if (value("cons_matcher") if judge is None else judge) == 0:
        found.append("divided")
    return sum(_BITS[name] for name in found), score


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
        given = {transcript.answer, *(turn.stance.answer for entry in transcript.rounds for turn in entry.turns)}
        for answer in sorted(filter(None, given)):
            scores[answer] = debate.score(answer) if known is None or answer != transcript.answer else known
    wanted, name_of = gold_of(transcript)
    gold = [entry.n for entry in transcript.pool if name_of(entry) in wanted]
    own = {"texts": texts, "scores": scores, "gold": gold, "calls": calls}
    return transcript_to_json(transcript, exclude_defaults=True)[:-1] + b"," + to_json(own)[1:]


PageCall = tuple[str, str, int, str, Sequence[tuple[str, int]], int, str]
"""Stage, agent, round, model, role and text of each message, reply, outcome. Texts and the reply are numbers."""


def calls_of(results: Results, texts: Blocks) -> Mapping[tuple[str, int], Sequence[PageCall]]:
    """Question id and repeat -> the calls that the run made itself; empty if its call store is gone or cannot be read.

    Those of other arms of an experiment, whose replies it took from the shared store, are not among them.
    """
    found: defaultdict[tuple[str, int], list[PageCall]] = defaultdict(list)

    def number_of(text: str) -> int:
        return texts.number_of(text.encode("utf-8", "replace").decode())  # models do emit lone surrogates

    try:
        for call in recorded_calls(results.path):
            purpose, completion = call.purpose, call.completion
            messages = [(message.role, number_of(message.content)) for message in call.messages]
            reply = number_of(completion.text or completion.error or "")
            told = purpose.stage, purpose.agent, purpose.round, call.model, messages, reply, completion.outcome
            found[purpose.question, purpose.repeat].append(told)
    except UserError:
        return {}
    return found
