"""The page's data, piece by piece: passages and debates in blocks, then the index of all debates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from madke.core.transcript import Transcript
from madke.report.page.blocks import Blocks, element
from madke.report.page.index import Index
from madke.report.page.texts import PassageTexts
from madke.runs.results import Results
from madke.scoring.arms import ArmValues
from madke.scoring.metrics import METRICS, question_of
from madke.tasks import get_task

_BODIES = 100
"""Debates to a block: what a browser unpacks to show one of them."""


def data_elements(results: Sequence[Results], arms: Sequence[ArmValues]) -> Iterator[str]:
    """Elements to be written into the page one after the other, the index last.

    What stays in memory is a block, one pool file and a small row for each debate and passage.

    Args:
        results: The arms' transcripts.
        arms: Their values, in the same order.

    Raises:
        UserError: A transcript is none, or names a task that does not exist.
    """
    index, texts = Index(), PassageTexts()
    bodies = Blocks("debates", _BODIES)
    for one, arm in zip(results, arms, strict=True):
        index.begin(one, arm, texts.open(one))
        for transcript in one.transcripts():
            index.add(transcript)
            bodies.add(_body(transcript, texts.of(transcript)))
            yield bodies.full()
            yield texts.blocks.full()
    yield bodies.rest()
    yield texts.blocks.rest()
    yield element("index", index.json() | {"sizes": {"debates": bodies.size, "texts": texts.blocks.size}})


def _body(transcript: Transcript, texts: Sequence[int | None]) -> dict[str, Any]:
    """One debate: its transcript without what is as usual, where its passages are, how right each answer in it is."""
    body: dict[str, Any] = _adapter().dump_python(transcript, mode="json", exclude_defaults=True)
    return body | {"texts": list(texts), "scores": _scores(transcript)}


def _scores(transcript: Transcript) -> dict[str, float]:
    """Answer -> the task's first metric, for each answer that a debater or the debate gave."""
    if not transcript.answers:
        return {}
    question = question_of(transcript)
    metric = METRICS[get_task(transcript.task).metrics[0]]
    given = {turn.stance.answer for entry in transcript.rounds for turn in entry.turns} | {transcript.answer}
    return {answer: metric(answer, question) for answer in sorted(filter(None, given))}


@cache
def _adapter() -> TypeAdapter[Transcript]:
    return TypeAdapter(Transcript)
