"""Options that control how a run executes and never change its results."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from madke.core.errors import UserError


def _option(default: Any, description: str, *, ge: int | None = None, flag: str = "", metavar: str = "") -> Any:
    """A field that is a command line option, with its help text and minimum value."""
    return field(default=default, metadata={"help": description, "ge": ge, "flag": flag, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run executes; no option changes a result. Each field is a command line option of the same name."""

    concurrency: int = _option(16, "Maximum number of concurrent questions, and of concurrent model calls.", ge=1)
    base_url: str | None = _option(None, "Endpoint of openai/ and azure/ models, e.g. http://localhost:8000/v1.")
    models_file: Path | None = _option(
        None, "A models.yaml: names for endpoints. Default: MADKE_MODELS, else ./models.yaml."
    )
    sources_file: Path | None = _option(
        None, "A sources.yaml: names for sources; it may name code. Default: MADKE_SOURCES, else ./sources.yaml."
    )
    rpm: int | None = _option(None, "Maximum number of calls per minute to each endpoint.", ge=1)
    tpm: int | None = _option(None, "Maximum number of tokens per minute to each endpoint.", ge=1)
    prices: Path | None = _option(
        None,
        "A YAML file of prices per million tokens: openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}.",
    )
    max_cost: float | None = _option(
        None,
        "Start no further question once this cost is reached, at the prices of --prices. Running debates (up to "
        "--concurrency) finish.",
        ge=0,
    )
    token_budget: int | None = _option(
        None,
        "Start no further question once this number of prompt and completion tokens is reached, including those of "
        "earlier commands for OUT.",
        ge=1,
    )
    deadline: str | None = _option(
        None,
        "Start no further call at this time: 90s, 45m or 1h30m from now, 06:30, or 2027-01-31T06:30. Calls in flight "
        "may finish; run the same command again to continue.",
        metavar="TIME",
    )
    engine: Literal["local", "ray"] = _option(
        "local", "Where model calls run: on this machine, or on the nodes of a Ray cluster."
    )
    address: str | None = _option(
        None, "ray: the cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or a cluster on this machine."
    )
    replay: bool = _option(False, "Recompute the transcripts from OUT's call store, without network.", flag="--replay")
    retry_failed: bool = _option(True, "Run failed questions again.", flag="--retry-failed/--keep-failed")
    retry_degraded: bool = _option(
        False,
        "Also run questions again that lost a debater or a verdict to a failed call. Only failed calls are repeated.",
        flag="--retry-degraded",
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            least, value = each.metadata["ge"], getattr(self, each.name)
            if least is not None and value is not None and value < least:
                raise UserError(f"{each.name} = {value}; expected at least {least}")
        if self.address is not None and self.engine != "ray":
            raise UserError("--address is the address of a Ray cluster; it needs --engine ray")


USUAL = RunOptions()
"""The default options."""
