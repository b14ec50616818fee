"""Run directories made by hand."""

from __future__ import annotations

import json
from pathlib import Path

from madke.core.transcript import Transcript, to_json
from madke.runs.config import RunConfig
from madke.variants import load_variant


def write_run(folder: Path, *transcripts: Transcript) -> Path:
    """A run directory that holds these transcripts; what was in it besides ``run.json`` and transcripts stays."""
    folder.mkdir(exist_ok=True)
    config = RunConfig(
        data="questions.jsonl",
        data_sha256="0" * 64,
        questions=tuple(dict.fromkeys(transcript.id for transcript in transcripts)),
        variant="madke",
        protocol=load_variant("madke").protocol,
        prompts_sha256={},
        models={},
        sources={},
        source_specs={},
        pools_sha256=None,
        seed=0,
        repeats=1,
    )
    (folder / "run.json").write_text(json.dumps({"config": config.model_dump(mode="json")}))
    (folder / "transcripts.jsonl").write_bytes(b"".join(to_json(each) + b"\n" for each in transcripts))
    return folder
