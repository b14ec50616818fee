"""Which calls are the same.

**The key** is the SHA-256 of: the model's name (which names its endpoint), the messages, temperature, ``max_tokens``,
stop strings, seed, and the purpose (question, stage, agent, round, sample, repeat). The purpose is in it because two
debaters with identical prompts must not become clones of each other, nor two repeats of one question.

**Left out of it**: the time, keys and other credentials, retry and concurrency settings (they change no reply), the
dataset and the variant (what they change is in the messages), and versions of servers and of madke (unknown, or
without effect on what was asked). Whoever wants fresh replies takes a fresh store.
"""

from __future__ import annotations

from hashlib import sha256

from madke.core.chat import ChatRequest
from madke.llm.store.pieces import remembering
from madke.llm.store.rows import to_json

_escaped = remembering(to_json)


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call: SHA-256, in hexadecimal, of what the module's docstring lists."""
    purpose = request.purpose
    messages = ",".join(f'["{message.role}",{_escaped(message.content)}]' for message in request.messages)
    # JSON by hand: an encoder takes three times as long.
    stop = to_json(request.stop) if request.stop else "[]"
    seed = "null" if request.seed is None else request.seed
    names = f"{to_json(purpose.question)},{to_json(purpose.stage)},{to_json(purpose.agent)}"
    about = f"[{names},{purpose.round},{purpose.sample},{purpose.repeat}]"
    parameters = f"{float(request.temperature)},{request.max_tokens},{stop},{seed},{about}"
    return sha256(f"[{_escaped(model)},[{messages}],{parameters}]".encode("ascii")).hexdigest()
