"""What the page's list of debates is filtered by: a few values of each debate, kept in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from madke.core.transcript import Transcript
from madke.report.page.texts import Held
from madke.report.text import ORACLE
from madke.runs.results import Results
from madke.scoring.arms import ArmValues
from madke.scoring.scores import shortened, total_usage

OUTCOMES: Mapping[str, str] = {
    "right": "right",
    "wrong": "wrong",
    "partly": "partly right",
    "abstained": "abstained",
    "failed": "failed",
    "corrected": "corrected: wrong after round 1, right in the end",
    "collapsed": "collapsed: right after round 1, wrong in the end",
    "divided": "no consensus",
    "trapped": "trapped: gave an answer listed as wrong",
    "degraded": "degraded: a call failed on the way",
    "shortened": "shortened: a prompt was too long",
    "oracle": ORACLE,
}
"""What a debate can be -> in words. The first five exclude each other."""

_VALUES = ("correct", "corrected", "collapsed", "trapped", "cons_judge", "cons_matcher")
"""What of a debate's values says its outcome."""


class Index:
    """The small values of all debates, in the order in which their bodies are written."""

    def __init__(self) -> None:
        self._arm: ArmValues
        self._runs: list[dict[str, Any]] = []
        self._questions: list[tuple[str, str, str, str, str]] = []
        self._number: dict[tuple[str, str], int] = {}
        self._place: dict[str, int] = {}
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("question", "repeat", "answer", "outcomes", "score", "rounds", "calls", "tokens")
        }

    def begin(self, results: Results, arm: ArmValues, held: Held) -> None:
        """Take the debates of this run, whose values are the arm's, from now on."""
        self._arm = arm
        self._runs.append({"name": results.name, "first": self._debates, "count": 0, "texts": held})
        for place, id_ in enumerate(results.config.questions if results.config else ()):
            self._place.setdefault(id_, place)

    def add(self, transcript: Transcript) -> None:
        """Take the next debate."""
        found = ((name, self._arm.value(name, transcript)) for name in _VALUES)
        values = {name: value for name, value in found if value is not None}
        used = total_usage(transcript.usage.values()) if transcript.usage else None
        names = list(OUTCOMES)
        added = {
            "question": self._question(transcript),
            "repeat": transcript.repeat,
            "answer": transcript.answer,
            "outcomes": sum(1 << names.index(name) for name in _outcomes(transcript, values)),
            "score": values.get("correct"),
            # Nobody counted what answers from elsewhere took.
            "rounds": len(transcript.rounds) if used else None,
            "calls": used.calls if used else None,
            "tokens": used.prompt_tokens + used.completion_tokens if used else None,
        }
        for name, value in added.items():
            self._columns[name].append(value)
        self._runs[-1]["count"] += 1

    def json(self) -> dict[str, Any]:
        """The index as the page's script reads it; questions in the order of the data, where a run says it."""
        order = sorted(
            range(len(self._questions)), key=lambda n: self._place.get(self._questions[n][0], len(self._place))
        )
        place = {number: n for n, number in enumerate(order)}
        fields = ("id", "text", "gold", "task", "dataset")
        columns = zip(*(self._questions[number] for number in order), strict=True)
        return {
            "runs": self._runs,
            "outcomes": OUTCOMES,
            "questions": dict(zip(fields, columns, strict=False)) or {field: [] for field in fields},
            "debates": self._columns | {"question": [place[number] for number in self._columns["question"]]},
        }

    @property
    def _debates(self) -> int:
        return len(self._columns["question"])

    def _question(self, transcript: Transcript) -> int:
        # Ids alone are the same in many datasets ("1", "2", ...), so the text is part of the key.
        key = (transcript.id, transcript.question)
        if key not in self._number:
            self._number[key] = len(self._questions)
            gold = " | ".join(transcript.answers)
            self._questions.append((*key, gold, transcript.task, transcript.dataset or ""))
        return self._number[key]


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
