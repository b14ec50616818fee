"""``eval/matcher.py`` as a user runs it, on a made-up file."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.support.cli import script

SCRIPT = Path(__file__).parents[2] / "eval" / "matcher.py"
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


def item(answer: str, right: bool | None, improper: bool = False) -> dict[str, Any]:
    judged = {f"answer_{name}": answer for name in SYSTEMS} | {f"judge_{name}": right for name in SYSTEMS}
    return {"question": "who?", "golden_answer": "John F. Kennedy/JFK", "improper": improper, **judged}


def test_the_page_compares_matchers_on_the_second_half(tmp_path: Path) -> None:
    items = [item("Nixon", False), item("JFK", True), item("John Kennedy", True), item("Nixon", None, improper=True)]
    for name in ("NQ_1800", "TQ_1000"):
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(items).encode()))
    done = script(SCRIPT, "--data", tmp_path, "--out", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    held_out = (tmp_path / "page.md").read_text(encoding="utf-8").partition("## With a grader")[0]
    row = next(line for line in held_out.splitlines() if line.startswith("| NQ | fid |"))
    # One proper question of two: EM misses "John Kennedy"; the baseline, same and accepts do not.
    nothing, everything = "0.0 / 0.0 / **0.0**", "100.0 / 100.0 / **100.0**"
    assert row.split(" | ")[2:] == [
        *("1", "1", "100 %", nothing, everything, nothing, everything, everything, everything),
        "20.7 to 100.0 |",
    ]
