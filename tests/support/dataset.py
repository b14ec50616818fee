"""A dataset of lakes with its pool file, and a server that debates it."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tests.support.openai_server import Reply, chat

PASSAGES = [
    {"source": "wiki", "key": "baikal-1", "title": "Lake Baikal", "text": "Lake Baikal is 1,642 metres deep."},
    {"source": "wiki", "key": "tanganyika-1", "title": "Lake Tanganyika", "text": "It is 1,470 metres deep."},
    {"source": "google", "key": "https://l.example", "title": "Lakes", "text": "Baikal is the deepest of all."},
]


def write_dataset(folder: Path, n: int, *, sources: Collection[str] = ("wiki", "google")) -> tuple[Path, Path]:
    """Question and pool files with ``n`` questions, ids ``q0``, ``q1``, ..., and passages of these sources."""
    questions, pools = folder / "questions.jsonl", folder / "pools.jsonl"
    texts = [f"Which lake is the deepest, in survey {number}?" for number in range(n)]
    lines = [
        {"id": f"q{number}", "question": text, "golden_answers": ["Lake Baikal"]} for number, text in enumerate(texts)
    ]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    passages = [passage for passage in PASSAGES if passage["source"] in sources]
    pool = [{"id": f"q{number}", "question": text, "passages": passages} for number, text in enumerate(texts)]
    pools.write_text("".join(json.dumps(line) + "\n" for line in pool))
    return questions, pools


def run_command(folder: Path, url: str, *more: object, n: int = 6, out: str | Path = "out") -> tuple[object, ...]:
    """``madke run`` of ``n`` questions with their pools, by the model at a loopback server."""
    questions, pools = write_dataset(folder, n)
    return ("run", questions, "--pools", pools, "--model", "openai/m", "--base-url", url, "--out", folder / out, *more)


def stage_of(body: dict[str, Any]) -> str:
    """Which stage of the ``madke`` variant a request on the wire belongs to, from its prompt."""
    prompt = body["messages"][-1]["content"]
    if "Do not answer yet" in prompt:
        return "select"
    if "Do they give the same answer" in prompt or "Verdict:" in prompt:
        return "judge"
    if "Report one final answer" in prompt:
        return "summarize"
    return "reply" if "Check every answer" in prompt else "speak"


def fields_asked(body: Mapping[str, Any]) -> list[str]:
    """The fields of the JSON schema in a request, in order."""
    return list(body["response_format"]["json_schema"]["schema"]["required"])


def debating(body: dict[str, Any], n: int = 0) -> Reply:
    """Debaters who disagree in round 1 (their sampling seeds differ) and agree in round 2. It takes schemas."""
    prompt = body["messages"][-1]["content"]
    if "response_format" in body:
        verdict = "DIFFERENT" if "Tanganyika" in prompt else "SAME"
        values = {"reasoning": "They say so.", "selected": [0], "verdict": verdict, "answer": "Lake Baikal"}
        return chat(json.dumps({name: values[name] for name in fields_asked(body)}))
    match stage_of(body):
        case "select":
            return chat("Selected: [0]")
        case "judge":
            return chat(f"Verdict: [{'DIFFERENT' if 'Tanganyika' in prompt else 'SAME'}]")
        case "speak":
            return chat(f"The answer is [{'Lake Baikal' if body['seed'] % 2 else 'Lake Tanganyika'}].")
    return chat("The answer is [Lake Baikal].")
