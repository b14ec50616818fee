"""Run an experiment from its recipe to the scores of its arms, as ``madke ablate`` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from madke._util.concurrency import outside_loop
from madke.core.errors import UserError, suggesting
from madke.core.events import Listener, never_raising, silent
from madke.core.knowledge import Source
from madke.experiments.experiment import Experiment
from madke.experiments.experiment_spec import ExperimentSpec, QuestionSets, read_experiment_spec
from madke.experiments.load import Planned
from madke.experiments.plan import REPLY_TOKENS, Planner, planned
from madke.experiments.recipe import Arm, Recipe
from madke.runs.meter import Account, account, planned_prices
from madke.runs.pools import priced_models
from madke.runs.request import DEFAULTS, NOTHING, Model, RunOptions, RunRequest, takes_request


@suggesting
@takes_request("experiment")
def ablate(
    recipe: str | Path | Recipe,
    data: str | Path | QuestionSets,
    *,
    out: str | Path,
    model: Model | None = None,
    models: Sequence[str] = (),
    wordings: Sequence[str | Path] = (),
    sources: str | Mapping[str, Source] = NOTHING,
    pools: str | Path | Sequence[str | Path] = (),
    options: RunOptions = DEFAULTS,
    listen: Listener = silent,
    **asked: Any,
) -> Experiment:
    """Run every arm of a recipe over frozen pools and one call store.

    Arms share retrieval, and calls with the same prompt and purpose are made once. The same call again resumes, also
    with a larger ``limit``, and pays nothing twice. It works inside a running event loop.

    Args:
        recipe: A shipped recipe's name, the path of a YAML file, or a :class:`Recipe`.
        data: A file of questions, ``NAME=PATH`` for a published one, or a list of files or :class:`madke.Question`.
        out: The experiment's folder.
        model: The default model: a name, an object, or a function of messages. Default: the recipe's.
        models: Several models: every arm runs with each.
        wordings: Folders of protocols in other words: the arms of these protocols run with the shipped prompts, and
            with those of each folder.
        sources: The sources instead of the recipe's, as for ``--sources``; or name -> source object.
        pools: A pool file, or several; other sources are queried.
        options: Concurrency, limits for all arms together, prices, endpoint, replay.
        listen: Called with every event of debates, sources, pools and runs (:mod:`madke.core.events`).
        asked: Fields of :class:`madke.RunRequest` for all arms, such as ``limit``, ``repeats`` and ``seed``; the
            signature that ``help(madke.ablate)`` shows has all of them.

    Raises:
        UserError: An input is missing or invalid, or the folder holds another experiment.
    """
    files = [pools] if isinstance(pools, str | Path) else pools
    experiment_spec = read_experiment_spec(
        recipe,
        [data] if isinstance(data, str | Path) else data,
        RunRequest(**asked),
        model=model,
        models=models,
        wordings=wordings,
        sources=sources,
        pools=files,
    )
    work = partial(run_experiment, experiment_spec, Path(out), options, listen=listen)
    return outside_loop(work)


def run_experiment(
    experiment_spec: ExperimentSpec,
    out: Path,
    options: RunOptions,
    *,
    listen: Listener = silent,
    on_plans: Callable[[Sequence[Planned]], None] | None = None,
    on_arm: Callable[[int, Arm], None] = lambda number, arm: None,
    reply_tokens: int = REPLY_TOKENS,
    own: Account | None = None,
    sources: dict[str, Source] | None = None,
    signals: bool = False,
) -> Experiment:
    """Run or resume every arm that can run; see :func:`ablate`.

    ``on_plans`` gets the plans of all arms before the first arm starts; without it nothing is planned. ``on_arm`` gets
    each arm before it runs, with its number from 1. Plans assume ``reply_tokens`` per reply. ``own``: the account of
    several experiments. ``sources``: the sources that an earlier one has opened, and new ones. With ``signals``,
    SIGINT, SIGTERM and SIGHUP end the experiment without losing paid calls.
    """
    experiment_spec.check(options)
    own = own or account(options)
    own.budget.check([*experiment_spec.models, *priced_models(experiment_spec.staged)])
    tell = never_raising(listen)
    experiment = Experiment(
        path=out,
        experiment_spec=experiment_spec,
        options=options,
        account=own,
        tell=tell,
        signals=signals,
        sources={} if sources is None else sources,
    )
    with experiment.opened():
        if on_plans is not None:
            pools = experiment.pools if experiment.pools.exists() else None
            planner = Planner(prices=planned_prices(own.budget.prices, options), reply_tokens=reply_tokens)
            experiment.plans.extend(planned(experiment_spec, planner, pools, debaters=experiment.debaters))
            on_plans(experiment.plans)
        wrong: list[UserError] = []
        for number, arm in enumerate(experiment_spec.arms, start=1):
            if reason := experiment.waits_for(arm):
                experiment.unfinished[arm.name] = reason
                continue
            on_arm(number, arm)
            try:
                meter = experiment.meters[arm.name] = asyncio.run(experiment.run(arm))
            except UserError as error:  # must not stop the other arms
                experiment.unfinished[arm.name] = str(error)
                wrong.append(error)
                continue
            if meter.left_over:
                experiment.unfinished[arm.name] = meter.stopped or "the call store lacks calls"
                if meter.stopped:
                    break
        if wrong and not experiment.arms:
            raise wrong[0]
        return experiment
