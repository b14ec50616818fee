"""JSON schemas on the wire: ``response_format`` of a request, refusals of it, and bound replies as they arrive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from madke.core.chat import Completion, Schema, SchemaField
from madke.engine.parse import TRUNCATED, without_reasoning

REFUSED = re.compile(
    r"\bresponse_?format\b|\bjson_?schema\b|\b(?:structured|guided)[ _](?:outputs?|decoding|json|generation)\b"
    r"|\bjson mode\b|\bgrammars?\b|\bschemas?\b"
)
"""Words of a refusal that concerns the schema, in lower case."""
LIMITS_REFUSED = re.compile(r"\bmax_?(?:length|items)\b")

LONGEST_QUOTE = 300
"""Characters of a quote. A small model that copies never ends without a limit."""
_READ = 4000
"""Characters of a reply in which its reasoning is looked for."""
_REASONING = re.compile(r'\s*\{\s*"reasoning"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*)("?)', re.DOTALL)


def response_format(schema: Schema, *, limits: bool) -> dict[str, Any]:
    """The field of a request. Without ``limits`` it does not bound the length of texts and lists."""
    named = {"name": schema.name, "strict": True, "schema": _rendered(schema, limits)}
    return {"type": "json_schema", "json_schema": named}


def ignores_schema(completion: Completion) -> bool:
    """Whether a complete reply to a request with a schema is not a JSON object: the server ignored the schema."""
    if completion.outcome != "ok" or completion.finish_reason.casefold() in TRUNCATED:
        return False
    return not without_reasoning(completion.text).startswith("{")


def _rendered(schema: Schema, limits: bool) -> dict[str, Any]:
    return _record({each.name: _property(each, limits) for each in schema.fields})


def _record(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _property(each: SchemaField, limits: bool) -> dict[str, Any]:
    limit = each.max_length if limits else None
    if each.numbers is not None:
        items: dict[str, Any] = {"type": "integer", "enum": list(each.numbers)}
        if each.with_texts:
            text = {"type": "string"} | ({"maxLength": LONGEST_QUOTE} if limits else {})
            items = _record({"passage": items, "text": text})
        return {"type": "array", "items": items} | ({} if limit is None else {"maxItems": limit})
    string: dict[str, Any] = {"type": "string"}
    if each.words:
        return string | {"enum": list(each.words)}
    return string | ({} if limit is None else {"maxLength": limit})


def readable(on_delta: Callable[[str], None]) -> Callable[[str], None]:
    """A listener for the parts of a bound reply, which passes on the text of its reasoning.

    Nothing of a reply that ignores the schema: the request is sent again, without it.
    """
    said, passed_on, done = "", 0, False

    def hear(text: str) -> None:
        nonlocal said, passed_on, done
        if done:
            return
        said += text
        if found := _REASONING.match(said):
            reasoning = _decoded(found[1])
            if new := reasoning[passed_on:]:
                on_delta(new)
            passed_on, done = len(reasoning), bool(found[2])
        done = done or len(said) > _READ

    return hear


def _decoded(escaped: str) -> str:
    """The text of a JSON string that may still grow: without the first half of a surrogate pair at its end."""
    try:
        text: str = json.loads(f'"{escaped}"', strict=False)
    except ValueError:
        return ""
    return text[:-1] if "\ud800" <= text[-1:] <= "\udbff" else text
