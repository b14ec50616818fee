"""Inspect AI: debates as its solver, and runs as its logs. Skipped where inspect_ai is not installed."""

import json
from pathlib import Path
from typing import Any

import pytest

import madke as library
from madke.core.knowledge import Passage
from madke.core.transcript import from_json
from madke.retrieval.pools import PoolRecord, write_pools
from tests.data.published import write
from tests.support.cli import madke, script
from tests.support.inspect_evals import ASKED, GOLD

pytest.importorskip("inspect_ai")

# Warnings of the packages that Inspect imports.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two questions, one of them answered wrongly, twice each, over a pool."""
    folder = tmp_path_factory.mktemp("run")
    lines = [{"id": id_, "question": text, "golden_answers": [GOLD[id_]]} for id_, text in ASKED.items()]
    write(folder / "q.jsonl", lines)
    write(folder / "script.yaml", '- {reply: "The answer is Lake Baikal."}\n')
    passage = Passage(source="wiki", key="p1", title="Lakes", text="Lake Baikal is deep.", score=1.0, rank=0)
    pools = [PoolRecord(id=id_, question=text, passages=(passage,)) for id_, text in ASKED.items()]
    write_pools(folder / "pools.jsonl", pools)
    options = ("--task", "short_answer", "--pools", "pools.jsonl", "--sources", "wiki", "--repeats", "2")
    done = madke("run", "q.jsonl", *options, "--model", "scripted/script.yaml", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_inspect_reads_scores_and_replies_of_a_run(run: Path, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    done = madke("report", run, "--inspect", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 rows" in done.stdout
    log = read_eval_log(str(tmp_path / "run.eval"))
    assert log.status == "success"
    # "Lake Baikal" for "Baikal": half of its words are right.
    assert {(each.id, each.epoch): round(each.scores["f1"].value, 3) for each in log.samples} == {
        ("q0", 1): 0.667,
        ("q0", 2): 0.667,
        ("q1", 1): 0.0,
        ("q1", 2): 0.0,
    }
    ours = json.loads(madke("score", run, "--json").stdout)["metrics"]
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert {name: pytest.approx(ours[name]["value"]) for name in means} == means
    asked, first, *_, answer = log.samples[0].messages
    assert asked.text == ASKED["q0"]
    assert first.text == "Round 1, Debater 1:\nThe answer is Lake Baikal."
    assert answer.text == "Lake Baikal"
    assert {usage.total_tokens > 0 for usage in log.samples[0].model_usage.values()} == {True}


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of some evaluations, in folders by name. A process of their own holds what Inspect leaves open."""
    folder = tmp_path_factory.mktemp("evals")
    done = script(Path(__file__).parents[1] / "support" / "inspect_evals.py", folder, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def samples_of(evals: Path, name: str) -> list[Any]:
    from inspect_ai.log import read_eval_log

    (file,) = (evals / name).glob("*.eval")
    return sorted(read_eval_log(str(file), resolve_attachments=True).samples, key=lambda sample: sample.id)


def transcript_of(sample: Any) -> Any:
    return from_json(json.dumps(sample.store["madke"]))


def calls_of(sample: Any, model: str = "") -> list[Any]:
    from inspect_ai.event import ModelEvent

    return [event for event in sample.events if isinstance(event, ModelEvent) and event.model.endswith(model)]


def test_a_debate_is_a_solver(evals: Path) -> None:
    questions = [{"id": id_, "question": text, "answers": [GOLD[id_]]} for id_, text in ASKED.items()]
    ours = library.run(questions, protocol="mad", model=lambda messages: "The answer is Baikal.")
    samples = samples_of(evals, "plain")
    correct = {t.id: float(t.answer == t.answers[0]) for t in ours.transcripts()}
    assert {each.id: float(each.scores["exact"].value == "C") for each in samples} == correct == {"q0": 1.0, "q1": 0.0}
    for sample, expected in zip(samples, ours.transcripts(), strict=True):
        transcript = transcript_of(sample)
        (used,) = sample.model_usage.values()
        assert sample.output.completion == transcript.answer == "Baikal"
        assert len(calls_of(sample)) == transcript.total.calls == expected.total.calls > 0
        assert used.input_tokens + used.input_tokens_cache_read == transcript.total.prompt_tokens > 0
        assert used.input_tokens_cache_read == transcript.total.cached_tokens > 0


def test_roles_choices_and_limits_are_those_of_inspect(evals: Path) -> None:
    for sample in samples_of(evals, "roles"):
        judged = {message.text for event in calls_of(sample, "judge") for message in event.input}
        assert judged
        assert judged.isdisjoint(message.text for event in calls_of(sample, "model") for message in event.input)
    assert [each.scores["choice"].value for each in samples_of(evals, "choice")] == ["C"]
    assert [each.limit.type for each in samples_of(evals, "limit")] == ["token", "token"]


def test_a_failed_call_is_one_of_the_debate_and_a_failed_debate_an_error(evals: Path) -> None:
    deepest, largest = samples_of(evals, "failing")
    assert transcript_of(deepest).degraded
    assert deepest.output.completion == "Baikal"
    assert "the debate failed" in largest.error.message
    assert "the provider is gone" in largest.error.message


def test_the_cache_holds_a_reply_for_each_debater(evals: Path) -> None:
    first, again = samples_of(evals, "cache"), samples_of(evals, "cached")
    calls = sum(transcript_of(each).total.calls for each in first)
    assert [event.cache for each in first for event in calls_of(each)] == ["write"] * calls
    assert {event.cache for each in again for event in calls_of(each)} == {"read"}
