"""``eval/threshold.py``: how many stances of the other kind turn a debate. Whole, offline, in a small form."""

import asyncio
import csv
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Completion
from madke.core.errors import UserError
from madke.core.question import Question
from madke.core.transcript import Stance
from madke.llm import CallStore, ScriptedChat, Stored
from madke.variants import load_variant
from tests.support.cli import script
from tests.support.openai_server import chat, openai_server

EVAL = Path(__file__).parent.parent / "eval"
QUESTION = Question(
    id="deepest", question="Which lake is the deepest?", answers=("B",), task="choice", choices=("Como", "Baikal")
)


@pytest.fixture
def threshold(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EVAL))
    return importlib.import_module("threshold")


@pytest.fixture
def curve(threshold: Any) -> Any:
    return importlib.import_module("threshold_curve")


def stances(letter: Any, count: Any) -> Any:
    return tuple(Stance(text=f"{letter}, number {n}. The answer is ({letter}).", answer=letter) for n in range(count))


def read(text: Any) -> Any:
    """The answers of the stances in a prompt, in the order in which they stand; none in one that shows no stances."""
    return re.findall(r"^> .*The answer is \(([AB])\)", text, re.MULTILINE)


def like_the_last(text: Any) -> Any:
    return f"I follow whom I read last. The answer is ({read(text)[-1]})."


def like_most(text: Any) -> Any:
    said = read(text)
    return f"I follow the most. The answer is ({max('AB', key=said.count)})."


def measured(
    threshold: Any,
    curve: Any,
    reply: Any,
    *,
    each: int = 4,
    draws: int = 2,
    replies: int = 3,
    workers: int = 2,
    wrap: Any = lambda model: model,
) -> Any:
    variant = load_variant("madc").with_settings({**threshold.READING, "debaters": replies})

    model = ScriptedChat(lambda request: reply(request.messages[-1].content))
    asked = dict.fromkeys(variant.protocol.roles, wrap(model))
    experiment = threshold.Experiment(variant=variant, cast=asked, each=each, draws=draws, seed=0)
    sampled = threshold.sort_out(QUESTION, [*stances("A", 9), *stances("B", 9)], each)
    cells: list[Any] = []
    asyncio.run(experiment.run([sampled], cells, lambda done: None, workers=workers))
    return {found.order: found for found in curve.curves(cells)}, model


def test_readers_who_follow_the_last_stance_turn_with_the_first_of_the_other_kind(threshold: Any, curve: Any) -> None:
    found, model = measured(threshold, curve, like_the_last)
    means = {order: [value for _, value in found[order].means()] for order in found}
    assert means == {
        "correct_first": [1.0] * 4 + [0.0] * 4,
        "incorrect_first": [0.0] * 4 + [1.0] * 4,
        "alternating": [1.0, 0.0] * 4,
    }
    for order in ("correct_first", "incorrect_first"):
        assert curve.crossing(found[order].means(), 4) == 4.5
    assert curve.passes(found["alternating"].means()) == 7
    # Three orders, eight counts, two draws, three replies.
    assert model.calls == 3 * 8 * 2 * 3
    assert {point.replies for order in found for point in found[order].points} == {2 * 3}


def test_readers_who_follow_the_most_hold_out_until_the_other_kind_has_as_many(threshold: Any, curve: Any) -> None:
    found, _ = measured(threshold, curve, like_most, each=6)
    # Of equally many, "A" counts, which is wrong.
    assert [value for _, value in found["correct_first"].means()] == [1.0] * 11 + [0.0]
    assert curve.crossing(found["correct_first"].means(), 6) is None  # once is not sustained
    assert [value for _, value in found["alternating"].means()] == [1.0, 0.0] * 6


def test_all_read_the_first_k_stances_in_the_order_given_and_nothing_else(threshold: Any, curve: Any) -> None:
    _, model = measured(threshold, curve, like_the_last, each=3, draws=1, replies=2)
    shown: dict[tuple[Any, ...], list[str]] = {}
    for request in model.requests:
        shown.setdefault(tuple(read(request.messages[-1].content)), []).append(request.purpose.agent)
        assert "assistant" not in [message.role for message in request.messages]
        assert not any("Agent 1" in message.content for message in request.messages)
        assert request.messages[-1].content.count("Another agent wrote:") == len(read(request.messages[-1].content))
    right_first, wrong_first, mixed = "BBBAAA", "AAABBB", "BABABA"
    assert set(shown) == {tuple(order[:k]) for order in (right_first, wrong_first, mixed) for k in range(1, 7)}
    assert all(set(agents) == {"Debater 1", "Debater 2"} for agents in shown.values())


def test_curves_come_in_the_same_order_whoever_is_answered_first(threshold: Any, curve: Any) -> None:
    async def slow_where_a_right_one_is_first(text: Any) -> Any:
        for _ in range(200 if read(text)[0] == "B" else 0):
            await asyncio.sleep(0)
        return like_the_last(text)

    found, _ = measured(threshold, curve, slow_where_a_right_one_is_first, workers=3)
    in_turn, _ = measured(threshold, curve, like_the_last, workers=1)
    assert list(found.items()) == list(in_turn.items())


def test_draws_are_fresh_and_repeatable_and_the_orders_of_one_hold_the_same_stances(threshold: Any) -> None:
    sampled = threshold.sort_out(QUESTION, [*stances("A", 30), *stances("B", 30)], 5)
    orders = {order: sampled.drawn(order, 5, 0, 0) for order in threshold.ORDERS}
    texts = {order: [stance.text for stance in drawn] for order, drawn in orders.items()}
    assert {frozenset(drawn) for drawn in texts.values()} == {frozenset(texts["alternating"])}
    assert texts["alternating"][::2] == texts["correct_first"][:5] == texts["incorrect_first"][5:]
    assert orders["alternating"] == sampled.drawn("alternating", 5, 0, 0)
    others = [sampled.drawn("alternating", 5, 1, 0), sampled.drawn("alternating", 5, 0, 1)]
    assert orders["alternating"] not in others


def test_a_question_with_too_few_stances_of_a_kind_is_refused_in_one_line(threshold: Any) -> None:
    unread = (Stance(text="I am not sure.", status="abstained"),) * 7
    said = "'deepest' is left out: of 14 stances 4 are right and 3 wrong, and 4 of each are drawn"
    with pytest.raises(UserError, match=said):
        threshold.sort_out(QUESTION, [*stances("B", 4), *stances("A", 3), *unread], 4)


def test_what_cannot_be_read_or_failed_or_was_cut_is_counted(threshold: Any, curve: Any) -> None:
    def reply(text: Any) -> Any:
        said = read(text)
        if len(said) > 6:
            return Completion(outcome="too_long", error="too long")
        if len(said) == 1:
            return Completion(outcome="failed", error="the server is gone")
        return "I cannot say." if len(said) == 2 else like_the_last(text)

    found, _ = measured(threshold, curve, reply)
    points = {point.k: point for point in found["correct_first"].points}
    assert (points[1].accuracy, points[1].failed, points[1].replies) == (None, 6, 0)
    assert (points[2].accuracy.value, points[2].unread, points[2].replies) == (0.0, 6, 6)
    assert (points[6].cut, points[7].cut, points[8].cut) == (0, 6, 6)
    assert points[8].accuracy.value == 0.0


def test_what_was_stopped_goes_on_without_asking_anything_twice(threshold: Any, curve: Any, tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        asked = 0

        def until_the_fiftieth(text: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == 50:
                raise RuntimeError("stopped")
            return like_the_last(text)

        with pytest.raises(RuntimeError, match="stopped"):
            measured(threshold, curve, until_the_fiftieth, wrap=lambda model: Stored(model, store))
        done = sum(1 for _ in store.recorded())
        found, model = measured(threshold, curve, like_the_last, wrap=lambda model: Stored(model, store))
        fresh, _ = measured(threshold, curve, like_the_last)
    # One right stance is the same debate whether others of its kind follow or not.
    assert model.calls == 3 * 8 * 2 * 3 - 2 * 3 - done
    assert found == fresh


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.9, 0.7, 0.3, 0.2, 0.1, 0.0], 1 + 0.5),
        ([0.9, 0.4, 0.6, 0.3, 0.2, 0.1], 2 + 1 / 3),  # a dip is not sustained
        ([0.9, 0.6, 0.5, 0.5, 0.5, 0.9], 2.0),  # one half itself is beyond
        ([0.9, 0.9, 0.9, 0.9, 0.4, 0.4], None),  # two counts are too few
        ([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], 2.5),
        ([0.5, 0.9, 0.9, 0.9, 0.9, 0.9], 0.0),
        ([0.9] * 6, None),
        ([], None),
    ],
)
def test_a_crossing_is_the_first_that_is_sustained(curve: Any, values: Any, expected: Any) -> None:
    place = curve.crossing(list(enumerate(values)), 0)
    assert place == (expected if expected is None else pytest.approx(expected))


def test_a_crossing_before_the_base_is_complete_does_not_count(curve: Any) -> None:
    values = [0.9, 0.1, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.1]
    assert curve.crossing(list(enumerate(values, start=1)), 5) == pytest.approx(6.5)


def test_a_curve_of_the_paper_crosses_where_it_can_be_read_off(curve: Any) -> None:
    # Table 6, CASE-54, correct first, counts 40 to 56.
    percent = (100, 98, 98, 94, 96, 94, 80, 78, 82, 48, 50, 38, 54, 52, 50, 46, 36)
    place = curve.crossing([(k, value / 100) for k, value in enumerate(percent, start=40)], 40)
    assert place == pytest.approx(48.94, abs=0.01)


def test_several_questions_are_also_averaged_with_an_interval_over_them(curve: Any) -> None:
    def cell(question: Any, draw: Any, right: Any) -> Any:
        return curve.Cell(
            question=question, order="correct_first", k=1, draw=draw, right=right, replies=4, unread=0, failed=0, cut=1
        )

    cells = [cell("q1", 0, 4), cell("q1", 1, 2), cell("q2", 0, 1), cell("q2", 1, 0)]
    *each, everything = curve.curves(cells)
    assert [found.points[0].accuracy.value for found in each] == [0.75, 0.125]
    (point,) = everything.points
    assert everything.question == curve.EVERYTHING
    assert (point.accuracy.value, point.accuracy.n) == (0.4375, 2)
    assert (point.draws, point.right, point.replies, point.cut) == ((0.625, 0.25), 7, 16, 4)
    assert (point.accuracy.low, point.accuracy.high) == (0.125, 0.75)


# As a user runs it.

EACH, DRAWS, REPLIES, SAMPLES = 4, 2, 3, 12


def answering(body: Any, n: Any) -> Any:
    """A server whose samples are right and wrong by turns, and whose debaters follow whom they read last."""
    text = body["messages"][-1]["content"]
    return chat(like_the_last(text) if read(text) else f"Sample {n}. The answer is ({'AB'[n % 2]}).")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    line = {"id": "deepest", "question": QUESTION.question, "golden_answers": ["B"], "choices": QUESTION.choices}
    (tmp_path / "questions.jsonl").write_text(json.dumps(line))

    def run(url: Any, *more: Any) -> Any:
        words = [tmp_path / "questions.jsonl", "--out", tmp_path / "out"]
        words += ["--model", "openai/m", "--base-url", url, "--each", EACH, "--draws", DRAWS, "--replies", REPLIES]
        words += ["--samples", SAMPLES, *more]
        return script(EVAL / "threshold.py", *words)

    return run


@pytest.mark.slow
def test_the_whole_experiment(command: Any, tmp_path: Path) -> None:
    with openai_server(answering) as server:
        planned = command(server.url, "--plan")
        assert server.requests == []
        assert (planned.returncode, planned.stderr) == (0, "")
        assert "sampling: 12 calls" in planned.stdout
        assert f"debates: {(3 * 2 * EACH - 1) * DRAWS * REPLIES} calls" in planned.stdout
        assert "are taken to have 1,000 characters" in planned.stdout

        done = command(server.url)
        assert done.returncode == 0, done.stderr
        # Correct first and alternating begin with the same debate.
        calls = SAMPLES + 3 * 2 * EACH * DRAWS * REPLIES - DRAWS * REPLIES
        assert len(server.requests) == calls

        again = command(server.url)
        assert (again.stdout, len(server.requests)) == (done.stdout, calls)
        planned = command(server.url, "--plan")
        assert "12 calls are done" in planned.stdout
        assert "have on average" in planned.stdout

    assert "correct first crosses one half at 4.5: turned by 0.5 of the other kind (by draw: 0.5, 0.5)" in done.stdout
    assert "alternating passes one half 7 times; 48 replies, 0 unread, 0 failed, 0 cut" in done.stdout
    assert "about 20 of the other kind" in done.stdout
    assert (tmp_path / "out" / "curve.txt").read_text() + "\n" == done.stdout
    with (tmp_path / "out" / "curve.csv").open(newline="") as file:
        rows = {(row["order"], int(row["k"])): row for row in csv.DictReader(file)}
    assert len(rows) == 3 * 2 * EACH
    fifth = rows["correct_first", 5]
    assert (fifth["right"], fifth["replies"], fifth["accuracy"], fifth["low"]) == ("0", "6", "0.0000", "0.0000")
    assert 0 < float(fifth["high"]) < 0.5
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_stances_from_a_file_need_no_sampling(command: Any, tmp_path: Path) -> None:
    lines = [{"agent": f"S{n}", "text": f"The answer is ({'AB'[n % 2]})."} for n in range(2 * EACH)]
    (tmp_path / "stances.jsonl").write_text(json.dumps({"id": "deepest", "stances": lines}))
    with openai_server(answering) as server:
        planned = command(server.url, "--stances", tmp_path / "stances.jsonl", "--plan")
        done = command(server.url, "--stances", tmp_path / "stances.jsonl")
        requests = len(server.requests)
        refused = command(server.url, "--stances", tmp_path / "stances.jsonl", "--each", EACH + 1)
    assert "sampling" not in planned.stdout
    assert "have on average 18 characters" in planned.stdout
    assert f"debates: {requests} calls" in planned.stdout
    assert done.returncode == 0, done.stderr
    assert requests == 3 * 2 * EACH * DRAWS * REPLIES - DRAWS * REPLIES
    assert not (tmp_path / "out" / "stances").exists()
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 2)
    assert "4 are right and 4 wrong, and 5 of each are drawn" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--each", "0"], "'0' is no whole number of at least 1"),
        (["--stances", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--set", "depth=3"], "unknown key 'depth'"),
    ],
)
def test_bad_input_is_one_line(command: Any, arguments: list[str], said: str) -> None:
    done = command("http://localhost:1/v1", *arguments, "--plan")
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
