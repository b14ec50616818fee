"""Sentence encoders behind an OpenAI-compatible ``/embeddings`` endpoint: OpenAI, vLLM, TEI, Ollama.

Their names are ``openai/NAME``, ``openai/NAME@URL``, or an entry of ``models.yaml``; a folder of that name takes
precedence. The calls have the keys, limits and retries of chat models.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from madke._util.concurrency import finished, gather
from madke.core.addresses import bare_url, public_url
from madke.core.chat import ChatRequest, Completion, Message, Purpose
from madke.core.errors import CallError, UserError
from madke.encoding import encoders
from madke.encoding.encoders import AS_STORED, Dtype, Encoder, Encoding, Similarity, encoding_of, titled_text
from madke.models.dialect import Dialect
from madke.models.endpoint import OPENAI_URL, checked_url, origin, read_models
from madke.models.limiter import Limited, Limits
from madke.models.model_names import split_address
from madke.models.openai_client import OpenAIChat
from madke.models.openai_wire import parsed, provider_usage
from madke.models.prices import estimated_usage
from madke.models.refusals import ServerError, field, refused_completion
from madke.models.retry import Retrying

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 32
"""Texts per call: the most that TEI accepts by default."""
_CONCURRENCY = 8
_PURPOSE = Purpose(question="", stage="embed", agent="encoder", round=1)
_SHORTEN = "to truncate texts, set extra_body in models.yaml: truncate_prompt_tokens: -1 (vLLM), truncate: true (TEI)"

_models_file: Path | None = None


def use_models_file(file: Path | None) -> None:
    """Read the entries of encoders from this file; None: from that of :func:`madke.models.endpoint.read_models`."""
    global _models_file
    _models_file = file


def open_encoder(
    name: str = "minilm", *, dtype: Dtype = "float32", encoding: Encoding = AS_STORED, use_card: bool = True
) -> Encoder:
    """The encoder of that name, behind an endpoint or local; arguments as for ``load_encoder`` of ``encoders``."""
    calls = _calls(name)
    if calls is None:
        return encoders.load_encoder(name, dtype=dtype, encoding=encoding, use_card=use_card)
    if encoding.pooling is not None or dtype != "float32":
        raise UserError(f"encoder {name!r}: its server decides pooling and dtype; leave out --pooling and --dtype")
    served = calls.args[0]
    encoding = encoding_of(name, served, asked=encoding, stored=AS_STORED, has_layers=True, use_card=use_card)
    return EndpointEncoder(name, encoding, calls)


class EndpointEncoder:
    """An encoder behind an endpoint. Its first call finds the dimension; UserError if a call fails for good.

    ``calls`` opens the endpoint's calls, for one event loop.
    """

    dtype: Dtype = "float32"
    revision = ""

    def __init__(self, name: str, encoding: Encoding, calls: partial[_EmbeddingCalls]) -> None:
        self.name = name
        self.encoding = encoding
        self.similarity: Similarity = "inner_product" if encoding.normalize is False else "cosine"
        self._calls = calls
        self.dimension = 0
        self.dimension = self._encode("", ["dimension"]).shape[1]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`madke.encoding.encoders.Encoder`."""
        return self._encode(self.encoding.query_prefix, texts)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`madke.encoding.encoders.Encoder`. The bytes depend on the server."""
        return self._encode(self.encoding.passage_prefix, list(map(titled_text, titles, texts)))

    def _encode(self, prefix: str | None, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        prefixed = [f"{prefix or ''}{text}" for text in texts]
        batches = [prefixed[start : start + _BATCH] for start in range(0, len(prefixed), _BATCH)]
        vectors = np.concatenate(finished(self._answers(batches)) or [np.empty((0, self.dimension), np.float32)])
        if self.similarity == "cosine":
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    async def _answers(self, batches: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        import numpy as np

        calls = self._calls()
        model = Retrying(Limited(calls, Limits(_CONCURRENCY).of(calls)))

        async def answer(batch: Sequence[str]) -> NDArray[np.float32]:
            messages = tuple(Message(role="user", content=text) for text in batch)
            reply = await model.complete(ChatRequest(messages=messages, purpose=_PURPOSE, temperature=0, max_tokens=0))
            if reply.outcome != "ok":
                hint = f" ({_SHORTEN})" if reply.outcome == "too_long" else ""
                raise UserError(f"encoder {self.name!r}: {reply.error}{hint}")
            return np.frombuffer(b64decode(reply.text), np.float32).reshape(len(batch), -1)

        try:
            return await gather(map(answer, batches))
        finally:
            await calls.aclose()


class _EmbeddingCalls(OpenAIChat):
    """Calls of ``/embeddings`` in the form of chat calls: a message is a text, the reply is the vectors in base64."""

    _path = "/embeddings"

    def _body(self, dialect: Dialect, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
        return {"model": self._model, "input": [message.content for message in request.messages]}

    def _adapted(self, error: ServerError, dialect: Dialect, sent: Mapping[str, Any], request: ChatRequest) -> bool:
        return False

    def _read(self, body: bytes, request: ChatRequest, *, seconds: float, attempts: int) -> Completion:
        import numpy as np

        vectors: NDArray[np.float32]
        response = parsed(body)
        items = field(response, "data")
        if not isinstance(items, list):
            error = ServerError.read(200, field(response, "error") or "no data in it")
            return refused_completion(error, "status 200 without vectors", attempts=attempts)
        try:
            ordered = sorted(items, key=lambda item: item["index"])
            vectors = np.array([item["embedding"] for item in ordered], np.float32)
        except (TypeError, ValueError, KeyError):
            vectors = np.empty(0, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(request.messages) or not np.isfinite(vectors).all():
            why = f"expected {len(request.messages)} vectors of one length in data, each with its index"
            raise CallError(why, retryable=True)
        stated = field(response, "usage")
        usage = {"completion_tokens": 0, **stated} if isinstance(stated, dict) else None
        return Completion(
            text=b64encode(vectors.tobytes()).decode(),
            usage=provider_usage(usage) or estimated_usage(request.messages, ""),
            seconds=seconds,
            attempts=attempts,
        )


def _calls(name: str) -> partial[_EmbeddingCalls] | None:
    """Opens the calls of an encoder behind an endpoint; None for any other encoder."""
    if name == "minilm" or name.startswith("dpr:") or os.path.isdir(os.path.expanduser(name)):
        return None
    plain, address = split_address(name)
    if plain.startswith("openai/"):
        _refuse_elsewhere(name, address)
        return partial(_EmbeddingCalls, plain.removeprefix("openai/"), name=name, at=address)
    models = read_models(_models_file)
    entry = models.entry(name)
    if entry is None:
        return None
    if entry.python is not None:
        raise UserError(f"encoder {name!r} is Python code in models.yaml; expected a server")
    _refuse_elsewhere(name, None if models.named else entry.base_url)
    return partial(_EmbeddingCalls, entry.model or name, name=name, entry=entry, named=models.named)


def _refuse_elsewhere(name: str, address: str | None) -> None:
    """UserError for an address elsewhere: an index or a folder from strangers must not send them the questions."""
    if address is None:
        return
    here = urlsplit(checked_url(address, model=split_address(name)[0])).hostname in ("localhost", "127.0.0.1", "::1")
    own = origin(address) == origin(os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    if not (here or own) or bare_url(address) != public_url(address):
        raise UserError(
            f"encoder {split_address(name)[0]!r}: its address must be on this machine, or that of OPENAI_BASE_URL, and "
            "hold no secret; give any other server an entry in a models.yaml that MADKE_MODELS names"
        )
