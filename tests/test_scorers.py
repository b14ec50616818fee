"""``python -m eval.scorers``: COMET with pip in its own environment, and BLEURT by its script; both are stand-ins."""

import shlex
import sys
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
def test_comet_scores_from_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path, "unbabel-comet", {"comet/__init__.py": COMET})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    scorers.main(["comet", str(tmp_path / "own environment")])

    *_, name_and_command = shlex.split(capsys.readouterr().out)
    name, _, command = name_and_command.partition("=")
    assert name == "comet"
    assert CommandScorer(command).scores(ITEMS) == pytest.approx([4.0, 1.5])


def test_bleurt_fetches_its_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path, "bleurt", {"bleurt/__init__.py": "", "bleurt/score.py": BLEURT})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "bleurt-1.0-py3-none-any.whl"))
    checkpoint = tmp_path / "BLEURT-20.zip"
    with zipfile.ZipFile(checkpoint, "w") as archive:
        archive.writestr("BLEURT-20/weights", "w")
    script = tmp_path / "environment" / scorers.SCRIPT
    script.parent.mkdir()
    script.write_text(scorers.METRICS["bleurt"].script, encoding="utf-8")
    scorer = CommandScorer(shlex.join([sys.executable, str(script), checkpoint.as_uri()]))

    assert scorer.scores(ITEMS) == pytest.approx([2.0, 0.5])
    checkpoint.unlink()
    assert scorer.scores(ITEMS) == pytest.approx([2.0, 0.5])
