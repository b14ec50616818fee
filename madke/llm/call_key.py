"""The key of a call: what makes two calls the same."""

import json
from hashlib import sha256
from typing import Any

from madke.core.chat import ChatRequest, fields_of
from madke.core.schema import Schema

compact_json = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII output: models do emit lone surrogates, which have no UTF-8 form."""


def call_key(model: str, request: ChatRequest) -> str:
    """The key of a call, a hexadecimal SHA-256. Calls with equal keys are the same call.

    The key covers the model's name, the request (in its bound form, if it has one) and its purpose. The purpose keeps
    two debaters with identical prompts apart, and two repeats of a question. The key leaves out the endpoint's address
    (a server may move), retries and concurrency, the dataset and the variant (their effect is in the messages), and
    versions.
    """
    request = request.in_form(bound=True)
    messages = [[message.role, message.content] for message in request.messages]
    purpose = list(fields_of(request.purpose).values())
    asked = [model, messages, float(request.temperature), request.max_tokens, request.stop, request.seed, purpose]
    if request.bound is not None:
        asked.append(fields_of_schema(request.bound.schema))
    return sha256(compact_json(asked).encode("ascii")).hexdigest()


def fields_of_schema(schema: Schema) -> list[Any]:
    """The schema as JSON, for the key and the record of a call."""
    # Fields that came later stand only where they are set, so that the keys of stored calls stay what they are.
    return [
        schema.name,
        *(
            [each.name, each.words, each.numbers, each.max_length, *(["with_texts"] if each.with_texts else [])]
            for each in schema.fields
        ),
    ]
