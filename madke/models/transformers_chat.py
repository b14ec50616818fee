"""Hugging Face models in this process, as a ChatModel; waiting requests are batched."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pickle import UnpicklingError
from typing import Any

from madke._util.assets import require
from madke._util.terminal import printed_once
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError
from madke.models.dialect import without_system
from madke.models.services import Batching

_SYSTEM_PROBE = "madke-system-probe"


class HFChat(Batching):
    """A causal chat model from the Hugging Face Hub or a folder, in this process, for one event loop.

    Temperature 0 is greedy. At higher temperatures a reply is sampled from the whole distribution, without the top-k,
    top-p and penalties in the model's files. Each request has its own generator with the request's seed, so the other
    requests of a batch change a reply only by rounding. All calls in flight are one batch. Code that comes with a
    model is never run.

    Args:
        model: A folder, or a name on the Hub.
    """

    def __init__(self, model: str) -> None:
        super().__init__(f"hf/{model}")
        self._path = model
        self._model: Any = None
        self._closed = threading.Event()

    def load(self) -> None:
        """Load the weights now; otherwise the first request does.

        Raises:
            UserError: ``torch`` or ``transformers`` is missing, the model cannot be loaded, or has no chat template.
        """
        if self._model is not None:
            return
        require(f"{self.name} needs", "dense", "torch", "transformers")
        if self._path.endswith(".gguf"):
            raise UserError(f"{self.name} is a GGUF file; expected a folder or a name on the Hub, or gguf/{self._path}")
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

        printed_once("huggingface_hub")
        try:
            # By default transformers asks on the terminal whether to run a model's own code.
            tokenizer = AutoTokenizer.from_pretrained(self._path, padding_side="left", trust_remote_code=False)
            model = AutoModelForCausalLM.from_pretrained(self._path, dtype="auto", trust_remote_code=False)
        except (OSError, ValueError, RuntimeError, UnpicklingError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(f"{self.name} cannot be loaded as a chat model: {reason}") from None
        if not tokenizer.chat_template:
            raise UserError(f"{self.name} has no chat template; choose a model that is tuned for chat")
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        ends = _token_ids(model.generation_config.eos_token_id) | _token_ids(tokenizer.eos_token_id)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token_id = min(ends, default=0)  # padding is masked, so any token will do
        # Of the model's own generation settings, keep only those that end a reply.
        padding = tokenizer.pad_token_id
        model.generation_config = GenerationConfig(eos_token_id=sorted(ends) or None, pad_token_id=padding)
        self._ends = ends | {padding}  # rows shorter than the longest of the batch end with padding
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context: int = positions or tokenizer.model_max_length
        added = (token for token in tokenizer.added_tokens_decoder.values())
        markup = {token.content for token in added if token.special or looks_like_markup(token.content)}
        self._control = ControlTokens(markup | set(tokenizer.all_special_tokens))
        self._render = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
        self._takes_system = _keeps_system_message(self._render)
        self._tokenizer, self._model = tokenizer, model.to(self._device).eval()

    async def aclose(self) -> None:
        """Stop the current batch at its next token, and wait for its end; its requests fail."""
        self._closed.set()
        if self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])

    async def _answer(self, requests: Sequence[ChatRequest]) -> Sequence[Completion | Exception]:
        return await asyncio.to_thread(self._answers, requests)

    def _answers(self, requests: Sequence[ChatRequest]) -> list[Completion | Exception]:
        """The completion of each request; ``too_long`` if prompt and ``max_tokens`` exceed the model's context."""
        self.load()
        batch = [(self._tokens(request), request) for request in requests]
        fitting = [(tokens, each) for tokens, each in batch if len(tokens) + each.max_tokens <= self._context]
        generated = iter(self._generate(fitting) if fitting else ())
        results: list[Completion | Exception] = []
        for tokens, request in batch:
            if len(tokens) + request.max_tokens <= self._context:
                results.append(next(generated))
            else:
                limits = f"max_tokens is {request.max_tokens}, the context {self._context}"
                error = f"the prompt has {len(tokens)} tokens, {limits}"
                results.append(Completion(outcome="too_long", error=error, finish_reason="error"))
        return results

    def _tokens(self, request: ChatRequest) -> list[int]:
        """The tokens of a prompt in the chat template, up to the start of the reply."""
        chat = [{"role": each.role, "content": self._control.escape(each.content)} for each in request.messages]
        text = self._render(chat if self._takes_system else without_system(chat))
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def _generate(self, batch: Sequence[tuple[list[int], ChatRequest]]) -> Sequence[Completion | Exception]:
        import torch

        prompts, requests = [prompt for prompt, _ in batch], [request for _, request in batch]
        try:
            padded = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(self._device)
            with torch.inference_mode():
                output = self._model.generate(
                    **padded,
                    max_new_tokens=max(request.max_tokens for request in requests),
                    do_sample=False,
                    logits_processor=[_Sampler(requests, self._device)],
                    stopping_criteria=[lambda ids, scores, **_: torch.full((len(ids),), self._closed.is_set())],
                )
        except torch.OutOfMemoryError:
            why = f"out of memory on {self._device} with {len(batch)} calls at a time; lower --concurrency"
            return [CallError(why, retryable=False) for _ in batch]
        if self._closed.is_set():
            return [CallError("the model was closed", retryable=False) for _ in batch]
        width = padded["input_ids"].shape[1]
        return [self._read(row[width:], len(prompt), each) for row, (prompt, each) in zip(output, batch, strict=True)]

    def _read(self, row: Any, prompt_tokens: int, request: ChatRequest) -> Completion:
        tokens: list[int] = row[: request.max_tokens].tolist()
        length = next((n for n, token in enumerate(tokens) if token in self._ends), len(tokens))
        text = self._tokenizer.decode(tokens[:length], skip_special_tokens=True)
        cut = min((at for stop in request.stop if (at := text.find(stop)) >= 0), default=None)
        return Completion(
            text=text[:cut].strip(),
            finish_reason="stop" if length < len(tokens) or cut is not None else "length",
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=length),
        )


class _Sampler:
    """Samples by greedy choice: the maximum of logits / T plus Gumbel noise is a sample of softmax(logits / T)."""

    def __init__(self, requests: Sequence[ChatRequest], device: str) -> None:
        import torch

        divisors = [[r.temperature if r.temperature > 0 else 1.0] for r in requests]
        self._temperatures = torch.tensor(divisors, device=device)
        self._generators: list[Any] = []
        for request in requests:
            generator = torch.Generator(device)
            generator.manual_seed(generator.seed() if request.seed is None else request.seed)
            self._generators.append(generator if request.temperature > 0 else None)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        noise = torch.zeros(scores.shape, device=scores.device, dtype=torch.float32)
        for row, generator in zip(noise, self._generators, strict=True):
            if generator is not None:
                # -log of an exponential variable is Gumbel. Clamped, since a zero would make a token certain.
                row.exponential_(generator=generator).clamp_min_(1e-30).log_()
        return scores.float() / self._temperatures - noise


def _keeps_system_message(render: Any) -> bool:
    """Whether the template supports system messages: some reject them, some drop them silently."""
    from jinja2 import TemplateError

    chat: Sequence[Mapping[str, str]]
    chat = [{"role": "system", "content": _SYSTEM_PROBE}, {"role": "user", "content": "x"}]
    try:
        return _SYSTEM_PROBE in render(chat)
    except TemplateError:
        return False


def _token_ids(value: int | list[int] | None) -> set[int]:
    return set() if value is None else {value} if isinstance(value, int) else set(value)


def looks_like_markup(token: str) -> bool:
    """Whether a token that is not declared as special may still be one (``<think>``, ``[INST]``)."""
    return re.fullmatch(r"<\S+>|\[\S+\]", token) is not None


class ControlTokens:
    """The control tokens of a model (``<|im_end|>``). Text that spells one is made plain before a template is used.

    Messages contain text from the web and from other models. A control token in it would end the message.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        # Spaces around a token do not matter once the rest is split. A single character cannot be split.
        texts = sorted({bare for t in tokens if len(bare := t.strip()) > 1}, key=lambda t: (-len(t), t))
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def escape(self, text: str) -> str:
        """The text with a space after the first character of each control token."""
        # Repeat, since escaping one token can expose another.
        while self._pattern is not None and self._pattern.search(text):
            text = self._pattern.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        return text
