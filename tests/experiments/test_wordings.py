"""Protocols in other words in recipes: of a folder, a file or the paper's structure, its case study, refusals."""

import re
from pathlib import Path
from typing import Any

import pytest

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.engine.variant import copy_variant, load_variant
from madke.experiments.experiment import ablate
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Recipe
from madke.models.store import CallStore
from madke.runs.directory import read_transcripts
from madke.runs.request import RunOptions, RunRequest
from tests.data.published import write
from tests.support.dataset import write_dataset


def words(folder: Path, said: str) -> Path:
    """A folder with a copy of madke, in which the question of the selection is replaced."""
    copy_variant(load_variant("madke"), folder / "madke")
    template = folder / "madke" / "select.j2"
    template.write_text(template.read_text().replace("Which passages help to answer this?", said))
    return folder


def printed(text: str) -> tuple[str, str, list[str]]:
    """The question of the paper's Table 5, its answer, and the replies in the order in which they are printed."""
    table = text[text.index("Question: Which band, Letters to Cleo") : text.index("Table 5: Case study")]
    head, *replies = [part.strip() for part in re.split(r"\n\s*\n", table) if part.strip()]
    question, answer = head.removeprefix("Question: ").split("\nAnswer: ")
    return question, answer, replies


@pytest.fixture
def case_study(shared_data: Path, tmp_path: Path) -> dict[str, Any]:
    """The paper's debate: its question, a pool that is numbered like the paper's, and a script of its replies."""
    (file,) = (shared_data.parent / "seeds").glob("001*.txt")
    question, answer, replies = printed(file.read_text())
    select_1, select_2, speak_1, speak_2, no, again_1, again_2, reply_1, reply_2, yes, final = replies
    said = {
        ("select", "Debater 1", 1): select_1,
        ("select", "Debater 2", 1): select_2,
        ("speak", "Debater 1", 1): speak_1,
        ("speak", "Debater 2", 1): speak_2,
        ("judge", "judge", 1): no,
        ("select", "Debater 1", 2): again_1,
        ("select", "Debater 2", 2): again_2,
        ("reply", "Debater 1", 2): reply_1,
        ("reply", "Debater 2", 2): reply_2,
        ("judge", "judge", 2): yes,
        ("summarize", "summarizer", 2): final,
    }
    lines = [{"stage": s, "agent": a, "round": n, "reply": reply} for (s, a, n), reply in said.items()]
    script = write(tmp_path / "script.yaml", lines)
    asked = {"id": "t5", "question": question}
    passages = [
        {"source": source, "key": f"{source}-{n}", "title": f"Band {source} {n}", "text": f"Text {n} of {source}."}
        for source in ("wiki", "google")
        for n in range(5)
    ]
    questions = write(tmp_path / "table-5.jsonl", {**asked, "golden_answers": [answer]})
    pools = write(tmp_path / "table-5.pools.jsonl", {**asked, "passages": passages})
    return {"said": said, "answer": answer, "data": questions, "pools": pools, "model": f"scripted/{script}"}


def the_debate(folder: Path) -> dict[str, Transcript]:
    return {arm.name: next(iter(read_transcripts(arm))) for arm in sorted((folder / "arms").iterdir())}


def as_printed(transcript: Transcript, case: dict[str, Any]) -> None:
    first, second = transcript.rounds
    assert [turn.selection.ids for turn in first.turns if turn.selection] == [(), (1, 3)]
    assert [turn.stance.answer for turn in first.turns] == ["Screaming Trees", "Letters to Cleo"]
    assert [turn.selection.ids for turn in second.turns if turn.selection] == [(0, 8), (1, 3)]
    assert [turn.stance.answer for turn in second.turns] == ["Letters to Cleo"] * 2
    assert [entry.verdict.consensus for entry in transcript.rounds if entry.verdict] == [False, True]
    assert (transcript.answer, transcript.stop_reason) == (case["answer"], "consensus")
    assert transcript.final.text == case["said"]["summarize", "summarizer", 2]
    assert [turn.stance.text for turn in second.turns] == [case["said"]["reply", f"Debater {n}", 2] for n in (1, 2)]


def test_the_papers_case_study_replays_exactly_in_a_recipe_with_replaced_templates(
    case_study: dict[str, Any], tmp_path: Path
) -> None:
    folder = words(tmp_path / "mine", "Kindly point to the helpful passages.")
    arms = [{"name": "madke-shipped"}, {"name": "madke-mine", "prompts": str(folder)}]
    base = {"protocol": "madke", "sources": "wiki,google"}
    found = Recipe.model_validate({"title": "t", "source": "s", "base": base, "arms": arms})
    inputs: dict[str, Any] = {"model": case_study["model"], "pools": case_study["pools"]}
    out = tmp_path / "out"
    ablate(found, case_study["data"], out=out, **inputs)
    played = the_debate(out)
    assert list(played) == ["madke-mine", "madke-shipped"]
    for transcript in played.values():
        as_printed(transcript, case_study)
    with CallStore(out / "calls.sqlite") as store:
        for arm in played:
            asked = [call.messages for call in store.calls(payer=arm) if call.purpose.stage == "select"]
            assert asked
            assert {"Kindly point" in messages[-1].content for messages in asked} == {arm == "madke-mine"}
    ablate(found, case_study["data"], out=out, options=RunOptions(replay=True), **inputs)
    assert the_debate(out) == played


def test_one_wording_for_all_arms_changes_those_that_it_has(tmp_path: Path) -> None:
    questions, _ = write_dataset(tmp_path, 1)
    arms = [{"name": "one", "protocol": "cot"}, {"name": "du", "protocol": "mad"}]
    arms += [{"name": "own", "protocol": "mad", "wording": "paper"}]
    recipe = write(tmp_path / "recipe.yaml", {"title": "t", "source": "s", "arms": arms})
    spec = read_experiment_spec(str(recipe), [str(questions)], RunRequest(wording="paper"))
    assert {arm.name: run.record.wording for arm, run in spec.specs} == {"one": None, "du": "paper", "own": "paper"}
    plain = read_experiment_spec(str(recipe), [str(questions)], RunRequest())
    assert {arm.name: run.record.wording for arm, run in plain.specs} == {"one": None, "du": None, "own": "paper"}
    write(recipe, {"title": "t", "source": "s", "arms": arms[:1]})
    with pytest.raises(UserError, match="has prompts of none of cot"):
        read_experiment_spec(str(recipe), [str(questions)], RunRequest(wording="paper"))
