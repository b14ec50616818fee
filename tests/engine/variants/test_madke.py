"""MADKE: when its judge is asked, what text of models cannot do, and the searches of ``madke-live``.

Who is called, who sees what and how failures are carried is in ``tests/frozen``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Purpose
from madke.core.errors import UserError
from madke.core.knowledge import Hits, KnowledgePool
from madke.core.transcript import to_json
from tests.conftest import passage
from tests.support.debates import asked, disagreeing_until, play, shown


@pytest.mark.parametrize(
    ("answers", "consensus", "rule"),
    [
        (("[Lake Baikal]", "[Baikal]"), True, "matcher"),
        (("[136 years]", "[113 years]"), False, "values"),
        (("[yes]", "[no]"), False, "values"),
        (("[Lake Baikal]", "I cannot say."), False, "no_answer"),
    ],
)
def test_the_judge_is_not_asked_where_there_is_no_doubt(
    pool: KnowledgePool, answers: tuple[str, str], consensus: bool, rule: str
) -> None:
    said = dict(zip(("Debater 1", "Debater 2"), answers, strict=True))
    one_round = {"rounds": 1, "select": "all"}
    transcript, model = play("madke", lambda r: said.get(r.purpose.agent, "Lake Baikal"), pool=pool, settings=one_round)
    verdict = transcript.rounds[0].verdict
    assert verdict is not None
    assert (verdict.consensus, verdict.rule, model.calls) == (consensus, rule, 3)


def test_a_refusal_is_not_a_stance(pool: KnowledgePool) -> None:
    base = disagreeing_until(1)
    refusal = Completion(outcome="refused", text="I cannot help: the answer is [Lake Baikal].")
    transcript, _ = play("madke", lambda r: refusal if r.purpose.agent == "Debater 1" else base(r), pool=pool)
    assert transcript.rounds[0].turns[0].stance.answer is None


def test_half_characters_of_a_model_can_be_written(pool: KnowledgePool) -> None:
    base = disagreeing_until(1)
    transcript, _ = play("madke", lambda r: f"\ud83d {base(r)}", pool=pool)
    assert b"? Debater 1 in round 1" in to_json(transcript)
    assert transcript.answer == "Lake Baikal"


def test_bad_input_inside_a_debate_is_one_error_not_a_group(pool: KnowledgePool) -> None:
    with pytest.raises(UserError, match="no encoder"):
        play("madke", lambda r: UserError("no encoder"), pool=pool)


def test_hidden_reasoning_is_not_shown_to_peers(pool: KnowledgePool) -> None:
    base = disagreeing_until(9)
    transcript, model = play("madke", lambda r: f"<think>secret [7]</think>{base(r)}", pool=pool)
    assert not any("secret" in message.content for request in model.requests for message in request.messages)
    assert transcript.rounds[0].turns[0].selection.ids == (0, 2)


# madke-live: a debater may ask for one search a round; the pool grows, and says where it grew from.

ONE, TWO = "Debater 1", "Debater 2"


def asking(queries: Mapping[tuple[str, int], str]) -> Callable[..., Any]:
    """Debaters choose passage 0, ask for ``queries[agent, round]``, where there is one, and agree in round 2."""
    usual = disagreeing_until(2)

    def reply(request: ChatRequest) -> Any:
        purpose = request.purpose
        if purpose.stage != "select":
            return usual(request)
        query = queries.get((purpose.agent, purpose.round))
        return "Entry [0] helps." + (f" I would still look for [Search: {query}]." if query else "")

    return reply


class Library:
    """Answers searches from a mapping of queries to passages, and remembers what it was asked."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found
        self.asked: list[str] = []

    async def __call__(self, query: str, purpose: Purpose) -> Hits:
        self.asked.append(query)
        return Hits(passages=tuple(self.found[query]))


def test_a_passage_that_the_pool_holds_keeps_its_number_also_under_another_key(pool: KnowledgePool) -> None:
    new = passage("google", "new", "A new one", "A new text.")
    mirror = passage("google", "mirror", "A mirror", pool.passages[1].text.upper())
    library = Library({"baikal": [pool.passages[2], new], "again": [new, pool.passages[0], mirror]})
    queries = {(ONE, 1): "baikal", (TWO, 1): "again"}
    transcript, model = play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert [turn.search.ids for turn in transcript.rounds[0].turns] == [(2, 3), (3, 0, 1)]
    assert [(entry.n, entry.asked_by) for entry in transcript.pool[3:]] == [(3, ONE)]
    (request,) = asked(model, stage="speak", agent=TWO)
    assert shown(request).count("Passage 0 (Lake Baikal):") == 1


def test_of_two_searches_in_one_reply_one_is_made_and_none_of_an_echoed_placeholder(pool: KnowledgePool) -> None:
    library = Library({"lake depths": []})
    queries = {(ONE, 1): "deepest lake] or better [Search: lake depths", (TWO, 1): "..."}
    transcript, _ = play("madke-live", asking(queries), pool=pool, retrieve=library)
    assert library.asked == ["lake depths"]
    assert transcript.rounds[0].turns[1].search is None


def test_without_anybody_to_search_it_is_refused(pool: KnowledgePool) -> None:
    with pytest.raises(UserError, match="needs sources that can be searched"):
        play("madke-live", asking({}), pool=pool)
