"""What a run's recorded calls cost, from its call store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Purpose, Usage
from madke.models.prices import Price
from madke.models.scripted import ScriptedChat
from madke.models.store import CallStore
from madke.scoring.scored import run_spending
from tests.support.pipelines import stored
from tests.support.run_folder import write_run

PRICES = {"m": Price(prompt=2, cached=1, completion=10)}
MILLION = Usage(prompt_tokens=1_000_000)


def ask(
    file: Path, *, model: str = "m", payer: str = "one", stage: str = "speak", usage: Usage = MILLION, **reply: Any
) -> None:
    """Make a call through the call store."""
    chat = ScriptedChat([Completion(text="x", usage=usage, **reply)], name=model)
    purpose = Purpose(question="1", stage=stage, agent=payer, round=1)
    request = ChatRequest(messages=(Message(role="user", content="p"),), purpose=purpose, temperature=0, max_tokens=9)
    with CallStore(file) as store:
        asyncio.run(stored(chat, store, payer=payer).complete(request))


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    """A run whose calls lie in a folder above, as those of an experiment's arms do."""
    run = write_run(tmp_path / "arms" / "one")
    record = json.loads((run / "run.json").read_text())
    record["sessions"][0]["files"]["calls"] = "../../calls.sqlite"
    (run / "run.json").write_text(json.dumps(record))
    return run


def test_of_calls_that_arms_share_those_count_that_the_arm_made(arm: Path, tmp_path: Path) -> None:
    ask(tmp_path / "calls.sqlite", payer="earlier")
    assert run_spending(arm, PRICES) is None
    ask(tmp_path / "calls.sqlite")
    assert run_spending(arm, PRICES).cost == {"speak": 2.0}


def test_a_run_of_its_own_made_all_calls_of_its_store(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    ask(run / "calls.sqlite", payer="")
    assert run_spending(run, PRICES).cost == {"speak": 2.0}


def test_cost_is_by_stage_of_failed_calls_too_and_names_the_models_without_a_price(arm: Path, tmp_path: Path) -> None:
    used = Usage(prompt_tokens=1_000_000, cached_tokens=500_000, completion_tokens=100_000)
    calls = tmp_path / "calls.sqlite"
    ask(calls, usage=used)
    ask(calls, usage=used, outcome="refused", stage="reply")
    ask(calls, usage=used, model="free")
    ask(calls, usage=Usage(), model="a search", stage="search")
    found = run_spending(arm, PRICES)
    assert found.cost == pytest.approx({"speak": 2.5, "reply": 2.5})
    assert found.unpriced == ("free",)


def test_where_no_call_is_recorded_nothing_is_known_and_no_store_is_made(arm: Path, tmp_path: Path) -> None:
    assert run_spending(arm, PRICES) is None
    assert run_spending(tmp_path, PRICES) is None
    assert not (tmp_path / "calls.sqlite").exists()
