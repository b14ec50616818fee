"""``python -m eval.scorers``: a real environment and pip, with packages of the interfaces of COMET and BLEURT."""

import shlex
import zipfile
from pathlib import Path

import pytest

from eval import scorers
from madke._util.child_process import CommandScorer, ScorerItem

COMET = """
import types
def download_model(name): print("downloading", name); return "/models/" + name
def load_from_checkpoint(path):
    assert path == "/models/Unbabel/wmt22-comet-da"
    def predict(rows, gpus):
        print("noise on standard output")
        return types.SimpleNamespace(scores=[len(row["mt"]) / len(row["ref"]) + len(row["src"]) for row in rows])
    return types.SimpleNamespace(predict=predict)
"""
BLEURT = """
import pathlib
class BleurtScorer:
    def __init__(self, checkpoint): assert (pathlib.Path(checkpoint) / "weights").read_text() == "w"
    def score(self, *, references, candidates):
        return [len(candidate) / len(reference) for reference, candidate in zip(references, candidates)]
"""
ITEMS = [
    ScorerItem(source="ab", candidate="wxyz", references=("wx", "unused")),
    ScorerItem(source="a", candidate="w", references=("wx",)),
]


def wheel(folder: Path, package: str, files: dict[str, str]) -> None:
    name = package.replace("-", "_")
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "expected"), [("comet", [4.0, 1.5]), ("bleurt", [2.0, 0.5])])
def test_a_metric_scores_from_its_own_environment(
    metric: str,
    expected: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    wheel(packages, "unbabel-comet", {"comet/__init__.py": COMET})
    wheel(packages, "bleurt", {"bleurt/__init__.py": "", "bleurt/score.py": BLEURT})
    checkpoint = tmp_path / "BLEURT-20.zip"
    with zipfile.ZipFile(checkpoint, "w") as archive:
        archive.writestr("BLEURT-20/weights", "w")
    bleurt = scorers.METRICS["bleurt"]
    local = scorers.Metric(requirement="bleurt", model=checkpoint.as_uri(), script=bleurt.script)
    monkeypatch.setitem(scorers.METRICS, "bleurt", local)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages))

    scorers.main([metric, str(tmp_path / "own environment")])

    *_, name_and_command = shlex.split(capsys.readouterr().out)
    name, _, command = name_and_command.partition("=")
    assert name == metric
    assert CommandScorer(command).scores(ITEMS) == pytest.approx(expected)
