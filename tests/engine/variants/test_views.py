"""``views``: a vote in which each sample reads another part of the pool."""

from dataclasses import replace

import pytest

from madke.core.chat import ChatRequest
from madke.core.knowledge import EMPTY_POOL, KnowledgePool
from tests.support.debates import play, shown


@pytest.fixture
def five(pool: KnowledgePool) -> KnowledgePool:
    one = pool.passages[0]
    return replace(pool, passages=tuple(replace(one, key=f"p{n}", text=f"Text {n}.", rank=n) for n in range(5)))


def reply(request: ChatRequest) -> str:
    return "Lake Baikal"


def read(request: ChatRequest) -> list[int]:
    """The numbers of the passages of a prompt, in its order."""
    lines = (line for line in shown(request).splitlines() if line.startswith("Passage "))
    return [int(line.split()[1].rstrip(":")) for line in lines]


def test_sample_i_reads_on_from_passage_i_and_three_of_five(five: KnowledgePool) -> None:
    transcript, model = play("views", reply, pool=five)
    assert [read(request) for request in model.requests] == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 1, 2],
    ]
    assert (transcript.answer, transcript.final.by) == ("Lake Baikal", "majority")


def test_a_share_of_one_gives_the_whole_pool_in_another_order(five: KnowledgePool) -> None:
    _, model = play("views", reply, pool=five, settings={"view_share": 1})
    assert [read(request) for request in model.requests[:2]] == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]


def test_a_pool_of_one_passage_is_read_by_all_and_an_empty_one_by_nobody(five: KnowledgePool) -> None:
    _, model = play("views", reply, pool=replace(five, passages=five.passages[:1]))
    assert [read(request) for request in model.requests] == [[0]] * 6
    _, model = play("views", reply, pool=EMPTY_POOL)
    assert [read(request) for request in model.requests] == [[]] * 6
