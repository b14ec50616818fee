"""Run the study, keep its calls, and replay them. PLAN.md says what is compared.

    python -m eval.studies.pays run --model qwen-0.5b --url http://127.0.0.1:8905/v1 --files FOLDER
    python -m eval.studies.pays run --model openai/NAME --served-as openai/NAME    # any endpoint, with a key
    python -m eval.studies.pays replay                                             # the kept calls, without a model
    python -m eval.studies.pays page                                               # docs/study.md, from the kept calls
    python -m eval.studies.pays questions --data DATA                              # questions and pools anew

`run` advances the core arms through the questions in blocks, then the others, and keeps the calls after each block.
Kill it at any time: the same command goes on, and loses at most the calls in flight; on another machine it goes on from
the kept calls. Serve a model with one slot, or with --concurrency slots.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from unittest.mock import patch

import yaml

from eval.studies.kept import (
    KeptStudy,
    NoModel,
    asked_with_schemas,
    changed_prompts,
    differences,
    keep,
    read_study,
    restore_calls,
    results_of,
)
from eval.studies.pays.page import write_page
from eval.studies.pays.questions import write_questions
from eval.studies.pays.results import CORE, MODELS, StudyModel, plan_of
from madke._util.files import write_file
from madke.core.errors import UserError, unknown
from madke.experiments.experiment import CALLS, FILE, Experiment, is_experiment
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Arm, Recipe, read_recipe
from madke.runs.meter import budget_of
from madke.runs.request import RunOptions, RunRequest

FOLDER = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "study.md"
BLOCK = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the options say; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.does(options) or 0
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def parts_of(served_as: str) -> dict[str, Recipe]:
    """``core`` and ``others`` -> the recipe with these arms only, and with its model."""
    recipe = read_recipe(str(FOLDER / "recipe.yaml"))
    core = tuple(arm for arm in recipe.arms if arm.name in CORE)
    others = tuple(arm for arm in recipe.arms if arm.name not in CORE)
    return {
        "core": recipe.model_copy(update={"arms": core, "model": served_as}),
        "others": recipe.model_copy(update={"arms": others, "model": served_as, "reference": None}),
    }


def run_block(
    recipe: Recipe,
    questions: Path,
    limit: int,
    folder: Path,
    *,
    concurrency: int = 1,
    model: NoModel | None = None,
) -> Experiment:
    """Run every arm on the first questions, or go on with it. ``model``: instead of the recipe's."""
    request = RunRequest(limit=limit, seed=0)
    asked, pools = (str(questions / f"{name}.jsonl.gz") for name in ("questions", "pools"))
    spec = read_experiment_spec(recipe, [asked], request, model=model, pools=[pools])
    options = RunOptions(concurrency=concurrency)

    def on_arm(number: int, arm: Arm) -> None:
        _tell(f"{time.strftime('%a %H:%M')} questions 1 to {limit}, arm {number} of {len(spec.arms)}: {arm.name}")

    budget = budget_of(options)
    return Experiment(path=folder, experiment_spec=spec, options=options, budget=budget, signals=True).run_arms(
        on_arm=on_arm
    )


def _run(options: argparse.Namespace) -> int:
    model = options.model
    name = model.replace("/", "-")
    work, kept = options.work / name, options.calls / f"{name}.jsonl.xz"
    if options.served_as is None:
        if model not in MODELS:
            raise unknown("model", model, MODELS)
        if options.files is None or not options.url:
            raise UserError("name the folder of the model's file with --files, and its address with --url")
        _check_file(options.files / f"{model}.gguf", MODELS[model])
    models = work.with_name(f"{name}.models.yaml")
    addresses = {} if options.served_as else {model: {"base_url": options.url}}
    write_file(models, yaml.safe_dump(addresses).encode())
    parts = parts_of(options.served_as or model)
    plan = plan_of(model)
    last = options.limit or plan.planned
    sizes = {"core": last, "others": min(last, plan.others or last)}
    for part, recipe in parts.items():
        folder = work / part
        begun = _questions_begun(folder) or _restored(folder, kept, recipe)
        for limit in [*range(options.block, sizes[part], options.block), sizes[part]]:
            if limit < begun:
                continue
            with patch.dict(os.environ, MADKE_MODELS=str(models)):
                experiment = run_block(recipe, options.questions, limit, folder, concurrency=options.concurrency)
            if experiment.unfinished:
                for arm, why in experiment.unfinished.items():
                    _tell(f"arm {arm}: {why}")
                _tell("the same command goes on")
                return 1
            done = {work / each: parts[each] for each in parts if is_experiment(work / each)}
            keep(done, kept, model=name, served_as=options.served_as)
    return 0


def _check_file(file: Path, model: StudyModel) -> None:
    """UserError if ``file`` is not the model's file."""
    if not file.is_file():
        raise UserError(f"no such file; expected the GGUF file of {model.name}", file=file)
    with file.open("rb") as opened:
        found = file_digest(opened, "sha256").hexdigest()
    if found != model.sha256:
        raise UserError(f"SHA-256 is {found}, expected {model.sha256} for {model.name}", file=file)


def _questions_begun(folder: Path) -> int:
    """Of the experiment in ``folder``: an experiment grows, and refuses fewer questions than it has."""
    if not is_experiment(folder):
        return 0
    return len(json.loads((folder / FILE).read_text(encoding="utf-8"))["questions"])


def _restored(folder: Path, kept: Path, recipe: Recipe) -> int:
    """Fill the call store of a new experiment with the kept calls. Returns how many questions they answer."""
    if (folder / CALLS).exists() or not kept.exists():
        return 0
    restore_calls(kept, folder / CALLS)
    return len(read_study(kept).transcripts.get(recipe.arms[0].name, ()))


def _replay(options: argparse.Namespace) -> int:
    different = 0
    for file in sorted(options.calls.glob("*.jsonl.xz")):
        study = read_study(file)
        with tempfile.TemporaryDirectory() as folder:
            replayed = replayed_study(file, study, Path(folder) / study.model, options.questions, options.limit)
            found = differences(study, replayed)
        total = sum(map(len, replayed.transcripts.values()))
        _tell(f"{study.model}: {total - len(found)} of {total} debates are the same as kept")
        for line in [*found[:10], *changed_prompts(study)[:1]]:
            _tell(f"  {line}")
        different += len(found)
    return int(bool(different))


def replayed_study(
    file: Path, study: KeptStudy, folder: Path, questions: Path = FOLDER, limit: int | None = None
) -> KeptStudy:
    """Debate again with the kept calls alone, in ``folder``; a call that is not among them fails."""
    name = study.served_as or study.model
    model = NoModel(name, takes_schemas=asked_with_schemas(file))
    done = {}
    for part, recipe in parts_of(name).items():
        count = len(study.transcripts.get(recipe.arms[0].name, ()))
        if count:
            restore_calls(file, folder / part / CALLS)
            run_block(recipe, questions, min(limit or count, count), folder / part, concurrency=16, model=model)
            done[folder / part] = recipe
    return results_of(done, model=study.model, served_as=study.served_as)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.studies.pays", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser("run", help="run or resume the arms of one model")
    run.set_defaults(does=_run)
    run.add_argument("--model", required=True, metavar="NAME", help=f"one of {', '.join(MODELS)}, or any name")
    run.add_argument("--url", metavar="URL", help="its address")
    run.add_argument("--files", type=Path, metavar="FOLDER", help="holds NAME.gguf")
    run.add_argument("--served-as", metavar="MODEL", help="another madke model, such as openai/NAME; no --url")
    run.add_argument("--limit", type=int, metavar="N", help="first questions; default: as planned")
    run.add_argument("--block", type=int, default=BLOCK, metavar="N", help=f"questions of a block; default {BLOCK}")
    run.add_argument("--concurrency", type=int, default=1, metavar="N", help="calls at a time; default 1")
    run.add_argument("--work", type=Path, default=Path("runs/pays"), metavar="FOLDER", help="experiments")
    replay = verbs.add_parser("replay", help="debate again with the kept calls, and compare")
    replay.set_defaults(does=_replay)
    replay.add_argument("--limit", type=int, metavar="N", help="only the first questions")
    questions = verbs.add_parser("questions", help="make questions and pools from their data")
    questions.set_defaults(does=lambda options: write_questions(options.data, options.questions))
    questions.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    page = verbs.add_parser("page", help="write the page of the study from the kept calls")
    page.set_defaults(does=lambda options: write_page(options.calls, options.out))
    page.add_argument("--out", type=Path, default=PAGE, metavar="FILE", help="default: docs/study.md")
    for verb in (run, replay, questions, page):
        verb.add_argument("--questions", type=Path, default=FOLDER, metavar="FOLDER", help="questions and pools")
        verb.add_argument("--calls", type=Path, default=FOLDER / "calls", metavar="FOLDER", help="kept calls")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
