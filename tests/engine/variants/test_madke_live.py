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
        return f"{purpose.agent} in round {purpose.round}: the answer is [Lake Baikal]."

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


def test_what_a_search_finds_joins_the_pool_with_its_provenance(pool: KnowledgePool) -> None:
    library = Library({"deepest lake": [book("a"), book("b")], "lake depths": [book("c")]})
    queries = {(ONE, 1): "deepest lake", (TWO, 2): "lake depths"}
    transcript, _ = play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert [(e.n, e.key, e.asked_by, e.query, e.round) for e in transcript.pool[3:]] == [
        (3, "a", ONE, "deepest lake", 1),
        (4, "b", ONE, "deepest lake", 1),
        (5, "c", TWO, "lake depths", 2),
    ]
    assert [(e.asked_by, e.query, e.round) for e in transcript.pool[:3]] == [(None, None, None)] * 3
    searches = [[turn.search for turn in entry.turns] for entry in transcript.rounds]
    assert [[search and (search.query, search.ids) for search in entry] for entry in searches] == [
        [("deepest lake", (3, 4)), None],
        [None, ("lake depths", (5,))],
    ]
    assert library.asked == [("deepest lake", "search", ONE, 1), ("lake depths", "search", TWO, 2)]


def test_a_passage_that_the_pool_holds_keeps_its_number(pool: KnowledgePool) -> None:
    library = Library({"baikal": [pool.passages[2], book("a")], "again": [book("a"), pool.passages[0]]})
    queries = {(ONE, 1): "baikal", (TWO, 1): "again"}
    transcript, model = play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert [turn.search.ids for turn in transcript.rounds[0].turns] == [(2, 3), (3, 0)]
    assert [(e.n, e.asked_by) for e in transcript.pool[3:]] == [(3, ONE)]
    (request,) = asked(model, stage="speak", agent=TWO)
    assert shown(request).count("Passage 0 (Lake Baikal):") == 1


@pytest.mark.parametrize(("agree_in", "rounds"), [(1, 1), (2, 2), (9, 3)])
def test_searches_are_no_calls_of_a_model(pool: KnowledgePool, agree_in: int, rounds: int) -> None:
    queries = {(agent, n): f"{agent} {n}" for agent in (ONE, TWO) for n in (1, 2, 3)}
    library = Library({query: [] for query in queries.values()})
    transcript, model = play("madke-live", asking(queries, agree_in), pool=pool, retrieve=library)
    assert model.calls == 4 * rounds + rounds + 1
    assert len(library.asked) == 2 * rounds
    assert "search" not in transcript.usage


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
