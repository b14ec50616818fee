"""JSON schemas at OpenAI-compatible servers: what is sent, what a refusal teaches, and what is stored."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import BoundForm, ChatRequest, Completion, Message, Schema, SchemaField, takes_schemas
from madke.models.chat_models import as_chat_model, open_model
from madke.models.limiter import Limits
from madke.models.openai_client import OpenAIChat
from madke.models.pipeline import CallPipeline
from madke.models.store import CallStore
from tests.models.wire import ask, events, exchange
from tests.support.chat_requests import chat_request
from tests.support.openai_server import USAGE, OpenAIServer, Reply, chat, error, openai_server

SCHEMA = Schema(
    name="selection",
    fields=(
        SchemaField(name="reasoning", max_length=300),
        SchemaField(name="selected", numbers=(0, 2), max_length=3),
        SchemaField(name="verdict", words=("SAME", "DIFFERENT")),
        SchemaField(name="quotes", numbers=(3, 5), with_texts=True, max_length=2),
    ),
)
WHOLE = json.dumps({"reasoning": "It fits.", "selected": [2], "verdict": "SAME"})
REFUSALS = {
    "OpenAI": error(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported."),
    "llama.cpp": (500, {}, {"error": {"message": "failed to parse grammar"}}),
    "without a reason": error(400, "Bad request"),
}


def request(text: str = "Which?", **changes: Any) -> ChatRequest:
    form = BoundForm(schema=SCHEMA, task=f"{text} As JSON.")
    asked: ChatRequest = chat_request(text, bound=form, **changes)
    return asked


def bound(body: Any) -> bool:
    return "response_format" in body


def last(body: Any) -> str:
    return str(body["messages"][-1]["content"])


def record(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def test_a_server_that_takes_schemas_gets_the_bound_form() -> None:
    done = exchange(chat(WHOLE), request())
    (said,), (body,) = done.said, done.bodies
    assert (said.text, said.bound, said.attempts) == (WHOLE, True, 1)
    assert [each["content"] for each in body["messages"]] == ["Be brief.", "Which? As JSON."]
    quote = {"passage": {"type": "integer", "enum": [3, 5]}, "text": {"type": "string", "maxLength": 300}}
    fields = {
        "reasoning": {"type": "string", "maxLength": 300},
        "selected": {"type": "array", "items": {"type": "integer", "enum": [0, 2]}, "maxItems": 3},
        "verdict": {"type": "string", "enum": ["SAME", "DIFFERENT"]},
        "quotes": {"type": "array", "items": record(quote), "maxItems": 2},
    }
    named = {"name": "selection", "strict": True, "schema": record(fields)}
    assert body["response_format"] == {"type": "json_schema", "json_schema": named}
    assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == [*fields]


@pytest.mark.parametrize("server", REFUSALS)
def test_a_refusal_is_learned_once_for_the_endpoint(server: str, caplog: pytest.LogCaptureFixture) -> None:
    def reply(body: Any, n: int) -> Reply:
        return REFUSALS[server] if bound(body) else chat("Selected: [2]")

    done = exchange(reply, request("One?"), request("Two?"))
    first, second = done.said
    asked = [(bound(body), last(body)) for body in done.bodies]
    assert asked == [(True, "One? As JSON."), (False, "One?"), (False, "Two?")]
    assert (first.bound, second.bound) == (False, False)
    assert (first.outcome, first.text, first.max_tokens) == ("ok", "Selected: [2]", None)
    assert sum("json_schema: false" in each.getMessage() for each in caplog.records) == 1


def test_a_server_that_refuses_lengths_gets_a_schema_without_them() -> None:
    def reply(body: Any, n: int) -> Reply:
        if "maxLength" in json.dumps(body):
            return error(400, "Invalid schema for response_format 'selection': 'maxLength' is not permitted.")
        return chat(WHOLE)

    done = exchange(reply, request(), request())
    assert [bound(body) for body in done.bodies] == [True, True, True]
    assert "maxItems" not in json.dumps(done.bodies[2])
    assert [said.bound for said in done.said] == [True, True]


def test_a_server_that_ignores_the_schema_is_asked_in_the_free_form_afterwards() -> None:
    done = exchange(chat("I choose [2].\nSelected: [2]"), request("One?"), request("Two?"))
    first, second = done.said
    asked = [(bound(body), last(body)) for body in done.bodies]
    assert asked == [(True, "One? As JSON."), (False, "One?"), (False, "Two?")]
    assert (first.bound, second.bound, first.attempts) == (False, False, 2)
    assert first.usage.prompt_tokens == 2 * USAGE["prompt_tokens"]


def ask_stored(server: OpenAIServer, store: CallStore, asked: ChatRequest, **options: Any) -> Completion:
    """One call through the store, with a client that knows nothing of the server yet."""

    async def call() -> Completion:
        inner = OpenAIChat("m", base_url=server.url)
        outer = CallPipeline(limits=Limits(4), store=store, **options).model(inner)
        assert takes_schemas(outer)
        try:
            return await outer.complete(asked)
        finally:
            await inner.aclose()

    return asyncio.run(call())


@pytest.mark.parametrize("taken", [True, False])
def test_a_resumed_or_replayed_call_is_not_made_again(tmp_path: Path, taken: bool) -> None:
    def reply(body: Any, n: int) -> Reply:
        if not bound(body):
            return chat("Selected: [2]")
        return chat(WHOLE) if taken else REFUSALS["OpenAI"]

    with openai_server(reply) as server:
        with CallStore(tmp_path / "calls.sqlite") as store:
            first = ask_stored(server, store, request())
            (recorded,) = store.calls()
        requests = len(server.requests)
        with CallStore(tmp_path / "calls.sqlite") as store:
            again = ask_stored(server, store, request())
            replayed = ask_stored(server, store, request(), replay=True)
        assert len(server.requests) == requests
    assert first == again == replayed
    assert first.bound is taken
    assert recorded.messages[-1] == Message(role="user", content="Which? As JSON." if taken else "Which?")


def test_a_stored_free_call_of_this_run_answers_and_one_of_a_run_without_schemas_does_not(tmp_path: Path) -> None:
    free = request().in_form(bound=False)
    with (
        openai_server(lambda body, n: chat(WHOLE if bound(body) else "Selected: [0]")) as server,
        CallStore(tmp_path / "calls.sqlite") as store,
    ):
        ask_stored(server, store, free, payer="off")
        auto = ask_stored(server, store, request(), payer="auto")
        own = ask_stored(server, store, free, payer="off")
    assert (auto.text, own.text) == (WHOLE, "Selected: [0]")
    assert len(server.requests) == 2


def test_a_listener_hears_no_json() -> None:
    parts: list[str] = []
    chunk = {"choices": [{"delta": {"content": WHOLE}, "finish_reason": "stop"}], "usage": USAGE}
    said = ask(events([chunk]), request(on_delta=parts.append))
    assert (parts, said.text) == ([], WHOLE)


def test_an_object_of_your_own_is_asked_with_schemas_if_it_says_that_it_takes_them() -> None:
    class Own:
        name = "own"
        takes_schemas = True

        async def complete(self, asked: ChatRequest) -> Completion:
            return Completion(text=WHOLE, bound=True)

    assert takes_schemas(as_chat_model(Own()))
    assert not takes_schemas(as_chat_model(lambda messages: "text"))
    assert not takes_schemas(open_model("offline"))
    assert takes_schemas(open_model("openai/m", base_url="http://127.0.0.1:9/v1"))
