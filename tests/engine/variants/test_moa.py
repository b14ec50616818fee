"""Mixture of agents: each layer reads the answers of the layer before; the last one is the aggregator."""

import pytest

from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from tests.support.debates import play, shown

NAMES = [f"Debater {n}" for n in range(1, 8)]


def reply(request: ChatRequest) -> str:
    return (
        f"Said by {request.purpose.agent} in layer {request.purpose.round}. The answer is {request.purpose.agent[-1]}."
    )


def test_it_takes_a_call_for_each_agent_of_each_layer() -> None:
    transcript, model = play("moa", reply)
    assert [[turn.agent for turn in entry.turns] for entry in transcript.rounds] == [NAMES[:3], NAMES[3:6], NAMES[6:]]
    assert (model.calls, transcript.stop_reason) == (7, "rounds")


def test_an_agent_of_a_later_layer_may_take_an_answer_word_for_word() -> None:
    proposal = "The answer is Lake Baikal, which is the deepest lake of them all."
    transcript, _ = play("moa", lambda request: proposal)
    assert [turn.stance.status for entry in transcript.rounds for turn in entry.turns] == ["ok"] * 7
    assert transcript.answer is not None


def test_each_layer_reads_the_whole_layer_before_and_nothing_else() -> None:
    transcript, model = play("moa", reply)
    layers = [[], NAMES[:3], NAMES[3:6]]
    for request in model.requests:
        read = layers[request.purpose.round - 1]
        for name in NAMES:
            assert (f"Said by {name} in" in shown(request)) == (name in read), (request.purpose, name)
    assert [turn.reads for turn in transcript.rounds[2].turns] == [tuple(NAMES[3:6])]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"debaters": 6}, "add up to 7 debaters, but there are 6"),
        ({"layers": [3, 2, 2]}, "the only debater, but 2 speak"),
        ({"early_stop": "stability"}, "in layers each speaks once"),
        ({"first_round_given": True}, "does not work with layers"),
    ],
)
def test_settings_that_fit_no_layers_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        play("moa", reply, settings=settings)
