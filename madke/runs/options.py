"""Options that control how a run executes and never change its results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from madke.core.chat import Prefix
from madke.core.errors import UserError
from madke.runs.fields import CLUSTER, COST, KNOWLEDGE, MODELS, RESUME, check_least, described, paths_from_texts


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run executes; no option changes a result. Each field is a command line option of the same name.

    A text is accepted for a path.
    """

    concurrency: int = described(16, "Questions and model calls at a time.", MODELS, least=1, metavar="N", type=int)
    base_url: str | None = described(
        None, "Endpoint of openai/ and azure/ models.", MODELS, metavar="URL", type=str | None
    )
    models_file: Path | None = described(
        None, "Names of endpoints. Default: MADKE_MODELS, or ./models.yaml.", MODELS, metavar="FILE", type=Path | None
    )
    sources_file: Path | None = described(
        None,
        "Names of sources. Default: MADKE_SOURCES, or ./sources.yaml.",
        KNOWLEDGE,
        metavar="FILE",
        type=Path | None,
    )
    rpm: int | None = described(
        None, "Maximum calls per minute to each endpoint.", MODELS, least=1, metavar="N", type=int | None
    )
    tpm: int | None = described(
        None, "Maximum tokens per minute to each endpoint.", MODELS, least=1, metavar="N", type=int | None
    )
    prefix: Prefix = described("auto", "Whether calls that begin alike wait for the first of them.", type=Prefix)
    prices: Path | None = described(None, "Prices per million tokens, as YAML.", COST, metavar="FILE", type=Path | None)
    max_cost: float | None = described(
        None, "Start no question at or above this cost.", COST, least=0, metavar="X", type=float | None
    )
    token_budget: int | None = described(
        None, "Start no question at or above this many tokens.", COST, least=1, metavar="N", type=int | None
    )
    deadline: str | None = described(
        None, "Start no call after this time: 45m, 06:30, ...", COST, metavar="TIME", type=str | None
    )
    engine: Literal["local", "ray"] = described(
        "local", "Call models from this machine or from a Ray cluster.", CLUSTER, type=Literal["local", "ray"]
    )
    address: str | None = described(
        None,
        "Cluster's HOST:PORT, or auto. Default: RAY_ADDRESS, or start one.",
        CLUSTER,
        metavar="ADDRESS",
        type=str | None,
    )
    replay: bool = described(
        False, "Rebuild transcripts from stored calls, offline.", RESUME, flags="--replay", type=bool
    )
    retry_failed: bool = described(
        True, "Whether to run failed questions again.", RESUME, flags="--retry-failed/--keep-failed", type=bool
    )
    retry_degraded: bool = described(
        False, "Also repeat failed calls of finished questions.", RESUME, flags="--retry-degraded", type=bool
    )

    def __post_init__(self) -> None:
        check_least(self)
        paths_from_texts(self)
        if self.address is not None and self.engine != "ray":
            raise UserError("--address is the address of a Ray cluster; it needs --engine ray")


DEFAULTS = RunOptions()
