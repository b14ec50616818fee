"""Addresses, keys and limits of models: OpenAI, Azure, models.yaml, openai/NAME@URL, and what is asked of whom."""

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.models import endpoint
from madke.models.chat_models import open_model
from madke.models.endpoint import endpoints_of, read_models, refuse_unreachable
from madke.models.limiter import Limits
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.scripted import ScriptedChat
from madke.runs.spec import open_models
from tests.models.wire import exchange
from tests.support.chat_requests import chat_request, said_by
from tests.support.loopback import QuietHandler, serving
from tests.support.openai_server import chat, openai_server

KEY, OTHER = "sk-first-31415926", "sk-second-27182818"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "MADKE_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("JUDGE_KEY", OTHER)


def ask(*models: Any) -> Any:
    return [said_by(model, chat_request())[0] for model in models]


def named(tmp_path: Path, text: Any) -> Any:
    (tmp_path / "mine.yaml").write_text(text)
    return read_models(tmp_path / "mine.yaml")


def test_the_request_holds_what_was_asked_and_nothing_that_was_not() -> None:
    done = exchange(chat(), chat_request("Hi"), chat_request("Hi", seed=0, stop=("END",)))
    plain = {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 64,
        "temperature": 0.5,
    }
    assert done.bodies == [plain, {**plain, "seed": 0, "stop": ["END"]}]
    assert done.server.requests[0].path == "/v1/chat/completions"


def test_the_name_has_no_address_and_no_address_has_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIChat("m", base_url="http://host:1/v1/").name == "openai/m"
    for secret in ("http://me:pw@host:1/v1", "http://host:1/v1?k=pw"):
        with pytest.raises(UserError, match="'http://host:1/v1', must have no user, password or query"):
            OpenAIChat("m", base_url=secret)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    assert endpoints_of([OpenAIChat("m")]) == {"openai/m": {"address": "http://other/v1", "dialect": {}}}


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[1"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="expected a URL"):
        OpenAIChat("m", base_url=url)


def test_azure_is_asked_at_its_deployment_with_its_key_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "canary-7f3a9c")
    monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)
    with openai_server(chat("from Azure")) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url.removesuffix("/v1"))
        model = AzureChat("my-gpt")
        (said,) = said_by(model, chat_request())
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01-preview")
        said_by(AzureChat("my-gpt"), chat_request())
        seen, chosen = server.requests
    assert (model.name, said.text) == ("azure/my-gpt", "from Azure")
    assert seen.path == "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    assert chosen.path.endswith("?api-version=2025-01-01-preview")
    assert seen.headers["api-key"] == "canary-7f3a9c"
    assert "authorization" not in seen.headers


def test_an_entry_says_where_and_how_a_model_is_asked(tmp_path: Path) -> None:
    with openai_server(chat("mine")) as server:
        models = named(
            tmp_path,
            f"judge-model:\n  base_url: {server.url}\n  model: org/Judge-7B\n  key: JUDGE_KEY\n  timeout: 9\n"
            "  concurrency: 3\n  headers: {X-Team: JUDGE_KEY}\n  extra_body: {top_k: 5}\n"
            "  dialect: {max_tokens: max_completion_tokens}\n  price: {prompt: 1, completion: 2}\n",
        )
        model = open_model("judge-model", models=models)
        (said,) = ask(model)
        (seen,) = server.requests
    assert (said.text, model.name) == ("mine", "judge-model")
    assert (seen.body["model"], seen.body["top_k"], seen.body["max_completion_tokens"]) == ("org/Judge-7B", 5, 64)
    assert (seen.headers["authorization"], seen.headers["x-team"]) == (f"Bearer {OTHER}", OTHER)
    assert Limits(16).of(model).limit == 3
    assert models.entries["judge-model"].price.completion == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n  base_urll: http://x/v1\n", "mine.yaml:2: a: unknown key 'base_urll'; did you mean 'base_url'"),
        ("a:\n  key: sk-12345678\n", "expected the name of an environment variable, never the key itself"),
        ("a:\n  extra_body: {messages: []}\n", "'messages' is set by the protocol"),
        ("a:\n  python: m:f\n  base_url: http://x/v1\n", "an entry with python takes only"),
        ("openai/gpt-4o:\n  rpm: 5\n", "mine.yaml:1: 'openai/gpt-4o' cannot name a model"),
    ],
)
def test_what_is_wrong_in_models_yaml_is_told_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        named(tmp_path, text)
    assert "sk-1234" not in str(caught.value)


def test_the_file_is_named_or_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.yaml").write_text("fast: {base_url: 'http://localhost:1/v1'}\n")
    assert read_models().entries == {}
    monkeypatch.setenv("MADKE_MODELS", str(tmp_path / "elsewhere.yaml"))
    assert (list(read_models().entries), read_models().named) == (["fast"], True)
    monkeypatch.delenv("MADKE_MODELS")
    (tmp_path / "models.yaml").write_text("near: {base_url: 'http://localhost:1/v1'}\n")
    assert (list(read_models().entries), read_models().named) == (["near"], False)
    assert open_model("near").name == "near"


@pytest.mark.parametrize("text", ["key: JUDGE_KEY", "headers: {X: JUDGE_KEY}", "python: my_models:make"])
def test_a_file_that_nobody_named_takes_no_key_and_runs_no_code(tmp_path: Path, text: str) -> None:
    (tmp_path / "my_models.py").write_text("raise SystemExit('ran')\n")
    (tmp_path / "models.yaml").write_text(f"evil:\n  {text}\n")
    with pytest.raises(UserError, match=r"models.yaml:1: evil: \w+ is allowed only in a file that you name"):
        open_model("evil")
    assert open_model("offline")  # others are not disturbed


def test_a_file_that_nobody_named_sends_no_key_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with openai_server(chat()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        other = server.url.replace("/v1", "/other-tenant/v1")
        (tmp_path / "models.yaml").write_text(f"a: {{base_url: '{other}'}}\nb: {{base_url: '{server.url}'}}\n")
        ask(open_model("a"), open_model("b"))
        assert [seen.headers["authorization"] for seen in server.requests] == ["Bearer no-key", f"Bearer {KEY}"]


def test_keys_never_cross_to_another_address() -> None:
    with openai_server(chat("one")) as one, openai_server(chat("two")) as two:
        base, judge = open_model("openai/m", base_url=one.url), open_model(f"openai/j@{two.url}", base_url=one.url)
        same = open_model(f"openai/k@{one.url}", base_url=one.url)
        assert [said.text for said in ask(base, judge, same)] == ["one", "two", "one"]
        assert [seen.headers["authorization"] for seen in one.requests] == [f"Bearer {KEY}"] * 2
        assert [seen.headers["authorization"] for seen in two.requests] == ["Bearer no-key"]
        assert KEY not in str(two.requests[0])
    assert [model.name for model in (base, judge, same)] == ["openai/m", "openai/j", "openai/k"]
    with pytest.raises(UserError, match="expected azure/DEPLOYMENT"):
        open_model("azure/d@https://other.example")


def test_openai_itself_gets_its_key_only_as_the_base_url() -> None:
    assert open_model("openai/gpt-4o")
    with pytest.raises(UserError, match="gets OPENAI_API_KEY only if it is the base URL too"):
        open_model("openai/gpt-4o@https://api.openai.com/v1", base_url="http://localhost:1/v1")


def test_a_server_that_is_not_there_is_found_at_once() -> None:
    with socket.socket() as taken:  # nobody listens
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        began = time.monotonic()
        with pytest.raises(UserError, match=f"the endpoint of openai/m, {dead}, cannot be reached: .*refused"):
            open_models({"judge": "openai/m"}, base_url=dead)
        assert time.monotonic() - began < 5
        assert open_models({"judge": "openai/m"}, base_url=dead, replay=True)


def test_any_http_answer_and_slowness_too_show_that_a_server_is_there() -> None:
    with openai_server(chat()) as server, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        slow = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        refuse_unreachable([OpenAIChat("m", base_url=server.url), OpenAIChat("n", base_url=slow), ScriptedChat([])])
        assert server.requests == []  # it knows no GET: status 501 is an answer


def test_endpoints_are_probed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_ANSWER_SECONDS", 20.0)
    together = threading.Barrier(2)

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            together.wait(5)
            self.answer(200, {}, b"{}")

    with serving(Handler) as one, serving(Handler) as two:
        refuse_unreachable([OpenAIChat("m", base_url=one), OpenAIChat("n", base_url=two)])


def test_limits_are_each_endpoints_own() -> None:
    limits = Limits(16)
    one, two = OpenAIChat("a", base_url="http://one/v1"), OpenAIChat("b", base_url="http://two/v1")
    here = ScriptedChat([])
    assert limits.of(one) is limits.of(OpenAIChat("c", base_url="http://one/v1"))
    assert limits.of(one) is not limits.of(two)
    assert limits.of(here) is limits.of(ScriptedChat([])) is not limits.of(one)


@pytest.mark.parametrize("value", [f'"{KEY}"', f" '{KEY}'\r\n", f"{KEY}\n"])
def test_a_key_in_quotes_or_with_a_line_end_works(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert exchange(chat()).server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("value", [f"{KEY}\n{OTHER}", f"“{KEY}”", f'"{KEY}', "sk-\x00abcdefgh"])
def test_a_key_that_cannot_be_one_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "OPENAI_API_KEY": value})
    with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
        OpenAIChat("m", base_url="http://127.0.0.1:9/v1")
    assert KEY not in str(caught.value)


def test_certificates_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with openai_server(chat("yes")) as server:
        model = OpenAIChat("m", base_url=server.url)
        for call in (ask, lambda model: refuse_unreachable([model])):
            with pytest.raises(UserError, match=r"SSL_CERT_FILE is '/nowhere/ca.pem', and there is no such file"):
                call(model)
        assert not server.requests
