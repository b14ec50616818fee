"""Sentence encoders behind an OpenAI-compatible ``/embeddings`` endpoint: OpenAI, vLLM, TEI, Ollama.

Their names are ``openai/NAME``, ``openai/NAME@URL``, or an entry of ``models.yaml``; a folder of that name takes
precedence.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from madke.core.addresses import bare_url, public_url
from madke.core.errors import UserError
from madke.models import encoders
from madke.models.encoders import AS_STORED, Dtype, Encoder, Encoding, Similarity, encoding_of, titled_text
from madke.models.endpoint import OPENAI_URL, Endpoint, checked_url, openai_endpoint, origin, read_models
from madke.models.model_names import split_address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 32
"""Texts per call: the most that TEI accepts by default."""
_CONCURRENCY = 8
_RETRIES = 6
_SHORTEN = "to truncate texts, set extra_body in models.yaml: truncate_prompt_tokens: -1 (vLLM), truncate: true (TEI)"


def open_encoder(
    name: str = "minilm", *, dtype: Dtype = "float32", encoding: Encoding = AS_STORED, use_card: bool = True
) -> Encoder:
    """The encoder of that name, behind an endpoint or local; arguments as for ``load_encoder`` of ``encoders``."""
    found = _endpoint(name)
    if found is None:
        return encoders.load_encoder(name, dtype=dtype, encoding=encoding, use_card=use_card)
    if encoding.pooling is not None or dtype != "float32":
        raise UserError(f"encoder {name!r}: its server decides pooling and dtype; leave out --pooling and --dtype")
    endpoint, model = found
    encoding = encoding_of(name, model, asked=encoding, stored=AS_STORED, has_layers=True, use_card=use_card)
    return EndpointEncoder(name=name, encoding=encoding, endpoint=endpoint, model=model)


@dataclass(kw_only=True)
class EndpointEncoder:
    """An encoder behind an endpoint. Its first call finds the dimension; UserError if a call fails for good."""

    name: str
    encoding: Encoding
    endpoint: Endpoint
    model: str
    """Its name at the server."""
    dtype: Dtype = "float32"
    revision: str = ""
    similarity: Similarity = field(init=False)
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        self.similarity = "inner_product" if self.encoding.normalize is False else "cosine"
        self.dimension = 0
        self.dimension = self._encode("", ["dimension"]).shape[1]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`madke.models.encoders.Encoder`."""
        return self._encode(self.encoding.query_prefix, texts)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`madke.models.encoders.Encoder`. The bytes depend on the server."""
        return self._encode(self.encoding.passage_prefix, list(map(titled_text, titles, texts)))

    def _encode(self, prefix: str | None, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np
        from openai import OpenAI

        prefixed = [f"{prefix or ''}{text}" for text in texts]
        batches = [prefixed[start : start + _BATCH] for start in range(0, len(prefixed), _BATCH)]
        with (
            OpenAI(
                base_url=self.endpoint.address,
                api_key=self.endpoint.key or "no-key",
                default_headers=dict(self.endpoint.headers),
                max_retries=_RETRIES,
                timeout=self.endpoint.entry.timeout or 600.0,
            ) as client,
            ThreadPoolExecutor(self.endpoint.entry.concurrency or _CONCURRENCY) as threads,
        ):
            found = list(threads.map(lambda batch: self._answer(client, batch), batches))
        vectors = np.concatenate(found or [np.empty((0, self.dimension), np.float32)])
        if self.similarity == "cosine":
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _answer(self, client: Any, batch: list[str]) -> NDArray[np.float32]:
        import numpy as np
        from openai import APIStatusError, OpenAIError

        extra = self.endpoint.entry.extra_body or None
        try:
            reply = client.embeddings.create(model=self.model, input=batch, encoding_format="float", extra_body=extra)
            ordered = sorted(reply.data, key=lambda item: item.index)
            vectors: NDArray[np.float32] = np.array([item.embedding for item in ordered], np.float32)
        except APIStatusError as error:
            said = error.body.get("message") if isinstance(error.body, dict) else None
            hint = f" ({_SHORTEN})" if error.status_code == 413 or "token" in str(said) else ""
            raise self._error(f"HTTP {error.status_code}: {said or error.response.reason_phrase}{hint}") from None
        except (OpenAIError, ValueError, TypeError, AttributeError) as error:  # the last three: another form of reply
            raise self._error(f"{type(error).__name__}: {error}") from None
        if vectors.ndim != 2 or len(vectors) != len(batch) or not np.isfinite(vectors).all():
            raise self._error(f"expected {len(batch)} vectors of one length in data, each with its index")
        return vectors

    def _error(self, reason: str) -> UserError:
        for secret in self.endpoint.secrets:
            reason = reason.replace(secret, "[key]")
        return UserError(f"encoder {self.name!r}: {' '.join(reason.split())[:300]}")


def _endpoint(name: str) -> tuple[Endpoint, str] | None:
    """The endpoint of an encoder behind one, and the model's name at the server; None for any other encoder."""
    if name == "minilm" or name.startswith("dpr:") or os.path.isdir(os.path.expanduser(name)):
        return None
    plain, address = split_address(name)
    if plain.startswith("openai/"):
        _refuse_elsewhere(name, address)
        return openai_endpoint(name, at=address), plain.removeprefix("openai/")
    models = read_models()
    entry = models.entry(name)
    if entry is None:
        return None
    if entry.python is not None:
        raise UserError(f"encoder {name!r} is Python code in models.yaml; expected a server")
    _refuse_elsewhere(name, None if models.named else entry.base_url)
    return openai_endpoint(name, entry=entry, named=models.named), entry.model or name


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
