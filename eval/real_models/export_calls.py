"""Print the calls of a run directory as JSON lines, with whichever version of madke is on the path.

The study starts it as a program of its own, because 0.3.0's call store is read by 0.3.0's code.
"""

import json
import sys
from pathlib import Path

from madke.models.store import CallStore

with CallStore(Path(sys.argv[1]) / "calls.sqlite") as store:
    for call in store.recorded():
        purpose, completion = call.purpose, call.completion
        line = {
            "question": purpose.question,
            "stage": purpose.stage,
            "agent": purpose.agent,
            "round": purpose.round,
            "text": completion.text,
            "outcome": completion.outcome,
            "error": completion.error,
            "finish": completion.finish_reason,
            "prompt_tokens": completion.usage.prompt_tokens,
            "new_tokens": completion.usage.completion_tokens,
            "seconds": completion.seconds,
            "messages": [[message.role, message.content] for message in call.messages],
        }
        print(json.dumps(line))
