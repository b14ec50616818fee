"""One or two entries of every published format, in the owners' layouts; the texts are our own."""

import json
from pathlib import Path
from typing import Any

HOTPOT: dict[str, Any] = {
    "_id": "h1",
    "question": "Which lake is deeper, Baikal or Ohrid?",
    "answer": "Baikal",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Lake Ohrid", 0], ["Lake Baikal", 1], ["Lake Baikal", 0]],
    "context": [
        ["Lake Como", ["It is in Italy."]],
        ["Lake Baikal", ["It is in Siberia.", " It is 1,642 metres deep."]],
        ["Lake Ohrid", ["It is 288 metres deep.", " "]],
    ],
}
TRIVIA: dict[str, Any] = {
    "Data": [
        {
            "QuestionId": "t1",
            "Question": "Which is the deepest lake?",
            "Answer": {"Value": "Baikal", "Aliases": ["Baikal", "Lake Baikal"], "HumanAnswers": ["Baykal"]},
        }
    ],
    "Domain": "Web",
}
KILT: dict[str, Any] = {
    "id": "k1",
    "input": "Which is the deepest lake?",
    "output": [
        {"answer": "Baikal", "provenance": [{"title": "Lake Baikal"}, {"title": "Lake"}]},
        {"answer": "Lake Baikal"},
        {"provenance": [{"title": "Lake Baikal"}]},
    ],
}
FEVER: list[dict[str, Any]] = [
    {
        "id": 7,
        "label": "REFUTES",
        "claim": "Ohrid is a film.",
        "evidence": [
            [[1, 2, "Ohrid_-LRB-lake-RRB-", 0], [1, 3, "Caf\u0065\u0301-COLON-_A_-LSB-x-RSB-", 1]],
            [[1, 4, "Ohrid_-LRB-lake-RRB-", 4]],
        ],
    },
    {"id": 8, "label": "NOT ENOUGH INFO", "claim": "Ohrid is cold.", "evidence": [[[5, None, None, None]]]},
]
CIAR: list[dict[str, Any]] = [
    {"question": "How deep is half of 3?", "answer": ["1.5", "3/2"], "incorrect answer": ["2"]}
]
MATH: dict[str, Any] = {
    "problem": "What is $1+1$?",
    "answer": "2",
    "subject": "Algebra",
    "level": 1,
    "unique_id": "test/algebra/1.json",
}
GSM: dict[str, Any] = {"question": "Two lakes and two more?", "answer": "2+2=<<2+2=4>>4\n#### 4,000"}
BBH: dict[str, Any] = {
    "canary": "none",
    "examples": [
        {
            "input": "Lakes arranged in a fixed order. Which is first?\nOptions:\n(A) Como\n(B) Ohrid\n(C) Lake Garda",
            "target": "(C)",
        }
    ],
}
SHAPES = {"examples": [{"input": "This SVG path element draws a\nOptions:\n(A) lake\n(B) line", "target": "(B)"}]}
RAMDOCS: dict[str, Any] = {
    "question": "How deep is the lake?",
    "documents": [
        {"text": "It is 5 metres deep.", "type": "misinfo", "answer": "5"},
        {"text": "It is 288 metres deep.", "type": "correct", "answer": "288"},
        {"text": "It is cold.", "type": "noise", "answer": "unknown"},
    ],
    "disambig_entity": ["Lake Ohrid"],
    "gold_answers": ["288", "288 metres"],
    "wrong_answers": ["5", "5", "7"],
}
MMLU = (
    '"Which lake, the ""deepest""\nof all, is it?",Como,Baikal,Ohrid,Garda,B\n'
    "Which is in Italy?,Como,Baikal,Ohrid,Titicaca,A\n"
)
COMMONMT = 'chinese_source,english_target_correct,english_target_wrong\n吃掉。 ,"Destroy, all.",Eat all.\n'


def write(path: Path, content: object) -> Path:
    """A file with this text, JSON document, or (``.jsonl``) these JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        text = content
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(line) + "\n" for line in (content if isinstance(content, list) else [content]))
    else:
        text = json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


FILES: dict[str, tuple[str, object]] = {
    "triviaqa": ("dev.json", TRIVIA),
    "nq_open": ("dev.jsonl", {"question": "which lake is the deepest", "answer": ["Baikal", "Lake Baikal"]}),
    "hotpotqa": ("dev.json", [HOTPOT]),
    "2wikimultihopqa": ("dev.json", [HOTPOT | {"evidences": [["Baikal", "depth", "1642"]]}]),
    "fever": ("dev.jsonl", FEVER),
    "mmlu": ("geography_test.csv", MMLU),
    "mmlu_med": ("anatomy_test.csv", MMLU),
    "commonmt": ("lexical ambiguity.csv", COMMONMT),
    "ciar": ("ciar.json", CIAR),
    "math500": ("test.jsonl", MATH),
    "bbh_logical_deduction": ("logical_deduction_three_objects.json", BBH),
    "bbh_geometric_shapes": ("geometric_shapes.json", SHAPES),
    "gsm8k": ("test.jsonl", GSM),
    "ramdocs": ("RAMDocs_test.jsonl", RAMDOCS),
}
"""Dataset -> the name of a file, and what it holds."""
