"""Models of yours: objects, classes, factories, functions of messages, by name or as they are."""

import asyncio
import functools
import textwrap
from pathlib import Path
from typing import Any, NoReturn

import pytest

from madke.adapters import Reply
from madke.core.chat import Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.chat_models import as_chat_model, close, open_model
from tests.support.chat_requests import chat_request


def say(model: Any, request: Any = None) -> Any:
    return asyncio.run(model.complete(request or chat_request("Hi")))


def last_words(messages: Any) -> Any:
    return f"{messages[0]['role']}: {messages[-1]['content']}"


async def later(messages: Any) -> Any:
    await asyncio.sleep(0)
    return "later"


class Own:
    name = "own-7b"
    closed = False

    async def complete(self, request: Any) -> Any:
        return Completion(text=request.messages[-1].content)

    async def aclose(self) -> None:
        self.closed = True


def test_a_function_of_messages_is_a_model_named_by_its_qualified_name() -> None:
    model = as_chat_model(last_words)
    assert model.name == f"{__name__}:last_words"
    assert (say(model).text, say(model).usage.estimated) == ("system: Hi", True)
    assert say(as_chat_model(later)).text == "later"
    assert as_chat_model(functools.partial(last_words)).name == f"{__name__}:last_words"
    assert as_chat_model(last_words, "mine").name == "mine"


def test_a_function_that_raises_what_no_future_can_hold_is_a_failed_call() -> None:
    model = as_chat_model(lambda messages: next(iter(())), "mine")

    async def call() -> None:
        async with asyncio.timeout(20):
            await model.complete(chat_request("a"))

    with pytest.raises(CallError, match="mine: StopIteration"):
        asyncio.run(call())


def test_usage_and_whole_completions_of_a_function_are_kept() -> None:
    counted = Usage(prompt_tokens=3, completion_tokens=1)
    assert say(as_chat_model(lambda messages: Reply("x", counted))).usage == counted
    assert say(as_chat_model(lambda messages: Completion(text="y", finish_reason="length"))).finish_reason == "length"
    assert say(as_chat_model(lambda messages: None)).text == ""


@pytest.mark.parametrize("given", [Own, Own()])
def test_a_model_may_be_given_as_an_instance_or_a_class(given: Any) -> None:
    model = as_chat_model(given)
    assert (model.name, say(model).text) == ("own-7b", "Hi")
    renamed = as_chat_model(given, "judge")
    assert (renamed.name, say(renamed).text) == ("judge", "Hi")
    assert hasattr(renamed, "aclose")
    asyncio.run(close(renamed))


class Odd(Exception):
    status_code = "none"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(KeyError("bug"), False), (Odd(), False), (ConnectionResetError("gone"), True), (TimeoutError(), True)],
)
def test_what_a_function_raises_is_a_failed_call_and_ends_no_batch(error: Any, retryable: bool) -> None:
    def broken(messages: Any) -> NoReturn:
        raise error

    with pytest.raises(CallError, match=type(error).__name__) as caught:
        say(as_chat_model(broken))
    assert caught.value.retryable == retryable


class Nameless:
    async def complete(self, request: Any) -> None: ...


class Synchronous:
    name = "s"

    def complete(self, request: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "3 is not a model"),
        (Nameless(), "has no name"),
        (Synchronous(), "must be asynchronous"),
    ],
)
def test_what_is_no_model_is_refused(given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        as_chat_model(given)
    with pytest.raises(CallError, match="returned int, expected a text"):
        say(as_chat_model(lambda messages: 3))


def test_a_name_reaches_code_by_module_and_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        def parrot(messages):
            return messages[-1]["content"]
        """
    (tmp_path / "zoo_models.py").write_text(textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    model = open_model("zoo_models:parrot")
    assert (model.name, say(model).text) == ("zoo_models:parrot", "Hi")
    with pytest.raises(UserError, match="has no attribute 'owl'"):
        open_model("zoo_models:owl")
    (tmp_path / "mine.yaml").write_text("bird: {python: 'zoo_models:parrot'}\n")
    monkeypatch.setenv("MADKE_MODELS", "mine.yaml")
    assert open_model("bird").name == "bird"
