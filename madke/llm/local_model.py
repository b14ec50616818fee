"""A causal chat model in this process: requests in batches through ``transformers``."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.errors import CallError, UserError

_PROBE = "madke-system-probe"


class LocalModel:
    """A loaded model and its tokenizer. It blocks: use it in a thread.

    Temperature 0 is greedy. Above it, each reply is drawn from the whole distribution at that temperature; top-k,
    top-p and penalties that the model's files suggest are not applied, so that ``temperature`` means what it means
    for a server. Each reply has a random generator of its own, seeded with the request's seed: which requests share
    a batch changes a reply no more than the rounding of batched arithmetic does.

    Args:
        name: A folder, or a name on the Hugging Face Hub.
        device: ``cuda``, ``cpu``, ...; by default ``cuda`` where there is one.

    Raises:
        UserError: ``torch`` or ``transformers`` is missing, the model cannot be loaded, or has no chat template.
    """

    def __init__(self, name: str, device: str | None = None) -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
        except ImportError as error:
            raise UserError(f"hf/{name} needs the package {error.name}: install madke[dense]") from None
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
            model = AutoModelForCausalLM.from_pretrained(name, dtype="auto")
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(f"hf/{name} cannot be loaded as a chat model: {reason}") from None
        if not self._tokenizer.chat_template:
            raise UserError(f"hf/{name} has no chat template; choose a model that was tuned for chat")
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = model.to(self.device).eval()
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context: int = positions or self._tokenizer.model_max_length
        self._ends = _token_ids(model.generation_config.eos_token_id) | _token_ids(self._tokenizer.eos_token_id)
        if self._tokenizer.pad_token_id is None:
            # Padding is masked, so any token will do.
            self._tokenizer.pad_token_id = min(self._ends, default=0)
        # Only what ends a reply is kept of the model's own generation settings.
        model.generation_config = GenerationConfig(
            eos_token_id=sorted(self._ends) or None, pad_token_id=self._tokenizer.pad_token_id
        )
        self._takes_system = self._keeps_system_message()
        self._closed = threading.Event()

    def close(self) -> None:
        """End the batch under way at its next token; its requests fail."""
        self._closed.set()

    def generate(self, requests: Sequence[ChatRequest]) -> list[Completion | CallError]:
        """Answer requests that have temperature, ``max_tokens`` and stop strings in common.

        Returns:
            For each request, in order, its completion, ``too_long`` where prompt and ``max_tokens`` do not fit in the
            model's context; or, not retryable, why there is none: memory ran out, or the model was closed. Usage
            counts the model's own tokens, end markers left out.
        """
        prompts = [self._tokenizer(self._prompt(r), add_special_tokens=False)["input_ids"] for r in requests]
        results: list[Completion | CallError | None] = [
            self._too_long(len(prompt), request) for prompt, request in zip(prompts, requests, strict=True)
        ]
        rows = [i for i, result in enumerate(results) if result is None]
        if rows:
            generated = self._generate([prompts[i] for i in rows], [requests[i] for i in rows])
            for i, result in zip(rows, generated, strict=True):
                results[i] = result
        return [result for result in results if result is not None]

    def _generate(self, prompts: list[list[int]], requests: list[ChatRequest]) -> list[Completion | CallError]:
        import torch

        shared = requests[0]
        options: dict[str, Any] = {"max_new_tokens": shared.max_tokens, "do_sample": False}
        if shared.temperature > 0:
            options["logits_processor"] = [_Sampler(shared.temperature, [r.seed for r in requests], self.device)]
        if shared.stop:
            options |= {"stop_strings": list(shared.stop), "tokenizer": self._tokenizer}
        started = time.monotonic()
        try:
            batch = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(self.device)
            with torch.inference_mode():
                output = self._model.generate(**batch, stopping_criteria=[_WhenSet(self._closed)], **options)
        except torch.OutOfMemoryError:
            reason = f"out of memory on {self.device} with {len(requests)} requests in a batch"
            return [CallError(reason, retryable=False) for _ in requests]
        seconds = time.monotonic() - started
        if self._closed.is_set():
            return [CallError("the model was closed", retryable=False) for _ in requests]
        width = batch["input_ids"].shape[1]
        return [
            self._read(row[width:], len(prompt), shared.stop, seconds)
            for row, prompt in zip(output.tolist(), prompts, strict=True)
        ]

    def _read(self, tokens: list[int], prompt_tokens: int, stop: tuple[str, ...], seconds: float) -> Completion:
        # A row that ended before the longest of its batch is filled up with padding.
        ends = self._ends | {self._tokenizer.pad_token_id}
        length = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        text = self._tokenizer.decode(tokens[:length], skip_special_tokens=True)
        cut = min((at for s in stop if (at := text.find(s)) >= 0), default=None)
        ended = length < len(tokens) or cut is not None
        text = text[:cut].strip()
        return Completion(
            text=text,
            outcome="ok" if text else "empty",
            error=None if text else "the model wrote nothing",
            finish_reason="stop" if ended else "length",
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=length),
            seconds=seconds,
        )

    def _too_long(self, prompt_tokens: int, request: ChatRequest) -> Completion | None:
        if prompt_tokens + request.max_tokens <= self._context:
            return None
        error = (
            f"the prompt has {prompt_tokens} tokens and the reply may have {request.max_tokens}, "
            f"but the model's context holds {self._context}"
        )
        return Completion(outcome="too_long", error=error, finish_reason="error")

    def _prompt(self, request: ChatRequest) -> str:
        messages: list[tuple[str, str]] = [(message.role, message.content) for message in request.messages]
        if not self._takes_system:
            messages = _merged(messages)
        return self._render(messages)

    def _render(self, messages: Sequence[tuple[str, str]]) -> str:
        chat = [{"role": role, "content": content} for role, content in messages]
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return text

    def _keeps_system_message(self) -> bool:
        """Whether the template has a place for it: some refuse it, some drop it without a word."""
        from jinja2 import TemplateError

        try:
            return _PROBE in self._render([("system", _PROBE), ("user", "x")])
        except TemplateError:
            return False


class _Sampler:
    """Makes the greedy choice a draw: the largest of logits / T plus Gumbel noise is a sample of softmax(logits / T).

    The noise of a row comes from that row's generator alone.
    """

    def __init__(self, temperature: float, seeds: Sequence[int | None], device: str) -> None:
        import torch

        self._temperature = temperature
        self._generators = [torch.Generator(device) for _ in seeds]
        for generator, seed in zip(self._generators, seeds, strict=True):
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(seed)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        noise = torch.empty(scores.shape, device=scores.device, dtype=torch.float32)
        for row, generator in zip(noise, self._generators, strict=True):
            row.exponential_(generator=generator)
        # -log of an exponential variable is Gumbel. A zero would make a token certain.
        return scores.float() / self._temperature - noise.clamp_min(1e-30).log()


class _WhenSet:
    """Ends every row when the event is set."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        return torch.full((input_ids.shape[0],), self._event.is_set(), device=input_ids.device)


def _merged(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The messages with the system texts at the head of the first user message."""
    system = [content for role, content in messages if role == "system"]
    rest = [(role, content) for role, content in messages if role != "system"]
    first = next((i for i, (role, _) in enumerate(rest) if role == "user"), None)
    if not system or first is None:
        return rest or [("user", "\n\n".join(system))]
    rest[first] = ("user", "\n\n".join([*system, rest[first][1]]))
    return rest


def _token_ids(value: int | list[int] | None) -> set[int]:
    return set() if value is None else {value} if isinstance(value, int) else set(value)
