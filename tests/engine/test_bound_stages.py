"""Stages that are asked for with a JSON schema: which, in what form, and how their replies are read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.core.chat import ChatRequest, Schema, SchemaField
from madke.core.knowledge import KnowledgePool
from madke.core.transcript import Transcript
from madke.engine.parse.decisions import read_bound
from madke.engine.variant import Variant, load_variant
from tests.conftest import passage
from tests.support import debates
from tests.support.bound_model import Bound, Values

POOL = KnowledgePool(passages=tuple(passage("wiki", str(n), f"T{n}", f"Lake {n} is deep.", rank=n) for n in range(5)))


def play(variant: Variant | str, model: Bound, **options: Any) -> Transcript:
    return debates.play(variant, model=model, pool=POOL, **options)[0]


def at(stage: str, said: Values | str) -> Callable[[ChatRequest], Values | str | None]:
    return lambda request: said if request.purpose.stage == stage else None


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
    "quotes",
    [
        [{"passage": 7, "text": "Lake 7 is deep."}],
        [{"passage": True, "text": "Lake 0 is deep."}],
        [{"passage": 0, "text": 5}],
        {"passage": 0, "text": "Lake 0 is deep."},
    ],
    ids=str,
)
def test_quotes_of_another_form_are_no_bound_reply(quotes: Any) -> None:
    field = SchemaField(name="quotes", numbers=(0, 1), with_texts=True)
    assert read_bound(json.dumps({"quotes": quotes}), Schema(name="stance", fields=(field,))) is None


@pytest.mark.parametrize(
    ("said", "satisfied"),
    [
        ({"verdict": "REVISE"}, False),
        ({"verdict": "MAYBE"}, None),
        ('{"reasoning": "It a', None),
        ("It is right.\nVerdict: KEEP", True),
        ('{"reasoning": "No.", "verdict": "KEEP", "verdict": "REVISE"}', None),
    ],
)
def test_what_does_not_keep_to_the_schema_is_read_as_free_text(said: Any, satisfied: bool | None) -> None:
    transcript = play("self-reflect", Bound(at("reflect", said)), settings={"rounds": 2})
    reflection = transcript.rounds[0].turns[0].reflection
    assert reflection is not None
    assert reflection.satisfied is satisfied
    assert reflection.bound
    assert (reflection.rule == "schema") == (satisfied is False)


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


def test_the_papers_own_protocol_never_binds() -> None:
    model = Bound(lambda request: "[Yes]" if request.purpose.stage == "judge" else None)
    transcript = play("madke-reference", model)
    assert all(request.bound is None for request in model.requests)
    assert all(used.bound == 0 for used in transcript.usage.values())
    reference = load_variant("madke-reference")
    assert reference.with_settings({"rounds": 2, "structured": False}).protocol.structured == "off"


def test_a_model_without_schemas_gets_the_free_form() -> None:
    model = Bound(lambda request: "Verdict: SAME" if request.purpose.stage == "judge" else None)
    model.takes_schemas = False
    play("madke", model)
    assert all(request.bound is None for request in model.requests)


def test_a_template_that_says_nothing_of_schemas_is_asked_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(load_variant("madke").folder, folder)
    (folder / "summarize.j2").write_text(
        "{% block system %}\nYou sum up.\n{% endblock %}\n{% block user %}\nAnd?\n{% endblock %}\n"
    )
    model = Bound(lambda request: "The answer is Lake Baikal." if request.purpose.stage == "summarize" else None)
    transcript = play(load_variant("own", tmp_path), model)
    assert {stage: used.bound for stage, used in transcript.usage.items()}["summarize"] == 0
    assert transcript.usage["select"].bound == 2
    assert transcript.answer == "Lake Baikal"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"reasoning": "x"}',
        '{"reasoning": 1, "verdict": "SAME"}',
        '{"reasoning": "x", "verdict": "same"}',
        '```json\n{"reasoning": "x", "verdict": "SAME"}\n```',
        "[" * 19_000,
        '{"reasoning": "' + "x" * 20_000 + '", "verdict": "SAME"}',
    ],
)
def test_nothing_else_is_a_record(text: str) -> None:
    fields = (SchemaField(name="reasoning", max_length=300), SchemaField(name="verdict", words=("SAME", "DIFFERENT")))
    schema = Schema(name="verdict", fields=fields)
    assert read_bound(text, schema) is None
    assert read_bound('{"verdict": "SAME", "reasoning": "\\ud800"}', schema) is not None


SELECTION = Schema(
    name="s",
    fields=(
        SchemaField(name="reasoning"),
        SchemaField(name="selected", numbers=(0, 3)),
        SchemaField(name="verdict", words=("SAME", "DIFFERENT")),
    ),
)


@given(
    st.text(),
    st.lists(st.sampled_from([0, 3]) | st.integers() | st.booleans(), max_size=4),
    st.sampled_from(["SAME", "DIFFERENT", "same"]),
)
def test_a_record_is_read_exactly_if_its_values_were_offered(reasoning: str, selected: list[Any], verdict: str) -> None:
    read = read_bound(json.dumps({"verdict": verdict, "selected": selected, "reasoning": reasoning}), SELECTION)
    offered = all(type(n) is int and n in (0, 3) for n in selected) and verdict != "same"
    assert (read is not None) is offered
    if read is not None:
        assert (read.selected, read.verdict) == (tuple(dict.fromkeys(selected)), verdict)
        assert read.text.encode().endswith(f"Verdict: {verdict}".encode())
