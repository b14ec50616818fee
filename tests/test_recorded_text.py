"""``eval/parser.py`` as a user runs it, on a made-up file."""

import gzip
import json
from pathlib import Path

from tests.support.cli import script

SCRIPT = Path(__file__).parent.parent / "eval" / "parser.py"


def test_the_table_of_the_page_counts_what_was_read(tmp_path: Path) -> None:
    traces = [
        {"transcript": f"Thought 1: so it is.\nAction 1: {said}", "info": {"answer": told}}
        for said, told in (("Finish[REFUTES]", "REFUTES"), ("Finish[REFUTES]", "SUPPORTS"), ("Search[x]", "SUPPORTS"))
    ]
    with gzip.open(tmp_path / "react_fever_250.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, traces)))
    out = tmp_path / "parser.md"
    out.write_text("# Page\n<!-- table -->\nold\n<!-- end of table -->\nThe end.\n")

    script(SCRIPT, "--data", tmp_path, "--out", out)

    written = out.read_text()
    assert "| FEVER ReAct, labels | 3 | 1 | 1 | 1 |" in written
    assert "old" not in written
    assert written.endswith("<!-- end of table -->\nThe end.\n")
