"""What the debaters of a run read: their part of one pool file, and what they search for."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from madke.core.chat import Purpose
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.engine.variant import load_variant, setting
from madke.retrieval.pools import LiveSearch, depth, searching
from madke.runs.runner import RunPools
from tests.data.published import write

QUESTION = Question(id="q", question="?")
FOUND = {
    "bm25": {"the horse": 21.0, "a cart": 12.0, "one mule": 11.0},
    "dense": {"one mule": 0.8, "no wheel": 0.7, "the horse": 0.2},
}


def knowledge_of(*settings: str) -> Knowledge:
    """As ``--sources bm25,dense --set ...`` makes it."""
    variant = load_variant("madke").with_sources(list(FOUND)).with_settings(dict(map(setting, settings)))
    assert variant.protocol.knowledge is not None
    return variant.protocol.knowledge


def test_one_file_serves_the_union_every_fusion_and_a_number_for_each_source(tmp_path: Path) -> None:
    passages = [
        {"source": source, "key": text, "text": text, "score": score}
        for source, found in FOUND.items()
        for text, score in found.items()
    ]
    file = write(tmp_path / "pools.jsonl", {"id": "q", "question": "?", "passages": passages})

    def texts(*settings: str) -> list[str]:
        return [each.text for each in RunPools(file, knowledge_of(*settings), [QUESTION]).of(QUESTION).passages]

    assert texts() == ["the horse", "a cart", "one mule", "no wheel"]
    assert texts("per_source={bm25: 1, dense: 2}") == ["the horse", "one mule", "no wheel"]
    assert texts("fusion=rrf") == ["the horse", "one mule", "a cart", "no wheel"]
    weighted = ("fusion=weighted", "weights={dense: 1.0, bm25: 0.5}", "max_passages=3")
    assert texts(*weighted) == ["one mule", "no wheel", "the horse"]
    assert (depth(knowledge_of()), depth(knowledge_of("per_source={bm25: 12, dense: 2}"))) == (10, 12)


def test_each_question_gets_the_passages_of_its_line_wherever_that_stands(tmp_path: Path) -> None:
    questions = [Question(id=f"Ö {n}", question="Où?") for n in range(3)]
    lines = [
        f'{{"id": "{id_}", "question": "Où?", "passages": [{{"source": "bm25", "text": "{id_}"}}]}}'
        for id_ in ("other", "Ö 2", "Ö 1", "Ö 0")
    ]
    file = write(tmp_path / "pools.jsonl", "\n\n  \n".join(lines))
    pools = RunPools(file, Knowledge(sources=("bm25",)), questions)
    assert [pools.of(each).passages[0].text for each in questions] == ["Ö 0", "Ö 1", "Ö 2"]


class Lakes:
    """A source that finds its query, and notes what it is asked and from how many threads at once."""

    def __init__(self, name: str, *, hits: Hits | None = None) -> None:
        self.name = self.description = name
        self.batches: list[tuple[Sequence[str], int]] = []
        self._hits = hits
        self._busy = threading.Lock()

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        assert self._busy.acquire(blocking=False), "two threads at once"
        try:
            assert threading.current_thread() is not threading.main_thread()
            self.batches.append((list(queries), k))
            return [self._hits or Hits(passages=tuple(self._passage(query, n) for n in range(k))) for query in queries]
        finally:
            self._busy.release()

    def _passage(self, query: str, n: int) -> Passage:
        text = f"{query}, the {n // 2}th text of {self.name}"
        return Passage(source=self.name, key=f"{query}-{n}", title="", text=text, score=10.0 - n, rank=n)


def searched(sources: Sequence[Lakes], queries: Sequence[str], *, agent: str = "Debater 1", **settings: Any) -> Any:
    """What is found if all these queries are asked at once."""
    model = LiveSearch({source.name: source.description for source in sources}, sources, 10)
    names = tuple(source.name for source in sources)
    knowledge = Knowledge(sources=names, select="adaptive", allow_search=True, **settings)
    purpose = Purpose(question="q", stage="search", agent=agent, round=1)

    async def all_at_once() -> list[Hits]:
        search = searching(model, knowledge)
        return await asyncio.gather(*(search(query, purpose) for query in queries))

    return asyncio.run(all_at_once())


def keys(hits: Hits) -> list[tuple[str, str]]:
    return [(passage.source, passage.key) for passage in hits.passages]


def test_a_search_finds_the_best_of_each_source_without_duplicates_or_their_fusion() -> None:
    sources = [Lakes("wiki"), Lakes("google")]
    (hits,) = searched(sources, ["depth"], per_source={"wiki": 2, "google": 1})
    assert keys(hits) == [("wiki", "depth-0"), ("wiki", "depth-2"), ("google", "depth-0")]
    (fused,) = searched(sources, ["depth"], fusion="rrf", max_passages=2)
    assert keys(fused) == [("wiki", "depth-0"), ("google", "depth-0")]


def test_searches_that_wait_together_go_to_the_sources_together() -> None:
    wiki = Lakes("wiki")
    found = searched([wiki], ["a", "b", "c"])
    assert [keys(hits)[0] for hits in found] == [("wiki", f"{query}-0") for query in "abc"]
    assert wiki.batches == [(["a", "b", "c"], 10)]


def test_a_source_that_fails_costs_its_own_passages() -> None:
    sources = [Lakes("wiki"), Lakes("google", hits=Hits(error="HTTP 500"))]
    settings: dict[str, Any] = {"per_source": 1, "per_debater_sources": {"Debater 2": ("google",)}}
    (half,) = searched(sources, ["x"], **settings)
    (none,) = searched(sources, ["x"], agent="Debater 2", **settings)
    assert (half.error, keys(half)) == (None, [("wiki", "x-0")])
    assert (none.error, none.passages) == ("google: HTTP 500", ())
    assert searched([sources[1]], ["x"]) == [Hits(error="google: HTTP 500")]
