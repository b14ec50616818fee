"""Models of known faults behind a loopback server, for audits."""

import json
from typing import Any

from madke.audit import audit_questions
from tests.support.openai_server import Reply, chat

STAGES = ["select", "speak"] * 2 + ["reply"] * 2 + ["judge"] * 4 + ["summarize"] * 2
PROBES = [*STAGES, "system", "schema", "long"]


def said(answer: str) -> str:
    return f"One passage names it.\nThe answer is [{answer}]."


class Model:
    """A good model. Subclasses have one fault. ``nth`` counts the calls of one probe, from 0."""

    def __call__(self, body: dict[str, Any], n: int) -> Reply:
        probe = PROBES[n - 1]
        # The audit asks every stage for free text; one request of its own asks for a schema.
        assert (probe == "schema") == ("response_format" in body)
        text = "\n".join(message["content"] for message in body["messages"])
        reply = getattr(self, probe)(text, body, PROBES[: n - 1].count(probe))
        return reply if isinstance(reply, tuple) else chat(reply, usage=self.usage(text, reply))

    def usage(self, text: str, reply: str) -> Any:
        return {"prompt_tokens": len(text) // 4, "completion_tokens": len(reply) // 4 + 1}

    def item(self, text: str) -> Any:
        return next(item for item in audit_questions() if item.question in text)

    def select(self, text: str, body: Any, nth: int) -> Any:
        places = [text.find(passage["text"]) for passage in self.item(text).passages]
        return f"That passage names it.\nSelected: [{sorted(places).index(places[0])}]"

    def speak(self, text: str, body: Any, nth: int) -> Any:
        return said(self.item(text).right)

    reply = summarize = speak

    def judge(self, text: str, body: Any, nth: int) -> Any:
        return f"I compare both.\nVerdict: [{'DIFFERENT' if self.item(text).wrong in text else 'SAME'}]"

    def system(self, text: str, body: Any, nth: int) -> Any:
        return "Plover. It rains. I walk."

    def schema(self, text: str, body: Any, nth: int) -> Any:
        assert body["response_format"]["type"] == "json_schema"
        return json.dumps({"verdict": "same"})

    def long(self, text: str, body: Any, nth: int) -> Any:
        return self.select(text, body, nth)


class Servile(Model):
    """Calls of ``reply``: own right and peer wrong, own wrong and peer right, and so on."""

    def reply(self, text: str, body: Any, nth: int) -> Any:
        return said(self.item(text).wrong if nth % 2 == 0 else self.item(text).right)


class Stubborn(Model):
    def reply(self, text: str, body: Any, nth: int) -> Any:
        return said(self.item(text).right if nth % 2 == 0 else self.item(text).wrong)


class CutsPrompts(Model):
    def usage(self, text: str, reply: str) -> Any:
        return {"prompt_tokens": min(1000, len(text) // 4), "completion_tokens": 9}


class WithoutSchemas(Model):
    def __call__(self, body: dict[str, Any], n: int) -> Reply:
        refused = PROBES.index("schema") + 1
        if n == refused:
            return 400, {}, {"error": {"message": "response_format is not supported by this model"}}
        # The client then asks without a schema.
        return chat(json.dumps({"verdict": "same"})) if n == refused + 1 else super().__call__(body, n - (n > refused))


class OnlyReasons(Model):
    """Thinks until it is cut off, wherever it is asked for more than a few words."""

    def select(self, text: str, body: Any, nth: int) -> Any:
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 256}
        return chat("", finish_reason="length", reasoning_content="Let me think.", usage=usage)

    speak = reply = judge = summarize = select


class NoForm(Model):
    """Talks without any marker where it selects, and always finds answers the same."""

    def select(self, text: str, body: Any, nth: int) -> Any:
        return "I would like to read something about the place."

    def judge(self, text: str, body: Any, nth: int) -> Any:
        return "Verdict: [SAME]"


class FailsNowAndThen(Model):
    def judge(self, text: str, body: Any, nth: int) -> Any:
        return (404, {}, {"error": {"message": "out of memory\x1b[31m"}}) if nth % 2 else super().judge(text, body, nth)
