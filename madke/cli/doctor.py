"""``madke doctor``: check what works on this machine, or audit a model, and say what to do about the rest."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from textwrap import shorten, wrap
from typing import Annotated

import typer

from madke._util.terminal import say_json, say_wrapped
from madke.audit import Findings, Share, advice
from madke.cli import flags
from madke.core.errors import UserError, count_of

_QUESTION = "Which lake is the deepest?"
_MODEL = ("--model", "-m")
_KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "SERPER_API_KEY")


EPILOG = flags.epilog(flags.MODEL_NAMES)


def command(
    model: Annotated[str | None, flags.option("Audit this model instead, see below.", "MODEL", names=_MODEL)] = None,
    base_url: flags.BaseUrl = None,
    prompts: flags.PromptsOption = None,
    as_json: Annotated[bool, flags.switch("--json", "With --model: print the findings as one line of JSON.")] = False,
) -> None:
    """Check Python, Java, the encoder, the endpoint, the keys (set or not), local model servers, and all sources.

    Example:
      madke doctor --model openai/NAME --base-url http://localhost:11434/v1

    Sources are those of sources.yaml, the fetched indexes, wiki and google. Each is searched once, services are not.
    Exit status 1 if a check fails. A missing key or endpoint is not a failure.

    With --model, ask the model 15 short questions instead, with the prompts of the protocol madke, and say for
    which roles it is fit. Exit status 1 if all calls fail.
    """
    if model is not None:
        _audit(model, base_url, prompts, as_json=as_json)
        return
    if as_json or prompts is not None:
        raise UserError("--json and --prompts need --model")
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("java, lucene", _lucene),
        ("encoder", _encoder),
        ("endpoint", partial(_endpoint, base_url)),
        ("local model servers", _local_servers),
        *((name, partial(_is_set, name)) for name in _KEYS),
        *_sources(),
    ]
    if not all([_works(name, check) for name, check in checks]):
        raise typer.Exit(1)


def _audit(name: str, base_url: str | None, prompts: Path | None, *, as_json: bool) -> None:
    """Audit a model and show what was found, also if the audit is interrupted."""
    from madke.audit import Audit, findings_of
    from madke.cli.progress import exit_status, status_line
    from madke.engine.variant import load_variant
    from madke.models.chat_models import open_model
    from madke.models.endpoint import AtEndpoint, read_models

    if name == "human":
        raise UserError("a person cannot be audited; give the name of a model")
    variant = load_variant("madke", prompts)
    opened = open_model(name, base_url=base_url, models=read_models())
    address = opened.endpoint.public_address if isinstance(opened, AtEndpoint) else ""
    status = 0
    with status_line() as show:
        audit = Audit(model=opened, variant=variant, tell=lambda n, what: show(f"call {n + 1}: {what}"))
        try:
            asyncio.run(audit.run())
        except KeyboardInterrupt as interrupt:
            status = exit_status(interrupt)
    findings = findings_of(name, audit)
    if as_json:
        say_json({**asdict(findings), "address": address, "advice": advice(findings)})
    else:
        for line in audit_lines(findings, address):
            say_wrapped(line)
    if status or findings.failed == findings.calls:
        raise typer.Exit(status or 1)


def _local_servers() -> str:
    from madke.models.endpoint import local_ports, local_servers

    ports = ", ".join(map(str, local_ports()))
    return "\n".join(local_servers()) or (f"none found on the ports {ports}" if ports else "not looked for")


def _works(name: str, check: Callable[[], str]) -> bool:
    try:
        result, works = check(), True
    except UserError as error:
        result, works = f"FAILED: {error}", False
    except Exception as error:  # noqa: BLE001 - a broken file or package must not stop the other checks
        result, works = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())}", False
    say_wrapped(result, label=f"{name:<22} ", indent=23)
    return works


def _sources() -> Iterator[tuple[str, Callable[[], str]]]:
    """A check for each source, or one failing check if sources.yaml cannot be read."""
    from madke.retrieval.named import known_sources

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
    from madke.retrieval.named import open_source, resolve, services_of
    from madke.retrieval.pools import retrieve

    services = services_of(resolve(name))
    if missing := [key for service in services for key in service.keys if not os.environ.get(key, "").strip()]:
        return f"not usable: {missing[0]} is not set"
    source = open_source(name)
    if services:
        return f"{source.description}; not searched, because it asks a service"
    (record,) = retrieve([Question(id="doctor", question=_QUESTION)], [source], 1)
    for reason in record.partial.values():
        raise UserError(reason)
    return source.description


def _is_set(name: str) -> str:
    return "set" if os.environ.get(name, "").strip() else "not set"


def _lucene() -> str:
    from madke.retrieval.indexes.lucene import java_class, java_home

    version = java_class("org.apache.lucene.util.Version").LATEST.toString()
    return f"Lucene {version}, Java at {java_home()}"


def _encoder() -> str:
    from madke.models.encoders import load_encoder

    encoder = load_encoder()
    vectors = encoder.encode_queries([_QUESTION])
    return f"{encoder.name}, {vectors.shape[1]} dimensions"


def _endpoint(base_url: str | None) -> str:
    """Request the list of models, which is free. Any HTTP response shows that the endpoint is there."""
    import httpx2

    from madke.core.addresses import bare_url, public_url
    from madke.models.endpoint import key_from_environment
    from madke.models.transport import failure_of, open_client

    url = base_url or os.environ.get("OPENAI_BASE_URL")
    if not url:
        return "not set; give --base-url or set OPENAI_BASE_URL to check one"
    # Without user and query of the URL, which may hold secrets. A refusal is a response, too.
    shown = public_url(url)
    key = key_from_environment("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    models = f"{bare_url(url)}/models"
    try:
        # A stream: the body, which may never end, is not read.
        with open_client(timeout=10) as client, client.stream("GET", models, headers=headers) as response:
            return f"{shown} answers with status {response.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise UserError(f"{shown} does not answer ({failure_of(error)})") from None


def audit_lines(findings: Findings, address: str) -> Iterator[str]:
    """At most 24 lines of 80 columns, the last ones with the advice; longer texts are wrapped by the caller."""
    yield f"{findings.model} at {address}" if address else findings.model
    yield (
        f"{count_of(findings.calls, 'call')}, {findings.failed} failed; {findings.prompt_tokens:,} prompt and "
        f"{findings.completion_tokens:,} new tokens; {findings.seconds:.0f} s"
    )
    if findings.failed == findings.calls:
        yield from (f"error: {error}" for error in findings.errors)
    else:
        yield from (shorten(f"error: {error}", _WIDTH, placeholder=" ...") for error in findings.errors[:1])
        stages = [f"{stage} {_of(share)}" for stage, share in findings.form.items()]
        right = {case: _of(share) for case, share in findings.right.items()}
        rows = {
            "replies read": ", ".join(stages[:3]),
            "": ", ".join(stages[3:]),
            "prompt given back": f"{_of(findings.given_back, ' answers')}; cut off: {_of(findings.cut_off)}",
            "passage with the answer": f"selected: {right['select']}; answered: {right['speak']}",
            "right, peer wrong": _of(findings.right["own_right"], " stay right"),
            "wrong, peer right": _of(findings.right["own_wrong"], " become right"),
            "right verdicts": f"same answers: {right['same']}; different: {right['different']}",
            "right summaries": right["summarize"],
            "prompts cut": _of(findings.prompts_cut),
            "schemas": _of(findings.schemas, " taken"),
            "system messages": _of(findings.system, " followed"),
            "speed": "not measured" if findings.speed is None else f"{findings.speed:,.0f} new tokens a second",
        }
        yield from ("", *(f"{label:<24}{text}" for label, text in rows.items()), "")
    yield from wrap(advice(findings), _WIDTH)


_WIDTH = 80


def _of(share: Share, after: str = "") -> str:
    return f"{share.k} of {share.n}{after}" if share.n else "not measured"
