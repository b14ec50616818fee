"""``madke run``: debate a dataset into a run directory. The same command resumes it."""

from pathlib import Path
from typing import Annotated, Any

from madke.cli import flags
from madke.cli.paths import question_files, refuse_own_files
from madke.runs.options import RunOptions

EPILOG = flags.epilog(
    *flags.NAMES,
    "First-round stances: a run directory, or JSON lines of id and stances (agent, text, answer).",
    flags.SCORER,
    flags.PRICES,
    flags.LIMITS,
    flags.EXIT_STATUS,
    "Examples:",
    "  madke run questions.jsonl --out runs/first --limit 20",
    "  madke run questions.jsonl -m openai/gpt-4o-mini --plan --out runs/mini",
)


@flags.shared_options("protocol model sources task limit cast answer_scorer dataset ids sample_seed settings prompts")
def command(
    data: flags.Questions,
    out: Annotated[Path, flags.option("Run directory. The same command resumes it.", "DIR")],
    shared: dict[str, Any],
    options: RunOptions,
    pools: Annotated[
        Path | None, flags.option("Pool file. Default: retrieve, and write OUT/pools.jsonl.", "FILE", flags.KNOWLEDGE)
    ] = None,
    first_round: Annotated[
        Path | None, flags.option("Take the first round from here, see below.", "FILE|DIR", flags.PROTOCOL)
    ] = None,
    repeats: Annotated[int, flags.option("Debates per question.", "N", flags.PROTOCOL, min=1)] = 1,
    seed: Annotated[int, flags.option("Sampling seed. Below 0: set by the server.", "N", flags.PROTOCOL)] = 0,
    plan: flags.Plan = False,
    reply_tokens: flags.ReplyTokens = 150,
    call_seconds: flags.CallSeconds = None,
) -> None:
    """Debate every question of a dataset. Write transcripts, calls, scores and a report to OUT."""
    from madke.api.batch import check_pools
    from madke.cli.plans_and_results import run_job, show_run_plan
    from madke.knowledge.named import source_paths
    from madke.runs.job import make_job

    own_seed = seed if seed >= 0 else None
    job = make_job(data, pools=pools, first_round=first_round, seed=own_seed, repeats=repeats, **shared)
    check_pools(job, pools)
    read = [*question_files(data), *source_paths(job.spec.source_specs), *filter(None, (first_round, options.prices))]
    refuse_own_files(out, read)
    if plan:
        show_run_plan(job, pools, out, options, reply_tokens, call_seconds)
    else:
        run_job(job, pools, out, options)
