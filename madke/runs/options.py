"""How a run is done: what changes none of its results."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from madke.core.errors import UserError


def _option(default: Any, description: str, *, ge: int | None = None, flag: str = "", metavar: str = "") -> Any:
    """A field that the command line takes as an option, with its help text and its least value."""
    return field(default=default, metadata={"help": description, "ge": ge, "flag": flag, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is done; nothing here changes a result. The command line takes each field as an option of its name."""

    concurrency: int = _option(16, "Questions, and model calls, under way at once.", ge=1)
    base_url: str | None = _option(None, "Endpoint of openai/ and azure/ models, e.g. http://localhost:8000/v1.")
    models_file: Path | None = _option(
        None, "A models.yaml: names for endpoints. Default: MADKE_MODELS, else ./models.yaml."
    )
    sources_file: Path | None = _option(
        None, "A sources.yaml: names for sources; it may name code. Default: MADKE_SOURCES, else ./sources.yaml."
    )
    rpm: int | None = _option(None, "Calls a minute, at most, to each endpoint.", ge=1)
    tpm: int | None = _option(None, "Tokens a minute, at most, to each endpoint.", ge=1)
    prices: Path | None = _option(
        None,
        "A YAML file of prices for a million tokens: openai/NAME: {prompt: 0.15, cached: 0.075, completion: 0.6}.",
    )
    max_cost: float | None = _option(
        None,
        "Begin no further question once so much is spent, at the prices of --prices; those under way, as many as "
        "--concurrency, are finished.",
        ge=0,
    )
    token_budget: int | None = _option(
        None,
        "Begin no further question once so many prompt and completion tokens are used, those of earlier commands "
        "for OUT included.",
        ge=1,
    )
    deadline: str | None = _option(
        None,
        "Begin no further call at that time: 90s, 45m, 1h30m from now, 06:30, or 2027-01-31T06:30. Calls under "
        "way may end; the same command goes on from there.",
        metavar="TIME",
    )
    engine: Literal["local", "ray"] = _option(
        "local", "Where models are asked: from this machine, or from the nodes of a Ray cluster."
    )
    address: str | None = _option(
        None, "ray: the cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or a cluster of this machine."
    )
    replay: bool = _option(False, "Make the transcripts anew from OUT's call store; no network.", flag="--replay")
    retry_failed: bool = _option(
        True, "Whether questions that failed are run again.", flag="--retry-failed/--keep-failed"
    )
    retry_degraded: bool = _option(
        False,
        "Run those again, too, that lost a debater or a verdict to a failed call. Only failed calls are made again.",
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
"""Every option as it is where nothing is said."""
