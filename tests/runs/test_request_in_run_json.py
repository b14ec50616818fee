"""Every field of a request reaches ``run.json``, and every setting of a recipe's arm is a field of the request."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import madke
from madke.engine.deferral import Calibration
from madke.engine.variant import variant_folders
from madke.experiments.recipe import Changes
from madke.runs.spec import resolve

QUESTIONS = [
    {"id": id_, "question": f"Which {id_} is the largest?", "answers": [id_]} for id_ in ("lake", "sea", "bay")
]
BASE = madke.RunRequest(questions=QUESTIONS, protocol="madke", sources="wiki")


class Silent:
    """A model that says nothing of use, and needs no package."""

    name = "silent"

    async def complete(self, request: madke.ChatRequest) -> madke.Completion:
        return madke.Completion(text="I do not know.")


def own_reader(path: Path) -> list[madke.Question]:
    return [
        madke.Question(id=each["id"], question=each["question"])
        for each in map(json.loads, path.read_text().splitlines())
    ]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def question_file(folder: Path) -> Path:
    records = [{"id": each["id"], "question": each["question"], "golden_answers": [each["id"]]} for each in QUESTIONS]
    return written(folder / "questions.jsonl", "".join(f"{json.dumps(each)}\n" for each in records))


def own_prompts(folder: Path) -> Path:
    """The protocol with one more line in each template."""
    shutil.copytree(variant_folders()["madke"], folder / "madke")
    for template in (folder / "madke").glob("*.j2"):
        template.write_text(template.read_text() + "Be brief.\n")
    return folder


def calibration(file: Path, *, signal: str) -> Path:
    made = Calibration(
        run="first",
        variant="madke",
        tasks=("short_answer",),
        models=("offline",),
        signal=signal,
        points=tuple((n / 200, False) for n in range(200)),
    )
    return written(file, made.model_dump_json())


def stances(folder: Path) -> Path:
    given = [{"agent": f"S{n}", "text": "It is [it].", "answer": "it"} for n in (1, 2)]
    lines = [json.dumps({"id": question["id"], "stances": given}) for question in QUESTIONS]
    return written(folder / "first.jsonl", "\n".join(lines) + "\n")


VALUES: dict[str, Callable[[Path], Any]] = {
    "questions": lambda _: QUESTIONS[:2],
    "protocol": lambda _: "madke-reference",
    "model": lambda _: "openai/m",
    "sources": lambda _: "wiki,google",
    "task": lambda _: "math",
    "cast": lambda _: {"debater-2": "openai/m"},
    "settings": lambda _: {"rounds": 2},
    "error_at_most": lambda _: 0.1,
    "calibration": lambda folder: calibration(folder / "other.json", signal="steady"),
    "prompts": own_prompts,
    "wording": lambda _: "paper",
    "first_round": stances,
    "answer_scorer": lambda _: "other-scorer",
    "dataset": lambda _: own_reader,
    "columns": lambda _: {"instructions": "id"},
    "limit": lambda _: 2,
    "sample_seed": lambda _: 3,
    "repeats": lambda _: 2,
    "seed": lambda _: 7,
}
"""Field -> another value than that of the request it is changed in. A new field needs a line here."""


def fitting(name: str, folder: Path) -> madke.RunRequest:
    """A request in which the field has a use."""
    needs: dict[str, Any] = {}
    if name == "sample_seed":
        needs = {"limit": 2}
    elif name == "answer_scorer":
        needs = {"protocol": "rerank", "sources": "none", "answer_scorer": "scorer"}
    elif name in ("dataset", "columns"):
        needs = {"questions": question_file(folder)}
    elif name in ("error_at_most", "calibration"):
        needs = {"calibration": calibration(folder / "calibration.json", signal="judge"), "error_at_most": "5%"}
    return replace(BASE, **needs)


@pytest.mark.parametrize("name", VALUES)
def test_a_field_alone_changes_what_run_json_freezes(name: str, tmp_path: Path) -> None:
    request = fitting(name, tmp_path)
    changed = replace(request, **{name: VALUES[name](tmp_path)})
    assert resolve(changed).record != resolve(request).record


def test_a_list_of_ids_chooses_the_questions(tmp_path: Path) -> None:
    request = replace(BASE, questions=question_file(tmp_path))
    chosen = replace(request, ids=str(written(tmp_path / "ids.txt", "sea\n")))
    assert [*resolve(chosen).record.questions] == ["sea"]


def test_run_json_freezes_the_passages_of_the_pool_file(tmp_path: Path) -> None:
    frozen = {}
    for text in ("It is Lake Como.", "It is Lake Garda."):
        records = [{**each, "passages": [{"source": "notes", "text": text}]} for each in QUESTIONS]
        pools = written(tmp_path / "pools.jsonl", "".join(f"{json.dumps(each)}\n" for each in records))
        request = replace(BASE, sources="notes", pools=str(pools), model=Silent())
        frozen[text] = madke.run(request, out=tmp_path / text).record.pools
    one, other = frozen.values()
    assert [*one] == [*other] == [each["id"] for each in QUESTIONS]
    assert one != other


def test_what_an_arm_sets_are_fields_of_the_request() -> None:
    """``set`` is ``settings``, as ``--set``; ``match_cost`` chooses a setting."""
    known = {each.name for each in fields(madke.RunRequest)}
    arm = {"settings" if name == "set" else name for name in Changes.model_fields} - {"match_cost"}
    assert arm <= known
