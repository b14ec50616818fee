"""Read a run directory into the form that the study keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval.real_models.arms import Cell, Setup, environment
from eval.real_models.kept import Call, KeptCell, call_of
from eval.real_models.measures import Material, measured
from eval.real_models.questions import holds_gold
from madke._util.yaml_file import read_mapping
from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.retrieval.pools.pool_file import PoolRecord
from madke.runs.directory import read_transcripts
from madke.scoring.metrics import question_of
from madke.tasks.answer_text import squad_normalize

EXAMPLES = "examples.txt"
"""In a folder of prompts from outside: the answers of their examples, one a line."""
_ANSWER = "answer"
_NOT_TELLING = frozenset({"yes", "no", ""})


def finished(folder: Path) -> dict[str, Transcript]:
    """Question id -> its last transcript; empty if nothing has run."""
    if not (folder / "transcripts.jsonl").is_file():
        return {}
    return {transcript.id: transcript for transcript in read_transcripts(folder)}


def calls_of(folder: Path, env: Mapping[str, str]) -> list[Call]:
    """All calls of a run directory, read by the code that wrote them."""
    program = [sys.executable, str(Path(__file__).with_name("export_calls.py")), str(folder)]
    done = subprocess.run(program, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"its calls cannot be read: {done.stderr.strip().splitlines()[-1:]}", file=folder)
    return [call_of(json.loads(line)) for line in done.stdout.splitlines()]


def example_answers(prompts: Path) -> frozenset[str]:
    """The answers of the examples in a folder of prompts: ``tasks/short_answer.yaml``, and ``examples.txt``.

    Yes and no are no sign that an example was given back.
    """
    found: set[str] = set()
    task, own = prompts / "tasks" / "short_answer.yaml", prompts / EXAMPLES
    if task.is_file():
        text = task.read_text(encoding="utf-8")
        # The top level describes the task; the examples are below it.
        found |= {each for node in read_mapping(task, text).values() for each in _answers(node)}
    if own.is_file():
        found |= set(own.read_text(encoding="utf-8").splitlines())
    return frozenset(each for each in found if squad_normalize(each) not in _NOT_TELLING)


def _answers(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get(_ANSWER), str):
            yield node[_ANSWER]
        for value in node.values():
            yield from _answers(value)
    elif isinstance(node, list):
        for each in node:
            yield from _answers(each)


def prompts_of(cell: Cell, setup: Setup) -> Path:
    """The folder of the prompts that a cell used."""
    if cell.kind == "paper" and setup.paper is not None:
        return setup.paper
    source = setup.before if cell.kind == "before" and setup.before else Path(__file__).parents[2]
    return source / "prompts"


def collected(folder: Path, pools: Mapping[str, PoolRecord], examples: frozenset[str], **head: Any) -> KeptCell:
    """The results of a run directory. ``head``: ``model``, ``kind``, ``arm``, ``max_tokens``, ``env``, ``own``.

    ``own``: whether the prompts are the project's own, so that they may be kept.
    """
    env, own = head.pop("env"), head.pop("own")
    transcripts = finished(folder)
    materials = {each: _material(transcript, pools.get(each)) for each, transcript in transcripts.items()}
    calls = [call if own else call.without_messages() for call in measured(calls_of(folder, env), materials, examples)]
    held = [each for each in transcripts if each in pools]
    return KeptCell(
        holds_gold=tuple(each for each in held if holds_gold(question_of(transcripts[each]), pools[each])),
        version=_version(folder),
        transcripts=tuple(transcripts.values()),
        calls=tuple(calls),
        **head,
    )


def _material(transcript: Transcript, pool: PoolRecord | None) -> Material:
    passages = pool.passages if pool else ()
    return Material(
        question=transcript.question,
        golds=transcript.answers,
        passages=tuple(f"{passage.title} {passage.text}" for passage in passages),
        given=tuple(turn.stance.text for turn in transcript.rounds[0].turns) if transcript.first_round_given else (),
    )


def _version(folder: Path) -> str:
    sessions = json.loads((folder / "run.json").read_bytes()).get("sessions") or [{}]
    return str(sessions[-1].get("versions", {}).get("madke", "unknown"))


def kept_cell(cell: Cell, setup: Setup, pools: Mapping[str, PoolRecord]) -> KeptCell:
    """The results of a cell of the study."""
    return collected(
        cell.folder(setup.work),
        pools,
        example_answers(prompts_of(cell, setup)),
        model=cell.model,
        kind=cell.kind,
        arm=cell.arm,
        max_tokens=setup.max_tokens,
        env=environment(cell, setup),
        own=cell.kind != "paper",
    )
