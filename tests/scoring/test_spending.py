"""What a run's recorded calls cost, from its call store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Outcome, Purpose, Usage
from madke.engine.protocol import as_protocol
from madke.models.prices import Price
from madke.models.store import CallStore
from madke.runs.directory import RunRecord
from madke.scoring.scored import run_spending
from tests.support.pipelines import stored


def write_run(directory: Path, calls: str, *models: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    config = RunRecord(
        data="q.jsonl",
        questions={"1": ""},
        variant="madke",
        protocol=as_protocol({"function": "madke", "source": "a test"}),
        prompts_sha256={},
        models={f"role {n}": model for n, model in enumerate(models)},
        source_specs={},
        seed=0,
        repeats=1,
    )
    sessions = [{"files": {"calls": calls}}]
    record = {"format": 2, "spec": config.model_dump(mode="json"), "endpoints": {}, "sessions": sessions}
    (directory / "run.json").write_text(json.dumps(record))
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose calls lie in a folder above, as those of an experiment's arms do."""
    return write_run(tmp_path / "arms" / "one", "../../calls.sqlite", "m")


class Answering:
    """A model that answers everything with this."""

    def __init__(self, name: str, outcome: Outcome = "ok", usage: Usage | None = None) -> None:
        self.name = name
        self._completion = Completion(text="x", outcome=outcome, usage=usage or Usage())

    async def complete(self, request: ChatRequest) -> Completion:
        return self._completion


def made(
    run: Path,
    *calls: tuple[str, str, str, Any],
    payer: str = "one",
    model: str = "m",
    file: str = "../../calls.sqlite",
    usage: Usage | None = None,
) -> None:
    """Make calls of (question, stage, prompt, outcome) through the run's call store."""

    async def ask() -> None:
        with CallStore(run / file) as store:
            for n, (question, stage, text, outcome) in enumerate(calls):
                messages = (Message(role="user", content=text),)
                request = ChatRequest(
                    messages=messages,
                    purpose=Purpose(question=question, stage=stage, agent=f"{payer} {n}", round=1),
                    temperature=0,
                    max_tokens=9,
                )
                await stored(Answering(model, outcome, usage), store, payer=payer).complete(request)

    asyncio.run(ask())


PRICES = {"m": Price(prompt=2, cached=1, completion=10)}
USED = Usage(prompt_tokens=1_000_000)


def test_of_calls_that_arms_share_those_count_that_the_arm_made(run: Path) -> None:
    made(run, *[("1", "speak", "p", "ok")] * 4, payer="earlier", usage=USED)
    assert run_spending(run, PRICES) is None
    made(run, ("1", "speak", "p", "ok"), usage=USED)
    assert run_spending(run, PRICES).cost == {"speak": 2.0}


def test_a_run_of_its_own_made_all_calls_of_its_store(tmp_path: Path) -> None:
    run = write_run(tmp_path, "calls.sqlite", "m")
    made(run, ("1", "speak", "p", "ok"), payer="", file="calls.sqlite", usage=USED)
    assert run_spending(run, PRICES).cost == {"speak": 2.0}


def test_cost_is_by_stage_of_failed_calls_too_and_names_the_models_without_a_price(run: Path) -> None:
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=500_000, completion_tokens=100_000)
    made(run, ("1", "speak", "p", "ok"), ("1", "speak", "p", "refused"), ("1", "judge", "p", "ok"), usage=usage)
    made(run, ("1", "speak", "p", "ok"), model="free", usage=usage)
    made(run, ("1", "search", "p", "ok"), model="a search", usage=Usage())
    found = run_spending(run, PRICES)
    assert found.cost == pytest.approx({"speak": 5.0, "judge": 2.5})
    assert found.unpriced == ("free",)


def test_where_no_call_is_recorded_nothing_is_known(run: Path, tmp_path: Path) -> None:
    assert run_spending(run, PRICES) is None
    assert run_spending(tmp_path, PRICES) is None
    assert not (run / "../../calls.sqlite").exists()
