"""Run directories made by hand."""

import json
from pathlib import Path
from typing import Any

from madke.core.transcript import Transcript, to_json
from madke.engine.variant import load_variant
from madke.retrieval.pools import PoolLines
from madke.runs.directory import RunRecord, seal


def write_run(folder: Path, *transcripts: Transcript, pools: Path | None = None, **changes: Any) -> Path:
    """A run directory that holds these transcripts; what was in it besides ``run.json`` and transcripts stays.

    Args:
        folder: The directory.
        transcripts: Its debates.
        pools: Its pool file.
        changes: Of the configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fields = {
        "data": "questions.jsonl",
        "questions": {transcript.id: "0" * 16 for transcript in transcripts},
        "variant": "madke",
        "protocol": load_variant("madke").protocol,
        "prompts_sha256": {},
        "models": {},
        "sources": {},
        "source_specs": {},
        "pools": {} if pools is None else PoolLines(pools, {each.id for each in transcripts}).hashes,
        "seed": 0,
        "repeats": 1,
    }
    record = {
        "format": 2,
        "spec": RunRecord(**{**fields, **changes}).model_dump(mode="json"),
        "endpoints": {},
        "sessions": [
            {
                "files": {"calls": "calls.sqlite", "pools": None if pools is None else str(pools)},
                "versions": {"madke": "0.0.test"},
            }
        ],
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (folder / "transcripts.jsonl").write_bytes(b"".join(seal(to_json(each)) for each in transcripts))
    return folder
