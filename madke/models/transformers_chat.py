"""Hugging Face models in this process, as a ChatModel; waiting requests are batched."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pickle import UnpicklingError
from typing import Any

from madke._util.assets import require
from madke._util.terminal import printed_once
from madke.core.chat import ChatRequest, Completion, Message, Usage
from madke.core.errors import CallError, UserError
from madke.models.batching import Batching
from madke.models.control_tokens import ControlTokens, looks_like_markup
from madke.models.dialect import without_system

_log = logging.getLogger(__name__)

DEFAULT_BATCH_SIZE = 16
_SYSTEM_PROBE = "madke-system-probe"


class HFChat(Batching):
    """A causal chat model from the Hugging Face Hub or a folder, in this process, for one event loop.

    One thread runs the model, see :class:`LocalModel`.

    Args:
        model: A folder, or a name on the Hub.
        device: Default: ``cuda`` if available, else ``cpu``.
        batch_size: Maximum batch size. Default: ``MADKE_HF_BATCH_SIZE``, else :data:`DEFAULT_BATCH_SIZE`.
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int | None = None) -> None:
        text = os.environ.get("MADKE_HF_BATCH_SIZE", "").strip() or str(DEFAULT_BATCH_SIZE)
        if not (text.isascii() and text.isdigit() and int(text)):
            raise UserError(f"MADKE_HF_BATCH_SIZE is {text!r}; expected a batch size, a number from 1")
        super().__init__(f"hf/{model}", batch_size or int(text))
        self._path, self._device = model, device
        self._local: LocalModel | None = None

    def load(self) -> LocalModel:
        """Load the weights now; otherwise the first request loads them."""
        if self._local is None:
            self._local = LocalModel(self._path, self._device, batch_size=self._batch_size)
        return self._local

    async def aclose(self) -> None:
        """Stop the current batch, and wait for its end."""
        if self._local is not None:
            self._local.close()
        if self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])

    async def _answer(self, requests: Sequence[ChatRequest]) -> Sequence[Completion | Exception]:
        local = await asyncio.to_thread(self.load)
        results = await asyncio.to_thread(local.generate, requests)
        self._batch_size = local.batch_size
        return results


class LocalModel:
    """A loaded model and its tokenizer. Its methods block: use it in a thread.

    Temperature 0 is greedy. At higher temperatures a reply is sampled from the whole distribution, without the top-k,
    top-p and penalties in the model's files. Each request has its own generator with the request's seed, so the other
    requests of a batch change a reply only by rounding. Code that comes with a model is never run.

    Raises:
        UserError: ``torch`` or ``transformers`` is missing, the model cannot be loaded, or has no chat template.
    """

    def __init__(self, name: str, device: str | None = None, *, batch_size: int) -> None:
        require(f"hf/{name} needs", "dense", "torch", "transformers")
        if name.endswith(".gguf"):
            raise UserError(f"hf/{name} is a GGUF file; expected a folder or a name on the Hub, or gguf/{name}")
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.batch_size = batch_size
        self._closed = threading.Event()
        printed_once("huggingface_hub")
        try:
            # By default transformers asks on the terminal whether to run a model's own code.
            self._tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left", trust_remote_code=False)
            model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", trust_remote_code=False)
        except (OSError, ValueError, RuntimeError, UnpicklingError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(f"hf/{name} cannot be loaded as a chat model: {reason}") from None
        if not self._tokenizer.chat_template:
            raise UserError(f"hf/{name} has no chat template; choose a model that is tuned for chat")
        self._model = model.to(self.device).eval()
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context: int = positions or self._tokenizer.model_max_length
        self._ends = _token_ids(model.generation_config.eos_token_id) | _token_ids(self._tokenizer.eos_token_id)
        if self._tokenizer.pad_token_id is None:
            # Padding is masked, so any token will do.
            self._tokenizer.pad_token_id = min(self._ends, default=0)
        # Of the model's own generation settings, keep only those that end a reply.
        ends, padding = sorted(self._ends) or None, self._tokenizer.pad_token_id
        model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=padding)
        added = (token for token in self._tokenizer.added_tokens_decoder.values())
        markup = {token.content for token in added if token.special or looks_like_markup(token.content)}
        self._control = ControlTokens(markup | set(self._tokenizer.all_special_tokens))
        self._takes_system = self._keeps_system_message()

    def close(self) -> None:
        """Stop the current batch at its next token; its requests fail."""
        self._closed.set()

    def generate(self, requests: Sequence[ChatRequest]) -> list[Completion | CallError]:
        """Answer requests in batches of at most ``batch_size``, which is halved when memory runs out.

        Returns:
            For each request, in order, its completion, with outcome ``too_long`` if prompt and ``max_tokens`` exceed
            the model's context; or a CallError, if memory ran out for this request alone or the model was closed.
        """
        prompts = [self._tokens(request.messages) for request in requests]
        results = [self._too_long(len(prompt), request) for prompt, request in zip(prompts, requests, strict=True)]
        left = [i for i, result in enumerate(results) if result is None]
        while left:
            rows = left[: self.batch_size]
            batch = self._generate([prompts[i] for i in rows], [requests[i] for i in rows])
            if batch is None:
                self.batch_size = max(1, len(rows) // 2)
                why = f"out of memory on {self.device} with {len(rows)} requests in a batch"
                _log.warning("%s; the batch size is now %d", why, self.batch_size)
                continue
            for i, result in zip(rows, batch, strict=True):
                results[i] = result
            left = left[len(rows) :]
        return [result for result in results if result is not None]

    def _tokens(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a prompt in the chat template, up to the start of the reply."""
        chat = [{"role": message.role, "content": self._control.escaped(message.content)} for message in messages]
        text = self._render(chat if self._takes_system else without_system(chat))
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def _render(self, chat: Sequence[Mapping[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return text

    def _keeps_system_message(self) -> bool:
        """Whether the template supports system messages: some reject them, some drop them silently."""
        from jinja2 import TemplateError

        chat = [{"role": "system", "content": _SYSTEM_PROBE}, {"role": "user", "content": "x"}]
        try:
            return _SYSTEM_PROBE in self._render(chat)
        except TemplateError:
            return False

    def _generate(self, prompts: list[list[int]], requests: list[ChatRequest]) -> list[Completion | CallError] | None:
        """Run one batch; None if memory ran out and a smaller batch may fit."""
        import torch

        try:
            batch = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(self.device)
            width = batch["input_ids"].shape[1]
            ends = _RowEnds(self._tokenizer, width, requests, self._closed)
            with torch.inference_mode():
                output = self._model.generate(
                    **batch,
                    max_new_tokens=max(r.max_tokens for r in requests),
                    do_sample=False,
                    logits_processor=[_Sampler(requests, self.device)],
                    stopping_criteria=[ends],
                )
        except RuntimeError as error:
            # Without a GPU, running out of memory is a plain RuntimeError.
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            if len(requests) > 1:
                return None
            return [CallError(f"out of memory on {self.device} with one request", retryable=False)]
        if self._closed.is_set():
            return [CallError("the model was closed", retryable=False) for _ in requests]
        return [
            self._read(row[width : width + length], len(prompt), request.stop)
            for row, length, prompt, request in zip(output.tolist(), ends.lengths, prompts, requests, strict=True)
        ]

    def _read(self, tokens: list[int], prompt_tokens: int, stop: tuple[str, ...]) -> Completion:
        # Rows shorter than the longest of the batch end with padding.
        ends = self._ends | {self._tokenizer.pad_token_id}
        length = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        text = self._tokenizer.decode(tokens[:length], skip_special_tokens=True)
        cut = min((at for s in stop if (at := text.find(s)) >= 0), default=None)
        ended = length < len(tokens) or cut is not None
        text = text[:cut].strip()
        return Completion(
            text=text,
            finish_reason="stop" if ended else "length",
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=length),
        )

    def _too_long(self, tokens: int, request: ChatRequest) -> Completion | CallError | None:
        if tokens + request.max_tokens <= self._context:
            return None
        limits = f"max_tokens is {request.max_tokens}, the context {self._context}"
        error = f"the prompt has {tokens} tokens, {limits}"
        return Completion(outcome="too_long", error=error, finish_reason="error")


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


class _RowEnds:
    """Ends each row at its own ``max_tokens`` or stop string; ``lengths`` holds the number of tokens of each reply."""

    def __init__(self, tokenizer: Any, width: int, requests: Sequence[ChatRequest], closed: threading.Event) -> None:
        self.lengths = [request.max_tokens for request in requests]
        self._tokenizer = tokenizer
        self._width = width
        self._stops = {row: request.stop for row, request in enumerate(requests) if request.stop}
        # A token is at least one byte of text. The first tokens of a slice may decode differently than in context.
        self._tails = {row: max(len(s.encode()) for s in stop) + 8 for row, stop in self._stops.items()}
        self._closed = closed

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        written = input_ids.shape[1] - self._width
        for row, stop in list(self._stops.items()):
            tail = input_ids[row, self._width :][-self._tails[row] :]
            text = self._tokenizer.decode(tail, skip_special_tokens=True)
            if any(s in text for s in stop):
                self.lengths[row] = min(self.lengths[row], written)
                del self._stops[row]
        ended = [self._closed.is_set() or written >= length for length in self.lengths]
        return torch.tensor(ended, device=input_ids.device)


def _token_ids(value: int | list[int] | None) -> set[int]:
    return set() if value is None else {value} if isinstance(value, int) else set(value)
