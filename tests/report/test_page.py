"""What the report page holds, read as a file; how it behaves in a browser is tested in test_page_browser."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Final, StageUsage
from madke.report.html import without_folders, write_report
from madke.report.tables import Cell, Table
from madke.scoring.arms import open_results
from tests.report.run_folders import PASSAGES, debate, write_run

RIGHT, WRONG = "Lake Baikal", "Lake Tanganyika"


@pytest.fixture(autouse=True)
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take time, and are tested on their own and in the browser."""
    monkeypatch.setattr("madke.report.html.figures.available", lambda: False)


def write(out: Path, *paths: Path, questions: Sequence[Question] | None = None, **options: Any) -> str:
    """The text of a page."""
    write_report(open_results(paths, questions), out, **options)
    return out.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    """Element id -> the JSON in it."""
    found = re.findall(r'<script type="application/gzip" id="([^"]*)">([^<]*)</script>', page)
    return {name: json.loads(gzip.decompress(b64decode(text))) for name, text in found}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one debate."""
    return write_run(tmp_path / "run", [debate("q", [RIGHT, RIGHT])])


def test_every_debate_and_each_text_of_a_shared_pool_is_in_it_once(tmp_path: Path) -> None:
    pools = tmp_path / "pools.jsonl"
    ids = [f"q{n}" for n in range(150)]
    for name in ("one", "two"):
        write_run(tmp_path / name, [debate(id_, [RIGHT, RIGHT]) for id_ in ids], pools=pools)
    data = data_of(write(tmp_path / "report.html", tmp_path / "one", tmp_path / "two"))
    bodies = [body for n in range(3) for body in data[f"debates-{n}"]]
    assert [body["id"] for body in bodies] == ids * 2
    assert [text for text, _, _ in data["texts-0"]] == [passage["text"] for passage in PASSAGES]
    assert all(body["texts"] == [0, 1, 2] for body in bodies)
    assert data["index"]["sizes"] == {"debates": 100, "texts": 200, "prompts": 200}
    assert len(data["index"]["questions"]["id"]) == 150


def test_the_index_says_how_each_debate_came_out(tmp_path: Path) -> None:
    came_out = [
        (debate("q0", [RIGHT, RIGHT]), {"right"}),
        (debate("q1", [WRONG, WRONG]), {"wrong"}),
        (debate("q2", [WRONG, WRONG], [RIGHT, RIGHT]), {"right", "corrected"}),
        (debate("q3", [RIGHT, RIGHT], [WRONG, WRONG]), {"wrong", "collapsed"}),
        (debate("q4", [RIGHT, WRONG], consensus=False), {"right", "divided"}),
        (debate("q5", [RIGHT, RIGHT], answer=None), {"abstained", "collapsed"}),
        (debate("q6", [RIGHT, RIGHT], status="failed", answer=None), {"failed"}),
        (debate("q7", [RIGHT, RIGHT], degraded=True), {"right", "degraded"}),
        (debate("q8", [RIGHT, RIGHT], oracle=True), {"right", "oracle"}),
        (debate("q9", [RIGHT, RIGHT], golds=()), set()),
    ]
    run = write_run(tmp_path / "run", [each for each, _ in came_out])
    index = data_of(write(tmp_path / "report.html", run))["index"]
    bits = index["debates"]["outcomes"]
    found = [{name for n, name in enumerate(index["outcomes"]) if each >> n & 1} for each in bits]
    assert found == [outcomes for _, outcomes in came_out]


def test_questions_stand_in_the_order_of_the_data_whichever_finished_first(tmp_path: Path) -> None:
    played = [debate("b", [RIGHT]), debate("a", [RIGHT])]
    run = write_run(tmp_path / "run", played, questions={"a": "0", "b": "1"})
    index = data_of(write(tmp_path / "report.html", run))["index"]
    assert index["questions"]["id"] == ["a", "b"]
    assert index["debates"]["question"] == [1, 0]


def test_a_pool_file_that_is_gone_or_changed_leaves_titles(tmp_path: Path) -> None:
    gone, changed = (write_run(tmp_path / name, [debate("q", [RIGHT])]) for name in ("gone", "changed"))
    (gone / "pools.jsonl").unlink()
    (changed / "pools.jsonl").write_text("")
    data = data_of(write(tmp_path / "report.html", gone, changed))
    assert [body["texts"] for body in data["debates-0"]] == [[], []]
    assert data["debates-0"][0]["pool"][0]["title"] == "Lake Baikal"


def test_the_page_shows_a_prediction_file_with_a_run(tmp_path: Path, run: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"id": "q", "answer": "Lake Superior"}\n')
    questions = [Question(id="q", question=debate("q", [RIGHT]).question, answers=(RIGHT,))]
    page = write(tmp_path / "report.html", run, tmp_path / "other.jsonl", questions=questions)
    data = data_of(page)
    assert [body["answer"] for body in data["debates-0"]] == [RIGHT, "Lake Superior"]
    assert len(data["index"]["questions"]["id"]) == 1
    assert "prediction file other.jsonl" in page
    assert data["index"]["debates"]["tokens"] == [1100, None]


def test_finding_chart_scores_and_tests_stand_in_it_as_markup(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", [debate(f"q{n}", [RIGHT, RIGHT]) for n in range(10)])
    once = {"speak": StageUsage(calls=1, prompt_tokens=500)}
    bad = write_run(tmp_path / "bad", [debate(f"q{n}", [WRONG, WRONG], usage=once) for n in range(10)])
    page = write(tmp_path / "report.html", good, bad)
    assert re.findall(r'<span class="spent">([^<]*)</span>', page) == ["2 calls", "1 call"]
    assert '<p class="finding">good beats bad by 100.0 points' in page
    assert '<b style="left:92.59%;bottom:72.25%;top:0.0%"></b>' in page
    table = page.partition('<h2 id="scores">')[2]
    headings = re.findall(r"<button[^>]*>([^<]*)</button>", table.partition("</thead>")[0])
    cells = re.findall(r"<td[^>]*>([^<]*?)(?: <small>([^<]*)</small>)?</td>", table)
    best = dict(zip(headings[1:], cells, strict=False))
    assert best["correct (match) %"] == best["EM %"] == ("100.0", "72.2 to 100.0")
    assert (best["n"], best["calls"], best["tokens"]) == (("10", ""), ("20", ""), ("11,000", ""))
    assert "Paired comparisons" in page
    assert "madke 0.0.test" in page


def test_the_lines_and_tables_of_a_study_stand_in_it_as_text(tmp_path: Path, run: Path) -> None:
    verdict = ["Talking does not pay.", "It <costs> more."]
    table = Table(title="More <b>", columns=("arm", "n"), rows=((Cell(text="one"), Cell(text="7", value=7)),))
    page = write(tmp_path / "page.html", run, verdict=verdict, title="Lakes <i>", source="a test", tables=[table])
    assert re.findall('<p class="finding">([^<]*)', page) == ["Talking does not pay.", "It &lt;costs&gt; more."]
    assert page.index("Talking does not pay.") < page.index('class="lead"') < page.index('id="scores"')
    assert '<h1><a class="brand" href="#summary">Lakes &lt;i&gt;</a></h1>' in page
    assert "<title>Lakes &lt;i&gt;</title>" in page
    assert "a test</p>" in page
    assert "<h2>More &lt;b&gt;</h2>" in page


def test_it_warns_of_debates_that_failed(tmp_path: Path) -> None:
    played = [debate(f"q{n}", [RIGHT, RIGHT], repeat=k) for n in range(2) for k in range(3)]
    failed = replace(played[0], status="failed", answer=None, final=Final(by="majority", status="failed", error="gone"))
    page = write(tmp_path / "report.html", write_run(tmp_path / "run", [failed, *played[1:]]))
    assert "run: 1 of 6 debates failed and are excluded from scores. Including them, correct is between 83.3 %" in page


def test_a_banner_names_the_runs_that_the_offline_reader_answered(tmp_path: Path, run: Path) -> None:
    read = write_run(tmp_path / "read", [debate("q", [RIGHT])], models={"debater-1": "offline/extractive-5"})
    assert "banner reader" not in write(tmp_path / "report.html", run)
    some = write(tmp_path / "report.html", run, read)
    assert "The answers of read come from offline, the built-in reader" in some.partition('<h2 id="scores">')[0]
    assert "These answers come from offline" in write(tmp_path / "report.html", read)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("BM25 over 900 passages (/home/my index/wiki, ab12)", "BM25 over 900 passages (wiki, ab12)"),
        ("x vectors (runs/idx, ab12), texts from ../wiki (cd34)", "x vectors (idx, ab12), texts from wiki (cd34)"),
        ("hf//srv/models/qwen#ab12", "hf/qwen#ab12"),
        ("web search through https://serper.example/search (num=10)",) * 2,
        ("all-MiniLM-L6-v2 and ~/bin/score.py --x", "all-MiniLM-L6-v2 and score.py --x"),
    ],
)
def test_folders_of_a_machine_are_left_out(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def test_nothing_but_its_own_script_may_run_and_nothing_may_be_fetched(tmp_path: Path, run: Path) -> None:
    page = write(tmp_path / "report.html", run)
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    assert len(re.findall(r"<script(?! type=.application/gzip)", page)) == 1
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == directives["connect-src"] == "'none'"
    assert directives["script-src"] == f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def test_a_page_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, run: Path) -> None:
    before = write(tmp_path / "report.html", run)
    with (run / "transcripts.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(UserError, match="is not a transcript"):
        write_report([run], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "report.html"}
