"""The stand-in for a language model reads values: the words of the prompts can be changed freely.

Every message of every prompt is replaced by other words. The offline reader must not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Message
from madke.core.knowledge import Hits, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.debate import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import Variant, load_variant
from madke.models.offline import OfflineChat
from madke.tasks import TASKS
from tests.conftest import passage
from tests.models.test_offline_chat import POOL, WordEncoder
from tests.support.debates import without_usage

PROTOCOLS = (
    "madke", "madke-reference", "gated", "madke-live", "mad", "liang", "self-reflect", "reconcile", "per-document",
    "chateval", "lemmas", "maps", "madc", "rag", "cot", "standard",
)  # fmt: skip
QUESTIONS = (
    Question(id="s", question="Who climbed Mount Etna in 1912?"),
    Question(id="c", question="Where has tin been mined?", task="choice", choices=("Sicily", "Malta", "Cornwall")),
    Question(id="f", question="Mount Etna was climbed by Lucy Harper in 1955.", task="claim"),
)


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[OfflineChat]:
    model = OfflineChat(WordEncoder(), cache=tmp_path / "vectors.sqlite")
    yield model
    asyncio.run(model.aclose())


def reword(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the text of every message that is not the reader's own stance."""
    render = Variant.render

    def other_words(self: Variant, stage: str, *args: Any, **more: Any) -> tuple[Message, ...]:
        return tuple(
            message if message.role == "assistant" else Message(role=message.role, content=f"Words {n}, and no others.")
            for n, message in enumerate(render(self, stage, *args, **more))
        )

    monkeypatch.setattr(Variant, "render", other_words)


async def nothing(query: Any, purpose: Any) -> Hits:
    return Hits()


async def lengths(question: Question, candidates: Any) -> list[float]:
    return [float(len(candidate)) for candidate in candidates]


def scene_of(variant: Variant, question: Question, cast: dict[str, Any], **more: Any) -> Scene:
    passages = tuple(passage("wiki", f"k{n}", title, text) for n, (title, text) in enumerate(POOL))
    pool = KnowledgePool(passages=passages)
    return Scene(question, variant.protocol, cast, pool, task=TASKS[question.task], prompts=variant, **more)


def debated(name: str, question: Question, model: OfflineChat) -> Transcript:
    variant = load_variant(name)
    if variant.protocol.knowledge is None and name != "lemmas":
        variant = variant.with_sources(["wiki"])
    cast = dict.fromkeys(variant.protocol.roles, model)
    return asyncio.run(hold_debate(scene_of(variant, question, cast, seed=1, retrieve=nothing, score_answers=lengths)))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_offline_reader_debates_alike_whatever_the_prompts_say(
    name: str, offline: OfflineChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [debated(name, question, offline) for question in QUESTIONS]
    reword(monkeypatch)
    after = [debated(name, question, offline) for question in QUESTIONS]
    for ours, theirs in zip(before, after, strict=True):
        assert without_usage(ours.rounds) == without_usage(theirs.rounds)
        assert (ours.final, ours.answer, ours.stop_reason) == (theirs.final, theirs.answer, theirs.stop_reason)
        assert {stage: used.calls for stage, used in ours.usage.items()} == {
            stage: used.calls for stage, used in theirs.usage.items()
        }
    assert any(transcript.answer for transcript in before)
