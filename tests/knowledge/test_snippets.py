from __future__ import annotations

import json
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.core.knowledge import Hits
from madke.knowledge.web import SnippetsSource


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "web.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def _result(number: int) -> dict[str, str]:
    link = f"https://example.org/{number}"
    return {"title": f"T{number}", "snippet": f"snippet {number}", "link": link, "date": "2024-05-01"}


def test_a_known_query_gives_its_results_in_order(tmp_path: Path) -> None:
    path = _file(tmp_path, {"query": "Who  made IT?", "results": [_result(1), _result(2), _result(3)]})

    known, unknown = SnippetsSource(path, name="google").search([" who made it? ", "who made them?"], 2)

    assert [(p.source, p.key, p.title, p.text, p.rank, p.url, p.date) for p in known.passages] == [
        ("google", f"https://example.org/{n}", f"T{n}", f"snippet {n}", n - 1, f"https://example.org/{n}", "2024-05-01")
        for n in (1, 2)
    ]
    assert unknown == Hits()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r":2: is not JSON"),
        ({"query": "b"}, r":2: results: Field required"),
        ({"query": "b", "results": [{"title": "no link"}]}, r":2: results\.0\.link: Field required"),
        ({"query": "A ", "results": []}, r":2: query 'A ' occurs twice"),
    ],
)
def test_a_broken_line_is_named(line: object, message: str, tmp_path: Path) -> None:
    path = _file(tmp_path, {"query": "a", "results": []}, line)

    with pytest.raises(UserError, match=message):
        SnippetsSource(path, name="google")
