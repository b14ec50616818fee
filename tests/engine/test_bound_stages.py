"""Stages that are asked for with a JSON schema: which, in what form, and how their replies are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.chat import ChatRequest, Completion
from madke.core.errors import UserError
from madke.core.knowledge import EMPTY_POOL, KnowledgePool, Passage
from madke.core.question import Question
from madke.core.schema import Schema, SchemaField
from madke.core.transcript import Transcript, to_json
from madke.engine.debate import hold_debate
from madke.engine.parse import parse_quotes, read_bound
from madke.engine.scene import Scene
from madke.tasks import TASKS
from madke.variants import Variant, load_variant
from tests.support.bound_model import Bound, Values
from tests.support.debates import QUESTION

POOL = KnowledgePool(
    passages=tuple(
        Passage(source="wiki", key=str(n), title=f"T{n}", text=f"Lake {n} is deep.", score=1.0, rank=n)
        for n in range(5)
    )
)
CHOICE = Question(id="c", question="Which is a lake?", task="choice", choices=("Baikal", "Everest"), answers=("A",))


def play(
    variant: Variant | str,
    model: Any,
    *,
    question: Question = QUESTION,
    pool: KnowledgePool = POOL,
    settings: Mapping[str, Any] | None = None,
) -> Transcript:
    loaded = load_variant(variant) if isinstance(variant, str) else variant
    loaded = loaded.with_settings(settings) if settings else loaded
    cast = dict.fromkeys(loaded.protocol.roles, model)
    pool = pool if loaded.protocol.knowledge else EMPTY_POOL
    return asyncio.run(
        hold_debate(Scene(question, loaded.protocol, cast, pool, task=TASKS[question.task], prompts=loaded))
    )


def at(stage: str, said: Values | str) -> Callable[[ChatRequest], Values | str | None]:
    return lambda request: said if request.purpose.stage == stage else None


def test_selections_verdicts_and_the_final_answer_are_bound_and_stances_are_free_text() -> None:
    model = Bound()
    transcript = play("madke", model)
    assert [request.purpose.stage for request in model.requests if request.bound is None] == ["speak", "speak"]
    assert {stage: used.bound for stage, used in transcript.usage.items()} == {
        "select": 2, "speak": 0, "judge": 1, "summarize": 1,
    }  # fmt: skip
    (entry,) = transcript.rounds
    assert [(turn.selection.ids, turn.selection.rule) for turn in entry.turns if turn.selection] == [
        ((0,), "schema")
    ] * 2
    assert entry.verdict
    assert (entry.verdict.consensus, entry.verdict.rule) == (True, "schema")
    assert (transcript.answer, transcript.final.rule, transcript.status) == ("Lake Baikal", "schema", "ok")


def test_reasoning_comes_first_and_is_bounded() -> None:
    model = Bound()
    play("madke", model)
    for request in model.requests:
        if request.bound is not None:
            first, *rest = request.bound.schema.fields
            assert first.name == "reasoning"
            assert first.max_length
            assert rest
    (select, _) = model.asked("select")
    assert select.bound
    assert select.bound.schema.fields[1].numbers == (0, 1, 2, 3, 4)


def test_only_the_end_of_the_last_message_differs_from_the_free_form() -> None:
    free, model = Bound(), Bound()
    play("madke", free, settings={"structured": "off"})
    play("madke", model)
    for stage, shared in (("select", "Do not answer yet."), ("judge", "Compare the answers of the debaters.")):
        ours, theirs = model.asked(stage)[0], free.asked(stage)[0]
        assert ours.messages == theirs.messages
        assert theirs.bound is None
        bound, plain = ours.in_form(bound=True).messages[-1].content, theirs.messages[-1].content
        until = plain.index(shared) + len(shared)
        assert bound[:until] == plain[:until]
        assert "JSON" in bound
        assert "JSON" not in plain
        assert "Selected:" not in bound
        assert "Verdict:" not in bound


def test_texts_are_readable_and_only_bound_calls_are_marked() -> None:
    transcript = play("madke", Bound(at("select", {"reasoning": "Both name it.", "selected": [3, 1]})))
    turn = transcript.rounds[0].turns[0]
    assert turn.selection
    assert turn.selection.text == "Both name it.\nSelected: [3] [1]"
    assert transcript.final.text == "Lake Baikal\nAnswer: Lake Baikal"
    line = json.loads(to_json(transcript))
    assert line["rounds"][0]["turns"][0]["selection"]["bound"] is True
    assert line["final"]["bound"] is True
    assert line["rounds"][0]["verdict"]["bound"] is True
    assert "bound" not in line["rounds"][0]["turns"][0]["stance"]
    assert b"bound" not in to_json(play("madke", Bound(), settings={"structured": "off"}))


QUOTED = {
    "reasoning": "Passage 3 says so.",
    "quotes": [{"passage": 0, "text": "Lake 0 is deep."}, {"passage": 0, "text": "Lake 0 never froze over."}],
    "answer": "Lake 0",
}


def test_a_stance_that_is_to_quote_is_bound_and_its_quotes_are_looked_up() -> None:
    said: dict[str, Values] = {"speak": QUOTED, "summarize": {"answer": "Lake 0"}}
    model = Bound(lambda request: said.get(request.purpose.stage))
    transcript = play("madke", model, settings={"cite": True})
    (speak, _) = model.asked("speak")
    assert speak.bound
    assert [each.name for each in speak.bound.schema.fields] == ["reasoning", "quotes", "answer"]
    assert speak.bound.schema.fields[1].numbers == (0,), "only what the debater chose"
    assert "copies from a passage" in speak.bound.task
    assert "Before you reason, copy" in speak.messages[-1].content
    stance = transcript.rounds[0].turns[0].stance
    assert (stance.answer, stance.rule, stance.bound) == ("Lake 0", "schema", True)
    assert stance.text == (
        '"Lake 0 is deep." [0].\n"Lake 0 never froze over." [0].\nPassage 3 says so.\nThe answer is Lake 0.'
    )
    assert transcript.agreement
    (position,) = transcript.agreement.positions
    assert [(quote.text, quote.passage, quote.status) for quote in position.quotes] == [
        ("Lake 0 is deep.", 0, "found"),
        ("Lake 0 never froze over.", 0, "not_found"),
    ] * 2
    assert transcript.agreement.cited == (0,)


@pytest.mark.parametrize(
    "settings",
    [{}, {"cite": True, "marker": "text", "stop": "never"}, {"cite": True, "structured": "off"}],
    ids=str,
)
def test_other_stances_stay_free_text(settings: dict[str, Any]) -> None:
    model = Bound()
    play("madke", model, settings=settings)
    assert all(request.bound is None for request in model.asked("speak"))


@pytest.mark.parametrize(
    "quotes",
    [
        [{"passage": 7, "text": "Lake 7 is deep."}],
        [{"passage": True, "text": "Lake 0 is deep."}],
        [{"passage": 0}],
        [{"passage": 0, "text": 5}],
        [{"passage": 0, "text": "Lake 0 is deep.", "by": "me"}],
        ["Lake 0 is deep."],
        {"passage": 0, "text": "Lake 0 is deep."},
    ],
    ids=str,
)
def test_quotes_of_another_form_are_no_bound_reply(quotes: Any) -> None:
    field = SchemaField(name="quotes", numbers=(0, 1), with_texts=True)
    assert read_bound(json.dumps({"quotes": quotes}), Schema(name="stance", fields=(field,))) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=60)), max_size=8))
def test_quotes_of_a_bound_stance_read_the_same_in_its_text(quotes: list[tuple[int, str]]) -> None:
    field = SchemaField(name="quotes", numbers=tuple(range(10)), with_texts=True)
    text = json.dumps({"quotes": [{"passage": n, "text": quote} for n, quote in quotes]})
    reply = read_bound(text, Schema(name="stance", fields=(field,)))
    assert reply
    assert reply.quotes is not None
    plain = [quote for quote in reply.quotes if not set('"\u201c\u201d') & set(quote.text)]
    read = parse_quotes(reply.text)
    assert [quote for quote in plain if (" ".join(quote.text.split()), quote.passage) not in read] == []


@pytest.mark.parametrize(
    ("selected", "ids", "dropped", "rule"),
    [
        ([4, 0], (4, 0), (), "schema"),
        ([1, 1, 2], (1, 2), (), "schema"),
        ([0, 1, 2, 3], (0, 1, 2), (3,), "schema"),
        ([], (), (), "no_found"),
    ],
)
def test_selected_numbers_are_distinct_and_limited(selected: Any, ids: Any, dropped: Any, rule: str) -> None:
    transcript = play("madke", Bound(at("select", {"selected": selected})))
    selection = transcript.rounds[0].turns[0].selection
    assert selection
    assert (selection.ids, selection.dropped, selection.rule, selection.status) == (
        ids,
        dropped,
        rule,
        "ok",
    )


def test_numbers_that_were_not_shown_are_not_selected() -> None:
    transcript = play("madke", Bound(at("select", {"selected": [7, 0]})))
    selection = transcript.rounds[0].turns[0].selection
    assert selection
    assert (selection.ids, selection.rule) == ((0,), "ids")
    transcript = play("madke", Bound(at("select", {"selected": [7]})))
    selection = transcript.rounds[0].turns[0].selection
    assert selection
    assert (selection.ids, selection.status) == ((), "unmarked")


@pytest.mark.parametrize(
    ("said", "consensus"),
    [
        ({"verdict": "DIFFERENT"}, False),
        ({"verdict": "MAYBE"}, None),
        ('{"reasoning": "They a', None),
        ("They agree.\nVerdict: SAME", True),
        ('{"reasoning": "No.", "verdict": "SAME", "verdict": "DIFFERENT"}', None),
    ],
)
def test_what_does_not_keep_to_the_schema_is_read_as_free_text(said: Any, consensus: bool | None) -> None:
    transcript = play("madke", Bound(at("judge", said)), settings={"rounds": 1})
    verdict = transcript.rounds[0].verdict
    assert verdict is not None
    assert verdict.consensus is consensus
    assert verdict.bound
    assert (verdict.rule == "schema") == (consensus is False)


def test_a_cut_record_is_cut_and_no_answer() -> None:
    class Cut(Bound):
        async def complete(self, request: ChatRequest) -> Completion:
            if request.purpose.stage == "summarize":
                return Completion(text='{"reasoning": "Both debaters say that', finish_reason="length", bound=True)
            return await super().complete(request)

    final = play("madke", Cut()).final
    assert (final.answer, final.status, final.bound) == (None, "cut", True)


def test_choices_are_answered_with_a_letter_that_exists() -> None:
    model = Bound(at("summarize", {"answer": "B"}))
    transcript = play("madke", model, question=CHOICE)
    (asked,) = model.asked("summarize")
    assert asked.bound
    assert asked.bound.schema.fields[-1].words == ("A", "B")
    assert (transcript.answer, transcript.final.rule) == ("B", "schema")
    transcript = play("madke", Bound(at("summarize", {"answer": "C"})), question=CHOICE)
    assert transcript.answer is None


def test_claims_are_answered_with_a_label() -> None:
    model = Bound()
    claim = Question(id="c", question="Lake Baikal is deep.", task="claim", answers=("SUPPORTS",))
    assert play("madke", model, question=claim).answer == "SUPPORTS"
    (asked,) = model.asked("summarize")
    assert asked.bound
    assert asked.bound.schema.fields[-1].words == ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


@pytest.mark.parametrize(
    ("answer", "status", "rule"),
    [
        ("unknown", "abstained", "declined"),
        ("...", "echoed", "placeholder"),
        ("", "unmarked", "none"),
        ("The answer is **Lake Baikal**.", "ok", "schema"),
    ],
)
def test_only_a_real_answer_of_a_bound_reply_is_taken(answer: str, status: str, rule: str) -> None:
    final = play("madke", Bound(at("summarize", {"answer": answer}))).final
    assert (final.status, final.rule) == (status, rule)
    assert final.answer == ("Lake Baikal" if status == "ok" else None)


def test_a_judge_that_settles_names_the_debater_and_its_answer() -> None:
    settled = {"verdict": "SETTLED", "side": "Negative", "answer": "Lake Onega", "reasoning": "Figures."}
    model = Bound(at("judge", settled))
    transcript = play("liang", model)
    verdict = transcript.rounds[0].verdict
    assert verdict
    assert (verdict.consensus, verdict.side, verdict.answer) == (True, "Negative", "Lake Onega")
    assert verdict.reason == "Figures."
    assert transcript.answer == "Lake Onega"
    assert transcript.stop_reason == "settled"
    (asked,) = model.asked("judge")
    assert asked.bound
    assert [each.name for each in asked.bound.schema.fields][1:] == ["verdict", "side", "answer"]
    assert '"settled"' not in asked.bound.task
    assert "SETTLED" in asked.bound.task


def test_an_open_debate_names_nobody_and_the_extraction_is_bound() -> None:
    def reply(request: ChatRequest) -> Values | None:
        if request.purpose.stage == "judge":
            return {"verdict": "OPEN", "side": "none", "answer": "none"}
        return {"side": "Affirmative", "answer": "Lake Ladoga"} if request.purpose.stage == "extract" else None

    model = Bound(reply)
    transcript = play("liang", model)
    verdict = transcript.rounds[-1].verdict
    assert verdict
    assert (verdict.consensus, verdict.side, verdict.answer) == (False, None, None)
    assert (transcript.answer, transcript.final.agent, transcript.final.rule) == (
        "Lake Ladoga",
        "Affirmative",
        "schema",
    )
    (asked,) = model.asked("extract")
    assert asked.bound
    assert '"side"' in asked.bound.task
    assert "Side:" not in asked.bound.task


def test_a_review_keeps_or_revises() -> None:
    def reply(request: ChatRequest) -> Values | None:
        return {"verdict": "REVISE" if request.purpose.round == 1 else "KEEP"} if request.bound else None

    transcript = play("self-reflect", Bound(reply))
    reviews = [entry.turns[0].reflection for entry in transcript.rounds]
    assert [review.satisfied for review in reviews if review] == [False, True]
    assert all(review.bound and review.text.endswith(("REVISE", "KEEP")) for review in reviews if review)


@pytest.mark.parametrize("settings", [{"structured": "off"}, {"marker": "text", "finish": "summarizer"}])
def test_no_schema_without_a_need(settings: dict[str, Any]) -> None:
    model = Bound()
    play("madke", model, settings=settings)
    bound = {request.purpose.stage for request in model.requests if request.bound is not None}
    assert bound == (set() if "structured" in settings else {"select", "judge"})


def test_a_selection_that_may_ask_for_a_search_and_one_of_nothing_stay_free_text() -> None:
    from madke.engine.schemas import schema_of

    live, plain = load_variant("madke-live").protocol, load_variant("madke").protocol
    assert live.needs_search
    assert schema_of("select", live, TASKS["short_answer"], QUESTION, (0, 1)) is None
    assert schema_of("select", plain, TASKS["short_answer"], QUESTION, ()) is None


def test_the_papers_own_protocol_never_binds_and_cannot_be_made_to() -> None:
    model = Bound(lambda request: "[Yes]" if request.purpose.stage == "judge" else None)
    transcript = play("madke-reference", model)
    assert all(request.bound is None for request in model.requests)
    assert all(used.bound == 0 for used in transcript.usage.values())
    reference = load_variant("madke-reference")
    assert reference.with_settings({"rounds": 2, "structured": False}).protocol.structured == "off"
    for value in ("auto", "require"):
        with pytest.raises(UserError, match=r"--set structured=.*free text"):
            reference.with_settings({"rounds": 2}).with_settings({"structured": value})


def test_a_model_without_schemas_gets_the_free_form_and_is_refused_where_one_is_required() -> None:
    class Free(Bound):
        takes_schemas = False

    model = Free(lambda request: "Verdict: SAME" if request.purpose.stage == "judge" else None)
    play("madke", model)
    assert all(request.bound is None for request in model.requests)
    refused = Free()
    with pytest.raises(UserError, match="structured = require: the model openai/m takes no JSON schemas"):
        play("madke", refused, settings={"structured": "require"})
    assert refused.requests == []


def test_a_required_schema_is_part_of_the_request() -> None:
    model = Bound()
    play("madke", model, settings={"structured": "require"})
    assert all(request.bound.required for request in model.requests if request.bound)


def test_a_template_that_says_nothing_of_schemas_is_asked_as_it_is(tmp_path: Path) -> None:
    shipped = load_variant("madke")
    folder = tmp_path / "own"
    folder.mkdir()
    for file in shipped.folder.iterdir():
        (folder / file.name).write_text(file.read_text())
    (folder / "judge.j2").write_text(
        "{% block system %}\nYou judge.\n{% endblock %}\n{% block user %}\nVerdict: SAME?\n{% endblock %}\n"
    )
    model = Bound(lambda request: "Verdict: SAME" if request.purpose.stage == "judge" else None)
    transcript = play(load_variant("own", tmp_path), model)
    assert {stage: used.bound for stage, used in transcript.usage.items()}["judge"] == 0
    assert transcript.usage["select"].bound == 2
    assert transcript.consensus
    (folder / "protocol.yaml").write_text(
        "source: s\nknowledge: none\nstop: never\nfinish: majority\nstructured: require\n"
    )
    with pytest.raises(UserError, match="structured = require: no template"):
        load_variant("own", tmp_path)


def test_a_shortened_prompt_offers_only_what_it_shows() -> None:
    class Narrow(Bound):
        async def complete(self, request: ChatRequest) -> Completion:
            if request.purpose.stage == "select" and "Lake 4" in request.messages[-1].content:
                self.requests.append(request)
                return Completion(outcome="too_long", error="too long")
            return await super().complete(request)

    model = Narrow()
    play("madke", model, settings={"overflow": "drop"})
    offered = [request.bound.schema.fields[1].numbers for request in model.asked("select") if request.bound]
    assert offered[0] == (0, 1, 2, 3, 4)
    assert offered[-1] == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[1]",
        '{"reasoning": "x"}',
        '{"reasoning": 1, "verdict": "SAME"}',
        '{"reasoning": "x", "verdict": "SAME", "more": 1}',
        '{"reasoning": "x", "verdict": "same"}',
        '```json\n{"reasoning": "x", "verdict": "SAME"}\n```',
        '{"reasoning": "x", "verdict": "SAME"} and more',
        "[" * 19_000,
        '{"reasoning": "' + "x" * 20_000 + '", "verdict": "SAME"}',
        '{"reasoning": NaN, "verdict": "SAME"}',
        "9" * 10_000,
    ],
)
def test_nothing_else_is_a_record(text: str) -> None:
    model = Bound()
    play("madke", model)
    (judge,) = model.asked("judge")
    assert judge.bound is not None
    assert read_bound(text, judge.bound.schema) is None
    assert read_bound('{"verdict": "SAME", "reasoning": "\\ud800"}', judge.bound.schema) is not None


_SCHEMA = Schema(
    name="s",
    fields=(
        SchemaField(name="reasoning"),
        SchemaField(name="selected", numbers=(0, 3)),
        SchemaField(name="verdict", words=("SAME", "DIFFERENT")),
    ),
)


@given(st.text(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_no_text_raises(text: str) -> None:
    assert read_bound(text, _SCHEMA) is None


@given(
    st.text(),
    st.lists(st.sampled_from([0, 3]) | st.integers() | st.booleans(), max_size=4),
    st.sampled_from(["SAME", "DIFFERENT", "same"]),
)
def test_a_record_is_read_exactly_if_its_values_were_offered(reasoning: str, selected: list[Any], verdict: str) -> None:
    read = read_bound(json.dumps({"verdict": verdict, "selected": selected, "reasoning": reasoning}), _SCHEMA)
    offered = all(type(n) is int and n in (0, 3) for n in selected) and verdict != "same"
    assert (read is not None) is offered
    if read is not None:
        assert (read.selected, read.verdict) == (tuple(dict.fromkeys(selected)), verdict)
        assert read.text.encode().endswith(f"Verdict: {verdict}".encode())
