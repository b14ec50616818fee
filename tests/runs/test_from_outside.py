"""What a run takes from outside besides its questions: first rounds, an answer scorer, live searches, gold answers."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from madke.runs.directory import read_transcripts
from tests.data.published import write
from tests.support.cli import madke
from tests.support.dataset import write_dataset

SCRIPT = """
- {stage: select, agent: Debater 1, round: 1, reply: "[0] helps. [Search: depth of Baikal]"}
- {stage: select, reply: "[0]"}
- {stage: speak, agent: Debater 1, reply: "It is [Lake Tanganyika]."}
- {stage: speak, reply: "It is [Lake Baikal]."}
- {stage: reply, reply: "It is [Lake Baikal]."}
- {stage: judge, round: 1, reply: "[No]"}
- {stage: judge, reply: "[Yes]"}
- {stage: summarize, reply: "It is [Lake Baikal]."}
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs two questions of a script into a folder of this name and returns the transcripts by id."""
    questions, pools_file = write_dataset(tmp_path, 2)
    script = write(tmp_path / "script.yaml", SCRIPT)

    class Runs:
        pools = ("--pools", pools_file)

        def command(self, out: Any, *options: Any) -> Any:
            return ("run", questions, "--model", f"scripted/{script}", "--out", tmp_path / out, *options)

        def __call__(self, out: Any, *options: Any) -> Any:
            done = madke(*self.command(out, *options))
            assert done.returncode == 0, done.stderr
            return {transcript.id: transcript for transcript in read_transcripts(tmp_path / out)}

    return Runs()


def config(folder: Any) -> Any:
    return json.loads((folder / "run.json").read_text())["spec"]


def said(entry: Any) -> Any:
    return [(turn.agent, turn.stance.answer) for turn in entry.turns]


def test_two_runs_can_share_one_first_round(tmp_path: Path, run: Any) -> None:
    first = run("first", *run.pools)
    second = run("second", *run.pools, "--first-round", tmp_path / "first", "--set", "order=random")
    for id_, transcript in second.items():
        assert transcript.first_round_given
        assert said(transcript.rounds[0]) == said(first[id_].rounds[0])
        assert "speak" not in transcript.usage
        assert transcript.usage["reply"].calls == 2
    assert config(tmp_path / "second")["first_round"]
    scores = json.loads((tmp_path / "second" / "metrics.json").read_text())
    assert "speak" not in scores["parse_failures"]


def test_an_estimator_puts_one_candidate_first_and_is_not_needed_for_a_replay(tmp_path: Path, run: Any) -> None:
    script = tmp_path / "longest.py"
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    options = ("--protocol", "mad", "--set", "function=best_of", "--answer-scorer", command)
    script.write_text("raise SystemExit('no such language')")
    assert "2 x the answer scorer failed: " in madke(*run.command("out", *options)).stdout
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    assert not asked['references']\n"
        "    print(len(asked['candidate']))\n"
    )
    before = run("out", *options)  # the failures are stored, and asked anew
    final = before["q0"].final
    assert (final.agent, final.answer) == ("Debater 1", "Lake Tanganyika")
    assert final.scores == {"Debater 1": 15.0, "Debater 2": 11.0, "Debater 3": 11.0}
    assert config(tmp_path / "out")["answer_scorer"] == command
    script.unlink()
    assert run("out", *options, "--replay") == before
    assert "Debater 1 15, Debater 2 11" in madke("report", tmp_path / "out", "--question", "q0").stdout


@pytest.mark.parametrize("pooled", [False, True], ids=["own pools", "a pool file"])
def test_a_debater_can_search_and_the_replay_needs_no_source(tmp_path: Path, run: Any, pooled: bool) -> None:
    queries = ["depth of Baikal", *(f"Which lake is the deepest, in survey {n}?" for n in range(2))]
    lines = [
        {"query": query, "results": [{"title": query, "snippet": f"About: {query}", "link": f"https://{n}.example"}]}
        for n, query in enumerate(queries)
    ]
    web = write(tmp_path / "web.jsonl", lines)
    options = ("--sources", f"google={web}", "--set", "allow_search=true", *(run.pools if pooled else ()))
    before = run("out", *options)
    transcript = before["q1"]
    found = transcript.pool[-1]
    assert (found.key, found.asked_by, found.round) == ("https://0.example", "Debater 1", 1)
    assert found.query == "depth of Baikal"
    assert transcript.rounds[0].turns[0].search.ids == (found.n,)
    assert str(web) in config(tmp_path / "out")["searched"]["google"]
    web.unlink()
    assert run("out", *options, "--replay") == before
    shown = madke("report", tmp_path / "out", "--question", "q1").stdout
    assert f"searches for 'depth of Baikal': [{found.n}]" in shown
    assert "(https://0.example), found by Debater 1 in round 1" in shown


def test_an_order_that_reads_the_golds_is_marked_wherever_it_is_reported(tmp_path: Path, run: Any) -> None:
    out = tmp_path / "out"
    done = madke(*run.command("out", "--protocol", "mad", "--set", "order=truth_first"), figures=True)
    assert done.returncode == 0, done.stderr
    (transcript, _) = read_transcripts(out)
    assert transcript.oracle
    mark = "analysis: reads the gold answers"
    assert mark in " ".join(done.stdout.split())
    assert json.loads((out / "metrics.json").read_text())["read_golds"] == 2
    assert json.loads(madke("score", out, "--json").stdout)["read_golds"] == 2
    assert mark in (out / "report.html").read_text()
    assert mark in madke("report", out, "--question", "q0").stdout
