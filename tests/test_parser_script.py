"""``eval/parser.py`` as a user runs it, on a made-up file."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.support.cli import script

SCRIPT = Path(__file__).parent.parent / "eval" / "parser.py"


def run(*arguments: Any) -> Any:
    return script(SCRIPT, *arguments)


def write_labels(folder: Any, *finishes: Any) -> None:
    """Traces that finish with the first label of each pair, beside the second one as what was recorded."""
    lines = [
        {"question_idx": n, "transcript": f"Thought 1: so it is.\nAction 1: {said}", "info": {"answer": told}}
        for n, (said, told) in enumerate(finishes)
    ]
    write_traces(folder, "\n".join(map(json.dumps, lines)))


def write_traces(folder: Any, lines: Any) -> None:
    with gzip.open(folder / "react_fever_250.jsonl.gz", "wt") as file:
        file.write(lines)


def test_the_page_counts_right_missed_and_wrong_and_verbose_names_them(tmp_path: Path) -> None:
    write_labels(
        tmp_path,
        ("Finish[SUPPORTS]", "SUPPORTS"),
        ("Finish[REFUTES]", "SUPPORTS"),
        ("I cannot say.", "REFUTES"),
        ("Search[Danube]", ""),
    )

    done = run("--data", tmp_path, "--out", tmp_path / "page.md", "--verbose")

    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.md").read_text()
    assert "| FEVER ReAct | label | 4 | 3 | 1 (33.3 %) | 1 | 1 | 1 | 1 (33.3 %) | 1 | cue 2, none 2 | f |" in page
    assert "| all answers but mathematics, with citations behind every sentence | 4 | 2 | 2 | 0 |" in page
    assert "MIRAGE" not in page
    assert [line.split("\t")[:2] for line in done.stdout.splitlines()] == [
        ["wrong", "FEVER ReAct 1"],
        ["missed", "FEVER ReAct 2"],
    ]


def test_a_folder_without_the_files_or_with_others_is_one_line(tmp_path: Path) -> None:
    nothing = run("--data", tmp_path)
    assert nothing.returncode == 2
    assert nothing.stderr.count("\n") == 1
    assert str(tmp_path) in nothing.stderr

    write_traces(tmp_path, '{"claim": "x"}\n')
    other = run("--data", tmp_path)
    assert other.returncode == 2
    assert other.stderr.count("\n") == 1
    assert "not as FEVER ReAct was published" in other.stderr
