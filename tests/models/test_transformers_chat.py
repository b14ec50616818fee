import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from madke.core.errors import CallError, UserError
from madke.models.chat_models import close, open_model
from madke.models.transformers_chat import HFChat, _Sampler
from tests.support.chat_requests import chat_request
from tests.support.installed import needs
from tests.support.tiny_model import CONTEXT, NO_SYSTEM, save_tiny_model

pytestmark = pytest.mark.slow  # importing transformers takes ten seconds
needs("torch", "offline")
needs("transformers", "offline")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def ask(path: Any, *requests: Any) -> Any:
    """The replies to concurrent requests."""

    async def all_at_once() -> Any:
        model = HFChat(path)
        try:
            return await asyncio.gather(*(model.complete(r) for r in requests), return_exceptions=True)
        finally:
            await close(model)

    return asyncio.run(all_at_once())


def greedy(text: Any, **changes: Any) -> Any:
    return chat_request(text, **{"temperature": 0.0, "max_tokens": 12, **changes})


def test_any_mix_of_settings_is_one_batch(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = ask(tiny, greedy("Name a lake."))[0].text[5]
    requests = [
        greedy("Hi", max_tokens=3),
        greedy("Name a lake.", stop=(stop,)),
        greedy("Name a lake."),
        greedy("Name a lake.", stop=("never written", stop), max_tokens=20),
        chat_request("Hi", temperature=1.0, max_tokens=20, seed=7),
        greedy("x" * 60, max_tokens=40),
    ]
    alone = [ask(tiny, each)[0] for each in requests]
    sizes: list[int] = []
    generate = HFChat._generate
    monkeypatch.setattr(HFChat, "_generate", lambda self, batch: sizes.append(len(batch)) or generate(self, batch))
    together = ask(tiny, *requests)
    assert sizes == [6]
    for one, other in zip(together, alone, strict=True):
        assert (one.text, one.finish_reason) == (other.text, other.finish_reason)
    assert together[1].text == together[3].text != together[2].text


def test_a_batch_that_finds_no_memory_fails(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import PreTrainedTokenizerBase

    def no_room(*_: Any, **__: Any) -> NoReturn:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(PreTrainedTokenizerBase, "pad", no_room)
    said = ask(tiny, greedy("1"), greedy("2"))
    assert [(type(error), error.retryable) for error in said] == [(CallError, False)] * 2
    assert "out of memory" in said[0].reason


def test_samples_follow_the_models_distribution_at_the_temperature() -> None:
    import torch

    logits = torch.tensor([[2.0, 1.0, 0.0, -float("inf")]]).repeat(4000, 1)
    requests = [chat_request(temperature=0.5, seed=seed) for seed in range(4000)]
    drawn = _Sampler(requests, "cpu")(None, logits).argmax(dim=1)
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, torch.softmax(logits[0] / 0.5, dim=0), atol=0.03)
    assert shares[3] == 0


def test_a_prompt_over_the_context_is_too_long_alone_and_with_the_figures(tiny: Any) -> None:
    long, short = ask(tiny, greedy("x" * 250), greedy("Hi"))
    assert (long.outcome, long.text) == ("too_long", "")
    assert str(CONTEXT) in long.error
    assert short.text


def test_a_model_without_a_system_role_reads_it_in_the_first_user_message(tmp_path: Path, tiny: Any) -> None:
    path = save_tiny_model(tmp_path / "nosystem", NO_SYSTEM)
    (merged,) = ask(path, greedy("Hi", system="Be brief."))
    (plain,) = ask(tiny, greedy("Be brief.\n\nHi", system=None))
    assert (merged.text, merged.usage) == (plain.text, plain.usage)


def test_a_closed_model_ends_its_batch(tiny: Any) -> None:
    async def close_at_once() -> Any:
        model = HFChat(tiny)
        asking = asyncio.create_task(model.complete(greedy("Hi")))
        await asyncio.sleep(0)
        await close(model)
        return await asking

    with pytest.raises(CallError, match="closed"):
        asyncio.run(close_at_once())


def test_open_model_says_at_once_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        open_model(f"hf/{tmp_path}")
    path = save_tiny_model(tmp_path / "base", None)
    with pytest.raises(UserError, match="no chat template"):
        open_model(f"hf/{path}")
