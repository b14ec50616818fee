"""Cross-encoders as rerankers, with a real tiny one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from madke._util.concurrency import gather
from madke.core.chat import ChatRequest, Message, Purpose
from madke.models.services import CrossEncoderReranker
from tests.support.installed import needs
from tests.support.tiny_reranker import save_tiny_reranker

needs("sentence_transformers", "offline")

pytestmark = pytest.mark.slow

WORDS = ["how", "deep", "is", "the", "lake", "baikal", "geneva", "metres", "cats", "purr"]
PASSAGES = ("lake baikal is deep", "cats purr", "lake geneva metres")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_reranker(tmp_path_factory.mktemp("reranker"), WORDS)


def request(question: str, passages: Sequence[str] = PASSAGES) -> ChatRequest:
    messages = tuple(Message(role="user", content=text) for text in (question, *passages))
    purpose = Purpose(question=question, stage="rerank", agent="r", round=1)
    return ChatRequest(messages=messages, purpose=purpose, temperature=0.0, max_tokens=0)


def test_scores_are_those_of_the_model_and_waiting_questions_share_a_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from sentence_transformers import CrossEncoder

    capfd.readouterr()
    model = CrossEncoderReranker(str(folder))
    assert capfd.readouterr() == ("", "")
    batches = []
    predict = model._model.predict
    monkeypatch.setattr(
        model._model, "predict", lambda pairs, **options: batches.append(len(pairs)) or predict(pairs, **options)
    )

    async def ask() -> list[list[float]]:
        questions = ("how deep is lake baikal", "how deep is lake geneva")
        return [json.loads(done.text) for done in await gather(model.complete(request(q)) for q in questions)]

    found = asyncio.run(ask())
    assert batches == [6]
    alone = CrossEncoder(str(folder)).predict([("how deep is lake geneva", text) for text in PASSAGES])
    assert found[1] == pytest.approx([float(score) for score in alone], abs=1e-6)
    assert len(set(found[0])) == 3
    assert model.name.startswith(f"hf/{folder} ")  # then the weights' fingerprint
