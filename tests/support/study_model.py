"""A model for studies: it answers at once, and its answers depend on the prompt and the seed."""

from __future__ import annotations

from hashlib import sha256

from madke.core.chat import ChatRequest, Completion, Usage


class Answering:
    """Named as ``tests.support.study_model:Answering``."""

    name = "answering"

    async def complete(self, request: ChatRequest) -> Completion:
        """One of three answers; every third judge finds the debate settled."""
        purpose = request.purpose
        words = " ".join(message.content for message in request.messages)
        number = sha256(f"{purpose.question} {purpose.agent} {purpose.round} {request.seed}".encode()).digest()[0]
        text = f"I compared what I have. The answer is {('Paris', 'Rome', 'the capital')[number % 3]}."
        if purpose.stage == "select":
            text = f"Selected: {number % 2}"
        elif purpose.stage == "judge":
            text = "Verdict: [SAME]" if number % 3 == 0 else "Verdict: [DIFFERENT]"
        return Completion(text=text, usage=Usage(prompt_tokens=len(words) // 4, completion_tokens=len(text) // 4))
