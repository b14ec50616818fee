"""OpenAI's Responses API as the official client sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.serve.serving import Serving, Shelf, Upstream, serving, wait_for
from tests.support.openai_server import USAGE

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def asked(server: Serving, content: Any = "Who wrote book 1?", **fields: Any) -> Any:
    raw = server.client().responses.with_raw_response.create(**{"model": "madke", "input": content, **fields})
    return Response.model_validate_json(raw.content)


def streamed(server: Serving, content: Any = "Who wrote book 1?", **fields: Any) -> list[Any]:
    events = list(server.client().responses.create(**{"model": "madke", "input": content, "stream": True, **fields}))
    assert [event.sequence_number for event in events] == [*range(len(events))]
    return [EVENT.validate_python(event.model_dump()) for event in events]


def turns_of(response: Any) -> list[str]:
    return [part.text for part in response.output[0].summary]


def test_a_response_holds_the_debate_as_reasoning_and_the_answer_as_a_message(
    upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        response = asked(server)
    assert (response.status, response.error, response.model_extra["store"]) == ("completed", None, False)
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output_text == "Author 1 [0]"
    (citation,) = response.output[1].content[0].annotations
    assert (citation.type, citation.title) == ("url_citation", "A book")
    assert response.output_text[citation.start_index : citation.end_index] == " [0]"
    turns = turns_of(response)
    assert turns[0] == "2 passages found.\n\n"
    assert turns[1] == "### Round 1\n\n"
    assert {turn.partition("\n")[0] for turn in turns[2:4]} == {"**Debater 1**, round 1", "**Debater 2**, round 1"}
    assert turns[-2].startswith("**Summarizer**")
    assert turns[-1] == "**Agreement**: consensus, by the judge.\n\n"
    calls = len(upstream.server.requests)
    assert response.usage.input_tokens == calls * USAGE["prompt_tokens"]
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.model_extra["madke"]["transcript"].startswith(server.url)


def test_a_stream_has_openais_events_in_their_order(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        events = streamed(server)
        whole = asked(server)
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:3] == ["created", "in_progress", "output_item.added"]
    assert [kind for kind in kinds if kind.startswith("output")] == [
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "output_item.done",
    ]
    assert kinds[-3:] == ["content_part.done", "output_item.done", "completed"]
    parts: list[list[str]] = []
    for event in events:
        kind = event.type.removeprefix("response.reasoning_summary_")
        if kind == "part.added":
            parts.append([])
        elif kind == "text.delta":
            assert event.summary_index == len(parts) - 1
            parts[-1].append(event.delta)
        elif kind == "text.done":
            assert event.text == "".join(parts[-1])
    done = events[-1].response
    assert ["".join(part) for part in parts] == turns_of(done)
    # Two debaters speak at the same time, and either may end first.
    assert sorted(turns_of(done)) == sorted(turns_of(whole))
    assert any(len(part) > 2 for part in parts), "no turn came in more than two pieces"
    assert done.output_text == whole.output_text
    assert done.usage.input_tokens > 0


def test_the_clients_own_helper_reads_the_stream(upstream: Upstream, tmp_path: Path) -> None:
    with (
        serving(tmp_path, upstream) as server,
        server.client().responses.stream(model="madke", input="Who wrote book 1?") as stream,
    ):
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == "".join(deltas) == "Author 1"


def test_a_conversation_is_what_chat_completions_read(upstream: Upstream, tmp_path: Path) -> None:
    earlier = [
        {"role": "user", "content": [{"type": "input_text", "text": "Who wrote book 1?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a secret thought"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a tool said so"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It was Author 1."}]},
        {"role": "user", "content": "And book 3?"},
    ]
    with serving(tmp_path, upstream) as server:
        response = asked(server, earlier, instructions="Answer in one word.")
    assert response.output_text == "Author 3"
    assert upstream.stages[0] == "condense"
    condensing, *debate = (json.dumps(seen.body["messages"]) for seen in upstream.server.requests)
    assert "It was Author 1." in condensing
    assert "a secret thought" not in condensing
    assert "a tool said so" not in condensing
    assert any("Answer in one word." in call for call in debate)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the whole conversation as input"),
        ({"store": True}, "store", "no response is stored"),
        ({"background": True}, "background", "expected False or nothing"),
        ({"tool_choice": "required"}, "tool_choice", "expected 'none' or nothing"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input", "'item_reference'"),
        ({"input": [{"role": "assistant", "content": "Hello"}]}, "input", "must be a question of the user"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]},
            "input",
            "only text is read",
        ),
        ({"text": {"format": {"type": "grammar"}}}, "text.format", "text.format"),
        ({"max_output_tokens": 0}, "max_output_tokens", "greater than or equal to 1"),
    ],
)
def test_what_a_debate_cannot_give_is_refused_in_openais_form(
    upstream: Upstream, tmp_path: Path, fields: dict[str, Any], param: str, said: str
) -> None:
    with serving(tmp_path, upstream) as server, pytest.raises(openai.BadRequestError) as caught:
        asked(server, **fields)
    assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
    assert said in caught.value.message
    assert upstream.stages == []


def test_fields_without_effect_are_named_and_stored_responses_do_not_exist(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        client = server.client()
        raw = client.responses.with_raw_response.create(
            model="madke", input="Who wrote book 1?", store=False, temperature=0.3, metadata={"a": "b"}
        )
        assert raw.headers["x-madke-ignored"] == "temperature"
        body = json.loads(raw.content)
        assert (body["store"], body["previous_response_id"], body["metadata"]) == (False, None, {"a": "b"})
        with pytest.raises(openai.NotFoundError, match="no response is stored"):
            client.responses.retrieve(body["id"])
        with pytest.raises(openai.NotFoundError, match="unknown protocol"):
            client.responses.create(model="other", input="Who wrote book 1?")


def test_a_schema_and_a_limit_hold_for_the_text(upstream: Upstream, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"author": {"type": "string"}}, "required": ["author"]}
    form = {"format": {"type": "json_schema", "name": "book", "schema": schema}}
    with serving(tmp_path, upstream) as server:
        assert json.loads(asked(server, text=form).output_text) == {"author": "Author 1"}
        short = asked(server, "Who wrote book 2?", max_output_tokens=1)
        last = streamed(server, "Who wrote book 2?", max_output_tokens=1)[-1]
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert short.output_text == "Auth"
    assert last.type == "response.incomplete"


def test_a_debate_that_fails_ends_its_stream_as_failed(tmp_path: Path, upstream: Upstream) -> None:
    with serving(tmp_path, upstream, deadline=0.001) as server:
        last = streamed(server)[-1]
        assert last.type == "response.failed"
        assert (last.response.status, last.response.error.code) == ("failed", "server_error")
        assert "took longer than 0.001 s" in last.response.error.message
        with pytest.raises(openai.InternalServerError):
            asked(server)
        wait_for(lambda: server.debates.turns == 0)
