"""``madke ask``: one debate, by a script, and with a person in it."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from madke.cli import ask
from tests.support.cli import command, madke

# The shape of the paper's case study (Wang et al., Table 5), with another question and our own words: one debater
# declines the pool and is wrong, the judge says [NO]., then both select and agree.
CASE_STUDY = """
- {stage: select, agent: Debater 1, round: 1, reply: "None of it compares the two lakes directly. [No Found]"}
- {stage: select, agent: Debater 2, round: 1, reply: "[0] gives one depth, [1] the other."}
- {stage: select, reply: "Knowledge [0] and Knowledge [1] state the two depths."}
- {stage: speak, agent: Debater 1, reply: "From memory, Tanganyika is the deeper one. The answer is Lake Tanganyika."}
- {stage: speak, agent: Debater 2, reply: "1,642 metres are more than 1,470. The answer is [Lake Baikal]."}
- {stage: reply, reply: "1,642 metres against 1,470: I was wrong if I said otherwise. The answer is [Lake Baikal]."}
- {stage: judge, round: 1, reply: "[NO]."}
- {stage: judge, round: 2, reply: "[Yes]"}
- {stage: summarize, reply: "Both name the same lake. The final answer is [Lake Baikal]."}
"""
WEB = {
    "query": "Which is deeper, Lake Baikal or Lake Tanganyika?",
    "results": [
        {"title": "Baikal", "snippet": "Lake Baikal is 1,642 metres deep.", "link": "https://a.example/b"},
        {"title": "Tanganyika", "snippet": "Lake Tanganyika is 1,470 metres deep.", "link": "https://a.example/t"},
    ],
}


@pytest.fixture
def asking(tmp_path: Path) -> Any:
    (tmp_path / "script.yaml").write_text(CASE_STUDY)
    (tmp_path / "web.jsonl").write_text(json.dumps(WEB) + "\n")
    script = f"scripted/{tmp_path / 'script.yaml'}"
    return "ask", WEB["query"], "--sources", f"google={tmp_path / 'web.jsonl'}", "--model", script


def test_the_papers_case_study_takes_two_rounds_and_ends_with_the_corrected_answer(asking: Any) -> None:
    done = madke(*asking, "--json")
    assert done.returncode == 0, done.stderr
    transcript = json.loads(done.stdout)
    first, second = transcript["rounds"]
    wrong, right = first["turns"]
    assert (wrong["selection"]["ids"], wrong["selection"]["rule"]) == ([], "no_found")
    assert (wrong["stance"]["answer"], right["stance"]["answer"]) == ("Lake Tanganyika", "Lake Baikal")
    assert first["verdict"]["consensus"] is False
    assert [turn["selection"]["ids"] for turn in second["turns"]] == [[0, 1], [0, 1]]
    assert second["verdict"]["consensus"] is True
    assert (transcript["answer"], transcript["stop_reason"]) == ("Lake Baikal", "consensus")
    assert sum(used["calls"] for used in transcript["usage"].values()) == 2 * 2 * 2 + 1 + 1


def test_the_debate_reads_as_text(asking: Any) -> None:
    done = madke(*asking)
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    order = [
        "[1] google",
        "--- round 1 ---",
        "finds nothing helpful",
        "no consensus",
        "--- round 2 ---",
        "Final answer",
    ]
    assert [shown.index(part) for part in order] == sorted(shown.index(part) for part in order)


def test_a_person_can_take_a_debaters_part(asking: Any) -> None:
    process = subprocess.Popen(
        command(*asking, "--cast", "debater-2=human", "--json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = "Selected: 1\n\nI have been there.\nThe answer is Lake Onega.\n\nSelected: 0\n\nIt is Lake Baikal.\n\n"
    out, prompts = process.communicate(said, timeout=60)
    assert process.returncode == 0, prompts
    first, second = json.loads(out)["rounds"]
    assert first["turns"][1]["selection"]["ids"] == [1]
    assert first["turns"][1]["stance"]["text"] == "I have been there.\nThe answer is Lake Onega."
    assert second["turns"][1]["stance"]["answer"] == "Lake Baikal"
    assert "--- Debater 2, round 2: reply ---" in prompts
    assert "> From memory, Tanganyika is the deeper one." in prompts


@pytest.mark.parametrize("interrupts", ["taken", "ignored"])
def test_a_person_who_leaves_ends_the_command(asking: Any, interrupts: str) -> None:
    """Also in a background spec of a script, which inherits that interrupts are ignored."""
    spec = ("sh", "-c", 'trap "" INT; exec "$@"', "sh") if interrupts == "ignored" else ()
    done = subprocess.run(
        [*spec, *command(*asking, "--cast", "Debater 2=human", "--json")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_a_debater_can_search_for_more(asking: Any, tmp_path: Path) -> None:
    found = {"title": "Depths", "snippet": "1,642 against 1,470.", "link": "https://a.example/d"}
    with (tmp_path / "web.jsonl").open("a") as file:
        file.write(json.dumps({"query": "both depths", "results": [found]}) + "\n")
    script = tmp_path / "script.yaml"
    script.write_text(CASE_STUDY.replace("[0] gives one depth, [1] the other.", "[0] and [1]. [Search: both depths]"))
    done = madke(*asking, "--set", "allow_search=true", "--json")
    assert done.returncode == 0, done.stderr
    transcript = json.loads(done.stdout)
    assert transcript["rounds"][0]["turns"][1]["search"] == {"query": "both depths", "ids": [2], "error": None}
    assert (transcript["pool"][2]["key"], transcript["pool"][2]["asked_by"]) == ("https://a.example/d", "Debater 2")


def test_the_passages(asking: Any) -> None:
    plain, shown = madke(*asking), madke(*asking, "--passages")
    assert "Lake Tanganyika is 1,470 metres deep." not in plain.stdout
    assert "[1] Tanganyika\n    Lake Tanganyika is 1,470 metres deep." in shown.stdout
    assert shown.stdout.splitlines()[-3:] == plain.stdout.splitlines()[-3:]


def test_the_example_of_the_help_is_answered_right_by_the_offline_reader(tmp_path: Path) -> None:
    example = next(line for line in (ask.command.__doc__ or "").splitlines() if line.lstrip().startswith("madke ask"))
    done = madke(*shlex.split(example)[1:], cwd=tmp_path)
    assert "Answer: three\nAgreed: Debater 1, Debater 2\n" in done.stdout, done.stderr
