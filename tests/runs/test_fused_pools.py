"""Arms of one frozen pool file that fuse its sources, as a protocol's settings say."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Purpose
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.engine.variant import load_variant, setting
from madke.retrieval.pools import LiveSearch, searching
from madke.runs.runner import RunPools

QUESTION = Question(id="q", question="?")
FOUND = {
    "wiki-bm25": {"the horse": 21.0, "a cart": 12.0, "one mule": 11.0},
    "wiki-dense": {"one mule": 0.8, "no wheel": 0.7, "the horse": 0.2},
}


@pytest.fixture
def pools(tmp_path: Path) -> Any:
    passages = [
        {"source": source, "key": text, "text": text, "score": score}
        for source, found in FOUND.items()
        for text, score in found.items()
    ]
    (tmp_path / "pools.jsonl").write_text(json.dumps({"id": "q", "question": "?", "passages": passages}) + "\n")
    return tmp_path / "pools.jsonl"


def arm(*settings: Any) -> Any:
    """The madke variant as ``--sources wiki-bm25,wiki-dense --set ...`` makes it."""
    return load_variant("madke").with_sources(list(FOUND)).with_settings(dict(map(setting, settings)))


def texts(pools: Any, *settings: Any) -> Any:
    return [p.text for p in RunPools(pools, arm(*settings).protocol.knowledge, [QUESTION]).of(QUESTION).passages]


def test_one_file_serves_the_union_and_every_fusion(pools: Any) -> None:
    weighted = "fusion=weighted"
    assert texts(pools) == ["the horse", "a cart", "one mule", "no wheel"]
    assert texts(pools, "fusion=rrf") == ["the horse", "one mule", "a cart", "no wheel"]
    assert texts(pools, weighted, "weights={wiki-dense: 1.0, wiki-bm25: 0.5}") == [
        "one mule", "no wheel", "the horse", "a cart",
    ]  # fmt: skip
    assert texts(pools, weighted, "weights={wiki-bm25: 3}", "max_passages=1") == ["the horse"]


class Fixed:
    """Finds the same for every query."""

    def __init__(self, name: Any) -> None:
        self.name = self.description = name

    def search(self, queries: Any, k: Any) -> Any:
        passages = tuple(
            Passage(source=self.name, key=text, title="", text=text, score=score, rank=rank)
            for rank, (text, score) in enumerate(FOUND[self.name].items())
        )
        return [Hits(passages=passages)] * len(queries)


def test_what_a_debater_searches_is_fused_alike() -> None:
    knowledge = arm("fusion=rrf", "max_passages=2", "allow_search=true").protocol.knowledge
    sources = [Fixed(name) for name in FOUND]
    ask = searching(LiveSearch({name: name for name in FOUND}, sources, 10), knowledge)

    async def asked() -> Any:
        return await ask("?", Purpose(question="q", stage="search", agent="Debater 1", round=1))

    found = asyncio.run(asked())
    assert [p.text for p in found.passages] == ["the horse", "one mule"]
