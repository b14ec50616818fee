"""The interface of every model: messages in, with a schema and the values of the stage, and a completion out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol, Self

from madke.core.question import Question

Outcome = Literal["ok", "empty", "refused", "filtered", "too_long", "failed"]
"""How a call ended. ``too_long``: the prompt does not fit into the model's context window."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Purpose:
    """What a call is for. It distinguishes calls with identical prompts in the call store and in seeds."""

    question: str
    stage: str
    """``select``, ``speak``, ``judge``, ``summarize``, ..."""
    agent: str
    round: int
    """1-based."""
    sample: int = 0
    repeat: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaField:
    """One field of a bound reply."""

    name: Literal["reasoning", "selected", "quotes", "verdict", "side", "answer"]
    words: tuple[str, ...] = ()
    """The words that a text may be; empty: any text."""
    numbers: tuple[int, ...] | None = None
    """The numbers that a list may hold; None: the field is a text."""
    with_texts: bool = False
    """Whether the items of the list are records: a ``passage``, which is one of the numbers, and a ``text``."""
    max_length: int | None = None
    """Characters of a text, items of a list. A server may not enforce it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """The fields of a reply, in order. All are required, and there are no others."""

    name: str
    """A word that describes the reply; servers require one."""
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundForm:
    """How a request is asked with a JSON schema. Only its last message differs, so that prefix caches hold."""

    schema: Schema
    task: str
    """The text of the last message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """One stance as it is shown to a reader."""

    agent: str
    """Empty if the protocol is anonymous."""
    text: str
    """Empty if only answers are shown."""
    answer: str | None = None
    confidence: float | None = None
    round: int = 1
    own: bool = False


class ShownPassage(NamedTuple):
    """One passage with the number under which it is shown, without line breaks."""

    number: int
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The stage of a call and the values that its prompt shows.

    The offline reader, the person at the terminal or the page, and doubles in tests read these values; a language model
    gets the rendered messages. So prompts can be reworded freely.
    """

    name: str
    """``select``, ``speak``, ``reply``, ``judge``, ...: the name of the template; or of a call outside a debate."""
    question: Question
    """Without golds and metadata."""
    task: Any = None
    """The answer format, a :class:`madke.tasks.base.BaseTask`; None outside debates."""
    marker: Any = "plain"
    """How an answer is stated: :data:`madke.engine.parse.answer.Marker`."""
    persona: str = ""
    """The debater's own, from the protocol."""
    passages: tuple[ShownPassage, ...] = ()
    """The pool (to select from or to rank), or the reader's own selection."""
    own: str | None = None
    """The reader's own newest stance, if it is shown."""
    others: tuple[Spoken, ...] = ()
    """The stances of others in the order in which they are shown; for a judge or summarizer, of all debaters."""
    max_selected: int = 0
    """``select``: the largest number of passages."""
    allow_search: bool = False
    """``select``: whether a search may be asked for."""
    asks_confidence: bool = False
    """Whether a stance also states a confidence."""
    decides: bool = False
    """``judge``, ``extract``: whether the judge also names the debater who is right and its answer."""

    @property
    def form(self) -> Literal["choice", "claim", "span"]:
        """What an answer is: the letter of an option, the label of a claim, or a short text."""
        if self.question.choices:
            return "choice"
        return "claim" if getattr(self.task, "name", "") == "claim" else "span"

    @property
    def newest(self) -> Sequence[Spoken]:
        """The last stance of each of the others with a name, then all of those without."""
        named = {spoken.agent: spoken for spoken in self.others if spoken.agent}
        return (*named.values(), *(spoken for spoken in self.others if not spoken.agent))


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRequest:
    """One model call: messages, purpose and parameters."""

    messages: tuple[Message, ...]
    """In the free form, which every model can answer."""
    purpose: Purpose
    temperature: float
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int | None = None
    bound: BoundForm | None = None
    """Set only for models that take schemas. Part of the store's key if the reply was asked for in this form."""
    stage: Stage | None = field(default=None, compare=False, repr=False)
    """The values that the messages show, for stand-ins of a language model. Not part of the store's key."""
    on_delta: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """A streaming model calls it with each part of the reply. Not part of the store's key, and not pickled."""

    on_token: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """A streaming model calls it when it has read the prompt, at the first token. As ``on_delta`` otherwise."""

    def in_form(self, *, bound: bool) -> "ChatRequest":
        """The request as it is sent, with the schema or without; itself if it has no bound form."""
        if self.bound is None:
            return self
        if not bound:
            return replace(self, bound=None)
        return replace(self, messages=(*self.messages[:-1], replace(self.messages[-1], content=self.bound.task)))

    def __getstate__(self) -> list[Any]:
        return [None if item.name in LISTENERS else getattr(self, item.name) for item in fields(self)]


Prefix = Literal["auto", "on", "off"]
"""Whether calls that begin alike wait for one of them (:mod:`madke.models.prefixes`)."""

LISTENERS = ("on_delta", "on_token")
"""Fields of :class:`ChatRequest` that hear of the reply, and are no part of what is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens of one call, as the provider counted them."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of ``prompt_tokens``: those that the server's prefix cache held."""
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Of ``completion_tokens``: those of hidden reasoning."""
    estimated: bool = False
    """The provider sent no usage; these figures are estimates."""
    server_cut: bool = False
    """The server counted far fewer prompt tokens than were sent: it cut the prompt."""
    not_utf8: bool = False
    """The reply held bytes that are not UTF-8; a replacement character stands for each."""

    def __add__(self, other: Self) -> Self:
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return type(self)(**{name: bool(each) if name in FLAGS else each for name, each in sums.items()})


FLAGS = ("estimated", "server_cut", "not_utf8")
"""Fields of :class:`Usage` that are true of any sum with one such call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """The result of one call. A failed call is a completion too, with the reason in ``error``."""

    text: str = ""
    """Empty unless ``outcome`` is ``ok``, ``refused`` or ``filtered``."""
    reasoning: str = ""
    """Hidden reasoning that the server sent separately: stored, never parsed or shown."""
    outcome: Outcome = "ok"
    error: str | None = None
    finish_reason: str = "stop"
    """As the provider names it: ``stop``, ``length``, ``content_filter``, ..."""
    max_tokens: int | None = None
    """The limit of the reply, if the context window left less than was requested."""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    """Wall time, without the wait for madke's own limiter."""
    attempts: int = 1
    paid: bool = True
    """False if another run's call in a shared call store answered."""
    bound: bool | None = None
    """Whether the request was sent with its schema; None if it has none."""
    tier: str = ""
    """The service tier that bills the call, ``batch``; empty for the standard one."""


class ChatModel(Protocol):
    """A chat model. It may also have ``async aclose()``, called in the event loop in which it was used."""

    name: str
    """Identifies the model, at whatever address it is served; part of the call store's key."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. Does not raise: a failed call returns a completion with its reason."""


def takes_schemas(model: object) -> bool:
    """Whether a model reads :attr:`ChatRequest.bound`: it then has a true attribute ``takes_schemas``."""
    return bool(getattr(model, "takes_schemas", False))


def call_seed(seed: int | None, purpose: Purpose) -> int | None:
    """The seed of one call, in 0 .. 2**31 - 1: a hash of the run's seed (None stays None) and the call's purpose."""
    return None if seed is None else _hash((seed, *fields_of(purpose).values()))


def retry_seed(seed: int | None, attempt: int) -> int | None:
    """The seed of the second or a later ``attempt`` of a call, from the call's seed; None stays None."""
    return None if seed is None else _hash((seed, attempt))


def _hash(parts: tuple[object, ...]) -> int:
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:4], "big") >> 1


def join_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with those of one role in a row as one: many chat templates need alternating roles."""
    parts: list[Message] = []
    for message in messages:
        if parts and parts[-1].role == message.role:
            parts[-1] = Message(role=message.role, content=f"{parts[-1].content}\n\n{message.content}")
        else:
            parts.append(message)
    return tuple(parts)


def shared_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    """The number of characters from the start that two prompts have in common."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.role != theirs.role:
            break
        shared = _shared_length(mine.content, theirs.content)
        length += shared
        if shared < max(len(mine.content), len(theirs.content)):
            break
    return length


def _shared_length(one: str, other: str) -> int:
    """By bisection, which compares in C."""
    if one == other:
        return len(one)
    known, most = 0, min(len(one), len(other))
    while known < most:
        middle = (known + most + 1) // 2
        if one[known:middle] == other[known:middle]:
            known = middle
        else:
            most = middle - 1
    return known


def writable(text: str) -> str:
    """The text with ``?`` for unpaired surrogates, which models emit and UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def decode_reply(body: bytes) -> str:
    """The text of a JSON reply. A replacement character stands for each byte that is not UTF-8."""
    return body.decode(json.detect_encoding(body), "replace")


def fields_of(record: Any) -> dict[str, Any]:
    """Field -> value of a dataclass with slots: an ``asdict`` that does not recurse, ten times as fast."""
    return {name: getattr(record, name) for name in record.__slots__}
