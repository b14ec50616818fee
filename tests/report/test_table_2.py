"""Table 2 of Wang et al. in one call, on a mock of two backbones whose scores are known: every verdict is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from madke import ablate
from madke.experiments.experiment import read_experiment
from madke.experiments.recipe import Recipe, read_recipe
from madke.report.reproduction import CellVerdict, figures, reproduction_tables
from tests.support.openai_server import chat, openai_server

N = 4
RIGHT = {
    "gpt-3.5-turbo": {"triviaqa": 4, "nq_open": 2, "hotpotqa": 0, "2wikimultihopqa": 4, "fever": 4},
    "Qwen1.5-32B-Chat": {"triviaqa": 0, "nq_open": 4, "hotpotqa": 2, "2wikimultihopqa": 0, "fever": 0},
}
"""Model -> dataset -> how many of four questions it knows, whatever the protocol."""
ARMS = ("standard", "cot", "rag")
SERVED = {"wiki": "BM25 over wikipedia-dpr-100w", "google": "web search through https://google.serper.dev"}


def questions(name: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{name}-{n}",
            "question": f"Is this question {n} of {name}?",
            "golden_answers": ["SUPPORTS" if name == "fever" else "Baikal"],
            "task": "claim" if name == "fever" else "short_answer",
            "metadata": {"dataset": name},
        }
        for n in range(N)
    ]


def question_files(folder: Path) -> list[str]:
    files = [folder / f"{name}.jsonl" for name in RIGHT["gpt-3.5-turbo"]]
    for file in files:
        file.write_text("".join(json.dumps(each) + "\n" for each in questions(file.stem)))
    return [str(file) for file in files]


def pool_file(folder: Path) -> Path:
    passages = [{"source": source, "key": source, "title": "A", "text": "A lake."} for source in SERVED]
    asked = [each for name in RIGHT["gpt-3.5-turbo"] for each in questions(name)]
    lines = [
        {"id": each["id"], "question": each["question"], "passages": passages, "sources": SERVED} for each in asked
    ]
    file = folder / "pools.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def backbone(body: dict[str, Any], _: int) -> Any:
    """The answer of one of the two models."""
    number, name = re.findall(r"question (\d) of (\w+)\?", body["messages"][-1]["content"])[-1]
    knows = int(number) < RIGHT[body["model"]][name]
    answers = ("SUPPORTS", "REFUTES") if name == "fever" else ("Baikal", "Como")
    return chat(f"The answer is {answers[0] if knows else answers[1]}.")


def table_2() -> Recipe:
    """The shipped recipe with four questions of each dataset, asked once, for the arms of one call."""
    shipped = read_recipe("madke-table-2")
    published = {
        model: {arm: held for arm, held in by_arm.items() if arm in ARMS} for model, by_arm in shipped.published.items()
    }
    arms = tuple(arm for arm in shipped.arms if arm.name in ARMS)
    changed = {"arms": arms, "published": published, "reference": "rag", "limit": N, "repeats": 1, "sample_seed": None}
    return shipped.model_copy(update=changed)


def expected(right: int, published: float) -> CellVerdict:
    """By hand: Wilson's interval of 0, 2 and 4 of 4, since an F1 of 0 or 1 is a rate."""
    low, high = {0: (0.0, 0.4899), 2: (0.15, 0.85), 4: (0.5101, 1.0)}[right]
    return "higher" if low > published else "lower" if high < published else "reproduced"


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    with openai_server(backbone) as server:
        made = ablate(
            table_2(),
            question_files(tmp_path),
            out=tmp_path / "out",
            models=[f"openai/{model}@{server.url}" for model in RIGHT],
            pools=pool_file(tmp_path),
        )
    assert made.unfinished == {}
    return tmp_path / "out"


def test_every_verdict_of_table_2_follows_from_the_scores(experiment: Path) -> None:
    recipe, folders = read_experiment(experiment)
    assert [folder.name for folder in folders] == [f"{arm}-{model}" for model in RIGHT for arm in ARMS]
    found = figures(recipe, folders)
    seen = set()
    for each in found:
        if each.metric == "grader":
            assert each.verdict == "not run"
            continue
        known = RIGHT[next(model for model in RIGHT if model.casefold() == each.model.casefold())][each.dataset]
        assert each.published is not None
        assert each.reasons == ()
        wanted = expected(known, each.published)
        assert (each.ours and each.ours.value, each.verdict) == (known / N, wanted), each
        seen.add(wanted)
    assert seen == {"reproduced", "higher", "lower"}
    assert len(found) == len(RIGHT) * len(ARMS) * 9


def test_backbones_are_rows_and_the_verdict_stands_in_each_cell(experiment: Path) -> None:
    table = reproduction_tables(*read_experiment(experiment))["f1"]
    rows = {
        tuple(cell.text for cell in row[:3]): [f"{cell.text}{cell.mark}" for cell in row[3:9]] for row in table.rows
    }
    assert rows["GPT-3.5-Turbo", "rag-gpt-3.5-turbo", "published"] == ["76.8", "45.0", "42.3", "20.4", "64.6", "49.8"]
    ours = rows["GPT-3.5-Turbo", "rag-gpt-3.5-turbo", "ours"]
    assert ours[:5] == ["100.0 =", "50.0 =", "0.0 =", "100.0 ^", "100.0 ="]
    assert ours[5].startswith("70.0")
