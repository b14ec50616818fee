"""``madke ablate``: the arms of a recipe over the same questions, pools and calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from madke._util.terminal import say_table
from madke.cli import flags
from madke.core.errors import UserError
from madke.runs.directory import question_files, refuse_own_files
from madke.runs.request import RunOptions, RunRequest

if TYPE_CHECKING:
    from madke.experiments.experiment_spec import ExperimentSpec

EPILOG = flags.epilog(
    "Arms share retrieval, and calls with the same prompt and purpose. Each is made and paid once.",
    "With --sources, arms with all sources of the recipe get all of yours. A recipe with an arm for each source gets "
    "one for each of yours. A recipe searches the shipped sample only for the sample questions, or if "
    "--sources names it.",
    flags.EXIT_STATUS,
    flags.PRICES,
    flags.LIMITS,
)


@flags.request_options("experiment", without="engine retry_degraded")
def command(
    request: RunRequest,
    options: RunOptions,
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="YAML file or shipped recipe. Default: list those.")
    ] = None,
    out: Annotated[Path | None, flags.option("Experiment folder. The same command resumes it.", "DIR")] = None,
    data: Annotated[
        list[str] | None, flags.option("Questions, or NAME=PATH for a published dataset. Repeatable.", "[NAME=]PATH")
    ] = None,
    model: Annotated[
        str | None,
        flags.option("Model of arms that name none. Default: the recipe's.", "MODEL", names=("--model", "-m")),
    ] = None,
    models: Annotated[
        str | None, flags.option("Run every arm with each of these models.", "MODEL,...", flags.MODELS)
    ] = None,
    sources: Annotated[
        str | None,
        flags.option("Sources instead of the recipe's, see below.", "NAME=PATH,...", flags.KNOWLEDGE),
    ] = None,
    pools: flags.PoolFiles = None,
    plan: flags.Plan = False,
    as_json: Annotated[bool, flags.switch("--json", "With --plan: print JSON.")] = False,
) -> None:
    """Run all arms of a recipe over the same questions, pools and calls. Compare them and write a report.

    Examples:
      madke ablate
      madke ablate source-ablation --data questions.jsonl --sources docs=./docs,notes=./notes --out runs/sources
      madke ablate RECIPE --data questions.jsonl --plan
      madke ablate RECIPE --data questions.jsonl --out experiments/first
    """
    from madke.cli.plans_and_results import refuse_limits, run_arms, show_experiment_plan
    from madke.experiments.experiment_spec import read_experiment_spec
    from madke.experiments.recipe import read_recipe, recipe_files

    if recipe is None:
        recipes = {name: read_recipe(name) for name in recipe_files()}
        rows = [(name, each.title, each.source) for name, each in recipes.items()]
        say_table(("recipe", "title", "source"), rows)
        return
    if plan:
        refuse_limits(options)
    elif as_json:
        raise UserError("--json prints a plan and needs --plan; `madke score --json` prints scores")
    spec = read_experiment_spec(
        recipe,
        data or (),
        request,
        model=model,
        models=() if models is None else [name.strip() for name in models.split(",")],
        pools=pools or (),
        sources={} if sources is None else sources,
    )
    if out is not None and not plan:
        refuse_overwritten(out, data or (), spec, options)
    spec.check(options)
    if plan:
        show_experiment_plan(spec, options, as_json=as_json)
        return
    if out is None:
        raise UserError("--out is missing: the folder to write the experiment to; only --plan works without it")
    run_arms(spec, out, options)


def refuse_overwritten(out: Path, data: Sequence[str], spec: ExperimentSpec, options: RunOptions) -> None:
    """Refuse inputs that the experiment would overwrite."""
    from madke.retrieval.named import source_paths

    files = [file for text in data for file in question_files(Path(text.rpartition("=")[2]))]
    files += [*source_paths(spec.all_specs), *spec.pools]
    refuse_own_files(out, [*files, *filter(None, (options.prices, spec.file))])
