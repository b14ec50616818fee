"""What is kept of one model's part of the study: its calls, and the transcripts of all arms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.studies.kept_calls import keep_calls, read_lines
from madke._version import __version__
from madke.core.transcript import Transcript, from_json, to_json
from madke.experiments.experiment import CALLS, arm_folder
from madke.experiments.recipe import Recipe
from madke.runs.directory import read_transcripts
from madke.runs.record import read_run
from madke.variants import load_variant


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptStudy:
    """The results of one model."""

    model: str
    served_as: str | None
    """The madke model that answered, if it was not served under the model's own name."""
    questions: int
    """All arms have answered the first so many questions."""
    version: str
    """The version of madke that ran it."""
    prompts: Mapping[str, str]
    """Prompt file -> SHA-256."""
    transcripts: Mapping[str, Sequence[Transcript]]
    """Arm -> its transcripts, in the order of the questions."""

    @property
    def arms(self) -> list[str]:
        """The names of the arms."""
        return [*self.transcripts]


def keep(folder: Path, recipe: Recipe, file: Path, *, model: str, limit: int) -> None:
    """Write the results of an experiment on the first ``limit`` questions."""
    arms = [arm.name for arm in recipe.all_arms()]
    prompts: dict[str, str] = {}
    for arm in arms:
        prompts |= read_run(arm_folder(folder, arm)).prompts_sha256
    head = {
        "model": model,
        "served_as": None if recipe.model == model else recipe.model,
        "questions": limit,
        "version": __version__,
        "prompts": prompts,
    }
    keep_calls(folder / CALLS, file, head, _results(folder, arms))


def _results(folder: Path, arms: Sequence[str]) -> Iterator[dict[str, Any]]:
    for arm in arms:
        for transcript in read_transcripts(arm_folder(folder, arm)):
            yield {"arm": arm, "transcript": json.loads(to_json(transcript, exclude_defaults=True))}


def read_study(file: Path) -> KeptStudy:
    """The results in a file that :func:`keep` wrote; UserError if it is none."""
    lines = read_lines(file)
    head = next(lines)
    found: dict[str, list[Transcript]] = {}
    for line in lines:
        if "transcript" in line:
            found.setdefault(line["arm"], []).append(from_json(json.dumps(line["transcript"])))
    return KeptStudy(
        **{name: head[name] for name in ("model", "served_as", "questions", "version", "prompts")},
        transcripts={arm: tuple(held) for arm, held in found.items()},
    )


def changed_prompts(kept: KeptStudy) -> list[str]:
    """The prompt files that are not those of the study: their calls cannot be found any more."""
    now: dict[str, str] = {}
    for folder in {file.partition("/")[0] for file in kept.prompts} - {"_shared", "tasks"}:
        now |= load_variant(folder).files
    return [file for file, sha256 in kept.prompts.items() if now.get(file) != sha256]


def differences(kept: KeptStudy, replayed: KeptStudy) -> list[str]:
    """The debates of a replay that differ from those that were kept, one line each."""
    found = []
    for arm, held in replayed.transcripts.items():
        before = {transcript.id: transcript for transcript in kept.transcripts[arm]}
        for new in held:
            old = before[new.id]
            if _told(old) != _told(new):
                why = new.final.error or f"answered {new.answer!r}, kept {old.answer!r}"
                found.append(f"{arm}, {new.id}: {why}")
    return found


def _told(transcript: Transcript) -> tuple[Any, ...]:
    """All that was said, and what was counted; not who paid, and not how long it took."""
    said = [[(turn.agent, turn.selection, turn.stance) for turn in entry.turns] for entry in transcript.rounds]
    verdicts = [entry.verdict for entry in transcript.rounds]
    total = transcript.total
    counts = (total.calls, total.prompt_tokens, total.completion_tokens)
    return transcript.answer, transcript.status, transcript.stop_reason, said, verdicts, transcript.final, counts
