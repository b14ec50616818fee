"""The chat completions that clients see."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

import madke
from madke.serve import debates
from tests.serve.serving import ANSWERS, JUDGED, Serving, Shelf, Upstream, endpoint, serving
from tests.support.openai_server import USAGE

WITH_TOOLS = (
    {"role": "user", "content": "What is the weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a sunny tool result"}]},
    {"role": "assistant", "content": "It is sunny."},
    {"role": "user", "content": "Who wrote book 1?"},
)
"""A chat in which another model called a tool."""


def asked(server: Serving, content: Any = "Who wrote book 1?", **fields: Any) -> Any:
    return server.answer(content, **fields)


def streamed(server: Serving, content: str = "Who wrote book 1?", **fields: Any) -> list[ChatCompletionChunk]:
    chunks = list(asked(server, content, stream=True, **fields))
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump())
    return chunks


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def thoughts_of(chunks: list[ChatCompletionChunk], field: str = "reasoning_content") -> str:
    return "".join(getattr(chunk.choices[0].delta, field, None) or "" for chunk in chunks if chunk.choices)


@pytest.mark.slow
def test_the_same_questions_get_the_same_answers_from_the_same_calls_as_a_run(tmp_path: Path) -> None:
    with endpoint() as alone:
        options = madke.RunOptions(base_url=alone.server.url)
        own: dict[str, Any] = {"settings": JUDGED, "out": tmp_path / "run", "options": options}
        run = madke.run([*ANSWERS], model="openai/m", sources="none", **own)
        expected = {transcript.question: transcript.answer for transcript in run.transcripts()}
    with endpoint() as upstream, serving(tmp_path / "served", upstream) as server:
        whole = {question: asked(server, question).choices[0].message.content for question in ANSWERS}
        assert sorted(upstream.calls) == sorted(alone.calls)
        parts = {question: text_of(streamed(server, question)) for question in ANSWERS}
    assert whole == parts == expected == ANSWERS


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
    assert (
        thoughts.count("I know that. The answer is [Author 1].") == thoughts.count("repeats its reply of round 1") == 2
    )
    assert "**Summarizer**\n\nI know that.\nAnswer: Author 1\n" in thoughts, "a bound reply is shown in words"
    assert "{" not in thoughts
    assert text_of(chunks) == "Author 1"


@pytest.mark.parametrize("protocol", ["rag", "cot", "madke"])
def test_a_stream_says_each_reply_once(protocol: str, upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf(), protocols=(protocol,)) as server:
        chunks = streamed(server, model=protocol)
        whole = asked(server, model=protocol).choices[0].message
    for thoughts in (thoughts_of(chunks), whole.model_extra["reasoning_content"]):
        replies = upstream.stages[: len(upstream.stages) // 2]
        assert thoughts.count("I know that.") == sum(stage in ("debater", "summarize") for stage in replies)
        assert "**Only**" not in thoughts
    assert text_of(chunks) == whole.content
    assert whole.content.startswith("Author 1")


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_that_of_the_whole_debate(stream: bool, upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        if stream:
            chunks = streamed(server, stream_options={"include_usage": True})
            assert chunks[-1].choices == []
            assert all(chunk.usage is None for chunk in chunks[:-1])
            usage = chunks[-1].usage
        else:
            usage = asked(server).usage
    calls = len(upstream.server.requests)
    assert calls == 4
    assert usage.prompt_tokens == calls * USAGE["prompt_tokens"]
    assert usage.completion_tokens == calls * USAGE["completion_tokens"]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.slow
def test_comments_break_every_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert debates.KEEPALIVE_SECONDS <= 5
    monkeypatch.setattr(debates, "KEEPALIVE_SECONDS", 0.1)
    with endpoint(seconds=0.8) as upstream, serving(tmp_path, upstream) as server:
        began = time.monotonic()
        connection = server.ask("Who wrote book 1?", stream=True)
        arrived, content = [], b""
        while b"[DONE]" not in content:
            content += connection.recv(65536)
            arrived.append(time.monotonic())
        connection.close()
    assert arrived[0] - began < 1, "the first bytes come at once"
    assert max(later - earlier for earlier, later in pairwise(arrived)) < 0.6
    assert content.count(b": keep-alive\n\n") >= 10


def test_a_passage_is_cited_in_the_text_and_as_an_annotation(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        message = asked(server).choices[0].message
        chunks = streamed(server)
        url = message.annotations[0].url_citation.url
        page = server.client()._client.get(url.split("#")[0])
        wrong = server.client()._client.get(url.split("#")[0][:-1] + "x")
    citation = message.annotations[0].url_citation
    assert message.content == "Author 1 [0]"
    assert message.content[citation.start_index : citation.end_index] == " [0]"
    assert citation.title == "A book"
    assert url.startswith(f"{server.url}/debates/")
    assert page.status_code == 200
    assert "It has an author." in page.text
    assert "Author 1" in page.text
    assert wrong.status_code == 404
    cited = [found for chunk in chunks if (found := getattr(chunk.choices[0].delta, "annotations", None))]
    assert len(cited) == 1
    assert cited[0][0]["url_citation"]["title"] == "A book"


def test_settings_of_the_protocol_stay_its_own(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        raw = server.client().chat.completions.with_raw_response.create(
            model="madke",
            messages=[{"role": "user", "content": "Who wrote book 1?"}],
            temperature=1.9,
            top_p=0.1,
            seed=7,
            tools=[{"type": "function", "function": {"name": "f"}}],  # Open WebUI always offers some
            extra_body={"top_k": 3},
        )
    assert raw.headers["x-madke-ignored"].split(", ") == ["seed", "temperature", "tools", "top_p", "top_k"]
    assert {seen.body["temperature"] for seen in upstream.server.requests} == {0.5}
    assert not any("top_p" in seen.body or seen.body["seed"] == 7 for seen in upstream.server.requests)


def test_neutral_values_are_accepted(upstream: Upstream, tmp_path: Path) -> None:
    neutral = {
        "n": 1,
        "tools": [],
        "tool_choice": "none",
        "logprobs": False,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "response_format": {"type": "text"},
        "user": "somebody",
        "stop": None,
    }
    with serving(tmp_path, upstream) as server:
        raw = server.client().chat.completions.with_raw_response.create(
            model="madke",
            messages=[{"role": "user", "content": "Who wrote book 1?"}],
            extra_headers={"X-OpenWebUI-Task": "{{TASK}}"},  # left unfilled
            **neutral,
        )
    assert raw.parse().choices[0].message.content == "Author 1"
    assert "x-madke-ignored" not in raw.headers
    assert upstream.stages.count("judge") == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Hello."}]}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages"),
        ({"messages": [*WITH_TOOLS[:3]]}, "messages"),
        ({"messages": [{"role": "oracle", "content": "x"}]}, "messages.0.role"),
    ],
)
def test_what_a_debate_cannot_give_is_refused(
    fields: dict[str, Any], param: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server, pytest.raises(openai.BadRequestError) as refused:
        asked(server, "Who wrote book 1?", extra_body=fields)
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert upstream.server.requests == []


def test_an_unknown_model_is_not_found(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        with pytest.raises(openai.NotFoundError) as refused:
            asked(server, model="gpt-4")
        assert [model.id for model in server.client().models.list()] == ["madke"]
        assert server.client().models.retrieve("madke").id == "madke"
    assert refused.value.code == "model_not_found"


def test_an_alias_is_another_name_of_a_protocol(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, aliases={"gpt-4o": "madke"}) as server:
        completion = asked(server, model="gpt-4o")
        assert [model.id for model in server.client().models.list()] == ["madke", "gpt-4o"]
        assert server.client().models.retrieve("gpt-4o").id == "gpt-4o"
    assert (completion.model, completion.choices[0].message.content) == ("gpt-4o", "Author 1")
    (run,) = tmp_path.glob("*/run.json")
    assert run.parent.name.startswith("madke-")


def test_other_apis_of_openai_are_not_found_and_the_error_says_what_is(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream) as server:
        with pytest.raises(openai.NotFoundError, match="chat completions only") as refused:
            server.client().responses.create(model="madke", input="Who wrote book 1?")
        with pytest.raises(openai.NotFoundError, match="chat completions only"):
            server.client().embeddings.create(model="madke", input="Who wrote book 1?")
    assert refused.value.code == "unknown_url"
    assert upstream.server.requests == []


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"max_tokens": 1}, "Auth", "length"),
        ({"max_completion_tokens": 100}, "Author 1", "stop"),
        ({"stop": "or"}, "Auth", "stop"),
        ({"stop": ["1", "thor"]}, "Au", "stop"),
    ],
)
def test_the_clients_limits_bound_the_final_text_only(
    fields: dict[str, Any], text: str, reason: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server:
        choice = asked(server, **fields).choices[0]
    assert (choice.message.content, choice.finish_reason) == (text, reason)
    assert all(seen.body["max_tokens"] > 100 and not seen.body.get("stop") for seen in upstream.server.requests)


def test_instructions_reach_debaters_and_summarizer(upstream: Upstream, tmp_path: Path) -> None:
    wish = "Answer with the surname only."
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        asked(server, [{"role": "system", "content": wish}, {"role": "user", "content": "Who wrote book 1?"}])
    for stage, seen in zip(upstream.stages, upstream.server.requests, strict=True):
        prompt = seen.body["messages"][-1]["content"]
        quoted = prompt.count(f"\n> {wish}\n")
        assert (quoted, prompt.count(wish)) == ((1, 1) if stage in ("debater", "summarize") else (0, 0)), stage


def test_a_conversation_is_condensed_by_one_call(upstream: Upstream, tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "Who wrote book 2?"},
        {"role": "assistant", "content": "Author 2"},
        {"role": "user", "content": "And the next one? </conversation>"},
    ]
    with serving(tmp_path, upstream) as server:
        completion = asked(server, talk)
    assert completion.choices[0].message.content == "Author 3"
    assert upstream.stages.count("condense") == 1
    assert len(upstream.stages) == 5
    assert completion.usage.prompt_tokens == 5 * USAGE["prompt_tokens"]
    prompt = upstream.server.requests[0].body["messages"][-1]["content"]
    assert "Author 2" in prompt
    assert prompt.count("</conversation>") == 1


def test_earlier_calls_of_tools_are_left_out_of_the_question(upstream: Upstream, tmp_path: Path) -> None:
    older = {"role": "assistant", "content": "calling", "function_call": {"name": "w", "arguments": "{}"}}
    with serving(tmp_path, upstream) as server:
        asked(server, [*WITH_TOOLS])
        asked(server, [WITH_TOOLS[0], older, {"role": "function", "name": "w", "content": "a result"}, *WITH_TOOLS[3:]])
    assert upstream.stages.count("condense") == 1, "both are the same conversation, so the second call is stored"
    prompt = upstream.server.requests[0].body["messages"][-1]["content"]
    assert "What is the weather?" in prompt
    assert "It is sunny." in prompt
    assert "result" not in prompt
    assert prompt.count("<message from=") == 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("content", "headers"), [("### Task:\nWrite a title.", {}), ("A title?", {"X-OpenWebUI-Task": "title_generation"})]
)
def test_a_title_is_one_call_without_a_debate(
    content: str, headers: dict[str, str], stream: bool, upstream: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path, upstream) as server:
        if stream:
            text = text_of(streamed(server, content, extra_headers=headers))
        else:
            text = asked(server, content, extra_headers=headers).choices[0].message.content
    assert (text, upstream.stages) == ("A title", ["plain"])
    assert upstream.server.requests[0].body["messages"] == [{"role": "user", "content": content}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_debate_is_an_error_and_not_an_answer(stream: bool, tmp_path: Path) -> None:
    from tests.support.openai_server import error, openai_server

    with (
        openai_server(error(400, "the model is broken")) as broken,
        serving(tmp_path, broken.url) as server,
        pytest.raises(openai.APIError) as failed,
    ):
        streamed(server) if stream else asked(server)
    assert "the model is broken" in str(failed.value)
    assert stream or getattr(failed.value, "status_code", None) == 502


def test_who_agrees_stands_in_the_body(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        whole = asked(server)
        last = streamed(server, "Who wrote book 2?")[-1]
    agreement = whole.model_dump()["madke"]["agreement"]
    (position,) = agreement["positions"]
    assert (agreement["outcome"], agreement["cited"]) == ("consensus", [0])
    assert (position["answer"], position["supporters"]) == ("Author 1", ["Debater 1", "Debater 2"])
    assert last.model_dump()["madke"]["agreement"]["cited"] == [], "no passage names the author of book 2"


def test_a_clients_thoughts_end_with_whether_the_debaters_agree(tmp_path: Path) -> None:
    # A chat client shows the bare answer, and not the field that holds the agreement.
    with endpoint(rounds=10**6) as divided, serving(tmp_path, divided) as server:
        whole = asked(server).choices[0].message.model_dump()["reasoning_content"]
        stream = thoughts_of(streamed(server))
    assert whole.endswith("**Agreement: split, by the judge.**")
    assert stream.strip().endswith("**Agreement: split, by the judge.**")
