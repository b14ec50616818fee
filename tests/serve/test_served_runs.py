"""What was served is an ordinary run."""

import json
from pathlib import Path

import openai
import pytest

import madke
from tests.serve.serving import ANSWERS, Shelf, Upstream, serving
from tests.support import cli as commands


def test_score_and_report_read_every_run(upstream: Upstream, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(out, upstream, sources=Shelf(), protocols=("madke", "cot")) as server:
        for question in [*ANSWERS][:2]:
            server.text(question)
            server.text(question, "cot")
        server.text(next(iter(ANSWERS)))
    runs = sorted(out.glob("*-*/run.json"))
    assert [path.parent.name.rpartition("-")[0] for path in runs] == ["cot", "madke"]
    for path in runs:
        run = madke.Run(path.parent)
        assert len(run.record.questions) == len(run.record.pools) == 2
        assert {transcript.answer for transcript in run.transcripts()} == {f"Author {n}" for n in range(2)}
    assert madke.Run(runs[1].parent).record.repeats == 2
    scored = commands.madke("score", *(path.parent for path in runs), "--json")
    assert scored.returncode == 0, scored.stderr
    reported = commands.madke("report", *(path.parent for path in runs), "--out", tmp_path / "page.html")
    assert reported.returncode == 0, reported.stderr
    last = [*json.loads(runs[0].read_text())["spec"]["questions"]][-1]
    assert "Author 1" in commands.madke("report", runs[0].parent, "--question", last).stdout


def test_a_server_goes_on_with_the_runs_of_an_earlier_one_that_was_killed(upstream: Upstream, tmp_path: Path) -> None:
    shelf = Shelf()
    for number in (1, 2):
        with serving(tmp_path, upstream, sources=shelf) as server:
            server.text(f"Who wrote book {number}?")
            server.text("Who wrote book 3?")
        (run,) = tmp_path.glob("madke-*")
        with (run / "pools.jsonl").open("ab") as file:
            file.write(b'{"id": "half')
    with serving(tmp_path, upstream, sources=shelf) as server:
        assert server.text("Who wrote book 1?") == "Author 1 [0]"
    record = json.loads((run / "run.json").read_text())
    assert (len(record["spec"]["questions"]), record["spec"]["repeats"]) == (3, 2)
    assert [session["questions"] for session in record["sessions"]] == [2, 2, 1]
    assert len(shelf.queries) == len((run / "pools.jsonl").read_bytes().splitlines()) == 3, "pools are kept"
    assert len(upstream.calls) == len({*upstream.calls}) == 30


def test_the_address_of_a_transcript_outlives_its_server(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        address = server.answer("Who wrote book 1?").madke["transcript"].removeprefix(server.url)
    assert (tmp_path / "link-secret").stat().st_mode & 0o077 == 0
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        text = server.get(address).text
        record = server.get(address, accept="application/json").json()
        run, token = address.split("/")[2], address.partition("token=")[2]
        for other in (address[:-1], address.replace(run, "."), f"/debates/{run}/other/0?token={token}"):
            assert server.get(other).status_code == 404
        (tmp_path / run).rename(tmp_path / "elsewhere")
        assert server.get(address).status_code == 404
        (tmp_path / "elsewhere").rename(tmp_path / run)
    assert "Author 1" in text
    assert "It has an author." in text
    assert record["answer"] == "Author 1"
    assert record["texts"][0][0] == "It has an author. Author 1 wrote it."


def test_a_damaged_transcript_hides_no_other(
    upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, upstream) as server:
        done = [server.answer(f"Who wrote book {number}?") for number in (1, 2, 3)]
        first, second, third = (each.madke["transcript"] for each in done)
        as_json = {"accept": "application/json"}
        assert server.get(third, **as_json).json()["answer"] == "Author 3"
        (file,) = tmp_path.glob("madke-*/transcripts.jsonl")
        ids = [address.split("/")[-2] for address in (first, second)]
        file.write_text(file.read_text().replace("Author 1", "Author 7").replace(*ids))
        assert server.get(second, **as_json).json()["answer"] == "Author 2", "the lines of others are not read again"
        damaged = server.get(first, **as_json)
    assert (damaged.status_code, damaged.json()["error"]["code"]) == (500, "debate_unreadable")
    assert str(tmp_path) not in damaged.text
    assert "its checksum does not fit its text" in caplog.text


def test_a_search_that_fails_is_an_error_and_is_made_again(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, upstream, sources=Shelf()) as server:
        with monkeypatch.context() as patch:
            patch.setattr(Shelf, "search", None)
            with pytest.raises(openai.APIError, match="not callable"):
                server.text("Who wrote book 1?")
        assert server.text("Who wrote book 1?") == "Author 1 [0]"


def test_protocols_that_cannot_run_with_the_sources_are_left_out(upstream: Upstream, tmp_path: Path) -> None:
    with serving(tmp_path, upstream, sources={name: Shelf() for name in "abc"}, protocols=()) as server:
        left_out = server.debates.offers.left_out
        listed = {model.id for model in server.client().models.list()}
        choices = server.get("/page/choices").json()
    assert left_out.keys() == {"isolate", "per-document"}, "they need a debater for each passage"
    assert all("\n" not in reason and "debater" in reason for reason in left_out.values())
    assert "madke" in listed
    assert not listed & left_out.keys()
    assert {choice["name"] for choice in choices} == listed
