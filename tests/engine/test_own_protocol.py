"""A protocol of your own: a function over the steps. The page's example runs, and what is wrong is one line."""

import re
from pathlib import Path
from typing import Any

import pytest

import madke
from madke._util.assets import asset
from madke.core.chat import ChatRequest
from madke.core.errors import UserError
from madke.core.registry import import_object
from madke.core.transcript import Final
from madke.engine.settings import Count, Reads
from madke.engine.steps import Debate
from madke.models.scripted import ScriptedChat
from madke.runs.request import RunRequest
from madke.runs.spec import resolve
from tests.support.cli import madke as madke_command
from tests.support.debates import asked, shown

QUESTION = {"id": "q", "question": "Which lake is the deepest?", "golden_answers": ["Lake Baikal"]}
PAGE = Path(asset("prompts")).parent / "docs" / "extend.md"


def doubted(request: ChatRequest) -> str:
    """A sceptic asks; debaters and judge differ until round 2."""
    purpose = request.purpose
    match purpose.stage:
        case "sceptic":
            return f"How deep is it, in round {purpose.round}? The answer is Lake Chad."
        case "judge":
            return "DIFFERENT" if purpose.round == 1 else "SAME"
    lake = "Baikal" if purpose.agent == "Debater 1" or purpose.round > 1 else "Tanganyika"
    return f"I looked it up. The answer is Lake {lake}."


@pytest.fixture
def doubting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of the page, with the page's template in ``my-protocols``."""
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r'```python title="doubting.py"\n(.*?)```', text, re.DOTALL)
    template = re.search(r"sceptic.j2 <<'EOS'\n(.*?)EOS", text, re.DOTALL)
    assert code is not None
    assert template is not None
    (tmp_path / "doubting.py").write_text(code[1])
    folder = tmp_path / "my-protocols" / "doubting"
    folder.mkdir(parents=True)
    (folder / "sceptic.j2").write_text(template[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return import_object("doubting:doubting")


def test_a_sceptic_is_read_in_the_next_round_and_has_no_vote(doubting: Any) -> None:
    model = ScriptedChat(doubted)
    run = madke.run(
        [QUESTION], protocol=doubting, prompts="my-protocols", model=model, sources="none", settings={"rounds": 2}
    )
    (transcript,) = run.transcripts()
    assert (transcript.answer, transcript.stop_reason) == ("Lake Baikal", "consensus")
    assert [[remark.role for remark in entry.remarks] for entry in transcript.rounds] == [["sceptic"], []]
    assert {turn.agent for entry in transcript.rounds for turn in entry.turns} == {"Debater 1", "Debater 2"}
    assert all("How deep is it, in round 1?" in shown(request) for request in asked(model, stage="reply", round=2))
    assert transcript.rounds[1].turns[0].reads == ("Debater 2", "sceptic")
    for request in [*asked(model, stage="judge"), *asked(model, stage="summarize")]:
        assert "How deep" not in shown(request)
    assert transcript.agreement.same
    assert transcript.usage["sceptic"].calls == 1


def test_a_function_is_named_on_the_command_line_and_its_role_has_a_model(doubting: Any) -> None:
    sceptic = ScriptedChat(doubted)
    spec = resolve(
        RunRequest(
            questions=[QUESTION], protocol="doubting:doubting", prompts="my-protocols", cast={"sceptic": sceptic}
        )
    )
    assert spec.record.protocol.function == "doubting:doubting"
    assert spec.record.models["sceptic"] != spec.record.models["judge"]
    assert spec.protocol.trace.calls == (5, 12)
    with pytest.raises(UserError, match=r"unknown parameter .debate.*doubting:doubting has: rounds"):
        spec.variant.with_settings({"debate": 2})
    with pytest.raises(UserError, match="protocol doubting:nothing cannot be imported"):
        resolve(RunRequest(questions=[QUESTION], protocol="doubting:nothing"))


def test_a_function_of_your_own_and_its_prompts_are_printed(doubting: Any) -> None:
    done = madke_command("protocols", "show", "doubting:doubting", "--prompts", "my-protocols")
    assert done.returncode == 0, done.stderr
    assert "doubting: the function doubting:doubting\n" in done.stdout
    assert "MADKE" not in done.stdout, "the notes of the folder that lends its templates"
    assert "Calls per question: 5-12\n" in done.stdout
    assert "sceptic: sceptic.j2\n" in done.stdout
    prompt = madke_command("protocols", "prompt", "doubting:doubting", "sceptic", "--prompts", "my-protocols")
    assert prompt.stdout.startswith("sceptic: sceptic, round 1\n"), prompt.stderr


async def no_answer(debate: Debate) -> Any:
    await debate.turns()


async def broken(debate: Debate) -> Final:
    await debate.turns()
    raise KeyError("a bug")


async def without_default(debate: Debate, *, rounds: int) -> Final:
    return debate.vote()


async def taken(debate: Debate, *, temperature: float = 0) -> Final:
    return debate.vote()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_answer, "no_answer returned None; expected the answer that a step gives"),
        (broken, "fails in a simulated debate: KeyError"),
        (without_default, "'rounds' must be a keyword parameter with a default"),
        (taken, "'temperature' is a parameter of every debate"),
        (len, "expected an async function"),
    ],
)
def test_what_is_wrong_in_a_function_is_one_line_before_any_call(function: Any, said: str) -> None:
    model = ScriptedChat(doubted)
    with pytest.raises(UserError, match=re.escape(said)):
        madke.run([QUESTION], protocol=function, model=model, sources="none")
    assert model.requests == []


async def breaks_off(debate: Debate, *, rounds: Count = 3) -> Final:
    async for _ in debate.rounds(rounds):
        await debate.turns(Reads(peers="none"))
        break
    return debate.vote()


async def no_loop(debate: Debate) -> Final:
    await debate.turns()
    await debate.turns()
    return debate.vote()


@pytest.mark.parametrize(("function", "rounds", "reason"), [(breaks_off, 1, "stopped"), (no_loop, 2, "rounds")])
def test_a_function_may_stop_without_a_reason_or_a_loop(function: Any, rounds: int, reason: str) -> None:
    ended: list[Any] = []
    heard = lambda event: ended.append(event) if isinstance(event, madke.events.RoundEnded) else None  # noqa: E731
    run = madke.run([QUESTION], protocol=function, model=ScriptedChat(doubted), sources="none", listen=heard)
    (transcript,) = run.transcripts()
    assert (len(transcript.rounds), transcript.stop_reason) == (rounds, reason)
    assert [event.round.n for event in ended] == [*range(1, rounds + 1)]
