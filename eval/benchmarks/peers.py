"""Whole commands over 2,000 one-call questions: ours next to lm-eval's and Inspect's, in environments of their own.

The environments are made with pip, which needs a package index. The same loopback server answers all of them, and its
count shows that each command made a call for each question.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from eval.benchmarks.measure import Setting, best_of, duration, report
from eval.benchmarks.runs import CONCURRENCY, generated_data, server

_ROUNDS = 3

_LM_EVAL_TASK = """task: lakes
dataset_path: json
dataset_kwargs: {{data_files: {questions}}}
test_split: train
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{golden_answers[0]}}}}"
generation_kwargs: {{until: []}}
filter_list: [{{name: bracket, filter: [{{function: regex, regex_pattern: '\\[(.*?)\\]'}}, {{function: take_first}}]}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""

_INSPECT_TASK = """from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def lakes():
    def sample(record):
        return Sample(id=record["id"], input=record["question"], target=record["golden_answers"])

    return Task(dataset=json_dataset({questions!r}, sample), solver=generate(), scorer=includes())
"""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another program, and how many times as long as ours it should take."""

    name: str
    packages: Sequence[str]
    aim: float
    command: Sequence[str]
    """The first word is in its environment's ``bin``."""
    variables: Mapping[str, str] = field(default_factory=dict)


def peers(setting: Setting) -> None:
    """Time each command, in turn, and print how many times as long as ours the others take."""
    data = generated_data(setting, 20 if setting.quick else 2_000)
    with server() as url:
        for peer in _peers(setting.folder, data.questions, url):
            environment = _environment(setting.folder / peer.name, peer.packages)
            theirs = [str(environment / "bin" / peer.command[0]), *peer.command[1:]]
            ours, other = best_of(
                1 if setting.quick else _ROUNDS,
                partial(_counted, data.count, url, partial(_ours, setting.folder, data.questions, url)),
                partial(_counted, data.count, url, partial(_run, theirs, setting.folder, peer.variables)),
            )
            report(
                f"{data.count:,} questions, next to {peer.packages[0]}",
                f"{duration(ours)} for run, scores and page",
                f"{duration(other)} for its command, {CONCURRENCY} at once; {data.count:,} calls of each at the server",
                other / ours,
                f"at least {peer.aim:g}",
                other >= peer.aim * ours,
            )


def _counted(expected: int, url: str, command: partial[None]) -> None:
    """Run a command. RuntimeError if the server did not answer one call for each question."""
    before = _calls(url)
    command()
    if (made := _calls(url) - before) != expected:
        raise RuntimeError(f"{command.args[0]} made {made:,} calls, not {expected:,}")


def _calls(url: str) -> int:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/calls", timeout=30) as reply:
        return int(reply.read())


def _peers(folder: Path, questions: Path, url: str) -> list[Peer]:
    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    (tasks / "lakes.yaml").write_text(_LM_EVAL_TASK.format(questions=questions))
    (tasks / "lakes.py").write_text(_INSPECT_TASK.format(questions=str(questions)))
    endpoint = f"model=m,base_url={url}/chat/completions,num_concurrent={CONCURRENCY},tokenizer_backend=None"
    return [
        Peer(
            name="lm-eval",
            packages=("lm-eval[api]==0.4.13",),
            aim=2,
            command=(
                *("lm-eval", "run", "--model", "local-chat-completions", "--model_args", endpoint),
                *("--apply_chat_template", "--include_path", str(tasks), "--tasks", "lakes"),
                *("--output_path", str(folder / "lm-eval-out"), "--log_samples"),
            ),
            variables={"OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1"},
        ),
        Peer(
            name="inspect",
            packages=("inspect-ai==0.3.285", "openai"),
            aim=5,
            command=(
                *("inspect", "eval", "tasks/lakes.py", "--model", "openai-api/peer/m"),
                *("--max-connections", str(CONCURRENCY), "--max-samples", str(CONCURRENCY), "--display", "plain"),
                *("--log-dir", str(folder / "inspect-out")),
            ),
            variables={"PEER_API_KEY": "none", "PEER_BASE_URL": url},
        ),
    ]


def _environment(folder: Path, packages: Sequence[str]) -> Path:
    if not folder.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True, capture_output=True)
    return folder


def _ours(folder: Path, questions: Path, url: str) -> None:
    """A run with its scores and page, into a new folder each time."""
    out = folder / f"peers-{time.time_ns()}"
    command = [sys.executable, "-m", "madke", "run", str(questions), "--protocol", "standard", "--out", str(out)]
    _run([*command, "--model", "openai/m", "--base-url", url, "--concurrency", str(CONCURRENCY)], folder, {})


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
