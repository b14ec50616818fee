"""``madke doctor``: check what works on this machine, and say what to do about the rest."""

import os
import platform
from collections.abc import Callable, Iterator
from functools import partial

import typer

from madke.cli import flags
from madke.core.errors import UserError
from madke.terminal import say_wrapped

_QUESTION = "Which lake is the deepest?"
_KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "SERPER_API_KEY")


def command(base_url: flags.BaseUrl = None) -> None:
    """Check Python, Java, the encoder, the endpoint, the keys (set or not), and all sources.

    Sources are those of sources.yaml, the fetched indexes, wiki and google. Each is searched once, services are not.
    Exit status 1 if a check fails. A missing key or endpoint is not a failure.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", _python),
        ("java, lucene", _lucene),
        ("encoder", _encoder),
        ("endpoint", partial(_endpoint, base_url)),
        *((name, partial(_key, name)) for name in _KEYS),
        *_sources(),
    ]
    if not all([_works(name, check) for name, check in checks]):
        raise typer.Exit(1)


def _works(name: str, check: Callable[[], str]) -> bool:
    try:
        found, works = check(), True
    except UserError as error:
        found, works = f"FAILED: {error}", False
    except Exception as error:  # a broken file or package must not stop the other checks
        found, works = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())}", False
    say_wrapped(found, label=f"{name:<22} ", indent=23)
    return works


def _sources() -> Iterator[tuple[str, Callable[[], str]]]:
    """A check for each source, or one failing check if sources.yaml cannot be read."""
    from madke.knowledge.named import known_sources

    try:
        places = known_sources()
    except UserError:
        yield "sources", lambda: str(known_sources())
        return
    for name, place in places.items():
        if place != "built in" or name in ("wiki", "google"):
            yield f"source {name}", partial(_source, name)


def _source(name: str) -> str:
    from madke.core.question import Question
    from madke.knowledge.named import open_source, resolve
    from madke.knowledge.pools import retrieve
    from madke.knowledge.source_spec import asks_service, keys_of

    spec = resolve(name)
    if missing := [key for key in keys_of(spec) if not os.environ.get(key, "").strip()]:
        return f"not usable: {missing[0]} is not set"
    source = open_source(name)
    if asks_service(spec):
        return f"{source.description}; not searched, because it asks a service"
    (record,) = retrieve([Question(id="doctor", question=_QUESTION)], [source], 1)
    for reason in record.partial.values():
        raise UserError(reason)
    return source.description


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _lucene() -> str:
    from madke.indexing.lucene import java_class, java_home

    version = java_class("org.apache.lucene.util.Version").LATEST.toString()
    return f"Lucene {version}, Java at {java_home()}"


def _encoder() -> str:
    from madke.encoders import load_encoder

    encoder = load_encoder()
    vectors = encoder.encode_queries([_QUESTION])
    return f"{encoder.name}, {vectors.shape[1]} dimensions"


def _endpoint(base_url: str | None) -> str:
    """Request the list of models, which is free. Any HTTP response shows that the endpoint is there."""
    import requests

    from madke.core.addresses import bare_url, public_url

    url = base_url or os.environ.get("OPENAI_BASE_URL")
    if not url:
        return "not set; give --base-url or set OPENAI_BASE_URL to check one"
    # Without user and query of the URL, which may hold secrets. A refusal is a response, too.
    shown = public_url(url)
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        response = requests.get(f"{bare_url(url)}/models", headers=headers, timeout=10, allow_redirects=False)
    except requests.RequestException as error:
        raise UserError(f"{shown} does not answer ({type(error).__name__})") from None
    return f"{shown} answers with status {response.status_code}"


def _key(name: str) -> str:
    return "set" if os.environ.get(name, "").strip() else "not set"
