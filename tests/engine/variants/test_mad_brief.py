"""``mad-brief``: the debate of ``mad`` in the words of ``rag``."""

from madke.core.chat import ChatRequest
from madke.core.knowledge import KnowledgePool
from tests.support.debates import asked, own_and_others, play


def differing(request: ChatRequest) -> str:
    return "Lake Baikal" if request.purpose.round == 2 or request.purpose.agent == "Debater 1" else "Lake Chad"


def test_its_first_round_is_a_vote_over_the_prompt_of_rag(pool: KnowledgePool) -> None:
    _, debate = play("mad-brief", differing, pool=pool)
    _, single = play("rag", differing, pool=pool)
    vote = {"debaters": 6, "rounds": 1}
    _, samples = play("mad-brief", differing, pool=pool, settings=vote)
    first = asked(debate, round=1)
    assert [request.messages for request in first] == [single.requests[0].messages] * 3
    assert [(r.purpose, r.seed, r.messages) for r in first] == [
        (r.purpose, r.seed, r.messages) for r in samples.requests[:3]
    ]
    assert samples.calls == 6


def test_each_reads_the_bare_replies_of_the_others_and_the_passages_again(pool: KnowledgePool) -> None:
    transcript, model = play("mad-brief", differing, pool=pool)
    assert (model.calls, transcript.answer, transcript.final.by) == (6, "Lake Baikal", "majority")
    own, others = own_and_others(asked(model, round=2, agent="Debater 1")[0])
    assert own.split() == ["You", "wrote:", ">", "Lake", "Baikal"]
    assert others.count("> Lake Chad") == 2
    assert pool.passages[0].text in others


def test_a_reply_is_shown_as_it_was_written_whatever_was_read_from_it(pool: KnowledgePool) -> None:
    _, model = play("mad-brief", lambda request: "It is [Lake Chad], I think", pool=pool)
    assert own_and_others(asked(model, round=2)[0])[1].count("> It is [Lake Chad], I think") == 2
