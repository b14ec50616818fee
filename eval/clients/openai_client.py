"""The ``openai`` package of Python."""

import json
import sys
from pathlib import Path

from openai import OpenAI

url, questions = sys.argv[1:]
answers = {}
with OpenAI(base_url=url, api_key="none") as client:
    for question in json.loads(Path(questions).read_text()):
        completion = client.chat.completions.create(
            model="madke", messages=[{"role": "user", "content": question}], temperature=0.9
        )
        answers[question] = completion.choices[0].message.content
print(json.dumps(answers))
