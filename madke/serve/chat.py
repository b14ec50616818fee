"""Chat completions of OpenAI: a request, its conversation, its debate as text, and its response."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Send

from madke._util.assets import asset
from madke._util.concurrency import Tell
from madke._util.yaml_file import read_mapping
from madke.core import events
from madke.core.chat import Message, Usage
from madke.core.errors import count_of
from madke.core.events import Event
from madke.core.knowledge import KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Transcript
from madke.engine.reading import without_tags
from madke.report.debate_text import INDENT, DebateLines, summary
from madke.serve.debates import DebateResponse, Debates, Served, data
from madke.serve.gate import Refusal
from madke.serve.offers import Ask

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "response_format": ({"type": "text"},),
}
"""Field -> accepted values, besides null. Any other value asks for something that a debate cannot give."""

_WITHOUT_EFFECT = ("user", "metadata", "store", "parallel_tool_calls", "service_tier")
"""Fields that no client expects an effect of."""

MAX_CONVERSATION = 200_000
"""Characters of all messages of a request."""

_MAX_HEADER = 1000


class Part(BaseModel, extra="allow"):
    """A part of a message."""

    type: str
    text: str | None = None


class ChatMessage(BaseModel, extra="allow"):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None

    @property
    def is_about_tools(self) -> bool:
        """Whether it calls a tool, or is what a tool returned."""
        return self.role in ("tool", "function") or bool(self.tool_calls or self.function_call)

    @property
    def text(self) -> str:
        """The message's text; Refusal for images, sound and files."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        for part in self.content:
            if part.type not in ("text", "input_text", "output_text", "refusal"):
                raise Refusal(400, f"a message has a part of type {part.type!r}; only text is read", param="messages")
        return "\n".join(part.text or "" for part in self.content)


class ChatBody(BaseModel, extra="allow"):
    """A request for an answer. Fields of OpenAI's API that are not named here are described in docs/serve.md."""

    model: Annotated[str, Field(max_length=200)]
    """The name of a protocol, or an alias of one."""
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None

    def ignored_fields(self) -> list[str]:
        """The fields that have a value and no effect; Refusal for one that asks for what a debate cannot give."""
        ignored = []
        for name, value in (self.model_extra or {}).items():
            accepted = _NEUTRAL.get(name)
            if accepted is None:
                ignored += [name] if value not in (None, []) and name not in _WITHOUT_EFFECT else []
            elif value is not None and not any(
                value == x and isinstance(value, bool) == isinstance(x, bool) for x in accepted
            ):
                expected = f"; expected {accepted[0]!r} or nothing" if accepted else ""
                raise Refusal(400, f"{name} = {value!r:.60} is not supported{expected}", param=name)
        return ignored

    @property
    def bounds(self) -> dict[str, Any]:
        """What bounds the final text: the texts that end it, and its maximum length in tokens."""
        stops = [each for each in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if each]
        return {"stops": stops, "limit": self.max_completion_tokens or self.max_tokens}


class Conversation:
    """The messages of a request, by what they are for; Refusal if they are too long, or the last one is no question."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        if sum(len(message.text) for message in messages) > MAX_CONVERSATION:
            raise Refusal(400, f"the messages have more than {MAX_CONVERSATION} characters", param="messages")
        system = [message.text.strip() for message in messages if message.role in ("system", "developer")]
        turns = [message for message in messages if message.role not in ("system", "developer")]
        if not turns or turns[-1].role != "user" or not (question := turns[-1].text.strip()):
            raise Refusal(400, "the last message must be a question of the user, with text", param="messages")
        self.question = question
        self.instructions = "\n\n".join(filter(None, system))
        self.earlier = tuple(
            Message(role="user" if message.role == "user" else "assistant", content=message.text)
            for message in turns[:-1]
            if not message.is_about_tools
        )
        """The turns before the question, without calls of tools and their results."""

    @property
    def plain(self) -> tuple[Message, ...]:
        """The messages of a plain call without a debate."""
        system = (Message(role="system", content=self.instructions),) if self.instructions else ()
        return (*system, *self.earlier, Message(role="user", content=self.question))

    @property
    def condensing(self) -> tuple[Message, ...]:
        """The prompt for the standalone question that the last message means; empty if there are no earlier turns."""
        if not self.earlier:
            return ()

        def quoted(role: str, content: str) -> str:
            return f'<message from="{role}">\n{without_tags(content, ("conversation", "message"))}\n</message>'

        wording = _wording()
        turns = (quoted(turn.role, turn.content) for turn in self.earlier)
        conversation = "\n".join(["<conversation>", *turns, "</conversation>"])
        last = f"The last message:\n{quoted('user', self.question)}"
        content = "\n\n".join((wording["instruction"], conversation, last, wording["closing"]))
        return Message(role="system", content=wording["system"]), Message(role="user", content=content)


@cache
def _wording() -> Mapping[str, str]:
    return read_mapping(asset("prompts", "serving", "condense.yaml"))


def _is_for_interface(question: str, headers: Headers) -> bool:
    """Whether a user interface asks for a title, tags or follow-up questions.

    Open WebUI sends ``{{TASK}}`` unchanged in the header if there is no task.
    """
    task = headers.get("x-openwebui-task", "").strip()
    return question.startswith("### Task:") or (task != "" and not task.startswith("{{"))


# The debate as text

_CHARACTERS_PER_TOKEN = 4
"""The estimate by which ``max_tokens`` bounds the final text; see :func:`madke.models.prices.estimated_usage`."""


VERDICTS = {True: "the debaters agree", False: "the debaters do not agree", None: "no verdict could be read"}


@dataclass(frozen=True, kw_only=True)
class FinalText:
    """What a client gets when the debate is over."""

    text: str
    finish_reason: Literal["stop", "length"]
    usage: Usage
    annotations: Sequence[Mapping[str, Any]] = ()
    """Citations in OpenAI's form."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What madke adds to OpenAI's form."""


def final_text(served: Served, address: str, *, stops: Sequence[str], limit: int | None) -> FinalText:
    """The answer with its citations, up to the first of ``stops`` and at most ``limit`` tokens long.

    An abstained debate gives the text in which no answer could be read. Passages without an address get the
    ``address`` of the transcript. The text ends with ``[0][3]...``, the pool numbers of the citations.
    """
    done, annotations = served.transcript, []
    text, finish_reason = cut_text(served.text, stops=stops, limit=limit)
    whole = done.answer is not None and text == served.text
    for number, title, url in citations(done, served.pool, address) if whole else ():
        mark = f"[{number}]"
        if mark in served.text:  # a text whose sentences cite
            start = text.index(mark)
        else:
            start = len(text)
            text += f"{'' if text != served.text else ' '}{mark}"
        end = text.index(mark, start) + len(mark)
        cited = {"title": title, "url": url, "start_index": start, "end_index": end}
        annotations.append({"type": "url_citation", "url_citation": cited})
    own: dict[str, Any] = {"status": done.status, "answer": done.answer, "rounds": len(done.rounds)}
    own |= {"transcript": address, "agreement": to_jsonable_python(done.agreement), "failed": failures(done)}
    own |= {"deferral": to_jsonable_python(done.deferral)} if done.deferral else {}
    return FinalText(
        text=text,
        finish_reason=finish_reason,
        usage=served.usage,
        annotations=annotations,
        own={"madke": own},
    )


def cut_text(text: str, *, stops: Sequence[str], limit: int | None) -> tuple[str, Literal["stop", "length"]]:
    """The text up to the first stop string, and at most as long as the limit in tokens."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    if limit is not None and len(text) > limit * _CHARACTERS_PER_TOKEN:
        return text[: limit * _CHARACTERS_PER_TOKEN], "length"
    return text, "stop"


def failures(done: Transcript) -> list[str]:
    """What failed in a debate: sources, selections, turns and verdicts."""
    failed = [f"source {name}: {why}" for name, why in done.pool_partial.items()]
    for each in done.rounds:
        for turn in each.turns:
            parts = (turn.selection, turn.search, turn.stance)
            failed += [f"round {each.n}, {turn.agent}: {part.error}" for part in parts if part and part.error]
        if each.verdict and each.verdict.error:
            failed.append(f"round {each.n}, judge: {each.verdict.error}")
    return [*failed, *([f"{done.final.by}: {done.final.error}"] if done.final.error else [])]


def citations(transcript: Transcript, pool: KnowledgePool, address: str) -> Iterator[tuple[int, str, str]]:
    """Pool number, title and address of the passages that contain the answer or a quote of its supporters."""
    entries = {entry.n: entry for entry in transcript.pool}
    passages = dict(enumerate(pool.passages))
    for n in transcript.agreement.cited if transcript.agreement else ():
        passage, entry = passages.get(n), entries[n]
        url = passage.url if passage is not None else None
        if url is None and entry.key.startswith(("https://", "http://")):
            url = entry.key
        yield n, entry.title or f"{entry.source} {entry.key}", url or f"{address}#{n}"


class Narration:
    """A debate's turns as Markdown, as they happen."""

    def __init__(self) -> None:
        self._lines = DebateLines(Question(question=""))

    def hear(self, event: events.Event) -> str:
        """What the event adds to the text."""
        match event:
            case events.PoolReady(pool=pool) if pool.passages or pool.partial:
                failed = (f"{INDENT}The source {name} failed: {why}." for name, why in pool.partial.items())
                lines = [f"{INDENT}{count_of(len(pool.passages), 'passage')} found.", *failed]
            case events.DebateStarted():
                lines = []
            case events.DebateFinished(transcript=transcript):
                lines = [*_last_lines(transcript)]
            case _:
                lines = [*self._lines.hear(event)]
        return "".join(map(_marked_up, filter(None, lines)))


def _marked_up(line: str) -> str:
    if line.startswith(INDENT):
        return line.removeprefix(INDENT) + "\n"
    heading = f"### {line.strip('- ').capitalize()}" if line.startswith("---") else f"**{line.strip()}**"
    return f"\n{heading}\n\n"


def _last_lines(transcript: Transcript) -> Iterator[str]:
    """The reply that ends the debate, unless it was told, and who agrees: a client may show the bare answer only."""
    final, last = transcript.final, transcript.rounds[-1:]
    of_judge = final.by == "judge" and any(each.verdict and each.verdict.text == final.text for each in last)
    if final.text and final.by != "only" and not of_judge:
        yield from (final.by.capitalize(), *(INDENT + line for line in final.text.splitlines()))
    if transcript.agreement is not None and transcript.agreement.outcome != "single":
        yield f"Agreement: {summary(transcript.agreement)}."


# The response


class Answer(DebateResponse):
    """The response, whole or as a stream."""

    end = b"data: [DONE]\n\n"

    def __init__(self, debates: Debates, request: Request, body: ChatBody) -> None:
        super().__init__(debates, request)
        self._body = body
        self._head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    def read(self) -> Ask:
        """The question of the conversation."""
        ignored, headers = self._body.ignored_fields(), self.request.headers
        self._talk = talk = Conversation(self._body.messages)
        self._plain = _is_for_interface(talk.question, headers)
        if names := ", ".join(map(quote, ignored)):
            cut = "..." if len(names) > _MAX_HEADER else ""
            self.headers["x-madke-ignored"] = f"{names[:_MAX_HEADER]}{cut}"
        return Ask(
            protocol=self._body.model,
            question=talk.question,
            instructions=talk.instructions,
            condensing=talk.condensing,
            retry=headers.get("x-stainless-retry-count", "0").strip("0").isdecimal(),
        )

    @property
    def opening(self) -> bytes:
        """The role."""
        return self._chunk(role="assistant", content="")

    async def respond(self, send: Send) -> None:
        """Send the stream, or the whole answer."""
        if self._body.stream:
            await super().respond(send)
            return
        deltas: list[str] = []
        final = await self.work(deltas.append)
        response = JSONResponse(self._whole("".join(deltas).strip(), final), headers=self.headers)
        await response(self.request.scope, self.request.receive, send)
        self.turn.mark_delivered()

    async def work(self, tell: Tell) -> FinalText:
        """The debate, or the one call; ``tell`` gets the turns as they happen."""
        bounds = self._body.bounds
        if self._plain:
            reply, usage = await self.turn.plain(self.ask.protocol, self._talk.plain, bounds["limit"])
            text, finish_reason = cut_text(reply, **bounds)
            return FinalText(text=text, finish_reason=finish_reason, usage=usage)
        narration = Narration()

        def hear(event: Event) -> None:
            if text := narration.hear(event):
                tell(text)

        served = await self.turn.debate(self.ask, hear)
        return final_text(served, self.debates.transcripts.address(served, self.request), **bounds)

    def line(self, part: str | FinalText) -> bytes:
        """A part of the turns, or the end of the stream."""
        if isinstance(part, FinalText):
            return b"".join(self._closing_chunks(part))
        return self._chunk(reasoning_content=part, reasoning=part)

    def _closing_chunks(self, final: FinalText) -> Iterator[bytes]:
        cited = {"annotations": final.annotations} if final.annotations else {}
        yield self._chunk(content=final.text, **cited)
        yield self._event(choices=[{"index": 0, "delta": {}, "finish_reason": final.finish_reason}], **final.own)
        if (self._body.stream_options or {}).get("include_usage"):
            yield self._event(choices=[], usage=_usage(final.usage))

    def _whole(self, thoughts: str, final: FinalText) -> dict[str, Any]:
        """The answer without a stream."""
        message = {"role": "assistant", "content": final.text, "refusal": None, "annotations": final.annotations}
        if thoughts:
            message |= {"reasoning_content": thoughts, "reasoning": thoughts}
        choice = {"index": 0, "message": message, "finish_reason": final.finish_reason, "logprobs": None}
        head = {"object": "chat.completion", **self._head}
        return {**head, "choices": [choice], "usage": _usage(final.usage), **final.own}

    def _chunk(self, **delta: Any) -> bytes:
        return self._event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, **fields: Any) -> bytes:
        return data({"object": "chat.completion.chunk", **self._head, **fields})


def _usage(used: Usage) -> dict[str, Any]:
    """Tokens of all calls for a request."""
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }
