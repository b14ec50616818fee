"""EM and F1 against SQuAD's and HotpotQA's definitions, written down here once more, on what real models answered."""

import gzip
import json
import re
import string
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from madke.core.question import Question
from madke.scoring.metrics import METRICS


@cache
def words(text: str) -> list[str]:
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(?:the|an|a)\b", " ", kept).split()


def official_em(prediction: str, gold: str) -> float:
    return float(" ".join(words(prediction)) == " ".join(words(gold)))


def squad_f1(prediction: str, gold: str) -> float:
    said, right = words(prediction), words(gold)
    hits = sum((Counter(said) & Counter(right)).values())
    # 2PR / (P + R) with P = hits / len(said) and R = hits / len(right)
    return 2 * hits / (len(said) + len(right)) if hits else 0.0


def hotpotqa_f1(prediction: str, gold: str) -> float:
    said, right = " ".join(words(prediction)), " ".join(words(gold))
    if said != right and {said, right} & {"yes", "no", "noanswer"}:
        return 0.0
    return squad_f1(prediction, gold)


def in_other_words(gold: str) -> str | None:
    """Our only addition: a golden truth value also means yes or no, and a number of pandas the whole number."""
    truth = {"true": "yes", "false": "no"}.get(gold.lower())
    return truth or (gold[:-2] if re.fullmatch(r"\d+\.0", gold) else None)


def recorded(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file) if path.name.endswith("json.gz") else [json.loads(line) for line in file]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "answers"), [("NQ_1800", 8700), ("TQ_1000", 5000)])
def test_squads_definition_over_the_best_of_several_golds(shared_data: Path, file: str, answers: int) -> None:
    scored = 0
    for item in recorded(shared_data / "recorded" / "evouna" / f"{file}.json.gz"):
        if item["golden_answer"] is None:
            continue
        golds = tuple(item["golden_answer"].split("/"))
        every = [*golds, *filter(None, map(in_other_words, golds))]
        question = Question(id="q", question=item["question"], answers=golds)
        for system in ("fid", "gpt35", "chatgpt", "gpt4", "newbing"):
            said = item[f"answer_{system}"]
            if said is None:
                continue
            assert METRICS["em"](said, question) == max(official_em(said, gold) for gold in every), item
            assert METRICS["f1"](said, question) == pytest.approx(max(squad_f1(said, gold) for gold in every)), item
            scored += 1
    assert scored == answers


def test_hotpotqas_definition(shared_data: Path) -> None:
    folder = shared_data / "recorded"
    pairs = [(item["pred"], item["gt"]) for item in recorded(folder / "fireact_hotpotqa_llama2_7b.json.gz").values()]
    pairs += [(item["pred_ans"], item["answer"]) for item in recorded(folder / "r1searcher_hotpotqa_250.jsonl.gz")]
    assert len(pairs) == 750
    # No system said more than yes or no where that was the answer; so let each do so.
    pairs += [(f"{gold}, {said}", gold) for said, _ in pairs for gold in ("yes", "no")]
    differ = 0
    for said, gold in pairs:
        for dataset, f1 in (("hotpotqa", hotpotqa_f1), ("nq_open", squad_f1)):
            question = Question(id="q", question="?", answers=(gold,), metadata={"dataset": dataset})
            assert METRICS["em"](said, question) == official_em(said, gold), (said, gold)
            assert METRICS["f1"](said, question) == pytest.approx(f1(said, gold)), (said, gold)
        differ += hotpotqa_f1(said, gold) != squad_f1(said, gold)
    assert differ, "the rule for yes and no has not been put to the test"
