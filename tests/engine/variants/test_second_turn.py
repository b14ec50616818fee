"""``second-turn``: the second round of ``mad``, in which nobody reads anybody else."""

from madke.core.chat import ChatRequest
from tests.support.debates import asked, own_and_others, play, shown


def reply(request: ChatRequest) -> str:
    return f"{request.purpose.agent} looked it up. The answer is Lake Baikal."


def test_each_reads_only_its_own_first_stance() -> None:
    transcript, model = play("second-turn", reply)
    assert (model.calls, transcript.answer, transcript.final.by) == (6, "Lake Baikal", "majority")
    for request in asked(model, round=2):
        assert f"{request.purpose.agent} looked it up." in own_and_others(request)[0]
        assert shown(request).count("looked it up") == 1


def test_its_first_round_and_its_words_are_those_of_mad() -> None:
    _, control = play("second-turn", reply)
    _, debate = play("mad", reply)
    assert asked(control, round=1) == asked(debate, round=1)
    of_own, of_all = (asked(model, round=2)[0].messages[-1].content for model in (control, debate))
    assert of_own.split("\n\n")[0] == of_all.split("\n\n")[0]
    assert of_own.split("\n\n")[-1] == of_all.split("\n\n")[-1]
