"""``madke doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

import typer

from madke.cli import options
from madke.core.errors import UserError

_KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "SERPER_API_KEY")


def command(
    base_url: options.BaseUrl = None,
) -> None:
    """Check Python, Java, the encoder, the endpoint and which keys are set (never their values).

    Exit status 1 if a check fails; keys that are not set, and an endpoint that is not named, are no failure.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", _python),
        ("java, lucene", _lucene),
        ("encoder", _encoder),
        ("endpoint", lambda: _endpoint(base_url)),
        *((name, lambda name=name: _key(name)) for name in _KEYS),
    ]
    broken = False
    for name, check in checks:
        try:
            typer.echo(f"{name:<22} {check()}")
        except UserError as error:
            broken = True
            typer.echo(f"{name:<22} FAILED: {error}")
    if broken:
        raise typer.Exit(1)


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _lucene() -> str:
    from madke.knowledge.jvm import java_class, java_home

    version = java_class("org.apache.lucene.util.Version").LATEST.toString()
    return f"Lucene {version}, Java at {java_home()}"


def _encoder() -> str:
    from madke.encoders import load_encoder

    encoder = load_encoder()
    vectors = encoder.encode_queries(["Which lake is the deepest?"])
    return f"{encoder.name}, {vectors.shape[1]} dimensions"


def _endpoint(base_url: str | None) -> str:
    """Ask the endpoint for its list of models, which costs nothing. Any HTTP answer shows that it is there."""
    import requests

    from madke.llm.openai_client import public_url

    url = base_url or os.environ.get("OPENAI_BASE_URL")
    if not url:
        return "none named; give --base-url or set OPENAI_BASE_URL to check one"
    shown = public_url(url)
    key = os.environ.get("OPENAI_API_KEY")
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        response = requests.get(f"{url.rstrip('/')}/models", headers=headers, timeout=10)
    except requests.RequestException as error:
        raise UserError(f"{shown} does not answer ({type(error).__name__})") from None
    return f"{shown} answers with status {response.status_code}"


def _key(name: str) -> str:
    return "set" if os.environ.get(name, "").strip() else "not set"
