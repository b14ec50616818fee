"""The parts of a run that can be tried by themselves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from madke.core.chat import Completion, Purpose, Usage, call_seed
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.variant import load_variant
from madke.retrieval.pools import depth
from madke.runs.meter import Meter
from madke.runs.runner import RunPools
from madke.runs.spec import role_models


def test_a_protocol_reaches_no_code() -> None:
    settings = {"debaters": [{"name": "Ada", "model": "os:getcwd"}, {"name": "Bo"}]}
    protocol = load_variant("madke").with_settings(settings).protocol
    with pytest.raises(UserError, match="the protocol names code as the model of Ada, 'os:getcwd'"):
        role_models(protocol, "offline", {})
    assert role_models(load_variant("madke").protocol, "offline", {"judge": "os:getcwd"})["judge"] == "os:getcwd"


def pooled(tmp_path: Path, knowledge: Any, **passages: Any) -> Any:
    """How many passages of each source are in a pool of these numbers of passages."""
    record = [
        {"source": source, "text": f"{source} {number}"}
        for source, count in passages.items()
        for number in range(count)
    ]
    (tmp_path / "pools.jsonl").write_text(json.dumps({"id": "1", "question": "?", "passages": record}) + "\n")
    question = Question(id="1", question="?")
    pool = RunPools(tmp_path / "pools.jsonl", knowledge, [question]).of(question)
    return Counter(passage.source for passage in pool.passages)


def test_each_question_gets_the_passages_of_its_line_wherever_that_stands(tmp_path: Path) -> None:
    questions = [Question(id=str(number), question="Où?") for number in range(3)]
    lines = [
        json.dumps(
            {"id": each.id, "question": "Où?", "passages": [{"source": "wiki", "text": f"Ö {each.id}"}]},
            ensure_ascii=False,
        )
        for each in (*questions, Question(id="other", question="Où?"))
    ]
    (tmp_path / "pools.jsonl").write_text("\n\n  \n".join(reversed(lines)))
    knowledge = load_variant("madke").with_settings({"sources": ["wiki"]}).protocol.knowledge
    pools = RunPools(tmp_path / "pools.jsonl", knowledge, questions)
    assert [[p.text for p in pools.of(each).passages] for each in questions] == [["Ö 0"], ["Ö 1"], ["Ö 2"]]


def test_each_source_can_have_its_own_number_of_passages(tmp_path: Path) -> None:
    variant = load_variant("madke").with_settings({"per_source": {"wiki": 12, "google": 2}})
    assert pooled(tmp_path, variant.protocol.knowledge, wiki=20, google=20) == {"wiki": 12, "google": 2}
    assert depth(variant.protocol.knowledge) == 12
    assert depth(load_variant("madke").protocol.knowledge) == 10


def test_every_call_has_a_seed_of_its_own_that_does_not_change() -> None:
    purposes = [
        Purpose(question=q, stage=s, agent=a, round=r, repeat=n)
        for q in ("q1", "q2")
        for s in ("select", "speak")
        for a in ("Debater 1", "Debater 2")
        for r in (1, 2)
        for n in (0, 1)
    ]
    seeds = [call_seed(7, purpose) for purpose in purposes]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [call_seed(7, purpose) for purpose in purposes]
    assert call_seed(8, purposes[0]) != seeds[0]
    assert call_seed(None, purposes[0]) is None


def test_the_meter_counts_calls() -> None:
    now = [0.0]
    meter = Meter(total=10, resumed=2, clock=lambda: now[0])
    now[0] = 4.0
    for outcome in ("ok", "ok", "failed"):
        meter.count("m", Completion(text="x", usage=Usage(prompt_tokens=10, completion_tokens=1), outcome=outcome))
    meter.count_retry()
    told = meter.progress()
    assert (told.calls, told.failed_calls, told.retries, told.prompt_tokens, told.at) == (3, 1, 1, 30, 4.0)
