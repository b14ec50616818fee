"""``madke-live``: a debater may ask for one search a round; the pool grows, and says where it grew from."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Purpose
from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool, Passage
from tests.conftest import passage
from tests.support.debates import asked, play, shown

ONE, TWO = "Debater 1", "Debater 2"


def asking(queries: dict[tuple[str, int], str], agree_in: int = 2) -> Callable[..., Any]:
    """Debaters choose passage 0 and ask for ``queries[agent, round]``, where there is one."""

    def reply(request: ChatRequest) -> str:
        purpose = request.purpose
        match purpose.stage:
            case "select":
                query = queries.get((purpose.agent, purpose.round))
                return "Entry [0] helps." + (f" I would still look for [Search: {query}]." if query else "")
            case "judge":
                return "[Yes]" if purpose.round >= agree_in else "[No]"
        mine = "Lake Baikal" if purpose.agent == ONE or purpose.round >= agree_in else "Lake Tanganyika"
        return f"{purpose.agent} in round {purpose.round}: the answer is [{mine}]."

    return reply


class Library:
    """Answers searches from a mapping of queries to passages or error texts, and remembers what it was asked."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found
        self.asked: list[Any] = []

    async def __call__(self, query: str, purpose: Purpose) -> Hits:
        self.asked.append((query, purpose.stage, purpose.agent, purpose.round))
        found = self.found[query]
        return Hits(error=found) if isinstance(found, str) else Hits(passages=tuple(found))


def book(key: str, text: Any = None) -> Passage:
    return passage("google", key, f"Title of {key}", text or f"A new text {key}.")


def test_a_passage_that_the_pool_holds_keeps_its_number(pool: KnowledgePool) -> None:
    library = Library({"baikal": [pool.passages[2], book("a")], "again": [book("a"), pool.passages[0]]})
    queries = {(ONE, 1): "baikal", (TWO, 1): "again"}
    transcript, model = play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert [turn.search.ids for turn in transcript.rounds[0].turns] == [(2, 3), (3, 0)]
    assert [(e.n, e.asked_by) for e in transcript.pool[3:]] == [(3, ONE)]
    (request,) = asked(model, stage="speak", agent=TWO)
    assert shown(request).count("Passage 0 (Lake Baikal):") == 1


def test_of_two_searches_in_one_reply_one_is_made(pool: KnowledgePool) -> None:
    library = Library({"lake depths": []})
    queries = {(ONE, 1): "deepest lake] or better [Search: lake depths"}
    play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert [query for query, *_ in library.asked] == ["lake depths"]


def test_an_echoed_placeholder_is_no_search(pool: KnowledgePool) -> None:
    library = Library({})
    transcript, _ = play("madke-live", asking({(ONE, 1): "..."}), pool=pool, retrieve=library)
    assert library.asked == []
    assert transcript.rounds[0].turns[0].search is None


def test_without_anybody_to_search_it_is_refused(pool: KnowledgePool) -> None:
    with pytest.raises(UserError, match="needs sources that can be searched"):
        play("madke-live", asking({}), pool=pool)


def test_a_passage_that_the_pool_holds_under_another_key_gets_no_second_number(pool: KnowledgePool) -> None:
    again = passage("google", "mirror", "A mirror", pool.passages[1].text.upper())
    library = Library({"deepest lake": [again]})
    transcript, _ = play("madke-live", asking({(ONE, 1): "deepest lake"}), pool=pool, retrieve=library)
    assert transcript.rounds[0].turns[0].search.ids == (1,)
    assert len(transcript.pool) == 3
