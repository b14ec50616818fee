"""Run the study on equal cost, keep its calls, replay them, and write its page.

    python -m eval.studies.equal_cost questions --data DATA          # questions and pools again, from their data
    python -m eval.studies.equal_cost run --model qwen-0.5b --url http://127.0.0.1:8905/v1 --files FOLDER
    python -m eval.studies.equal_cost run --model mixed --url qwen-0.5b=URL --url qwen-1.5b=URL --files FOLDER
    python -m eval.studies.equal_cost replay                         # the kept calls, through today's engine
    python -m eval.studies.equal_cost page                           # docs/study.md and two more pages

`run` advances all arms through the questions in blocks, and keeps the results after each. Kill it at any time: the same
command goes on, and loses at most the calls in flight; without its experiment it goes on from the kept calls. Serve a
model with one slot, or with --concurrency slots.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from eval.command_line import folder_of, names_of, tell
from eval.real_models.models import MODELS, check_file
from eval.real_models.questions import Split
from eval.studies.equal_cost_evidence import write_evidence_pages
from eval.studies.equal_cost_kept import KeptStudy, changed_prompts, differences, keep, read_study
from eval.studies.equal_cost_page import write_page
from eval.studies.equal_cost_questions import NAME, write_questions
from eval.studies.kept_calls import asked_with_schemas, copy_calls, restore_calls
from eval.studies.no_model import NoModel
from madke._util.files import write_file
from madke.core.errors import UserError, unknown
from madke.experiments.ablation import run_experiment
from madke.experiments.experiment import CALLS, FILE, Experiment, is_experiment
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Arm, Recipe, read_recipe
from madke.runs.options import RunOptions
from madke.runs.request import RunRequest

_STUDY = Path(__file__).parent / "equal-cost"
_ROOT = Path(__file__).parents[2]
MIXED = "mixed"
_PANEL = ("qwen-0.5b", "qwen-1.5b")
"""The debaters of the mixed panel, in turn; all other roles have the last."""
_MIXED_ARMS = ("gated", "mad", "moa", "madke")
SIZES = {"qwen-0.5b": 102, "qwen-1.5b": 60, "smollm2-135m": 60, MIXED: 60}
BLOCK = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the options say; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.does(options))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def arms_of(model: str, only: Sequence[str] = (), *, served_as: str | None = None) -> Recipe:
    """The recipe of one model, or of the mixed panel; ``only`` these arms."""
    recipe = read_recipe(str(_STUDY / "recipe.yaml"))
    known = [arm.name for arm in recipe.all_arms()]
    for name in only:
        if name not in known:
            raise unknown("arm", name, known)
    wanted = [arm for arm in recipe.arms if not only or arm.name in only]
    if model == MIXED:
        wanted = [_mixed(arm) for arm in wanted if arm.name in _MIXED_ARMS]
    name = served_as or (_PANEL[-1] if model == MIXED else model)
    first = "madke" if any(arm.name == "madke" for arm in wanted) else None
    return recipe.model_copy(update={"arms": tuple(wanted), "model": name, "reference": first})


def _mixed(arm: Arm) -> Arm:
    # The last debater of moa is its aggregator.
    debaters = {"mad": 3, "moa": 6}.get(arm.name, 2)
    cast = {f"Debater {n + 1}": _PANEL[n % 2] for n in range(debaters)}
    return arm.model_copy(update={"cast": cast})


def run_block(
    recipe: Recipe,
    split: Split,
    limit: int,
    folder: Path,
    models: Path,
    *,
    concurrency: int = 1,
    model: NoModel | None = None,
) -> Experiment:
    """Run every arm on the first questions, or go on with it. ``model``: instead of the recipe's."""
    request = RunRequest(limit=limit, seed=0)
    spec = read_experiment_spec(recipe, [str(split.questions)], request, model=model, pools=[str(split.pools)])
    options = RunOptions(concurrency=concurrency, models_file=models)

    def on_arm(number: int, arm: Arm) -> None:
        tell(f"{time.strftime('%a %H:%M')} questions 1 to {limit}, arm {number} of {len(spec.arms)}: {arm.name}")

    return run_experiment(spec, folder, options, on_arm=on_arm, signals=True)


def _run(options: argparse.Namespace) -> int:
    model, work = options.model, options.work / options.model
    if model not in SIZES:
        raise unknown("model", model, SIZES)
    if options.files is not None:
        for key in _PANEL if model == MIXED else (model,):
            check_file(MODELS[key], options.files / f"{key}.gguf")
    elif options.served_as is None:
        raise UserError("name the folder of the model's file with --files: its SHA-256 is checked")
    recipe, split = arms_of(model, options.arms, served_as=options.served_as), Split.of(options.questions, NAME)
    last = options.limit or SIZES[model]
    models = work.with_name(f"{model}.models.yaml")
    write_file(models, yaml.safe_dump(_addresses(options)).encode())
    kept = options.calls / f"{model}.jsonl.xz"
    behind = _questions_begun(work) or _restored(work, kept, model)
    for limit in _limits(options.block, last, behind):
        experiment = run_block(recipe, split, limit, work, models, concurrency=options.concurrency)
        if experiment.unfinished:
            for name, why in experiment.unfinished.items():
                tell(f"arm {name}: {why}")
            tell("the same command goes on")
            return 1
        if not options.arms:
            keep(work, recipe, kept, model=model, limit=limit)
    return 0


def _limits(block: int, last: int, begun: int) -> list[int]:
    """How many questions each step asks, without those that the experiment has behind it."""
    return [limit for limit in [*range(block, last, block), last] if limit >= begun]


def _questions_begun(folder: Path) -> int:
    """Of the experiment in ``folder``: an experiment grows, and refuses fewer questions than it has."""
    if not is_experiment(folder):
        return 0
    return len(json.loads((folder / FILE).read_text(encoding="utf-8"))["questions"])


def _restored(work: Path, kept: Path, model: str) -> int:
    """Fill the call store of a new experiment with the calls that are kept. Returns how many questions they answer."""
    if (work / CALLS).exists():
        return 0
    if kept.exists():
        restore_calls(kept, work / CALLS)
        return read_study(kept).questions
    for key in _PANEL if model == MIXED else ():
        if (store := work.parent / key / CALLS).is_file():
            copy_calls(store, work / CALLS, payer=key)
    return 0


def _addresses(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """The entries of ``models.yaml``: each model of the run at its address."""
    needed = list(_PANEL) if options.model == MIXED else [options.model]
    if options.served_as is not None:
        return {}
    given = dict(text.rpartition("=")[::2] if text.partition("=")[0] in MODELS else ("", text) for text in options.url)
    found = {name: {"base_url": given.get(name) or given.get("", "")} for name in needed}
    if missing := [name for name, entry in found.items() if not entry["base_url"]]:
        raise UserError(f"no address for {missing[0]}: --url {missing[0]}=http://...")
    return found


def _replay(options: argparse.Namespace) -> int:
    different = 0
    for file in _kept_files(options.calls, options.model):
        study = read_study(file)
        with tempfile.TemporaryDirectory() as folder:
            replayed = replayed_study(file, study, Path(folder) / study.model, options.questions, options.limit)
            found = differences(study, replayed)
        total = sum(map(len, replayed.transcripts.values()))
        tell(f"{study.model}: {total - len(found)} of {total} debates are the same as kept")
        for line in found[:10]:
            tell(f"  {line}")
        if found and (changed := changed_prompts(study)):
            tell(f"  {len(changed)} prompt files have changed since madke {study.version}, such as {changed[0]}: ")
            tell("  a call is found by its prompt, so check out the commit of the kept calls to replay them")
        different += len(found)
    return int(bool(different))


def replayed_study(
    file: Path, study: KeptStudy, folder: Path, questions: Path = _STUDY, limit: int | None = None
) -> KeptStudy:
    """Debate again with the kept calls alone, in ``folder``; a call that is not among them fails."""
    recipe = arms_of(study.model, study.arms, served_as=study.served_as)
    restore_calls(file, folder / CALLS)
    models = folder.with_name(f"{study.model}.models.yaml")
    names = dict.fromkeys((*_PANEL, study.model))
    write_file(models, yaml.safe_dump({name: {"python": "eval.studies.no_model:NoModel"} for name in names}).encode())
    asked = min(limit or study.questions, study.questions)
    # A model of another name, such as hf/PATH, would be loaded.
    own = study.served_as
    model = NoModel(own, takes_schemas=asked_with_schemas(file)) if own else None
    run_block(recipe, Split.of(questions, NAME), asked, folder, models, concurrency=16, model=model)
    keep(folder, recipe, kept := folder.with_name(f"{study.model}.replay.xz"), model=study.model, limit=asked)
    return read_study(kept)


def _page(options: argparse.Namespace) -> int:
    files = _kept_files(options.calls, None) if any(options.calls.glob("*.jsonl.xz")) else []
    studies = [read_study(file) for file in files]
    write_page(studies, options.page, SIZES)
    write_evidence_pages(studies, Split.of(options.questions, NAME).read()[1], options.evidence)
    return 0


def _questions(options: argparse.Namespace) -> int:
    if options.data is None:
        raise UserError("name the folder of the data with --data or MADKE_DATA")
    write_questions(options.data, options.questions)
    return 0


def _kept_files(folder: Path, model: str | None) -> list[Path]:
    found = sorted(folder.glob("*.jsonl.xz"), key=lambda file: [*SIZES].index(file.name.partition(".jsonl")[0]))
    found = [file for file in found if model in (None, file.name.partition(".jsonl")[0])]
    if not found:
        raise UserError("no kept calls; expected MODEL.jsonl.xz", file=folder)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.studies.equal_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run = _verb(verbs, "run", _run, "run or resume the arms of one model")
    run.add_argument("--model", required=True, metavar="NAME", help=f"one of {', '.join(SIZES)}")
    run.add_argument("--url", action="append", default=[], metavar="[NAME=]URL", help="address of a model; repeatable")
    run.add_argument("--files", type=Path, metavar="FOLDER", default=folder_of("REAL_MODELS"), help="files NAME.gguf")
    run.add_argument("--served-as", metavar="MODEL", help="another madke model, such as hf/PATH on a GPU; no --url")
    run.add_argument("--limit", type=int, metavar="N", help=f"first questions; default {SIZES}")
    run.add_argument("--block", type=int, default=BLOCK, metavar="N", help=f"default {BLOCK}")
    run.add_argument("--arms", type=names_of, default=[], metavar="NAMES", help="only these; nothing is kept")
    run.add_argument("--concurrency", type=int, default=1, metavar="N", help="calls at a time (default 1)")
    run.add_argument("--work", type=Path, default=Path("runs/equal-cost"), metavar="FOLDER", help="experiments")
    replay = _verb(verbs, "replay", _replay, "debate again with the kept calls, and compare")
    replay.add_argument("--model", metavar="NAME", help="only this one")
    replay.add_argument("--limit", type=int, metavar="N", help="only the first questions")
    page = _verb(verbs, "page", _page, "write the page and its figure from what is kept")
    page.add_argument("--page", type=Path, default=_ROOT / "docs" / "study.md", metavar="FILE")
    page.add_argument("--evidence", type=Path, default=_STUDY, metavar="FOLDER", help="two more pages")
    questions = _verb(verbs, "questions", _questions, "make questions and pools from their data")
    questions.add_argument("--data", type=Path, default=folder_of("MADKE_DATA"), metavar="FOLDER")
    return parser


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, does: object, about: str
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=about)
    verb.set_defaults(does=does)
    verb.add_argument("--questions", type=Path, default=_STUDY, metavar="FOLDER", help="questions and pools")
    verb.add_argument("--calls", type=Path, default=_STUDY / "calls", metavar="FOLDER", help="kept calls")
    return verb


if __name__ == "__main__":
    raise SystemExit(main())
