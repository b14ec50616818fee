"""An experiment's folder: what it refuses before anything is asked, what may change, and more questions."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits, Passage
from madke.experiments.experiment import Experiment, ablate, read_experiment
from madke.experiments.experiment_spec import read_experiment_spec
from madke.models.store import CallStore
from madke.runs.directory import read_run, read_transcripts
from madke.runs.request import RunOptions
from tests.data.published import write
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import openai_server

WIKI = {"name": "wiki", "protocol": "rag", "sources": "wiki"}
BOTH = {"name": "both", "protocol": "rag", "sources": "wiki,google"}


class Lakes:
    """A source that finds the same for every query, and remembers what it was asked."""

    description = "lakes of a test"

    def __init__(self, name: str = "wiki") -> None:
        self.name = name
        self.asked: list[str] = []

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        self.asked += queries
        found = Passage(source=self.name, key="b", title="Lakes", text="Baikal is the deepest.", score=1.0, rank=0)
        return [Hits(passages=(found,)) for _ in queries]


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    """Six questions, their pools and a script that answers them."""
    write_dataset(tmp_path, 6, sources=["wiki"])
    write(tmp_path / "script.yaml", '- reply: "The answer is [Lake Baikal]."\n')
    return tmp_path


def recipe_of(folder: Path, *arms: dict[str, Any]) -> Path:
    recipe = {"title": "Lakes", "source": "a test", "model": f"scripted/{folder / 'script.yaml'}", "arms": arms}
    return write(folder / "recipe.yaml", recipe)


def ablated(
    folder: Path, *arms: dict[str, Any], pools: Sequence[str] = ("pools.jsonl",), limit: int = 2, **more: Any
) -> Experiment:
    files = [folder / name for name in pools]
    recipe, questions = recipe_of(folder, *arms), folder / "questions.jsonl"
    return ablate(recipe, questions, out=folder / "out", pools=files, limit=limit, **more)


def refusal(folder: Path, *arms: dict[str, Any], **more: Any) -> str:
    with pytest.raises(UserError) as refused:
        ablated(folder, *arms, **more)
    return str(refused.value)


def bills(folder: Path) -> dict[str, int]:
    """Arm -> calls that were made for it."""
    with CallStore(folder / "out" / "calls.sqlite") as store:
        return {payer: bill.calls for (payer, _), bill in store.paid().items()}


@pytest.mark.parametrize(
    ("arm", "found"),
    [
        ({"model": "openai-ok2"}, "arm 'x': unknown model 'openai-ok2'; did you mean 'openai'?"),
        ({"model": "azure/deployed"}, "arm 'x': AZURE_OPENAI_ENDPOINT is not set"),
        ({"protocol": "mad", "cast": {"jugde": "offline"}}, "arm 'x': unknown role 'jugde'"),
        ({"set": {"knowledge.select": "all"}}, "arm 'x': set knowledge.select: since 0.5.0 it is select"),
        ({"protocol": "rag", "sources": "a,a"}, "arm 'x': sources 'a,a': 'a' is named twice"),
    ],
)
def test_what_is_wrong_with_an_arm_is_said_with_file_and_arm_before_any_arm_asks(
    lakes: Path, arm: dict[str, Any], found: str
) -> None:
    said = refusal(lakes, {"name": "fine", "protocol": "cot"}, {"name": "x", "protocol": "cot", **arm}, pools=())
    assert said.startswith(f"{lakes / 'recipe.yaml'}: {found}")
    assert not (lakes / "out").exists()


def test_only_arms_that_will_ask_need_a_key(lakes: Path) -> None:
    arms = {"name": "one", "protocol": "cot", "model": "openai/m"}, {"name": "two", "protocol": "cot"}
    spec = read_experiment_spec(recipe_of(lakes, *arms), [lakes / "questions.jsonl"])
    spec.check_models()
    spec.check_models(asking=["two"])
    with pytest.raises(UserError, match="arm 'one': OPENAI_API_KEY is not set"):
        spec.check_models(asking=["one"])


def test_arms_may_come_and_go_and_those_that_have_begun_pay_nothing_again(lakes: Path) -> None:
    left, other = {"name": "left", "protocol": "standard"}, {"name": "other", "protocol": "cot"}
    ablated(lakes, left, WIKI, other, options=RunOptions(token_budget=1, concurrency=1))
    assert bills(lakes) == {"left": 1}
    new = {"name": "new", "protocol": "standard", "seed": 5}
    for _ in range(2):
        ablated(lakes, new, WIKI, {**other, "protocol": "standard", "seed": 4})
        assert bills(lakes) == {"wiki": 2, "left": 1, "new": 2, "other": 2}
    recipe, folders = read_experiment(lakes / "out")
    assert [arm.name for arm in recipe.all_arms()] == [folder.name for folder in folders] == ["new", "wiki", "other"]


def test_what_has_begun_stays_what_it_is(lakes: Path) -> None:
    ablated(lakes, WIKI)
    record = (lakes / "out" / "experiment.json").read_bytes()
    begun = "arm 'wiki' has already started with another setting"
    assert f"{begun} (set)" in refusal(lakes, {**WIKI, "set": {"temperature": 0.1}})
    assert f"{begun} (model)" in refusal(lakes, WIKI, model="offline")
    assert "its seed differs" in refusal(lakes, WIKI, seed=1)
    assert "its repeats differs" in refusal(lakes, WIKI, repeats=2)
    assert (lakes / "out" / "experiment.json").read_bytes() == record
    assert bills(lakes) == {"wiki": 2}


def test_an_experiment_of_the_former_format_is_refused_in_one_line(lakes: Path) -> None:
    ablated(lakes, WIKI)
    file = lakes / "out" / "experiment.json"
    record = json.loads(file.read_text())
    del record["format"]
    write(file, record)
    assert refusal(lakes, WIKI).startswith(f"{file}: has format 1, but this version of madke reads format 2")


def test_pools_that_an_arm_has_begun_with_get_no_further_source(lakes: Path) -> None:
    ablated(lakes, WIKI)
    google = Lakes("google")
    said = refusal(lakes, WIKI, BOTH, sources={"google": google})
    assert "source 'google' is missing or different" in said
    assert f"--pools {lakes / 'out' / 'pools.jsonl'}" in said
    assert "--pools differs" in refusal(lakes, WIKI, pools=(), sources={"wiki": Lakes()})
    ablated(lakes, WIKI)
    assert (google.asked, bills(lakes)) == ([], {"wiki": 2})


def test_what_is_refused_leaves_no_folder_or_an_empty_one_as_it_was(lakes: Path) -> None:
    assert "missing.jsonl: cannot be read" in refusal(lakes, WIKI, pools=("missing.jsonl",))
    assert "leave one file out" in refusal(lakes, WIKI, pools=("pools.jsonl", "pools.jsonl"))
    misspelt = {"name": "x", "protocol": "rag", "sources": "wki"}
    assert "arm 'x': unknown source 'wki'; did you mean" in refusal(lakes, WIKI, misspelt)
    assert not (lakes / "out").exists()
    (lakes / "out").mkdir()
    assert "unknown source 'wki'" in refusal(lakes, WIKI, misspelt)
    assert not any((lakes / "out").iterdir())


def outcomes(folder: Path) -> dict[str, Any]:
    return {
        t.id: (t.answer, [turn.stance.text for r in t.rounds for turn in r.turns]) for t in read_transcripts(folder)
    }


@pytest.mark.slow
def test_a_larger_limit_pays_only_for_the_further_questions_and_keeps_what_is_there(lakes: Path) -> None:
    """Also where an arm has as many debaters as another costs, or takes over its first round."""
    debate = {"protocol": "madke", "sources": "wiki", "set": {"rounds": 2}}
    vote = {"protocol": "self-consistency", "sources": "wiki", "match_cost": {"arm": "debate", "unit": "wiki"}}
    after = {**debate, "name": "after", "first_round": {"arm": "debate", "order": "reversed"}}
    arms = {**debate, "name": "debate"}, WIKI, {**vote, "name": "vote"}, after
    folders = {name: lakes / "out" / "arms" / name for name in ("debate", "wiki", "vote", "after")}
    with openai_server(debating) as server:
        same: dict[str, Any] = {"model": "openai/m", "options": RunOptions(base_url=server.url)}
        ablated(lakes, *arms, **same)
        asked = len(server.requests)
        before = {name: outcomes(folder) for name, folder in folders.items()}
        pools = (lakes / "out" / "pools.jsonl").read_bytes()
        assert ablated(lakes, *arms, limit=5, **same).unfinished == {}
        after_it = {name: outcomes(folder) for name, folder in folders.items()}
        assert len(server.requests) == sum(bills(lakes).values()) > asked
    assert {name: len(found) for name, found in after_it.items()} == dict.fromkeys(before, 5)
    assert {name: {id_: found[id_] for id_ in before[name]} for name, found in after_it.items()} == before
    grown = (lakes / "out" / "pools.jsonl").read_bytes()
    assert grown.startswith(pools)
    assert grown.count(b"\n") == 5
    assert {*read_run(folders["after"]).first_round} == {f"q{n}" for n in range(5)}


def test_sources_are_asked_for_the_further_questions_alone(lakes: Path) -> None:
    first, second, third = Lakes(), Lakes(), Lakes()
    ablated(lakes, WIKI, pools=(), sources={"wiki": first})
    done = ablated(lakes, WIKI, pools=(), sources={"wiki": second}, limit=4)
    ablated(lakes, WIKI, pools=(), sources={"wiki": third}, limit=4)
    assert [len(source.asked) for source in (first, second, third)] == [2, 2, 0]
    assert not set(first.asked) & set(second.asked)
    assert done.scores["wiki"].questions == 4


def test_fewer_questions_or_others_are_refused(lakes: Path) -> None:
    ablated(lakes, WIKI, limit=3)
    assert "3 questions, not 2 (--limit, or the data)" in refusal(lakes, WIKI)
    questions = lakes / "questions.jsonl"
    write(questions, questions.read_text().replace("Lake Baikal", "Lake Vostok", 1))
    assert "its question 'q0' differs" in refusal(lakes, WIKI, limit=3)


def test_pool_files_may_grow_but_not_change(lakes: Path) -> None:
    file = lakes / "pools.jsonl"
    whole = file.read_text()
    write(file, "".join(whole.splitlines(keepends=True)[:2]))
    ablated(lakes, WIKI)
    write(file, whole)
    assert ablated(lakes, WIKI, limit=3).scores["wiki"].questions == 3
    write(file, whole.replace("1,642", "1,643"))
    assert "--pools differs" in refusal(lakes, WIKI, limit=3)


def test_a_program_in_an_event_loop_gets_scores_and_events(lakes: Path) -> None:
    heard: list[Any] = []

    async def notebook() -> Experiment:
        return ablated(lakes, WIKI, pools=(), sources={"wiki": Lakes()}, listen=heard.append)

    assert asyncio.run(notebook()).scores["wiki"].questions == 2
    kinds = {type(event).__name__ for event in heard}
    assert {"SourceOpened", "PoolsReady", "DebateFinished", "RunProgress"} <= kinds
