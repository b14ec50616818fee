"""``import madke``: what it offers, against what the command line does."""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

import madke
from madke.core.transcript import to_json
from tests.support.cli import madke as command
from tests.support.dataset import debating, write_dataset
from tests.support.openai_server import openai_server

DEEPEST = "Which lake is the deepest, in survey 0?"


class Counting:
    """A model that answers everything alike, and counts."""

    def __init__(self, name: str = "counting", answer: str = "Lake Baikal") -> None:
        self.name = name
        self.answer = answer
        self.requests: list[Any] = []

    async def complete(self, request: Any) -> Any:
        self.requests.append(request)
        text = {"select": "Selected: [0]", "judge": "Verdict: [SAME]"}.get(request.purpose.stage)
        return madke.Completion(text=text or f"The answer is [{self.answer}].")


class Searching:
    name = "wiki"
    description = "a list"

    def __init__(self, *, coroutine: bool = False) -> None:
        self.queries: list[Any] = []
        if coroutine:
            self.search = self.search_later  # type: ignore[method-assign]

    def search(self, queries: Any, k: Any) -> Any:
        self.queries += queries
        passage = madke.Passage(source=self.name, key="b", title="Baikal", text="It is deep.", score=1.0, rank=0)
        return [madke.Hits(passages=(passage,)) for _ in queries]

    async def search_later(self, queries: Any, k: Any) -> Any:
        await asyncio.sleep(0)
        return Searching.search(self, queries, k)


def plain(transcript: Any) -> Any:
    """A transcript without how long it took."""
    record = json.loads(to_json(transcript) if not isinstance(transcript, dict) else json.dumps(transcript))
    for used in record["usage"].values():
        used.pop("seconds", None)
        used.pop("paid", None)
    return record | {"id": ""}


def test_import_loads_nothing_and_names_are_there() -> None:
    heavy = {"pydantic", "openai", "jinja2", "torch", "typer"}
    program = f"import sys, madke; print({heavy} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "set()"
    for name in madke.__all__:
        assert getattr(madke, name) is not None
    assert (Path(madke.__file__).parent / "py.typed").is_file()
    with pytest.raises(AttributeError, match="no attribute 'aks'"):
        _ = madke.aks


@pytest.mark.slow
def test_the_same_debate_through_api_command_line_and_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    questions, _ = write_dataset(tmp_path, 1)
    (tmp_path / "web.jsonl").write_text("")
    with openai_server(debating) as server:
        options = madke.RunOptions(base_url=server.url, concurrency=4)
        same: dict[str, Any] = {"sources": f"google={tmp_path / 'web.jsonl'}", "model": "openai/m"}
        by_run = madke.run(questions, out="api", options=options, seed=7, **same)
        args = ("--model", "openai/m", "--base-url", server.url, "--sources", same["sources"])
        done = command("run", questions, "--out", "cli", "--seed", 7, *args)
        assert done.returncode == 0, done.stderr
        asked = madke.Question(id="q0", question=DEEPEST, answers=("Lake Baikal",))

        async def streamed() -> Any:
            return [event async for event in madke.stream(asked, options=options, seed=7, **same)]

        *_, last = asyncio.run(streamed())
        by_ask = madke.ask(asked, options=options, seed=7, **same)
    (from_run,) = by_run.transcripts()
    (from_cli,) = madke.api.debates.Run(tmp_path / "cli").transcripts()
    assert plain(from_run) == plain(from_cli) == plain(last.transcript) == plain(by_ask.transcript)
    assert from_run.answer == "Lake Baikal"
    assert by_run.record == madke.api.debates.Run(tmp_path / "cli").record


def test_what_is_returned_is_shown_in_one_line_and_says_why_it_failed(tmp_path: Path) -> None:
    class Refusing(Counting):
        async def complete(self, request: Any) -> NoReturn:
            raise madke.CallError("HTTP 400: no", retryable=False)

    debate = madke.ask("Which is deeper?", model=Counting(), protocol="cot")
    assert repr(debate) == "Debate('Lake Baikal', ok, 1 rounds)"
    assert isinstance(debate.transcript.rounds[0], madke.Round)
    assert isinstance(debate.transcript.rounds[0].turns[0], madke.Turn)
    run = madke.run(["Which is deeper?"], model=Refusing(), protocol="cot", out=tmp_path / "out")
    assert repr(run) == f"Run({str(tmp_path / 'out')!r}, 1 of 1 questions done, 1 failed)"
    ((reason, count),) = run.failures.items()
    assert (count, "HTTP 400: no" in reason) == (1, True)


class Closing(Counting):
    closed = False

    async def aclose(self) -> None:
        for _ in range(99):
            await asyncio.sleep(0)
        Closing.closed = True


def test_a_question_ends_when_its_model_is_closed() -> None:
    madke.ask("Which is deeper?", model=f"{__name__}:Closing", protocol="cot")
    assert Closing.closed


def test_a_run_that_does_not_begin_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(madke.UserError, match="cannot be reached"):
        madke.run(["q?"], model="openai/m", protocol="cot", options=madke.RunOptions(base_url="http://127.0.0.1:9/v1"))
    assert list(tmp_path.iterdir()) == []


def test_it_works_inside_a_running_event_loop() -> None:
    async def notebook() -> Any:
        debate = madke.ask("Which is deeper?", model=Counting(), protocol="cot")
        run = madke.run(["Which is deeper?"], model=Counting(), protocol="cot")
        return debate.answer, [transcript.answer for transcript in run.transcripts()]

    assert asyncio.run(notebook()) == ("Lake Baikal", ["Lake Baikal"])


@pytest.mark.parametrize("coroutine", [False, True])
def test_own_sources_are_asked_once_a_question_which_needs_no_id(coroutine: bool) -> None:
    source = Searching(coroutine=coroutine)
    questions = [madke.Question(question="Which is colder?"), madke.Question(question="Which is deeper?")]
    run = madke.run(questions, model=Counting(), sources=[source])
    assert sorted(source.queries) == ["Which is colder?", "Which is deeper?"]
    transcripts = list(run.transcripts())
    assert len({transcript.id for transcript in transcripts} - {""}) == 2
    assert {entry.title for transcript in transcripts for entry in transcript.pool} == {"Baikal"}


def test_a_larger_limit_goes_on_and_asks_only_for_what_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, source = Counting(), Searching()
    questions = [f"Which lake is the deepest, in survey {n}?" for n in range(4)]
    same: dict[str, Any] = {"model": model, "sources": [source], "out": tmp_path / "out"}
    madke.run(questions, limit=2, **same)
    calls, kept = len(model.requests), (tmp_path / "out" / "transcripts.jsonl").read_bytes()
    run = madke.run(questions, **same)
    assert "scores cover all" not in caplog.text
    assert len(model.requests) == 2 * calls
    assert source.queries == questions
    assert (tmp_path / "out" / "transcripts.jsonl").read_bytes().startswith(kept)
    assert [*run.record.questions] == [transcript.id for transcript in run.transcripts()]
    assert run.scores == {}
    madke.run(questions, limit=1, **same)
    assert "scores cover all 4 questions that it holds, not 1" in caplog.text
    assert (len(model.requests), len(source.queries)) == (2 * calls, 4)


def test_what_cannot_be_asked_is_told() -> None:
    with pytest.raises(madke.UserError, match=r"question 1: .*question"):
        madke.ask(" ", model=Counting())
    with pytest.raises(madke.UserError, match="question 2: id 'a' is already on question 1"):
        madke.run([{"id": "a", "question": text} for text in ("Why?", "Who?")], model=Counting())
    with pytest.raises(madke.UserError, match="no questions were given"):
        madke.run([], model=Counting())
    with pytest.raises(madke.UserError, match="question 1: unknown field 'anwser'; did you mean 'answer'"):
        madke.run([{"question": "Why?", "anwser": "so"}], model=Counting())
    with pytest.raises(madke.UserError, match="'wiki' would be the shipped sample"):
        madke.run(["Why?"], model=Counting())
    with pytest.raises(madke.UserError, match="two models have the name 'counting'"):
        madke.ask("Why?", model={"*": Counting(), "judge": Counting()})


def test_roles_take_their_own_models() -> None:
    judge, others = Counting("judge"), Counting("others")
    madke.ask(
        "Which is deeper?", model={"*": others, "judge": judge}, sources="none", settings={"judge_asked": "always"}
    )
    assert {request.purpose.stage for request in judge.requests} == {"judge"}
    assert "judge" not in {request.purpose.stage for request in others.requests}


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (ZeroDivisionError("no\nluck"), "mine: ZeroDivisionError: no luck"),
        ("a text", "mine returned str, expected a Completion"),
    ],
)
def test_a_model_of_mine_that_breaks_fails_its_question_and_the_batch_goes_on(trouble: Any, reason: str) -> None:
    class Mine(Counting):
        async def complete(self, request: Any) -> Any:
            if request.purpose.question != "q0":
                return await super().complete(request)
            if isinstance(trouble, Exception):
                raise trouble
            return trouble

    mine = Mine("mine")
    questions = [madke.Question(id=f"q{n}", question=DEEPEST, task="short_answer") for n in range(2)]
    run = madke.run(questions, protocol="mad", settings={"debaters": 2}, model={"*": mine, "Debater 1": mine})
    broken, fine = sorted(run.transcripts(), key=lambda each: each.id)
    assert (broken.status, fine.status, fine.answer) == ("failed", "ok", "Lake Baikal")
    assert reason in str(broken)


def test_leaving_a_stream_ends_its_debate() -> None:
    model = Counting()

    async def first_stance() -> Any:
        events = madke.stream("Which is deeper?", model=model, protocol="mad")
        async for event in events:
            if isinstance(event, madke.events.StanceGiven):
                break
        await events.aclose()
        asked = len(model.requests)
        await asyncio.sleep(0.05)
        return asked

    assert asyncio.run(first_stance()) == len(model.requests)


def test_scores_table_report_and_comparison(tmp_path: Path) -> None:
    questions = [{"id": "a", "question": "Which is deeper?", "answers": ["Lake Baikal"]}]
    one = madke.run(questions, model=Counting(), protocol="cot", out=tmp_path / "one")
    other = madke.run(questions, model=Counting(answer="Lake Geneva"), protocol="cot", out=tmp_path / "other")
    assert (one.scores["correct"].value, other.scores["correct"].value) == (1.0, 0.0)
    assert "100" in one.table()
    assert "<html" in one.report(tmp_path / "report.html").read_text()
    assert len(madke.compare(one, tmp_path / "other").questions) == 1
    assert madke.score(one).correct.value == 1.0
    frame = one.to_pandas()
    assert (frame["id"].tolist(), frame["answer"].tolist(), frame["correct"].tolist()) == (["a"], ["Lake Baikal"], [1])


def test_a_temporary_run_is_gone_with_its_object() -> None:
    run = madke.run(["Which is deeper?"], model=Counting(), protocol="cot")
    path = run.path
    assert path.is_dir()
    del run
    assert not path.exists()


def test_ask_and_run_ask_one_question_alike(tmp_path: Path) -> None:
    """The same id, seeds and prompts, if the file has no ids."""
    (tmp_path / "q.csv").write_text("question\nWhich lake is the deepest?\n")
    of_run, of_ask = Counting(), Counting()
    madke.run(tmp_path / "q.csv", model=of_run, sources=[Searching()])
    madke.ask("Which lake is the deepest?", model=of_ask, sources=[Searching()])
    assert sorted(of_ask.requests, key=repr) == sorted(of_run.requests, key=repr) != []
    assert all(request.seed is not None for request in of_ask.requests)
