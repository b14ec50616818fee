"""litellm: one half of the questions whole, the other as streams."""

import json
import sys
from pathlib import Path

import litellm

url, questions = sys.argv[1:]
answers = {}
for number, question in enumerate(json.loads(Path(questions).read_text())):
    messages = [{"role": "user", "content": question}]
    given = {"model": "openai/madke", "api_base": url, "api_key": "none", "messages": messages}
    if number % 2:
        chunks = list(litellm.completion(**given, stream=True))
        answers[question] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert any(getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks)
    else:
        message = litellm.completion(**given).choices[0].message
        answers[question] = message.content
        assert "### Round 1" in message.reasoning_content
print(json.dumps(answers))
