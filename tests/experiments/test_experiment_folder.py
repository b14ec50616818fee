"""An experiment's folder: what it refuses before anything is asked, and what may change when it goes on."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.data import read_dataset
from madke.experiments import experiment as experiment_module
from madke.experiments.experiment import Experiment, read_experiment
from madke.experiments.experiment_spec import ExperimentSpec
from madke.experiments.recipe import read_recipe
from madke.models.store import CallStore
from madke.runs.meter import budget_of
from madke.runs.request import DEFAULTS, RunRequest, askable
from tests.support.dataset import write_dataset

WIKI = "{name: wiki, protocol: rag, sources: wiki}"
BOTH = '{name: both, protocol: rag, sources: "wiki,google"}'


class Google:
    """A source that finds the same for every query."""

    name = "google"
    description = "a test"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def search(self, queries: Any, k: Any) -> Any:
        self.asked += queries
        found = Passage(source="google", key="g", title="Lakes", text="Baikal is the deepest.", score=1.0, rank=0)
        return [Hits(passages=(found,)) for _ in queries]


@pytest.fixture(autouse=True)
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """No source but those that a test brings along."""

    def opened(name: Any, spec: Any = None) -> Any:
        assert isinstance(spec, Google), f"{name} is opened"
        return spec

    monkeypatch.setattr(experiment_module, "open_source", opened)


@pytest.fixture
def lakes(tmp_path: Path) -> Any:
    """Two questions, their pools and a script that answers them."""
    write_dataset(tmp_path, 2)
    (tmp_path / "script.yaml").write_text('- reply: "The answer is [Lake Baikal]."\n')
    return tmp_path


def experiment_spec(folder: Any, *arms: Any, pools: Any = ("pools.jsonl",), **changes: Any) -> Any:
    file = folder / "recipe.yaml"
    model = f"scripted/{folder / 'script.yaml'}"
    listed = "".join(f"  - {arm}\n" for arm in arms)
    file.write_text(f"title: Lakes\nsource: a test\nmodel: {model}\narms:\n{listed}")
    fields = {"recipe": read_recipe(str(file)), "file": file, "data": "questions.jsonl"}
    fields |= {"questions": read_dataset(folder / "questions.jsonl"), "pools": [folder / name for name in pools]}
    request = {name: changes.pop(name) for name in [*changes] if name in askable("experiment")}
    return ExperimentSpec(request=RunRequest(**request), **fields | changes)


@contextmanager
def begun(folder: Any, *arms: Any, options: Any = DEFAULTS, **changes: Any) -> Iterator[Any]:
    """The experiment, begun."""
    wanted = experiment_spec(folder, *arms, **changes)
    experiment = Experiment(path=folder / "out", experiment_spec=wanted, options=options, budget=budget_of(options))
    with experiment.open():
        yield experiment


def run(folder: Any, *arms: Any, only: Any = None, **changes: Any) -> None:
    """Run the arms; only some of them, as if it had been stopped."""
    with begun(folder, *arms, **changes) as experiment:
        for arm in experiment.experiment_spec.arms:
            if only is None or arm.name in only:
                asyncio.run(experiment.run(arm))


def bills(folder: Any) -> Any:
    """Arm -> calls that were made for it."""
    with CallStore(folder / "out" / "calls.sqlite") as store:
        return {payer: bill.calls for (payer, _), bill in store.paid().items()}


def refusal(folder: Any, *arms: Any, **changes: Any) -> Any:
    with pytest.raises(UserError) as refused:
        run(folder, *arms, **changes)
    return str(refused.value)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("openai-ok2", "arm 'late': unknown model 'openai-ok2'; did you mean 'openai'?"),
        ("offline/x", "arm 'late': model 'offline/x': expected offline"),
        ("azure/deployed", "arm 'late': AZURE_OPENAI_ENDPOINT is not set"),
        ("scripted/missing.yaml", "arm 'late': missing.yaml: cannot be read"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_any_arm_asks_or_a_plan_is_made(
    lakes: Any, monkeypatch: pytest.MonkeyPatch, model: str, found: str
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    arms = ["{name: early, protocol: cot}", f"{{name: late, protocol: cot, model: {model}}}"]
    said = refusal(lakes, *arms)
    assert said.startswith(f"{lakes / 'recipe.yaml'}: {found}")
    assert not (lakes / "out").exists()
    if "azure" not in model:  # who asks nobody needs no endpoint
        with pytest.raises(UserError, match=r"arm 'late'"):
            experiment_spec(lakes, *arms).check()


def test_only_arms_that_will_ask_need_a_key(lakes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    wanted = experiment_spec(lakes, "{name: one, protocol: cot, model: openai/m}", "{name: two, protocol: cot}")
    wanted.check_models()
    wanted.check_models(asking=["two"])
    with pytest.raises(UserError, match="arm 'one': OPENAI_API_KEY is not set"):
        wanted.check_models(asking=["one"])


def test_arms_may_come_and_go_and_those_that_have_begun_pay_nothing_again(lakes: Any) -> None:
    run(lakes, WIKI, "{name: other, protocol: cot}", "{name: left, protocol: standard}", only=["wiki", "left"])
    assert bills(lakes) == {"wiki": 2, "left": 2}
    run(lakes, "{name: new, protocol: standard, seed: 5}", WIKI, "{name: other, protocol: standard, seed: 4}")
    assert bills(lakes) == {"wiki": 2, "left": 2, "new": 2, "other": 2}
    recipe, folders = read_experiment(lakes / "out")
    assert [arm.name for arm in recipe.all_arms()] == [folder.name for folder in folders] == ["new", "wiki", "other"]


@pytest.mark.parametrize(
    ("arm", "found"),
    [
        ("{name: wiki, protocol: rag, sources: wiki, set: {temperature: 0.1}}", "(set)"),
        ("{name: wiki, protocol: rag, sources: wiki, seed: 3}", "(seed)"),
        ("{name: wiki, protocol: rag, sources: wiki, model: offline}", "(model)"),
    ],
)
def test_an_arm_that_has_begun_stays_what_it_is(lakes: Any, arm: str, found: str) -> None:
    run(lakes, WIKI, "{name: other, protocol: cot}", only=["wiki"])
    record = (lakes / "out" / "experiment.json").read_bytes()
    said = refusal(lakes, arm, "{name: other, protocol: cot}")
    assert "arm 'wiki' has already started with another setting" in said
    assert found in said
    assert (lakes / "out" / "experiment.json").read_bytes() == record
    assert bills(lakes) == {"wiki": 2}


@pytest.mark.parametrize(
    ("changes", "found"), [({"seed": 1}, "its seed differs"), ({"repeats": 2}, "its repeats differs")]
)
def test_what_all_arms_share_stays(lakes: Any, changes: dict[str, Any], found: str) -> None:
    run(lakes, WIKI)
    assert found in refusal(lakes, WIKI, **changes)


def test_an_experiment_of_the_former_format_is_refused_in_one_line(lakes: Any) -> None:
    run(lakes, WIKI)
    file = lakes / "out" / "experiment.json"
    record = json.loads(file.read_text())
    del record["format"]
    file.write_text(json.dumps(record))
    assert refusal(lakes, WIKI).startswith(f"{file}: has format 1, but this version of madke reads format 2")


def test_pools_that_an_arm_has_begun_with_get_no_further_source(lakes: Any) -> None:
    run(lakes, WIKI)
    said = refusal(lakes, WIKI, BOTH)
    assert "source 'google' is missing or different" in said
    assert f"--pools {lakes / 'out' / 'pools.jsonl'}" in said
    assert "--pools differs" in refusal(lakes, WIKI, pools=())
    run(lakes, WIKI)
    assert bills(lakes) == {"wiki": 2}


@pytest.mark.parametrize(
    ("arm", "pools", "found"),
    [
        (WIKI, ("missing.jsonl",), "missing.jsonl: cannot be read"),
        ("{name: one, protocol: rag, sources: wki}", ("pools.jsonl",), "arm 'one': unknown source 'wki'; did you mean"),
        ("{name: one, protocol: rag, sources: wki}", (), "arm 'one': unknown source 'wki'; did you mean"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_what_is_refused_leaves_no_folder(
    lakes: Any, monkeypatch: pytest.MonkeyPatch, arm: Any, pools: tuple[str, ...], found: str, there: bool
) -> None:
    monkeypatch.chdir(lakes)
    out = lakes / "out"
    if there:
        out.mkdir()
    assert found in refusal(lakes, arm, pools=pools)
    assert out.exists() == there
    assert not there or not any(out.iterdir())


@pytest.mark.parametrize(
    ("arm", "found"),
    [
        ("{name: x, protocol: madk}", "arm 'x': unknown protocol 'madk'; did you mean 'madke'?"),
        ("{name: x, protocol: mad, cast: {jugde: offline}}", "arm 'x': unknown role 'jugde'"),
        ("{name: x, protocol: mad, set: {round: 2}}", "arm 'x': set unknown parameter 'round'; did you mean 'rounds'?"),
        (
            "{name: x, protocol: mad, set: {knowledge.select: all}}",
            "arm 'x': set knowledge.select: since 0.5.0 it is select",
        ),
        ("{name: x, protocol: rag, sources: 'a,a'}", "arm 'x': sources 'a,a': 'a' is named twice"),
    ],
)
def test_what_is_wrong_with_an_arm_is_said_with_file_and_arm(lakes: Any, arm: str, found: str) -> None:
    said = refusal(lakes, "{name: fine, protocol: cot}", arm)
    assert said.startswith(f"{lakes / 'recipe.yaml'}: {found}")
