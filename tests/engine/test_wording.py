"""``--wording``: what is sent with the structure of the papers' prompts, and with a file of one's own."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke.core.chat import ChatRequest, Message
from madke.core.errors import UserError
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.engine.protocol import nothing_found
from madke.engine.variant import load_variant, worded
from madke.runs.directory import read_run
from madke.runs.request import RunRequest
from madke.runs.spec import resolve
from madke.tasks import TASKS
from tests.support.cli import madke, refused
from tests.support.dataset import write_dataset
from tests.support.debates import QUESTION, asked, disagreeing_until, play
from tests.support.openai_server import chat, openai_server

NEVER = disagreeing_until(9)


def parts(message: Message, *marks: str) -> Sequence[int]:
    """Where each of the marks first stands in a message; all must be there."""
    found = [message.content.find(mark) for mark in marks]
    assert -1 not in found, (marks, message.content)
    return found


def in_order(message: Message, *marks: str) -> bool:
    found = parts(message, *marks)
    return list(found) == sorted(found)


def only(requests: list[ChatRequest]) -> ChatRequest:
    (request,) = requests
    return request


@pytest.mark.parametrize("name", ["madke-reference", "madke", "madke-live"])
def test_madke_asks_as_printed(name: str, pool: KnowledgePool) -> None:
    judged = {"judge_asked": "always"} if name != "madke-reference" else {}
    transcript, model = play(name, NEVER, wording="paper", pool=pool, settings=judged, retrieve=nothing_found)
    at = {"agent": "Debater 1"}
    question, steps = f"Question: {QUESTION.question}", "Answer, step by step:"

    # Appendix A: a debater holds on to its view while it is convinced, and corrects a mistake.
    roles = {request.messages[0] for request in asked(model, **at)}
    assert len(roles) == 1
    assert in_order(roles.pop(), "Hold on to your view as long as you are convinced", "If you see a mistake in it")

    # Prompt 3.1: at most three numbers in brackets, or [No Found]; from round 2 on the own answer; the question last.
    first, later = (only(asked(model, stage="select", round=n, **at)).messages[-1] for n in (1, 2))
    assert in_order(first, "at most 3", "square brackets", "[No Found]", "Passage 0", question, steps)
    assert in_order(later, "Passage 0", "You wrote before:", "> Debater 1 in round 1", question, steps)
    assert "Debater 2" not in later.content

    # Prompt 3.2: the form, one example in the same message, passages, the question last.
    speak = only(asked(model, stage="speak", round=1, **at))
    assert [message.role for message in speak.messages] == ["system", "user"]
    end = "(end of the example)"
    assert in_order(speak.messages[-1], "in the form [X]", "An example:", end, "Passage 0", question, steps)
    example = speak.messages[-1].content.partition(end)[0]
    assert len(re.findall(r"The answer is \[[^\]]+\]", example)) == 1
    assert "two sentences" not in speak.messages[-1].content.lower()

    # Prompt 3.3: passages, the others, the own answer behind them, the question last.
    reply = only(asked(model, stage="reply", round=2, **at)).messages[-1]
    marks = ("or keep it", "in the form [X]", "Passage 0", "Debater 2 wrote:", "You wrote before:", question, steps)
    assert in_order(reply, *marks)

    # Prompt 3.4: the same and correct, [Yes] or [No]; the question, then the stances.
    judge = only(asked(model, stage="judge", round=1)).messages
    assert in_order(judge[-1], "same answer and it is correct", "[No]", question, "Debater 1 wrote:", steps)
    assert "without taking sides" in judge[0].content

    # Prompt 3.5: the form, an example, the question, the stances.
    summary = only(asked(model, stage="summarize")).messages[-1]
    assert in_order(summary, "in the form [X]", "An example:", end, question, "> Debater 2 in round 3", steps)
    assert (transcript.answer, transcript.stop_reason) == ("Lake Baikal", "rounds")


def agents(request: ChatRequest) -> str:
    return (
        f"{request.purpose.agent} in round {request.purpose.round}: the answer is (Lake {request.purpose.agent[-1]})."
    )


@pytest.mark.parametrize(("name", "examples"), [("mad", 0), ("madc", 4)])
def test_du_and_zhang_ask_as_a_chat_in_which_the_own_solution_comes_first(name: str, examples: int) -> None:
    transcript, model = play(name, agents, wording="paper")
    for request in asked(model, round=1):
        roles = [message.role for message in request.messages]
        assert roles == ["user", "assistant"] * examples + ["user"]
        last = request.messages[-1]
        assert in_order(last, QUESTION.question, "Explain", "End your reply with the answer in the form (X)")
    for request in asked(model, round=2):
        first, own, last = request.messages
        assert (first.role, own.role, last.role) == ("user", "assistant", "user")
        assert QUESTION.question in first.content
        assert own.content.startswith(f"{request.purpose.agent} in round 1")
        assert own.content not in last.content
        assert in_order(last, "One agent wrote:", "> Debater", "step by step", "in the form (X)")
        (turn,) = (turn for turn in transcript.rounds[1].turns if turn.agent == request.purpose.agent)
        assert re.findall(r"> (Debater \d+) in", last.content) == list(turn.reads)
    assert {turn.stance.answer for turn in transcript.rounds[0].turns} >= {"Lake 1", "Lake 2"}


def sides(request: ChatRequest) -> str:
    if request.purpose.stage == "judge":
        return json.dumps({"settled": False, "side": "", "reason": "Both have a point.", "answer": ""})
    return f"Side: Negative\n{request.purpose.agent} in round {request.purpose.round}. The answer is Lake Baikal."


def test_liangs_moderator_knows_the_topic_and_is_not_told_to_ignore_names_and_places() -> None:
    transcript, model = play("liang", sides, wording="paper")
    for stage in ("judge", "extract"):
        system, user = asked(model, stage=stage)[0].messages
        assert in_order(system, "You are a moderator", "for at most 3 rounds", QUESTION.question)
        assert QUESTION.question not in user.content
        assert not re.search("prefer (?:a|one) debater", system.content + user.content)
    for request in [*asked(model, stage="speak"), *asked(model, stage="reply", agent="Negative")]:
        assert [QUESTION.question in message.content for message in request.messages].index(True) == 0
        assert sum(QUESTION.question in message.content for message in request.messages) == 1
    first = only(asked(model, stage="reply", round=1, agent="Negative")).messages
    assert [message.role for message in first] == ["system", "user"]
    assert in_order(first[-1], "Affirmative in round 1", "You disagree with the affirmative side")
    later = only(asked(model, stage="reply", round=2, agent="Negative")).messages[-1]
    assert "You disagree" not in later.content
    assert transcript.answer == "Lake Baikal"


@pytest.mark.parametrize("name", sorted(worded("paper")))
@pytest.mark.parametrize("task", sorted({*TASKS} - {"text"}))  # texts are compared by no matcher
def test_every_task_can_be_asked_in_the_structure_of_the_paper(name: str, task: str, pool: KnowledgePool) -> None:
    question = Question(id="q", question="Which?", answers=("A",), task=task, choices=("x", "y"))
    options: dict[str, Any] = {"question": question, "pool": pool, "retrieve": nothing_found}
    _, model = play(name, lambda request: "[No]", wording="paper", **options)
    for request in model.requests:
        assert not re.search(r"\{[{%]|\n\n\n", "".join(message.content for message in request.messages))


def test_the_structure_has_madkes_own_words(shared_data: Path) -> None:
    """No eight words in a row are those of a paper, but for what names a form."""
    printed = " ".join(
        " ".join(re.findall(r"\w+", file.read_text().casefold()))
        for file in (shared_data.parent / "seeds").glob("*.txt")
    )
    texts = [
        each if isinstance(each, str) else each.template
        for words in worded("paper").values()
        for each in words.prompts.values()
    ]
    for text in texts:
        words = re.findall(r"\w+", re.sub(r"\{[{%].*?[%}]\}", " | ", text).casefold())
        assert not [run for n in range(len(words) - 7) if (run := " ".join(words[n : n + 8])) in printed]


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """A file of words for mad: that of ``madke protocols copy``, with one sentence replaced."""
    file = tmp_path / "printed.yaml"
    done = madke("protocols", "copy", "mad", file)
    assert done.returncode == 0, done.stderr
    assert f"use them with --wording {file}" in done.stdout
    file.write_text(file.read_text().replace("Other agents have solved the same problem.", "Kindly read on."))
    return file


def test_a_run_takes_the_words_of_a_file_and_records_it(printed: Path, tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    out = tmp_path / "out"
    with openai_server(lambda body, n: chat("The answer is (Lake Baikal).")) as server:
        given = ("run", questions, "-p", "mad", "--wording", printed, "--model", "openai/m", "--base-url", server.url)
        done = madke(*given, "--out", out)
        assert done.returncode == 0, done.stderr
        sent = [seen.body["messages"] for seen in server.requests]
    assert sum("Kindly read on." in messages[-1]["content"] for messages in sent) == 3
    record = read_run(out)
    assert record.wording == "printed.yaml"
    assert "printed.yaml/mad" in record.prompts_sha256
    assert record.protocol.marker == "parentheses"
    other = refused(*given[:4], "--wording", "paper", *given[6:], "--out", out)
    assert "wording" in other


def test_without_a_wording_nothing_changes() -> None:
    plain, worded_ = (resolve(RunRequest(questions=["?"], protocol="mad", wording=w)).record for w in (None, "paper"))
    assert "wording" not in plain.model_dump()
    assert plain.prompts_sha256 == load_variant("mad").files
    assert (worded_.wording, worded_.protocol.marker) == ("paper", "parentheses")


SPEAK = {"prompts": {"speak": {"user": "?"}}}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"madc": SPEAK}, "has no prompts of mad; it has madc"),
        ({"mad": {"prompts": {"judge": {"user": "?"}}}}, "unknown stage of mad 'judge'"),
        ({"mad": {"prompts": {"speak": {"user": "{{ knowledges }}"}}}}, "unknown placeholder 'knowledges'"),
        ({"mad": {"prompts": {"speak": {"user": "{% if %}"}}}}, "is not a template: speak.j2"),
        ({"mad": {"prompts": {"speak": {"text": "?"}}}}, "mad.prompts.speak"),
        ({"mad": {"settings": {"markr": 1}, **SPEAK}}, "settings: unknown parameter 'markr'"),
        ({"mad": {"settings": {"rounds": 0}, **SPEAK}}, "rounds"),
    ],
)
def test_a_wrong_file_is_one_line(content: Any, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UserError) as error:
        load_variant("mad").in_words(file)
    assert str(file) in str(error.value)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
