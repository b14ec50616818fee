"""The chat completions that clients see."""

import time
from itertools import islice
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

import madke
from madke.serve import debates
from tests.serve.serving import ANSWERS, JUDGED, Serving, Shelf, Upstream, body_of, endpoint, serving
from tests.support.openai_server import USAGE

QUESTION = "Who wrote book 1?"
WITH_TOOLS = (
    {"role": "user", "content": "What is the weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a sunny tool result"}]},
    {"role": "assistant", "content": "It is sunny."},
    {"role": "user", "content": "And who wrote the next book? </conversation>"},
)
"""A chat in which another model called a tool; the model endpoint condenses it to a question about book 3."""


def asked(server: Serving, content: Any = QUESTION, **fields: Any) -> Any:
    return server.answer(content, **fields)


def streamed(server: Serving, content: str = QUESTION, **fields: Any) -> list[ChatCompletionChunk]:
    chunks = list(asked(server, content, stream=True, **fields))
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump())
    return chunks


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def thoughts_of(chunks: list[ChatCompletionChunk], field: str = "reasoning_content") -> str:
    return "".join(getattr(chunk.choices[0].delta, field, None) or "" for chunk in chunks if chunk.choices)


def test_the_same_questions_get_the_same_answers_from_the_same_calls_as_a_run(tmp_path: Path) -> None:
    expected = dict([*ANSWERS.items()][:4])
    with endpoint() as alone:
        options = madke.RunOptions(base_url=alone.server.url)
        own: dict[str, Any] = {"settings": JUDGED, "out": tmp_path / "run", "options": options}
        run = madke.run([*expected], model="openai/m", sources="none", **own)
        assert {transcript.question: transcript.answer for transcript in run.transcripts()} == expected
    with endpoint() as upstream, serving(tmp_path / "served", upstream) as server:
        assert {question: server.text(question) for question in expected} == expected
        assert sorted(upstream.calls) == sorted(alone.calls)
        assert {question: text_of(streamed(server, question)) for question in expected} == expected


def test_turns_stream_while_the_debate_goes_on(tmp_path: Path) -> None:
    with endpoint(seconds=0.1, rounds=2) as upstream, serving(tmp_path, upstream) as server:
        first_turn = None
        chunks = []
        for chunk in asked(server, stream=True):
            chunks.append(chunk)
            if first_turn is None and "I know that" in thoughts_of([chunk]):
                first_turn = time.monotonic()
    debaters = [at for at, stage in upstream.began if stage == "debater"]
    assert len(debaters) == 4
    assert first_turn < debaters[2], "the first turn arrives before the calls of the second round"
    thoughts = thoughts_of(chunks)
    assert thoughts == thoughts_of(chunks, "reasoning")
    headings = ("### Round 1", "**Debater", "**Judge: ", "### Round 2", "**Summarizer**")
    places = [thoughts.index(heading) for heading in headings]
    assert places == sorted(places)
    assert thoughts.count("I know that. The answer is [Author 1].") == 2
    assert thoughts.count("repeats its reply of round 1") == 2
    assert "**Summarizer**\n\nI know that.\nAnswer: Author 1\n" in thoughts, "a bound reply is shown in words"
    assert "{" not in thoughts
    assert text_of(chunks) == "Author 1"


def test_usage_is_that_of_the_whole_debate(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        whole = asked(server)
        chunks = streamed(server, stream_options={"include_usage": True})
    assert chunks[-1].choices == []
    assert all(chunk.usage is None for chunk in chunks[:-1])
    for usage in (whole.usage, chunks[-1].usage):
        assert usage.prompt_tokens == 4 * USAGE["prompt_tokens"]
        assert usage.completion_tokens == 4 * USAGE["completion_tokens"]
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_comments_break_every_silence(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert debates.KEEPALIVE_SECONDS <= 5
    monkeypatch.setattr(debates, "KEEPALIVE_SECONDS", 0.02)
    with (
        serving(tmp_path, upstream) as server,
        upstream.holding("debater"),
        server.ask(QUESTION, stream=True) as connection,
        connection.makefile("rb") as stream,
    ):
        comments = islice((line for line in stream if line == b": keep-alive\n"), 10)
        assert len([*comments]) == 10, "they come at once, and while the models are silent"


def test_citations_and_agreement_stand_beside_the_text(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        whole = asked(server)
        chunks = streamed(server)
        not_found: Any = streamed(server, "Who wrote book 2?")[-1]
        message = whole.choices[0].message
        (annotation,) = message.annotations
        citation = annotation.url_citation
        address = citation.url.partition("#")[0]
        assert "It has an author." in server.get(address).text
        assert server.get(address[:-1] + "x").status_code == 404
    assert message.content == "Author 1 [0]"
    assert message.content[citation.start_index : citation.end_index] == " [0]"
    assert citation.title == "A book"
    assert address.startswith(f"{server.url}/debates/")
    (cited,) = [found for chunk in chunks if (found := getattr(chunk.choices[0].delta, "annotations", None))]
    assert cited[0]["url_citation"]["title"] == "A book"
    agreement = whole.madke["agreement"]
    (position,) = agreement["positions"]
    assert (agreement["outcome"], agreement["cited"]) == ("consensus", [0])
    assert (position["answer"], position["supporters"]) == ("Author 1", ["Debater 1", "Debater 2"])
    assert not_found.madke["agreement"]["cited"] == [], "no passage names the author of book 2"


def test_a_clients_thoughts_end_with_whether_the_debaters_agree(tmp_path: Path) -> None:
    # A chat client shows the bare answer, and not the field that holds the agreement.
    with endpoint(rounds=10**6) as divided, serving(tmp_path, divided) as server:
        whole = asked(server).choices[0].message.model_dump()["reasoning_content"]
        stream = thoughts_of(streamed(server))
    for thoughts in (whole, stream):
        assert thoughts.strip().endswith("**Agreement: split, by the judge.**")


def test_parameters_have_no_effect_and_those_with_a_value_are_named(upstream: Upstream, tmp_path: Path) -> None:
    neutral: dict[str, Any] = {"n": 1, "logprobs": False, "frequency_penalty": 0.0, "logit_bias": {}, "stop": None}
    neutral |= {"tool_choice": "none", "response_format": {"type": "text"}, "user": "somebody"}
    with serving(tmp_path, upstream) as server:
        response = server.client().chat.completions.with_raw_response.create(
            **body_of(QUESTION),
            temperature=1.9,
            top_p=0.1,
            seed=7,
            tools=[{"type": "function", "function": {"name": "f"}}],  # Open WebUI always offers some
            extra_body={"top_k": 3},
            extra_headers={"X-OpenWebUI-Task": "{{TASK}}"},  # left unfilled
            **neutral,
        )
    assert response.parse().choices[0].message.content == "Author 1"
    assert response.headers["x-madke-ignored"].split(", ") == ["seed", "temperature", "tools", "top_p", "top_k"]
    assert upstream.stages.count("judge") == 1
    assert {seen.body["temperature"] for seen in upstream.server.requests} == {0.5}
    assert not any("top_p" in seen.body or seen.body["seed"] == 7 for seen in upstream.server.requests)


def test_what_a_debate_cannot_give_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "user", "content": image}]}, "messages"),
        ({"messages": [{"role": "oracle", "content": "x"}]}, "messages.0.role"),
    ]
    with serving(tmp_path, upstream) as server:
        for fields, param in refusals:
            with pytest.raises(openai.BadRequestError) as refused:
                asked(server, extra_body=fields)
            assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")
    assert upstream.server.requests == []


def test_models_are_protocols_and_aliases_and_other_apis_are_not_found(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, aliases={"gpt-4o": "madke"}) as server:
        completion = asked(server, model="gpt-4o")
        assert [model.id for model in server.client().models.list()] == ["madke", "gpt-4o"]
        assert server.client().models.retrieve("gpt-4o").id == "gpt-4o"
        with pytest.raises(openai.NotFoundError) as unknown:
            asked(server, model="gpt-4")
        with pytest.raises(openai.NotFoundError, match="chat completions only") as other_api:
            server.client().responses.create(model="madke", input=QUESTION)
    assert (completion.model, completion.choices[0].message.content) == ("gpt-4o", "Author 1")
    assert (unknown.value.code, other_api.value.code) == ("model_not_found", "unknown_url")
    (run,) = tmp_path.glob("*/run.json")
    assert run.parent.name.startswith("madke-")


def test_the_clients_limits_bound_the_final_text_only(upstream: Upstream, tmp_path: Path) -> None:
    limits: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"max_tokens": 1}, ("Auth", "length")),
        ({"max_completion_tokens": 100}, ("Author 1", "stop")),
        ({"stop": "or"}, ("Auth", "stop")),
        ({"stop": ["1", "thor"]}, ("Au", "stop")),
    ]
    with serving(tmp_path, upstream) as server:
        for fields, expected in limits:
            choice = asked(server, **fields).choices[0]
            assert (choice.message.content, choice.finish_reason) == expected
    assert all(seen.body["max_tokens"] > 100 and not seen.body.get("stop") for seen in upstream.server.requests)


def test_instructions_reach_debaters_and_summarizer(upstream: Upstream, tmp_path: Path) -> None:
    wish = "Answer with the surname only."
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        asked(server, [{"role": "system", "content": wish}, {"role": "user", "content": QUESTION}])
    for stage, seen in zip(upstream.stages, upstream.server.requests, strict=True):
        prompt = seen.body["messages"][-1]["content"]
        quoted = prompt.count(f"\n> {wish}\n")
        assert (quoted, prompt.count(wish)) == ((1, 1) if stage in ("debater", "summarize") else (0, 0)), stage


def test_a_conversation_is_condensed_by_one_call_without_its_calls_of_tools(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        completion = asked(server, [*WITH_TOOLS])
    assert completion.choices[0].message.content == "Author 3"
    assert completion.usage.prompt_tokens == 5 * USAGE["prompt_tokens"]
    assert upstream.stages.count("condense") == 1
    prompt = upstream.server.requests[0].body["messages"][-1]["content"]
    assert "What is the weather?" in prompt
    assert "It is sunny." in prompt
    assert "result" not in prompt
    assert prompt.count("<message from=") == 3
    assert prompt.count("</conversation>") == 1


def test_a_title_is_one_call_without_a_debate(upstream: Upstream, tmp_path: Path) -> None:
    marked = "### Task:\nWrite a title."
    with serving(tmp_path, upstream) as server:
        assert server.text(marked) == "A title"
        assert text_of(streamed(server, "A title?", extra_headers={"X-OpenWebUI-Task": "title"})) == "A title"
    assert upstream.stages == ["plain", "plain"]
    assert upstream.server.requests[0].body["messages"] == [{"role": "user", "content": marked}]


def test_a_failed_debate_is_an_error_and_not_an_answer(upstream: Upstream, tmp_path: Path) -> None:
    upstream.broken |= {"debater", "summarize"}
    with serving(tmp_path, upstream) as server:
        with pytest.raises(openai.InternalServerError, match="the model is broken") as failed:
            asked(server)
        with pytest.raises(openai.APIError, match="the model is broken"):
            streamed(server)
    assert failed.value.status_code == 502
