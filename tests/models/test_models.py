"""Models by their names, and models of yours: objects, classes and functions of messages."""

import asyncio
import functools
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from madke.adapters import Reply
from madke.core.chat import Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.chat_models import as_chat_model, close, open_model
from madke.models.model_names import MODEL_KINDS
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.transformers_chat import HFChat
from tests.support.chat_requests import chat_request


@pytest.fixture(autouse=True)
def azure_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_each_kind_is_opened_by_its_form_and_by_no_other(kind: str) -> None:
    form = MODEL_KINDS[kind].form
    with suppress(UserError):  # no such file, or no address
        assert open_model(form, replay=True).name
    with pytest.raises(UserError, match=f"expected {form}"):
        open_model(kind if "/" in form else f"{kind}/name", replay=True)


def test_models_with_an_endpoint_take_a_base_url_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key")
    served = open_model("openai/org/model", base_url="http://localhost:8000/v1")
    assert isinstance(served, OpenAIChat)
    assert served.name == "openai/org/model"
    assert isinstance(open_model("azure/my-gpt", base_url="https://me.openai.azure.com"), AzureChat)
    with pytest.raises(UserError, match="no endpoint"):
        open_model("human", base_url="http://localhost/v1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opnai/gpt-4o", "did you mean 'openai'"),
        ("gpt-4o-mini", "unknown model 'gpt-4o-mini'; did you mean openai/gpt-4o-mini"),
        ("nothing", f"known: {', '.join(sorted(MODEL_KINDS))}"),
        ("openai/gpt-4o", "OPENAI_API_KEY is not set"),
        ("azure/d", "AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_a_name_that_opens_nothing_says_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_model(name)


def test_replay_needs_neither_key_nor_weights() -> None:
    assert open_model("openai/gpt-4o", replay=True).name == "openai/gpt-4o"
    assert isinstance(open_model("hf/no/such-model", replay=True), HFChat)
    assert open_model("gguf/no/such.gguf", replay=True).name == "gguf/no/such.gguf"


# Models of yours


def say(model: Any) -> Any:
    return asyncio.run(model.complete(chat_request("Hi")))


def last_words(messages: Any) -> str:
    return f"{messages[0]['role']}: {messages[-1]['content']}"


async def later(messages: Any) -> str:
    await asyncio.sleep(0)
    return "later"


class Own:
    name = "own-7b"
    closed = False

    async def complete(self, request: Any) -> Completion:
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


def test_usage_and_whole_completions_of_a_function_are_kept() -> None:
    counted = Usage(prompt_tokens=3, completion_tokens=1)
    assert say(as_chat_model(lambda messages: Reply("x", counted))).usage == counted
    assert say(as_chat_model(lambda messages: Completion(text="y", finish_reason="length"))).finish_reason == "length"
    assert say(as_chat_model(lambda messages: None)).text == ""


def test_a_model_may_be_given_as_a_class_or_an_instance_and_is_closed() -> None:
    own = Own()
    for given in (Own, own):
        model = as_chat_model(given)
        assert (model.name, say(model).text) == ("own-7b", "Hi")
    renamed = as_chat_model(own, "judge")
    assert (renamed.name, say(renamed).text) == ("judge", "Hi")
    asyncio.run(close(renamed))
    assert own.closed


class BusyError(Exception):
    status_code = 503


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(KeyError("bug"), False), (BusyError(), True), (ConnectionResetError("gone"), True), (StopIteration(), False)],
)
def test_what_a_function_raises_is_a_failed_call_and_ends_no_batch(error: Exception, retryable: bool) -> None:
    def broken(messages: Any) -> NoReturn:
        raise error

    with pytest.raises(CallError, match=type(error).__name__) as caught:
        say(as_chat_model(broken))
    assert caught.value.retryable == retryable


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "3 is not a model"),
        (SimpleNamespace(complete=later), "has no name"),
        (SimpleNamespace(name="s", complete=last_words), "must be asynchronous"),
    ],
)
def test_what_is_no_model_is_refused(given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        as_chat_model(given)


def test_a_name_reaches_code_by_module_and_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zoo_models.py").write_text('def parrot(messages):\n    return messages[-1]["content"]\n')
    monkeypatch.chdir(tmp_path)
    model = open_model("zoo_models:parrot")
    assert (model.name, say(model).text) == ("zoo_models:parrot", "Hi")
    with pytest.raises(UserError, match="has no attribute 'owl'"):
        open_model("zoo_models:owl")
    (tmp_path / "mine.yaml").write_text("bird: {python: 'zoo_models:parrot'}\n")
    monkeypatch.setenv("MADKE_MODELS", "mine.yaml")
    bird = open_model("bird")
    assert (bird.name, say(bird).text) == ("bird", "Hi")


def test_what_is_no_reply_is_a_failed_call() -> None:
    with pytest.raises(CallError, match="returned int, expected a text"):
        say(as_chat_model(lambda messages: 3))
