"""Inspect with its provider for compatible servers."""

import json
import os
import sys
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate

url, questions = sys.argv[1:]
os.environ |= {"MADKE_API_KEY": "none", "MADKE_BASE_URL": url}
with tempfile.TemporaryDirectory() as logs:
    dataset = [Sample(input=question) for question in json.loads(Path(questions).read_text())]
    task = Task(dataset=dataset, solver=generate())
    (log,) = eval(task, model="openai-api/madke/madke", log_dir=logs, display="none", max_connections=4)
assert log.status == "success", log.error
print(json.dumps({sample.input: sample.output.completion for sample in log.samples or []}))
