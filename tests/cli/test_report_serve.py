"""``madke report --serve``: the page on this machine, and the sheet of corrections that people make on it."""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from madke.cli.corrections import CorrectionServer, Sheet
from madke.report.html import write_report
from madke.scoring.corrections import read_corrections
from tests.report.run_folders import debate, write_run
from tests.support.cli import madke, refused

QUESTION = "Which lake is the deepest, in survey c?"
ROW = {"id": "c", "question": QUESTION, "answer": "Siberia's", "correction": "right"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CorrectionServer]:
    monkeypatch.setattr("madke.report.html.figures.available", lambda: False)
    run = write_run(tmp_path / "run", [debate("a", ["Lake Baikal"] * 2), debate("c", ["Siberia's"] * 2)])
    write_report([run], tmp_path / "page.html")
    with CorrectionServer(tmp_path / "page.html", Sheet(tmp_path / "sheet.csv")) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(server: CorrectionServer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def changed(server: CorrectionServer, row: Any) -> tuple[int, str]:
    return asked(server, "POST", "/corrections", json.dumps(row), **{"X-Madke-Token": server.token})


def test_a_correction_is_written_and_taken_back(server: CorrectionServer) -> None:
    status, rows = changed(server, ROW)
    assert (status, json.loads(rows)) == (200, [ROW])
    assert changed(server, ROW)[1] == rows
    gold = {"id": "a", "question": "Which?", "answer": "", "correction": "gold is wrong"}
    assert json.loads(changed(server, gold)[1]) == [ROW, gold]
    assert [each.id for each in read_corrections(server.sheet.path)] == ["c", "a"]
    assert json.loads(changed(server, {**ROW, "undo": True})[1]) == [gold]
    assert [each.id for each in Sheet(server.sheet.path).rows] == ["a"]


@pytest.mark.parametrize(("error", "lines"), [(BrokenPipeError, 0), (ConnectionResetError, 0), (ValueError, 1)])
def test_a_browser_that_leaves_early_is_no_error(
    server: CorrectionServer, capsys: pytest.CaptureFixture[str], error: type[Exception], lines: int
) -> None:
    try:
        raise error
    except error:
        server.handle_error(None, ("127.0.0.1", 1))
    assert capsys.readouterr().err.count("Traceback") == lines


def test_only_the_page_itself_may_ask(server: CorrectionServer) -> None:
    status, page = asked(server, "GET", "/")
    assert (status, server.token in page) == (200, True)
    assert "connect-src 'self'" in page
    assert server.token not in server.page.read_text(encoding="utf-8")
    assert asked(server, "GET", "/", Host="evil.example")[0] == 403
    assert asked(server, "GET", "/corrections")[0] == 403
    assert asked(server, "POST", "/corrections", json.dumps(ROW), **{"X-Madke-Token": "guessed"})[0] == 403
    assert asked(server, "GET", "/page.html")[0] == 404
    assert not server.sheet.path.exists()


@pytest.mark.parametrize("row", [[], "x", {"id": "c"}, {**ROW, "correction": "maybe"}, {**ROW, "id": 7}])
def test_other_texts_are_no_corrections(server: CorrectionServer, row: Any) -> None:
    assert changed(server, row)[0] == 400
    assert not server.sheet.path.exists()


def test_a_huge_change_is_refused(server: CorrectionServer) -> None:
    headers = {"X-Madke-Token": server.token, "Content-Length": str(1 << 30)}
    assert asked(server, "POST", "/corrections", None, **headers)[0] == 413


def test_score_and_report_take_the_sheet_and_say_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [debate("a", ["Lake Baikal"] * 2), debate("c", ["Siberia's"] * 2)])
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(f'id,question,answer,correction\nc,"{QUESTION}",Siberia\'s,right\n')
    done = madke("score", run, "--corrections", sheet, "--json")
    assert (done.returncode, json.loads(done.stdout)["correct"]["value"]) == (0, 1), done.stderr
    assert (
        "1 answer accepted, 0 questions left out by corrections" in madke("score", run, "--corrections", sheet).stdout
    )
    assert madke("report", run, "--corrections", sheet, "--out", tmp_path / "page.html").returncode == 0
    assert "1 answer accepted" in (tmp_path / "page.html").read_text(encoding="utf-8").partition("<noscript>")[0]
    assert "leave out" in refused("report", run, "--question", "c", "--serve")


@pytest.mark.slow
def test_buttons_on_the_page_write_the_sheet(server: CorrectionServer) -> None:
    from tests.support.browser import browser, expect

    with browser() as launched:
        page = launched.new_page()
        page.goto(f"{server.origin}/#run/c")
        page.get_by_role("button", name="Actually right").click()
        expect(page.get_by_role("button", name="Actually right (undo)")).to_be_visible()
        assert [each.answer for each in read_corrections(server.sheet.path)] == ["Siberia's"]
        page.reload()
        page.get_by_role("button", name="Actually right (undo)").click()
        expect(page.get_by_role("button", name="Actually right", exact=True)).to_be_visible()
        assert read_corrections(server.sheet.path) == []
        page.goto(f"{server.origin}/#run/a")
        expect(page.get_by_role("button", name="Gold is wrong")).to_be_visible()
        expect(page.get_by_role("button", name="Actually right")).to_have_count(0)
        page.goto(server.page.as_uri() + "#run/c")
        expect(page.locator(".result")).to_be_visible()
        expect(page.get_by_role("button", name="Gold is wrong")).to_have_count(0)
