"""A model that takes JSON schemas."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from madke.core.chat import ChatRequest, Completion, Schema, SchemaField

Values = Mapping[str, Any]


def record(schema: Schema, **values: Any) -> str:
    """A reply of this schema: the given values, else the first that fits."""
    return json.dumps({each.name: values.get(each.name, _first(each)) for each in schema.fields})


def _first(field: SchemaField) -> Any:
    if field.numbers is None:
        return (field.words or ("Lake Baikal",))[0]
    first = field.numbers[0]
    return [{"passage": first, "text": f"Lake {first} is deep."}] if field.with_texts else [first]


class Bound:
    """A model behind an endpoint that takes schemas. ``reply`` may give a stage's text, or values of its record."""

    name = "openai/m"
    takes_schemas = True

    def __init__(self, reply: Callable[[ChatRequest], Values | str | None] = lambda request: None) -> None:
        self.reply = reply
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        said = self.reply(request)
        if isinstance(said, str):
            text = said
        elif request.bound is None:
            text = "It is known. The answer is Lake Baikal."
        else:
            text = record(request.bound.schema, **(said or {}))
        bound = None if request.bound is None else True
        return Completion(text=text, bound=bound)

    def asked(self, stage: str) -> list[ChatRequest]:
        return [request for request in self.requests if request.purpose.stage == stage]
