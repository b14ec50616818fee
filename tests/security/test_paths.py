"""No name in anybody's data becomes a path: everything that is written stays in the folders that were named."""

import json
from pathlib import Path

import pytest

from tests.support.cli import madke, refused

NAMES = ["../../escaped", "/tmp/escaped", "a/b", "..", "~/escaped", "$HOME/escaped", "escaped\\..\\x", "%2e%2e%2fx"]


def test_ids_sources_titles_and_arms_of_data_are_no_paths(tmp_path: Path) -> None:
    work = tmp_path / "deep" / "work"
    work.mkdir(parents=True)
    rows = [{"id": name, "question": f"Which, {name}?", "golden_answers": ["x"]} for name in NAMES]
    (work / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    passages = [{"source": "wiki", "key": name, "title": name, "text": "t", "url": f"file://{name}"} for name in NAMES]
    other = [{"source": "../../escaped", "key": "k", "title": "t", "text": "t"}]
    pools = [{"id": row["id"], "question": row["question"], "passages": [*passages, *other]} for row in rows]
    (work / "p.jsonl").write_text("".join(json.dumps(pool) + "\n" for pool in pools))
    (work / "s.yaml").write_text(json.dumps([{"reply": "[0] [Yes] the answer is [../../escaped]"}]))
    before = set(tmp_path.rglob("*"))

    out = work / "out"
    command = ("run", "q.jsonl", "--pools", "p.jsonl", "--sources", "wiki", "--model", "scripted/s.yaml", "--out", out)
    done = madke(*command, cwd=work)
    assert (done.returncode, len((out / "transcripts.jsonl").read_text().splitlines())) == (0, len(NAMES)), done.stderr
    made = madke("report", out, "--tables", "csv", "--answers", out / "answers.jsonl", cwd=work)
    assert made.returncode == 0, made.stderr

    assert all(path.is_relative_to(out) for path in set(tmp_path.rglob("*")) - before)
    assert not [path for path in out.rglob("*") if "escaped" in path.name]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "q", "--protocol", "../../etc"),
        ("ask", "q", "--protocol", "/etc"),
        ("protocols", "show", "../mad"),
        ("datasets", "show", "../nq"),
        ("index", "fetch", "../../x"),
    ],
    ids=" ".join,
)
def test_a_name_of_ours_is_no_path(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert "Traceback" not in refused(*arguments, cwd=tmp_path)
