from contextlib import suppress
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.models.chat_models import HumanChat, open_model
from madke.models.model_names import MODEL_KINDS
from madke.models.openai_client import AzureChat, OpenAIChat
from madke.models.scripted import ScriptedChat
from madke.models.transformers_chat import HFChat


@pytest.fixture(autouse=True)
def azure_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)


def test_each_name_opens_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key")
    (tmp_path / "s.yaml").write_text("- reply: hello\n")
    assert isinstance(open_model("openai/org/model", base_url="http://localhost:8000/v1"), OpenAIChat)
    assert isinstance(open_model("azure/my-gpt", base_url="https://me.openai.azure.com"), AzureChat)
    assert isinstance(open_model(f"scripted/{tmp_path}/s.yaml"), ScriptedChat)
    assert isinstance(open_model("human"), HumanChat)
    assert open_model("openai/org/model", base_url="http://localhost:8000/v1").name == "openai/org/model"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opnai/gpt-4o", "did you mean 'openai'"),
        ("gpt-4o-mini", "unknown model 'gpt-4o-mini'; did you mean openai/gpt-4o-mini"),
        ("llama3:8b", "did you mean openai/llama3:8b"),
        ("house-model-7b", "unknown model 'house-model-7b'; did you mean openai/house-model-7b"),
        ("ofline", "did you mean 'offline'"),
        ("nothing", f"known: {', '.join(sorted(MODEL_KINDS))}"),
        ("", "unknown model ''"),
        ("openai", "expected openai/NAME"),
        ("openai/", "expected openai/NAME"),
        ("human/me", "expected human"),
        ("openai/gpt-4o", "OPENAI_API_KEY is not set"),
        ("azure/d", "AZURE_OPENAI_ENDPOINT"),
        ("scripted/no/such.yaml", "no/such.yaml"),
    ],
)
def test_a_name_that_opens_nothing_says_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_model(name)


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_each_kind_is_opened_by_its_form_and_by_no_other(kind: str) -> None:
    form = MODEL_KINDS[kind].form
    with suppress(UserError):  # no such file, or no address
        assert open_model(form, replay=True).name
    with pytest.raises(UserError, match=f"expected {form}"):
        open_model(kind if "/" in form else f"{kind}/name", replay=True)


def test_a_base_url_is_only_for_models_that_have_an_endpoint() -> None:
    with pytest.raises(UserError, match="no endpoint"):
        open_model("human", base_url="http://localhost/v1")


def test_replay_needs_neither_key_nor_weights() -> None:
    assert open_model("openai/gpt-4o", replay=True).name == "openai/gpt-4o"
    assert isinstance(open_model("hf/no/such-model", replay=True), HFChat)
