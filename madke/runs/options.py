"""Options that control how a run executes and never change its results."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from madke.core.chat import Prefix
from madke.core.errors import UserError


def _option(default: Any, description: str, *, ge: int | None = None, flag: str = "", metavar: str = "") -> Any:
    """A field that is a command line option, with its help text and minimum value."""
    return field(default=default, metadata={"help": description, "ge": ge, "flag": flag, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run executes; no option changes a result. Each field is a command line option of the same name."""

    concurrency: int = _option(16, "Questions and model calls at a time.", ge=1, metavar="N")
    base_url: str | None = _option(None, "Endpoint of openai/ and azure/ models.", metavar="URL")
    models_file: Path | None = _option(
        None, "Names of endpoints. Default: MADKE_MODELS, or ./models.yaml.", metavar="FILE"
    )
    sources_file: Path | None = _option(
        None, "Names of sources. Default: MADKE_SOURCES, or ./sources.yaml.", metavar="FILE"
    )
    rpm: int | None = _option(None, "Maximum calls per minute to each endpoint.", ge=1, metavar="N")
    tpm: int | None = _option(None, "Maximum tokens per minute to each endpoint.", ge=1, metavar="N")
    prefix: Prefix = _option("auto", "Whether calls that begin alike wait for the first of them.")
    prices: Path | None = _option(None, "Prices per million tokens, as YAML.", metavar="FILE")
    max_cost: float | None = _option(None, "Start no question at or above this cost.", ge=0, metavar="X")
    token_budget: int | None = _option(None, "Start no question at or above this many tokens.", ge=1, metavar="N")
    deadline: str | None = _option(None, "Start no call after this time: 45m, 06:30, ...", metavar="TIME")
    engine: Literal["local", "ray"] = _option("local", "Call models from this machine or from a Ray cluster.")
    address: str | None = _option(
        None, "Cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or start one.", metavar="ADDRESS"
    )
    replay: bool = _option(False, "Rebuild transcripts from stored calls, offline.", flag="--replay")
    retry_failed: bool = _option(True, "Whether to run failed questions again.", flag="--retry-failed/--keep-failed")
    retry_degraded: bool = _option(False, "Also repeat failed calls of finished questions.", flag="--retry-degraded")

    def __post_init__(self) -> None:
        for each in fields(self):
            least, value = each.metadata["ge"], getattr(self, each.name)
            if least is not None and value is not None and value < least:
                raise UserError(f"{each.name} = {value}; expected at least {least}")
        if self.address is not None and self.engine != "ray":
            raise UserError("--address is the address of a Ray cluster; it needs --engine ray")


DEFAULTS = RunOptions()
