"""A study asks blocks of questions until it knows, and says whether a debate pays."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.core.chat import ChatRequest, Completion, Usage
from madke.core.events import DebateFinished
from madke.models import batches
from tests.data.published import write
from tests.experiments.test_experiment_folder import Lakes
from tests.support.batch_server import batch_server

QUESTIONS = [madke.Question(id=f"q{n}", question=f"Which lake is number {n}?", answers=("Baikal",)) for n in range(100)]


class Gains:
    """Single answers are right on half of the questions; the summary of a debate on ``gain`` percent more."""

    name = "made-up"

    def __init__(self, gain: int) -> None:
        self.gain = gain
        self.calls = 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.calls += 1
        stage, place = request.purpose.stage, int(sha256(request.purpose.question.encode()).hexdigest(), 16) % 100
        right = place < 50 + (self.gain if stage == "summarize" else 0)
        texts = {"select": "[0]", "judge": "SAME"}
        text = texts.get(stage, f"The answer is [{'Baikal' if right else 'Chad'}].")
        return Completion(text=text, usage=Usage(prompt_tokens=10, completion_tokens=2))


def study(folder: Path, model: Gains | str, **more: Any) -> madke.Study:
    return madke.study(QUESTIONS, sources={"lakes": Lakes("lakes")}, model=model, out=folder / "out", **more)


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "outcome", "asked"), [(0, "no", 60), (10, "yes", 80), (20, "yes", 40)])
def test_a_debate_that_is_0_10_or_20_points_better(tmp_path: Path, gain: int, outcome: str, asked: int) -> None:
    model = Gains(gain)
    found = study(tmp_path, model)
    assert (found.verdict.outcome, found.asked) == (outcome, asked)
    calls, words = model.calls, str(found)
    assert len(words.splitlines()) <= 40
    assert words.startswith({"no": "No.", "yes": "Yes.", "open": "Not decided:"}[found.verdict.outcome])
    again = study(tmp_path, model)
    assert (str(again), model.calls) == (words, calls)  # nothing is asked again
    assert found.costs["votes"].calls == pytest.approx(found.costs["debate"].calls, rel=0.1)


@pytest.mark.slow
def test_all_asks_the_rest_and_a_limit_ends_it(tmp_path: Path) -> None:
    model, asked = Gains(30), set()

    def hear(event: Any) -> None:
        if isinstance(event, DebateFinished):
            asked.add(event.transcript.id)

    first = study(tmp_path, model, limit=60, listen=hear, options=madke.RunOptions(token_budget=2000))
    assert first.limit == "--token-budget"
    assert "--token-budget" in str(first)
    decided = study(tmp_path, model, limit=60, listen=hear)
    assert (decided.verdict.outcome, decided.asked < 60, decided.limit) == ("yes", True, "")
    assert len(asked) == decided.asked
    page = decided.report().read_text(encoding="utf-8")
    assert "Holm" not in page.partition("<script")[0]
    assert study(tmp_path, model, limit=60, whole=True).asked == 60


def test_more_arms_are_in_the_table_and_the_verdict_rests_on_the_usual_ones(tmp_path: Path) -> None:
    found = study(tmp_path, Gains(0), limit=4, more_arms=["views", "second-turn"])
    assert set(found.scores) == {"alone", "rag", "debate", "votes", "views", "second-turn"}
    assert [row[0].text for row in found.table.rows] == ["alone", "rag", "votes", "debate", "views", "second-turn"]
    arms = {arm.name: arm for arm in found.experiment.experiment_spec.arms}
    assert arms["votes"].protocol == arms["rag"].protocol, "the vote samples rag's own prompt"
    with pytest.raises(madke.UserError, match="unknown arm 'view'; did you mean 'views'"):
        study(tmp_path / "other", Gains(0), more_arms=["view"])
    with pytest.raises(madke.UserError, match="margin = 10; expected a share between 0 and 1"):
        study(tmp_path / "other", Gains(0), margin=10)


@pytest.mark.slow
def test_the_money_is_what_batches_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(batches, "POLL_SECONDS", (0.01, 0.02))
    prices = write(tmp_path / "prices.yaml", "openai/m: {prompt: 100, completion: 200}")
    with batch_server() as server:
        options = madke.RunOptions(base_url=server.url, batch="api", prices=prices)
        found = study(tmp_path, "openai/m", limit=2, options=options)
    money = [each.money or 0 for each in found.costs.values()]
    alone, batched = len(server.alone), sum(map(len, server.batches))
    assert min(alone, batched) > 0
    assert sum(money) == pytest.approx(found.experiment.budget.cost)
    assert money[0] == pytest.approx(0.006 * (alone + batched / 2) / (alone + batched))  # of two calls
