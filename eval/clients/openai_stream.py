"""The ``openai`` package of Python, with streams. Each chunk must be one of its types."""

import json
import sys
from pathlib import Path

from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

url, questions = sys.argv[1:]
answers = {}
with OpenAI(base_url=url, api_key="none") as client:
    for question in json.loads(Path(questions).read_text()):
        stream = client.chat.completions.create(
            model="madke",
            messages=[{"role": "user", "content": question}],
            stream=True,
            stream_options={"include_usage": True},
        )
        text, usage, thoughts = "", None, ""
        for chunk in stream:
            ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
            usage = usage or chunk.usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thoughts += getattr(choice.delta, "reasoning_content", None) or ""
        assert usage is not None
        assert usage.total_tokens > 0
        assert "### Round 1" in thoughts
        answers[question] = text
print(json.dumps(answers))
