"""What a client asks of which address."""

from __future__ import annotations

import pytest

from madke.core.errors import UserError
from madke.models.endpoint import endpoints_of
from madke.models.openai_client import AzureChat, OpenAIChat
from tests.models.wire import exchange
from tests.support.chat_requests import chat_request, said_by
from tests.support.openai_server import chat, openai_server


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
