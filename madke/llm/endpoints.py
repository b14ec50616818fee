"""Where models are asked: addresses, keys and limits, from the command line, the environment and ``models.yaml``."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from madke.core.addresses import SECRET, public_url
from madke.core.errors import UserError
from madke.llm.prices import Price
from madke.llm.refusals import Dialect

OPENAI_URL = "https://api.openai.com/v1"
PROBE_SECONDS = 4.0
"""For which a connection is tried before an endpoint counts as not there."""
_ANSWER_SECONDS = 0.9
"""For which an answer is waited for, to see that it is HTTP; a connected server that is slower is there."""
_FILE = "models.yaml"
_VARIABLE = "MADKE_MODELS"
_LIMITS = {"concurrency", "rpm", "tpm"}
_OURS = {"model", "messages", "stream", "stream_options", "temperature", "seed", "stop", "max_tokens"}
"""Fields of a request that ``extra_body`` cannot set: the protocol and the dialect do."""


def _named_variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError("expected the name of an environment variable, never the key itself")
    return name


_Variable = Annotated[str, AfterValidator(_named_variable)]


class ModelEntry(BaseModel):
    """What ``models.yaml`` says of a model; ``key``, ``headers`` and ``python`` count only in a file that was named."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str | None = None
    """The model's name at the server; by default the entry's."""
    base_url: str | None = None
    """Up to and with ``/v1``; by default that of ``openai/`` models."""
    key: _Variable | None = None
    """The environment variable that holds the key. By default ``OPENAI_API_KEY``, if the address has the origin of the
    base URL of ``openai/`` models."""
    headers: dict[str, _Variable] = {}
    concurrency: PositiveInt | None = None
    """Calls in flight at most; by default the run's, as for ``rpm`` and ``tpm``."""
    rpm: PositiveInt | None = None
    tpm: PositiveInt | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one attempt may take."""
    extra_body: dict[str, Any] = {}
    """Further fields of every request, such as ``chat_template_kwargs``."""
    dialect: Dialect = Dialect()
    """What the server takes, where that is known; the rest is found out."""
    price: Price | None = None
    python: str | None = None
    """``module:object`` instead of a server, see :func:`madke.llm.as_chat_model`."""

    @field_validator("extra_body")
    @classmethod
    def _adds(cls, value: dict[str, Any]) -> dict[str, Any]:
        if ours := _OURS & value.keys():
            raise ValueError(f"{min(ours)!r} is set by the protocol or by the dialect; leave it out")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> ModelEntry:
        if self.python and self.model_fields_set - {"python", "price", *_LIMITS}:
            raise ValueError("python names code of yours, which takes concurrency, rpm, tpm and price only")
        return self


@dataclass(frozen=True, kw_only=True)
class Models:
    """The entries of a ``models.yaml``, by name."""

    entries: Mapping[str, ModelEntry] = field(default_factory=dict)
    file: Path | None = None
    named: bool = True
    """Whether the user named the file; False for one that lies in the working directory."""
    lines: Mapping[str, int] = field(default_factory=dict)

    def entry(self, name: str) -> ModelEntry | None:
        """The entry of a model, if there is one; a UserError if it has what only a named file may have."""
        entry = self.entries.get(name)
        if entry is not None and not self.named:
            wrong = next((each for each in ("key", "headers", "python") if getattr(entry, each)), None)
            if wrong is not None:
                why = f"counts only in a file that you name: --models-file {_FILE}, or {_VARIABLE}"
                raise UserError(f"{name}: {wrong} {why}", file=self.file, line=self.lines.get(name))
        return entry

    @property
    def prices(self) -> dict[str, Price]:
        """Of the entries that have one."""
        return {name: entry.price for name, entry in self.entries.items() if entry.price is not None}


def read_models(file: Path | None = None) -> Models:
    """The entries of a file, else of that which ``MADKE_MODELS`` names, else of ``./models.yaml`` if there is one."""
    from madke.yaml_file import read_entries, validated

    named = file or (Path(variable) if (variable := os.environ.get(_VARIABLE)) else None)
    path = named or Path(_FILE)
    if named is None and not path.is_file():
        return Models()
    entries, lines = {}, {}
    for name, (line, content) in read_entries(path).items():
        if not re.fullmatch(r"[\w.-]+", name):
            found = f"{name!r} cannot name a model; expected letters, digits, dots, hyphens and underscores"
            raise UserError(found, file=path, line=line)
        entries[name] = validated(content or {}, ModelEntry, file=path, within=(name,))
        lines[name] = line
    return Models(entries=entries, file=path, named=named is not None, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A server that is asked, as one model is asked there."""

    address: str
    limited_as: str
    """Models with an equal one share a limiter: those of an address, or of one entry."""
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    entry: ModelEntry = field(default_factory=ModelEntry)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What no file, log or error may hold. Values of less than eight characters are placeholders."""
        return tuple(value for value in (self.key, *self.headers.values()) if value and len(value) >= SECRET)


@runtime_checkable
class AtEndpoint(Protocol):
    """A model that is asked at an endpoint."""

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
    """The endpoint of a model at OpenAI or at any server that speaks its protocol.

    Args:
        name: The model's.
        at: The model's own address; without one it is the entry's, else ``base_url``.
        base_url: Default: ``OPENAI_BASE_URL``, else OpenAI's own. Its origin gets ``OPENAI_API_KEY``.
        entry: What ``models.yaml`` says.
        named: Whether its file was named: if not, the address gets a key only as the base URL itself.
        needs_key: False for a model that will not be called.
    """
    entry = entry or ModelEntry()
    default = checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL, model=name)
    own = at or entry.base_url
    address = checked_url(own, model=name) if own else default
    same = origin(address) == origin(default) and (named or address.rstrip("/") == default.rstrip("/"))
    variable = entry.key or ("OPENAI_API_KEY" if same else None)
    key = from_environment(variable) if variable else None
    at_openai = urlsplit(address).hostname == urlsplit(OPENAI_URL).hostname
    if key is None and needs_key and not entry.headers and (entry.key or at_openai):
        if variable is None:
            why = "is asked at OpenAI, which gets OPENAI_API_KEY only where it is the base URL too"
            raise UserError(f"{name} {why}; give the model a name and its key in {_FILE}")
        raise UserError(f"{variable} is not set, and {name} needs it; for a server without keys give its base URL")
    headers = {}
    for header, named_in in entry.headers.items():
        headers[header] = from_environment(named_in) or ""
        if needs_key and not headers[header]:
            raise UserError(f"{named_in} is not set, and {name} needs it for the header {header}")
    limited_as = name if entry.model_fields_set & _LIMITS else address
    return Endpoint(address=address, limited_as=limited_as, key=key, headers=headers, entry=entry)


def from_environment(variable: str) -> str | None:
    """The key in a variable; None where it is not set."""
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise UserError(f"{variable} holds characters that no key has; set it again")
    return key or None


def checked_url(url: str, *, model: str) -> str:
    """The URL, if it is one of a server, without a user and without a query."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        valid = False
    shown = repr(public_url(url))
    if not valid:
        raise UserError(f"{shown} is no endpoint for {model}; expected a URL such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        why = "came with a user or a query; keys come from the environment"
        raise UserError(f"the endpoint of {model}, {shown}, {why}")
    return url


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def endpoints_of(models: Iterable[object]) -> dict[str, dict[str, object]]:
    """Model name -> ``address`` (without secrets) and ``dialect`` (where it differs), of those at an endpoint."""
    return {
        model.name: {"address": public_url(model.endpoint.address), "dialect": model.dialect.stated()}
        for model in models
        if isinstance(model, AtEndpoint)
    }


def moved(before: Mapping[str, Mapping[str, object]], now: Mapping[str, Mapping[str, object]]) -> str | None:
    """One line about the models that were asked elsewhere before; both as :func:`endpoints_of` gives them."""
    changed = [
        f"{name} is now asked at {now[name]['address']} (before: {before[name]['address']})"
        for name in now
        if name in before and before[name]["address"] != now[name]["address"]
    ]
    return "; ".join(changed) + "; its finished calls count on" if changed else None


def refuse_two_addresses(models: Iterable[object]) -> None:
    """UserError if two models have one name and two addresses: their calls could not be told apart."""
    addresses: dict[str, str] = {}
    for model in models:
        if isinstance(model, AtEndpoint):
            here = public_url(model.endpoint.address)
            if (known := addresses.setdefault(model.name, here)) != here:
                why = f"give each a name of its own in {_FILE}, since calls are known by the model's name"
                raise UserError(f"{model.name} is asked at {known} and at {here}; {why}")


def probe(models: Iterable[object]) -> None:
    """UserError if an endpoint is not there, in at most five seconds; any HTTP answer shows that it is.

    ``GET base_url/models`` is asked, without a key.
    """
    found = {model.endpoint.address: model.name for model in models if isinstance(model, AtEndpoint)}
    if found:
        # Imported before the clock starts: its import time is no slowness of a server.
        import httpx2  # noqa: F401
    reasons: dict[str, str] = {}
    # Threads that may stay behind: nothing bounds how long a name takes to resolve. Whoever is not done says nothing.
    asking = [threading.Thread(target=_ask, args=(address, reasons), daemon=True) for address in found]
    for thread in asking:
        thread.start()
    end = time.monotonic() + PROBE_SECONDS + _ANSWER_SECONDS
    for thread in asking:
        thread.join(max(0.0, end - time.monotonic()))
    for address, reason in list(reasons.items()):
        raise UserError(f"the endpoint of {found[address]}, {public_url(address)}, is not there: {reason}")


def _ask(address: str, reasons: dict[str, str]) -> None:
    import httpx2

    try:
        with (
            httpx2.Client(timeout=httpx2.Timeout(_ANSWER_SECONDS, connect=PROBE_SECONDS)) as client,
            client.stream("GET", f"{address.rstrip('/')}/models"),
        ):
            pass
    except httpx2.ConnectTimeout:
        reasons[address] = f"no connection within {PROBE_SECONDS:g} s"
    except (httpx2.ConnectError, httpx2.RemoteProtocolError) as error:
        reasons[address] = str(error) or type(error).__name__
    except Exception:  # it is connected, and slow or odd; or a proxy that only the calls' own transport speaks to
        return
