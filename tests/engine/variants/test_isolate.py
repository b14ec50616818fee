"""``isolate``: a debater for each passage, who sees no other one, and a vote."""

from dataclasses import replace

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from tests.support.debates import play, shown


def from_own_passage(request: ChatRequest) -> str:
    """Passage 0 says one thing, the others another; the third helps nobody."""
    if request.purpose.stage != "speak":
        return "The answer is Lake Chad."
    place = int(request.purpose.agent.split()[-1]) - 1
    return ["The answer is Lake Baikal.", "The answer is Lake Chad.", "It does not say.", "The answer is Lake Chad."][
        place
    ]


def test_each_passage_is_read_alone_and_the_answers_are_voted_on(pool: KnowledgePool) -> None:
    pool = replace(pool, passages=(*pool.passages[:3], replace(pool.passages[0], key="more", text="More of it.")))
    transcript, model = play("isolate", from_own_passage, pool=pool)
    assert (model.calls, len(transcript.rounds), transcript.final.by) == (4, 1, "majority")
    assert transcript.answer == "Lake Chad"
    for n, request in enumerate(model.requests):
        assert [passage.text in shown(request) for passage in pool.passages] == [m == n for m in range(4)]


def test_its_prompts_are_those_of_the_first_round_of_per_document(pool: KnowledgePool) -> None:
    pool = replace(pool, passages=pool.passages[:3])
    _, isolate = play("isolate", from_own_passage, pool=pool)
    _, debate = play("per-document", from_own_passage, pool=pool)
    first = [request for request in debate.requests if request.purpose.round == 1]
    assert [(r.purpose, r.messages) for r in isolate.requests] == [(r.purpose, r.messages) for r in first]
