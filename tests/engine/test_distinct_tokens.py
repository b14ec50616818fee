"""How much of a debate's prompts is new: the same whenever the calls end."""

from __future__ import annotations

from madke.core.chat import Completion, Usage
from tests.support.debates import play


def test_votes_on_one_prompt_send_it_once() -> None:
    def vote(request: object) -> Completion:
        return Completion(text="The answer is yes.", usage=Usage(prompt_tokens=100, completion_tokens=5))

    transcript, model = play("self-consistency", vote, settings={"debaters": 5})
    (used,) = transcript.usage.values()
    assert len(model.requests) == 5
    assert (used.prompt_tokens, used.distinct_tokens) == (500, 100)


def test_a_debate_has_fewer_distinct_tokens_than_it_sends() -> None:
    def reply(request: object) -> Completion:
        return Completion(text="The answer is [yes].", usage=Usage(prompt_tokens=1000, completion_tokens=5))

    transcript, _ = play("mad", reply, settings={"rounds": 2})
    speak, again = transcript.usage["speak"], transcript.usage["reply"]
    assert speak.distinct_tokens == 1000  # both are asked the same
    assert 0 < again.distinct_tokens < again.prompt_tokens
