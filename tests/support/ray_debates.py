"""Questions about lakes, debated by models that a test opens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from madke._util.concurrency import gather
from madke.core.chat import ChatModel
from madke.core.knowledge import KnowledgePool, Passage
from madke.core.question import Question
from madke.core.transcript import to_json
from madke.engine.protocol import hold_debate
from madke.engine.scene import Scene
from madke.engine.variant import load_variant
from madke.models.chat_models import close
from madke.models.limiter import Limits
from madke.models.pipeline import CallPipeline
from madke.models.store import CallStore
from madke.runs.meter import Meter
from madke.tasks import get_task
from tests.support.dataset import PASSAGES

CONCURRENCY = 16
VARIANT = load_variant("madke")
ROLES = dict.fromkeys(VARIANT.protocol.roles, "openai/m")
POOL = KnowledgePool(
    passages=tuple(Passage(**dict[str, Any](each), score=1.0, rank=n) for n, each in enumerate(PASSAGES))
)


def debated(models: Mapping[str, ChatModel], store_file: Path, count: int, meter: Meter) -> dict[str, Any]:
    """The transcripts of so many questions, by id, without what no two runs have in common."""

    async def play() -> list[bytes]:
        try:
            return await gather(_play(n) for n in range(count))
        finally:
            for model in set(models.values()):
                await close(model)

    async def _play(n: int) -> bytes:
        question = Question(id=f"q{n}", question=f"Which lake is the deepest, in survey {n}?")
        task = get_task(question.task)
        return to_json(
            await hold_debate(Scene(question, VARIANT.protocol, cast, POOL, task=task, prompts=VARIANT, seed=0))
        )

    with CallStore(store_file) as store:
        pipeline = CallPipeline(limits=Limits(CONCURRENCY), store=store, meter=meter)
        cast = {role: pipeline.model(model) for role, model in models.items()}
        transcripts = [json.loads(line) for line in asyncio.run(play())]
    for transcript in transcripts:
        for usage in transcript["usage"].values():
            del usage["seconds"], usage["retries"]
    return {transcript["id"]: transcript for transcript in transcripts}
