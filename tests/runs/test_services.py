"""Live search and quality estimator, as a debate asks them, behind a call store."""

import asyncio
import json
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Purpose
from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.core.question import Question
from madke.engine.settings import Knowledge
from madke.models.services import AnswerScorer, answer_scoring
from madke.models.store import CallStore
from madke.retrieval.pools import LiveSearch, searching
from tests.support.pipelines import stored

QUESTION = Question(id="q1", question="Wie tief ist der See?", task="translation")


class Lakes:
    """A source that finds its query, and notes what it is asked and from how many threads at once."""

    def __init__(self, name: Any, *, hits: Any = None) -> None:
        self.name = self.description = name
        self.batches: list[Any] = []
        self._hits = hits
        self._busy = threading.Lock()

    def search(self, queries: Any, k: Any) -> Any:
        assert self._busy.acquire(blocking=False), "two threads at once"
        try:
            assert threading.current_thread() is not threading.main_thread()
            self.batches.append((list(queries), k))
            return [self._hits or Hits(passages=tuple(self._passages(query, k))) for query in queries]
        finally:
            self._busy.release()

    def _passages(self, query: Any, k: Any) -> Iterator[Any]:
        for rank in range(k):
            text = f"{query}, the {rank // 2}th text of {self.name}"
            yield Passage(source=self.name, key=f"{query}-{rank}", title="", text=text, score=1.0, rank=rank)


def purpose(agent: str = "Debater 1", round: int = 1) -> Any:
    return Purpose(question="q1", stage="search", agent=agent, round=round)


def live(*sources: Any, k: int = 10) -> Any:
    return LiveSearch({source.name: source.description for source in sources}, sources, k)


def search(model: Any, knowledge: Any, *asked: Any) -> Any:
    """What the searches find, all asked at once; each is a query, or a query and its purpose."""

    async def all_at_once() -> Any:
        ask = searching(model, knowledge)
        pairs = [(entry, purpose()) if isinstance(entry, str) else entry for entry in asked]
        return await asyncio.gather(*(ask(query, about) for query, about in pairs))

    return asyncio.run(all_at_once())


def keys(hits: Any) -> Any:
    return [(passage.source, passage.key) for passage in hits.passages]


def test_a_search_finds_the_best_of_each_source_without_duplicates() -> None:
    knowledge = Knowledge(
        sources=("wiki", "google"), per_source={"wiki": 2, "google": 1}, select="adaptive", allow_search=True
    )
    (hits,) = search(live(Lakes("wiki"), Lakes("google")), knowledge, "depth")
    assert keys(hits) == [("wiki", "depth-0"), ("wiki", "depth-2"), ("google", "depth-0")]


def test_searches_that_wait_together_go_to_the_sources_together() -> None:
    wiki = Lakes("wiki")
    found = search(live(wiki), Knowledge(sources=("wiki",), select="adaptive", allow_search=True), "a", "b", "c")
    assert [keys(hits)[0] for hits in found] == [("wiki", f"{query}-0") for query in "abc"]
    assert wiki.batches == [(["a", "b", "c"], 10)]


def test_a_source_that_fails_costs_its_own_passages() -> None:
    model = live(Lakes("wiki"), Lakes("google", hits=Hits(error="HTTP 500")))
    only_google = Knowledge(
        sources=("wiki", "google"),
        per_source=1,
        per_debater_sources={"Debater 2": ("google",)},
        select="adaptive",
        allow_search=True,
    )
    half, none = search(model, only_google, "x", ("x", purpose("Debater 2")))
    assert (half.error, keys(half)) == (None, [("wiki", "x-0")])
    assert (none.error, none.passages) == ("google: HTTP 500", ())


def test_a_stored_search_is_answered_without_sources(tmp_path: Path) -> None:
    knowledge = Knowledge(sources=("wiki",), select="adaptive", allow_search=True)
    wiki = Lakes("wiki")
    with CallStore(tmp_path / "calls.sqlite") as store:
        before = search(stored(live(wiki), store), knowledge, "depth")
        assert search(stored(live(wiki), store), knowledge, "depth") == before
        assert len(wiki.batches) == 1
        replayed = stored(LiveSearch({"wiki": "wiki"}, [], 10), store, replay=True)
        assert search(replayed, knowledge, "depth") == before
        (unknown,) = search(replayed, knowledge, "width")
        assert unknown.error == "not in the call store"


@pytest.fixture
def longest_first(tmp_path: Path) -> Any:
    """A command that scores by length and notes each start."""
    script = tmp_path / "longest.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "asked = [json.loads(line) for line in sys.stdin]\n"
        "with pathlib.Path(__file__).with_name('starts').open('a') as file:\n"
        "    file.write(json.dumps(asked) + '\\n')\n"
        "if any(item['candidate'] == 'poison' for item in asked):\n"
        "    sys.exit('no such language')\n"
        "for item in asked:\n"
        "    print(len(item['candidate']))\n"
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def starts(tmp_path: Path) -> Any:
    return [json.loads(line) for line in (tmp_path / "starts").read_text().splitlines()]


def estimate(model: Any, *candidates: Any, question: Any = QUESTION) -> Any:
    async def estimated() -> Any:
        return await answer_scoring(model)(question, candidates)

    return asyncio.run(estimated())


def test_candidates_are_scored_against_the_question_without_references(tmp_path: Path, longest_first: Any) -> None:
    assert estimate(AnswerScorer(longest_first), "deep", "how deep") == [4.0, 8.0]
    (asked,) = starts(tmp_path)
    assert asked[0] == {"source": QUESTION.question, "candidate": "deep", "references": []}


def test_a_failing_command_is_a_reason_and_not_a_score(tmp_path: Path, longest_first: Any) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        for _ in range(2):  # a failure is stored, and asked anew
            with pytest.raises(UserError, match="no such language"):
                estimate(stored(AnswerScorer(longest_first), store), "poison")
    assert len(starts(tmp_path)) == 2
