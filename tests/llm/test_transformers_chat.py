import asyncio
from dataclasses import replace

import pytest

from madke.core.errors import CallError, UserError
from madke.llm import HFChat, close, open_model
from tests.support.chat_requests import chat_request, purpose

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
CONTEXT = 256


def save_tiny_model(folder, template=TEMPLATE):
    """A chat model of two layers with random weights, over single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", chat_template=template)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        initializer_range=0.4,  # far from uniform, so that greedy choices have a margin
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    # Settings that published models bring along: ours must win.
    model.generation_config.update(top_k=1, repetition_penalty=3.0, do_sample=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def ask(path, *requests, batch_size=8):
    """The replies to concurrent requests."""

    async def all_at_once():
        model = HFChat(path, device="cpu", batch_size=batch_size)
        try:
            return await asyncio.gather(*(model.complete(r) for r in requests), return_exceptions=True)
        finally:
            await close(model)

    return asyncio.run(all_at_once())


def greedy(text, **changes):
    return chat_request(text, **{"temperature": 0.0, "max_tokens": 12, **changes})


PROMPTS = ["Hi", "How deep is Lake Baikal, in metres?", "Name a lake.", "x" * 60, "Yes or no?"]


def test_batched_replies_are_those_of_single_calls(tiny):
    requests = [greedy(text) for text in PROMPTS]
    together = ask(tiny, *requests)
    alone = ask(tiny, *requests, batch_size=1)
    assert [said.text for said in together] == [said.text for said in alone]
    assert [said.usage for said in together] == [said.usage for said in alone]
    assert len({said.text for said in together}) > 1


def test_usage_counts_the_models_own_tokens(tiny):
    (said,) = ask(tiny, greedy("Hi", system=None))
    assert said.usage.prompt_tokens == len("<|user|>Hi<|assistant|>") + 1
    assert 0 < said.usage.completion_tokens <= 12
    assert not said.usage.estimated


def test_requests_with_other_settings_and_full_batches_are_all_answered(tiny):
    requests = [greedy(f"{i}", max_tokens=4 + i % 2) for i in range(7)]
    together = ask(tiny, *requests, batch_size=2)
    assert [said.text for said in together] == [said.text for said in ask(tiny, *requests, batch_size=1)]


def test_waiting_requests_share_a_batch(tiny, monkeypatch):
    from madke.llm.local_model import LocalModel

    sizes = []
    generate = LocalModel.generate
    monkeypatch.setattr(LocalModel, "generate", lambda self, rs: sizes.append(len(rs)) or generate(self, rs))
    ask(tiny, *[greedy(str(i), max_tokens=2) for i in range(10)])
    assert sizes == [8, 2]


def test_a_seed_fixes_a_sample_whatever_shares_its_batch(tiny):
    seeded = chat_request("Hi", temperature=1.0, max_tokens=12, seed=7)
    others = [replace(seeded, seed=seed, purpose=purpose(sample=seed)) for seed in (1, 2, 3)]
    alone = ask(tiny, seeded)[0].text
    together = [said.text for said in ask(tiny, *others, seeded)]
    assert together[-1] == alone
    assert len(set(together)) > 1


def test_without_a_seed_samples_differ(tiny):
    request = chat_request("Hi", temperature=1.0, max_tokens=20)
    assert len({said.text for said in ask(tiny, request, request, request)}) > 1


def test_samples_follow_the_models_distribution_at_the_temperature():
    from madke.llm.local_model import _Sampler

    logits = torch.tensor([[2.0, 1.0, 0.0, -float("inf")]]).repeat(4000, 1)
    drawn = _Sampler(0.5, list(range(4000)), "cpu")(None, logits).argmax(dim=1)
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, torch.softmax(logits[0] / 0.5, dim=0), atol=0.03)
    assert shares[3] == 0


def test_a_stop_string_ends_the_reply_and_is_left_out(tiny):
    whole = ask(tiny, greedy("Name a lake."))[0].text
    mark = whole[5]
    (said,) = ask(tiny, greedy("Name a lake.", stop=(mark,)))
    assert said.text == whole[: whole.index(mark)].strip()
    assert said.finish_reason == "stop"
    assert said.usage.completion_tokens < 12


def test_a_reply_cut_at_max_tokens_says_so(tiny):
    (said,) = ask(tiny, greedy("Hi", max_tokens=3))
    assert (said.finish_reason, said.usage.completion_tokens) == ("length", 3)


def test_a_prompt_over_the_context_is_too_long_alone_and_with_the_figures(tiny):
    long, short = ask(tiny, greedy("x" * 250), greedy("Hi"))
    assert (long.outcome, long.text) == ("too_long", "")
    assert str(CONTEXT) in long.error
    assert short.text


def test_the_context_ends_where_prompt_and_reply_together_fill_it(tiny):
    (first,) = ask(tiny, greedy("x", max_tokens=1))
    room = CONTEXT - first.usage.prompt_tokens
    fits, too_long = ask(tiny, greedy("x", max_tokens=room), greedy("x", max_tokens=room + 1))
    assert (fits.outcome, too_long.outcome) == ("ok", "too_long")


def test_a_model_without_a_system_role_reads_it_in_the_first_user_message(tmp_path, tiny):
    path = save_tiny_model(tmp_path / "nosystem", NO_SYSTEM)
    (merged,) = ask(path, greedy("Hi", system="Be brief."))
    (plain,) = ask(tiny, greedy("Be brief.\n\nHi", system=None))
    assert (merged.text, merged.usage) == (plain.text, plain.usage)


def test_a_bug_in_generation_reaches_every_caller(tiny, monkeypatch):
    from madke.llm.local_model import LocalModel

    def broken(self, requests):
        raise ZeroDivisionError

    monkeypatch.setattr(LocalModel, "generate", broken)
    said = ask(tiny, greedy("1"), greedy("2"))
    assert [type(result) for result in said] == [ZeroDivisionError] * 2


def test_a_closed_model_ends_its_batch(tiny):
    async def close_at_once():
        model = HFChat(tiny, device="cpu")
        model.load().close()
        return await model.complete(greedy("Hi"))

    with pytest.raises(CallError, match="closed"):
        asyncio.run(close_at_once())


def test_open_model_says_at_once_what_cannot_be_loaded(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        open_model(f"hf/{tmp_path}")
    path = save_tiny_model(tmp_path / "base", None)
    with pytest.raises(UserError, match="no chat template"):
        open_model(f"hf/{path}")
