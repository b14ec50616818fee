"""Endpoints of models: address, key and limits, from the command line, the environment and ``models.yaml``.

Model servers on this machine are found on the ports that they use by default, or those of ``MADKE_LOCAL_PORTS``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PositiveInt, field_validator, model_validator

from madke.core.addresses import MIN_SECRET, public_url, without_path_secrets
from madke.core.chat import Prefix
from madke.core.errors import UserError, count_of
from madke.models.dialect import Dialect
from madke.models.model_names import ADDRESS, kind_of
from madke.models.prices import Price, ShippedPrice, providers

if TYPE_CHECKING:
    import httpx2

OPENAI_URL = "https://api.openai.com/v1"
_CONNECTION_SECONDS, _ANSWER_SECONDS = 4.0, 0.9
"""An endpoint without a connection in this time counts as unreachable; a connected one need not answer in time."""
_FILE = "models.yaml"
_HOST = re.compile(r"https?://([^/:?#]+)")
_QUOTES = "\"'`"
_VARIABLE = "MADKE_MODELS"
_KEY_SHAPES = re.compile(r"\b(sk-|Bearer\s+)[\w*.-]{4,}")
"""Keys, whole or masked, that a server may quote in its errors."""
_MAX_REASON = 300
_LIMITS = {"concurrency", "rpm", "tpm"}
_RESERVED = {"model", "messages", "stream", "stream_options", "temperature", "seed", "stop", "max_tokens"}
"""Request fields that ``extra_body`` cannot set: the protocol and the dialect set them."""


def _variable_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError("expected the name of an environment variable, never the key itself")
    return name


_Variable = Annotated[str, AfterValidator(_variable_name)]
# YAML reads ``on`` and ``off`` as true and false.
_unquoted = BeforeValidator(lambda value: {True: "on", False: "off"}[value] if isinstance(value, bool) else value)


class ModelEntry(BaseModel, extra="forbid", frozen=True, protected_namespaces=()):
    """One entry of ``models.yaml``. ``key``, ``headers`` and ``python`` need a file that the user named explicitly."""

    model: str | None = None
    """The model's name at the server. Default: the entry's name."""
    base_url: str | None = None
    """Address of the API, including ``/v1``. Default: the base URL of ``openai/`` models."""
    key: _Variable | None = None
    """The environment variable that holds the key. Default: ``OPENAI_API_KEY``, if the address has the same origin as
    the base URL of ``openai/`` models."""
    headers: dict[str, _Variable] = {}
    """HTTP header -> the environment variable that holds its value."""
    concurrency: PositiveInt | None = None
    """Maximum number of calls in flight. Default: the run's limit, as for ``rpm`` and ``tpm``."""
    rpm: PositiveInt | None = None
    tpm: PositiveInt | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """How many seconds the server may be silent (:class:`madke.models.limiter.SilenceLimit`)."""
    prefix: Annotated[Prefix | None, _unquoted] = None
    """Whether calls that begin alike wait for one of them (:mod:`madke.models.prefixes`). Default: ``auto``."""
    prefix_tokens: PositiveInt | None = None
    """Least length in tokens of a beginning that is waited for. Default: 1,024; 64 on the local network."""
    extra_body: dict[str, Any] = {}
    """Additional fields of every request, such as ``chat_template_kwargs``."""
    dialect: Dialect = Dialect()
    """Known request format of the server. The client detects the rest."""
    price: Price | None = None
    python: str | None = None
    """``module:object`` instead of a server, see :func:`madke.models.chat_models.as_chat_model`."""

    @field_validator("extra_body")
    @classmethod
    def _no_reserved_fields(cls, value: dict[str, Any]) -> dict[str, Any]:
        if reserved := _RESERVED & value.keys():
            raise ValueError(f"{min(reserved)!r} is set by the protocol or by the dialect; leave it out")
        return value

    @model_validator(mode="after")
    def _python_or_server(self) -> ModelEntry:
        if self.python and self.model_fields_set - {"python", "price", *_LIMITS}:
            raise ValueError("an entry with python takes only concurrency, rpm, tpm and price in addition")
        return self


@dataclass(frozen=True, kw_only=True)
class ModelEntries:
    """The entries of a ``models.yaml``, by name."""

    entries: Mapping[str, ModelEntry] = field(default_factory=dict)
    file: Path | None = None
    named: bool = True
    """Whether the user named the file. False: it was found in the working directory."""
    lines: Mapping[str, int] = field(default_factory=dict)

    def entry(self, name: str) -> ModelEntry | None:
        """The entry of a model, or None. UserError if the entry has fields that only a named file may have."""
        entry = self.entries.get(name)
        for each in ("key", "headers", "python") if entry is not None and not self.named else ():
            if getattr(entry, each):
                why = f"is allowed only in a file that you name: set {_VARIABLE}={_FILE}"
                raise UserError(f"{name}: {each} {why}", file=self.file, line=self.lines.get(name))
        return entry


def read_models(file: Path | None = None) -> ModelEntries:
    """Read the entries of ``file``, else of the file in ``MADKE_MODELS``, else of ``./models.yaml`` if it exists."""
    from madke._util.yaml_file import read_entries, validate

    named = file or (Path(variable) if (variable := os.environ.get(_VARIABLE)) else None)
    path = named or Path(_FILE)
    if named is None and not path.is_file():
        return ModelEntries()
    entries, lines = {}, {}
    for name, (line, content) in read_entries(path).items():
        if not re.fullmatch(r"[\w.-]+", name):
            why = f"{name!r} cannot name a model; expected letters, digits, dots, hyphens and underscores"
            raise UserError(why, file=path, line=line)
        entries[name] = validate(content or {}, ModelEntry, file=path, within=(name,))
        lines[name] = line
    return ModelEntries(entries=entries, file=path, named=named is not None, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How to reach one model: address, key, headers and limits."""

    address: str
    limited_as: str
    """Key of the limiter. Models with the same key share one: those at one address, or of one entry."""
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    entry: ModelEntry = field(default_factory=ModelEntry)
    own: bool = False
    """Whether this process started the server: it is asked past all proxies, and its port differs in each run."""

    @property
    def public_address(self) -> str:
        """The address as files and messages show it: without secrets, and the same in each run."""
        return "its own server" if self.own else public_url(self.address)

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI's own."""
        return urlsplit(self.address).hostname == urlsplit(OPENAI_URL).hostname

    @cached_property
    def is_local(self) -> bool:
        """Whether the server is on this machine or on the local network."""
        host = urlsplit(self.address).hostname or ""
        try:
            return ip_address(host).is_private
        except ValueError:
            return "." not in host or host.endswith(".local")

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values that no file, log or error may show. Values of fewer than eight characters are placeholders."""
        return tuple(value for value in (self.key, *self.headers.values()) if value and len(value) >= MIN_SECRET)

    def redact(self, reason: str) -> str:
        """The reason of an error without secrets, on one line, shortened."""
        for secret in self.secrets:
            reason = reason.replace(secret, "[key]")
        reason = without_path_secrets(reason, self.address)
        reason = " ".join(_KEY_SHAPES.sub("[key]", reason).split())
        return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}..."


@runtime_checkable
class AtEndpoint(Protocol):
    """A model behind an endpoint."""

    name: str
    endpoint: Endpoint
    dialect: Dialect


def openai_endpoint(
    name: str,
    *,
    at: str | None = None,
    base_url: str | None = None,
    entry: ModelEntry | None = None,
    named: bool = True,
    needs_key: bool = True,
) -> Endpoint:
    """The endpoint of a model at OpenAI or at an OpenAI-compatible server.

    Args:
        name: Name of the model.
        at: The model's own address. Default: the entry's address, else ``base_url``.
        base_url: Default: ``OPENAI_BASE_URL``, else OpenAI's address. ``OPENAI_API_KEY`` is sent to its origin.
        entry: The model's entry in ``models.yaml``.
        named: Whether the user named that file. If not, the key is sent only to the base URL itself.
        needs_key: False for a model that will not be called.
    """
    entry = entry or ModelEntry()
    default = checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, model=name)
    own = at or entry.base_url
    address = checked_url(own, model=name) if own else default
    same = origin(address) == origin(default) and (named or address.rstrip("/") == default.rstrip("/"))
    variable = entry.key or ("OPENAI_API_KEY" if same else None)
    key = key_from_environment(variable) if variable else None
    at_openai = urlsplit(address).hostname == urlsplit(OPENAI_URL).hostname
    if key is None and needs_key and not entry.headers and (entry.key or at_openai):
        if variable is None:
            why = "is called at OpenAI, which gets OPENAI_API_KEY only if it is the base URL too"
            raise UserError(f"{name} {why}; give the model an entry with its key in {_FILE}")
        raise UserError(f"{variable} is not set, and {name} needs it; for a server without keys give its base URL")
    headers = {}
    for header, named_in in entry.headers.items():
        headers[header] = key_from_environment(named_in) or ""
        if needs_key and not headers[header]:
            raise UserError(f"{named_in} is not set, and {name} needs it for the header {header}")
    limited_as = name if entry.model_fields_set & _LIMITS else address
    return Endpoint(address=address, limited_as=limited_as, key=key, headers=headers, entry=entry)


def key_from_environment(variable: str) -> str | None:
    """The key in an environment variable, without white space and a pair of quotes around it; None if it is not set."""
    key = os.environ.get(variable, "").strip()
    if len(key) > 1 and key[0] == key[-1] and key[0] in _QUOTES:
        key = key[1:-1].strip()
    if not key.isascii() or not key.isprintable() or key.strip(_QUOTES) != key:
        raise UserError(f"{variable} holds a line break, a quotation mark or a character that no key has; set it again")
    return key or None


def checked_url(url: str, *, model: str) -> str:
    """The URL unchanged. UserError unless it is an http(s) URL without user and query."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        valid = False
    shown = repr(public_url(url))
    if not valid:
        raise UserError(f"{shown} is not an endpoint for {model}; expected a URL such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        why = "must have no user, password or query; keys come from the environment"
        raise UserError(f"the endpoint of {model}, {shown}, {why}")
    return url


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def endpoints_of(models: Iterable[object]) -> dict[str, dict[str, object]]:
    """Model name -> ``address`` (without secrets), ``dialect`` (other than default)."""
    called = (model for model in models if isinstance(model, AtEndpoint))
    return {m.name: {"address": m.endpoint.public_address, "dialect": m.dialect.non_defaults()} for m in called}


def start_from(models: Iterable[object], before: Mapping[str, Mapping[str, Any]]) -> None:
    """Start from what an earlier process of the run learned of the endpoints (:func:`endpoints_of`).

    A model at another address starts anew. ValueError if a record is damaged.
    """
    for model in models:
        learn = getattr(model, "start_from", None)
        if learn is not None and isinstance(model, AtEndpoint):
            known = before.get(model.name, {})
            if known.get("address") == model.endpoint.public_address:
                learn(known.get("dialect", {}))


def refuse_two_addresses(models: Iterable[object]) -> None:
    """UserError if two models have the same name and different addresses: their calls would have the same key."""
    addresses: dict[str, str] = {}
    for model in models:
        if isinstance(model, AtEndpoint):
            here = model.endpoint.public_address
            if (known := addresses.setdefault(model.name, here)) != here:
                why = f"calls are identified by the model's name, so give each its own name in {_FILE}"
                raise UserError(f"{model.name} is called at {known} and at {here}; {why}")


def refuse_unreachable(models: Iterable[object]) -> None:
    """UserError if an endpoint gives no HTTP answer to ``GET base_url/models``, without a key, in five seconds."""
    called = (model for model in models if isinstance(model, AtEndpoint) and not model.endpoint.own)
    if not (names := {model.endpoint.address: model.name for model in called}):
        return
    import httpx2

    from madke.models.transport import open_client

    def unreachable(address: str) -> str | None:
        try:
            with client.stream("GET", f"{address.rstrip('/')}/models"):
                return None
        except httpx2.ConnectTimeout:
            return f"no connection within {_CONNECTION_SECONDS:g} s"
        except (httpx2.ConnectError, httpx2.RemoteProtocolError, httpx2.InvalidURL, UnicodeError) as error:
            return str(error) or type(error).__name__
        except httpx2.HTTPError:  # slow or odd: it is there
            return None

    timeout = httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECTION_SECONDS)
    with open_client(timeout=timeout) as client, ThreadPoolExecutor() as threads:
        for address, reason in zip(names, threads.map(unreachable, names), strict=True):
            if reason is not None:
                raise UserError(f"the endpoint of {names[address]}, {public_url(address)}, cannot be reached: {reason}")


def shipped_prices(
    models: Iterable[str], entries: ModelEntries, base_url: str | None, *, anywhere: bool = False
) -> dict[str, ShippedPrice]:
    """Model -> its shipped price, for models that are called at a known host under a known name.

    Args:
        models: Names as in ``--model``, or entries of ``models.yaml``.
        entries: Those entries.
        base_url: The address of ``openai/`` models. Default: ``OPENAI_BASE_URL``, else OpenAI's.
        anywhere: Whether the name alone decides, for servers that pass calls on to a provider; of providers that share
            a name, the first counts.
    """
    prices: dict[str, ShippedPrice] = {}
    default = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    for model in models:
        if (entry := entries.entries.get(model)) is not None:
            address, name = entry.base_url or default, "" if entry.python else entry.model or model
        else:
            plain, address = split.groups() if (split := ADDRESS.fullmatch(model)) else (model, default)
            name = plain.partition("/")[2] if kind_of(plain) == "openai" else ""
        here = matched[1] if (matched := _HOST.match(address)) else ""
        for host, provider in providers().items():
            if name in provider.models and (host == here or anywhere):
                stated = provider.models[name].model_dump(exclude_unset=True)
                prices.setdefault(model, ShippedPrice(**stated, source=provider.source, date=provider.date))
    return prices


PORTS: Mapping[int, str] = {11434: "Ollama", 8080: "llama.cpp", 1234: "LM Studio", 8000: "vLLM"}
"""Port -> the program that uses it by default."""

_LOCAL_SECONDS, _LOCAL_BYTES = 0.8, 256 << 10
_PLAIN_NAME = re.compile(r"(?!.*@https?:)[\w.:/@+-]{1,200}", re.ASCII)
"""Names that a command line reads as nothing else."""
_NOT_CHAT = re.compile(r"embed|rerank|whisper|\bbge\b|\be5\b", re.IGNORECASE)


def local_ports() -> list[int]:
    """The ports that are asked. UserError unless ``MADKE_LOCAL_PORTS`` has ports, separated by commas, or is empty."""
    chosen = os.environ.get("MADKE_LOCAL_PORTS", ",".join(map(str, PORTS)))
    named = [each.strip() for each in chosen.split(",") if each.strip()]
    if not all(re.fullmatch("[0-9]{1,5}", each) and 0 < int(each) < 1 << 16 for each in named):
        raise UserError(f"MADKE_LOCAL_PORTS is {chosen!r}; expected ports separated by commas, or nothing")
    return [int(each) for each in named]


def local_servers() -> list[str]:
    """A line for each server: its port, its models, and the options that use the first; in less than a second."""
    import httpx2

    async def ask_all() -> list[str | BaseException | None]:
        # Without a key, a proxy and redirects: what listens there may be anyone's.
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await asyncio.gather(*(_ask_port(client, port) for port in local_ports()), return_exceptions=True)

    return [line for line in asyncio.run(ask_all()) if isinstance(line, str)]


async def _ask_port(client: httpx2.AsyncClient, port: int) -> str | None:
    """The line of a server. None, or any error, if what answers there is none."""
    url, reply = f"http://127.0.0.1:{port}/v1", bytearray()
    head = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with asyncio.timeout(_LOCAL_SECONDS), client.stream("GET", f"{url}/models", headers=head) as response:
        async for piece in response.aiter_bytes():
            reply += piece
            if len(reply) > _LOCAL_BYTES:
                return None
    content = json.loads(reply)
    whose = f"{PORTS[port]}'s port" if port in PORTS else "port"
    if response.status_code in (401, 403) and "error" in content:
        return f"a model server is on {whose} {port}; it asks for a key: OPENAI_API_KEY=... --base-url {url}"
    entries = content["data"] if response.status_code == 200 else []
    ids = (each.get("id") for each in entries if isinstance(each, dict))  # other entries hide nothing
    names = [name for name in ids if isinstance(name, str) and _PLAIN_NAME.fullmatch(name)]
    names.sort(key=lambda name: bool(_NOT_CHAT.search(name)))
    if not names:
        return None
    more = f" and {count_of(len(names) - 1, 'more model')}" if names[1:] else ""
    use = f"to use it: --model openai/{names[0]} --base-url {url}"
    return f"a model server is on {whose} {port}: {names[0]}{more}; {use}"
