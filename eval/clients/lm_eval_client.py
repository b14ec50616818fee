"""lm-eval with its ``local-chat-completions`` model."""

import json
import os
import sys
import tempfile
from pathlib import Path

import lm_eval

url, questions = sys.argv[1:]
os.environ["OPENAI_API_KEY"] = "none"
with tempfile.TemporaryDirectory() as folder:
    data = Path(folder) / "questions.jsonl"
    asked = json.loads(Path(questions).read_text())
    data.write_text("".join(f"{json.dumps({'question': question, 'answer': '?'})}\n" for question in asked))
    task = {
        "task": "lakes",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 256, "temperature": 0.0},
        "metric_list": [{"metric": "exact_match"}],
    }
    arguments = f"model=madke,base_url={url}/chat/completions,num_concurrent=4,max_retries=3,tokenized_requests=False"
    results = lm_eval.simple_evaluate(
        model="local-chat-completions", model_args=arguments, tasks=[task], apply_chat_template=True
    )
samples = results["samples"]["lakes"]
print(json.dumps({sample["doc"]["question"]: sample["resps"][0][0] for sample in samples}))
