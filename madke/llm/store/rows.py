"""How a call lies in the file: a row of short columns, and its texts as pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

from madke.core.chat import ChatRequest, Completion, Message, Purpose, Usage
from madke.llm.store.pieces import Damage, Pieces, short_hash, split

to_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
"""Escapes, not characters: a lone surrogate, which models do emit, has no UTF-8."""

COLUMNS = "key, outcome, payer, model, request, completion, messages, reply, checksum"

_USAGE = {field.name: field.default for field in fields(Usage)}
_SAID = {field.name: field.default for field in fields(Completion) if field.name not in ("text", "outcome", "usage")}
"""Name -> default. What has its default is left out of the file, so a default of these records cannot be changed
without writing it into the rows that older stores hold."""


class Recorded(NamedTuple):
    """One call of a store."""

    purpose: Purpose
    messages: tuple[Message, ...]
    completion: Completion
    model: str
    """Its name, which names the endpoint."""


class Finished(NamedTuple):
    """A call that ended, ready to be written: nothing but the ids of its texts is missing from its row."""

    key: bytes
    outcome: str
    payer: str
    model: str
    request: str
    completion: str
    messages: list[tuple[str, tuple[str, ...]]]
    reply: tuple[str, ...]

    def row(self, ids: Mapping[str, int]) -> tuple[Any, ...]:
        """The values of :data:`COLUMNS`.

        Args:
            ids: Piece -> id, for all of :meth:`pieces`.
        """
        # JSON by hand: neither roles nor numbers need escapes, and an encoder takes ten times as long.
        messages = ",".join([f'["{role}",{_numbers(text, ids)}]' for role, text in self.messages])
        values = (*self[:6], f"[{messages}]", _numbers(self.reply, ids))
        return *values, checksum(values)

    def pieces(self) -> Iterator[str]:
        """What its texts are made of."""
        for _, text in self.messages:
            yield from text
        yield from self.reply


def finished(key: str, payer: str, model: str, request: ChatRequest, completion: Completion) -> Finished:
    """What is to be written of a call."""
    said = _without_defaults(completion, _SAID)
    said["usage"] = _without_defaults(completion.usage, _USAGE)
    return Finished(
        key=key_column(key),
        outcome=completion.outcome,
        payer=payer,
        model=model,
        request=_asked(request),
        completion=to_json(said),
        messages=[(message.role, split(message.content)) for message in request.messages],
        reply=split(completion.text),
    )


def rows_of(calls: Sequence[Finished], pieces: Pieces) -> list[tuple[Any, ...]]:
    """The values of :data:`COLUMNS` of each call; pieces that are new are written."""
    ids = pieces.ids(chain.from_iterable(call.pieces() for call in calls))
    return [call.row(ids) for call in calls]


def _asked(request: ChatRequest) -> str:
    """Purpose and parameters; by hand, since an encoder takes three times as long."""
    purpose = request.purpose
    sample = f',"sample":{purpose.sample}' if purpose.sample else ""
    repeat = f',"repeat":{purpose.repeat}' if purpose.repeat else ""
    return (
        f'{{"purpose":{{"question":{to_json(purpose.question)},"stage":{to_json(purpose.stage)},'
        f'"agent":{to_json(purpose.agent)},"round":{purpose.round}{sample}{repeat}}},'
        f'"temperature":{request.temperature},"max_tokens":{request.max_tokens},'
        f'"stop":{to_json(request.stop) if request.stop else "[]"},'
        f'"seed":{"null" if request.seed is None else request.seed}}}'
    )


def _numbers(pieces: Sequence[str], ids: Mapping[str, int]) -> str:
    return f"[{','.join([str(ids[piece]) for piece in pieces])}]"


def _without_defaults(record: object, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, default in defaults.items() if (value := getattr(record, name)) != default}


def key_column(key: str) -> bytes:
    """How a call's key is looked up: it is not needed back, so its hash will do."""
    return short_hash(key.encode())


def checksum(values: Sequence[Any]) -> int:
    """CRC-32 of a row's columns, that of the checksum left out."""
    return crc32("\0".join(values[1:8]).encode("utf-8", "surrogatepass"), crc32(values[0]))


def verified(row: Sequence[Any]) -> Sequence[Any]:
    """The row.

    Raises:
        Damage: It is not what was written.
    """
    if not is_whole(row):
        raise Damage("a call is not what was written")
    return row


def is_whole(row: Sequence[Any]) -> bool:
    """Whether a row, from key to checksum, is what was written."""
    try:
        return bool(checksum(row) == row[8])
    except TypeError:  # a column of another type
        return False


def read_completion(row: Sequence[Any], pieces: Pieces) -> Completion:
    """The completion in a row.

    Raises:
        Damage: The row or a piece of it is not what was written.
    """
    _, outcome, _, _, _, completion, _, reply, _ = verified(row)
    record = json.loads(completion)
    usage = Usage(**record.pop("usage"))
    return Completion(text=pieces.text(json.loads(reply)), outcome=outcome, usage=usage, **record)


def read_call(row: Sequence[Any], pieces: Pieces) -> Recorded:
    """The call in a row.

    Raises:
        Damage: The row or a piece of it is not what was written.
    """
    completion = read_completion(row, pieces)
    _, _, _, model, request, _, messages, _, _ = row
    return Recorded(
        Purpose(**json.loads(request)["purpose"]),
        tuple(Message(role=role, content=pieces.text(ids)) for role, ids in json.loads(messages)),
        completion,
        model,
    )
