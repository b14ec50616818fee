"""How long a plan says that runs take, and what it rests on."""

import json
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.experiments.plan import Load, Pace, Planned, measured_pace
from tests.support.cli import madke


def plan(paid: float = 600, *models: str, tokens: float = 0) -> Any:
    load = Load(calls=paid, paid=paid, prompt_tokens=tokens)
    return Planned(name="a", debates=100, least=load, most=load + load, models=models or ("m",))


MEASURED = (5.0, Path("runs/x"))


@pytest.mark.parametrize(
    ("measured", "limits", "plans", "seconds", "basis"),
    [
        (MEASURED, {}, [plan()], (120, 240), "5 calls/s, measured in runs/x"),
        (MEASURED, {}, [plan(), plan()], (240, 480), "5 calls/s, measured in runs/x"),
        (MEASURED, {"rpm": 60}, [plan()], (600, 1200), "5 calls/s, measured in runs/x, at most 60 calls per minute"),
        (None, {}, [plan()], (0, 0), ""),
        (None, {"rpm": 60}, [plan()], (600, 1200), "at most 60 calls per minute"),
        (
            None,
            {"rpm": 600, "tpm": 1000},
            [plan(tokens=60_000)],
            (3600, 7200),
            "at most 600 calls per minute and 1,000 tokens per minute",
        ),
    ],
)
def test_seconds_and_what_they_rest_on(
    measured: Any, limits: Any, plans: Any, seconds: Any, basis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(json.dumps({"m": {"base_url": "http://localhost:1/v1", **limits}}))
    found = Pace(measured=measured)
    assert found.seconds(plans) == pytest.approx(seconds)
    assert found.basis(plans) == basis


def test_the_pace_is_measured_in_earlier_commands(tmp_path: Path) -> None:
    done, empty, study = tmp_path / "done", tmp_path / "empty", tmp_path / "study"
    for folder, sessions in (
        (empty, [{"started": "now"}]),
        (done, [{"calls": 50, "failed_calls": 10, "seconds": 15.0}, {"calls": 20, "seconds": 5.0}, {}]),
        (study / "arms" / "alone", [{"calls": 100, "seconds": 1.0}]),
        (study / "arms" / "debate", [{"calls": 100, "seconds": 199.0}]),
    ):
        folder.mkdir(parents=True)
        record = {"format": 2, "spec": {}, "endpoints": {}, "sessions": sessions}
        (folder / "run.json").write_text(json.dumps(record))
    assert measured_pace(tmp_path / "none") is None
    assert measured_pace(empty) is None
    assert measured_pace(done) == (3.0, done)
    assert measured_pace(study) == (1.0, study)  # of all arms: those without passages are faster
    (empty / "run.json").write_text("{}")
    with pytest.raises(UserError):
        measured_pace(empty)


def test_a_plan_says_how_long_the_run_takes(tmp_path: Path) -> None:
    data = tmp_path / "q.jsonl"
    data.write_text('{"id": "q", "question": "Who?", "golden_answers": ["I"]}\n')
    models = tmp_path / "models.yaml"
    models.write_text("m: {base_url: 'http://localhost:1/v1', rpm: 30}\n")
    options = ("--sources", "none", "--out", tmp_path / "out", "--plan", "--model", "m")
    done = madke("run", data, *options, MADKE_MODELS=str(models))
    assert "Duration: at least 6 s, from at most 30 calls per minute." in done.stdout, done.stderr
