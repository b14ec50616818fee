"""JSON that a client asks for (``response_format``): what it must hold, and how a model is asked for it.

A schema comes from a client and is checked in this process, so it is limited in size and in steps, it cannot refer to
other documents, and its patterns run in linear time. It is a matter between client and server: what the server asks of
model endpoints is not changed by it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from typing import Annotated, Any

import referencing
from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema.validators import Draft202012Validator, extend
from pydantic import StringConstraints, TypeAdapter
from pydantic_core import SchemaError as PatternError
from referencing.exceptions import Unresolvable

from madke._util.assets import asset
from madke._util.yaml_file import read_mapping
from madke.core.chat import Completion, Message, Usage, writable
from madke.engine.parse import without_reasoning
from madke.engine.view import without_tags
from madke.serve.wire import Refusal

MAX_SCHEMA = 32_768
"""Characters of a schema."""

MAX_SCHEMA_STEPS = 50_000
"""Keywords of a schema that are looked at for one reply; those that take longer count as several."""

MAX_PATTERNS = 10
MAX_PATTERN = 100
"""Characters of a pattern. Some short patterns take long to compile."""

_UNCOUNTED = ("patternProperties", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef")
"""Keywords whose checks cannot be limited here."""

_MAX_STARTS = 20
"""Places of a reply at which JSON may begin."""

_LONGEST_FAULT = 300

_STEP = 50
"""Characters that are compared or written in the time of a step."""

_FIRST_STEPS = 5_000
"""Of the check of an empty object, before a request is admitted."""

_NO_SCHEMA = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, PatternError, UnknownType)
"""Exceptions of a check that meets something other than a schema, such as a ``$ref`` to a constant."""

_FIELD = "response_format"

CallModel = Callable[[str, tuple[Message, ...]], Awaitable[Completion]]
"""A call to a model: its name and its messages."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A text for the client."""

    text: str
    usage: Usage = field(default_factory=Usage)
    """Of the calls that wrote it."""


_CHECKING = ThreadPoolExecutor(1, thread_name_prefix="schemas")


class _Endless(Exception):
    """The check of a value takes too many steps."""


class JsonForm:
    """A JSON object, or what a schema accepts."""

    def __init__(self, schema: Mapping[str, Any] | None = None) -> None:
        """Refusal if the schema cannot be used."""
        self._schema = schema
        if schema is None:
            return
        try:
            if len(json.dumps(schema)) > MAX_SCHEMA:
                raise _refusal(f"the schema has more than {MAX_SCHEMA} characters")
            parts = [*_parts(schema)]
            _check_references(parts)
            _check_patterns([value for name, value in parts if name == "pattern" and isinstance(value, str)])
            Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))  # Python compiles no pattern
            self._checked = _undeclared(schema)
            self._places = len(parts) if any(_is_named(*part) for part in parts) else 0
            next(self._errors({}, count(MAX_SCHEMA_STEPS - _FIRST_STEPS)), None)
        except SchemaError as error:
            raise _refusal(f"the schema is not valid at {error.json_path}: {error.message:.{_LONGEST_FAULT}}") from None
        except RecursionError:
            raise _refusal("the schema is nested too deeply, or refers to itself without end") from None

    @classmethod
    async def of_request(cls, wanted: Mapping[str, Any] | None) -> JsonForm | None:
        """As :meth:`read`; one schema is checked at a time, in a thread, so that many do not hold up all other work."""
        if wanted is None or wanted.get("type") != "json_schema":
            return cls.read(wanted)
        return await asyncio.get_running_loop().run_in_executor(_CHECKING, cls.read, wanted)

    @classmethod
    def read(cls, wanted: Mapping[str, Any] | None) -> JsonForm | None:
        """What a request asks for; None for text. Refusal for another form."""
        match wanted:
            case None | {"type": "text"}:
                return None
            case {"type": "json_object"}:
                return cls()
            case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
                return cls(schema)
            case {"type": "json_schema"}:
                raise _refusal("json_schema needs an object with the field 'schema'")
        raise _refusal(f"the type {wanted.get('type')!r:.60} is not known; expected text, json_object or json_schema")

    def fault(self, value: Any, steps: Iterator[int] | None = None) -> str | None:
        """Why the value is not what was asked for; None if it is. Refusal if that cannot be told.

        Checks with the same ``steps``, a counter, share :data:`MAX_SCHEMA_STEPS`.
        """
        if self._schema is None:
            return None if isinstance(value, dict) else "it is not a JSON object"
        try:
            error = next(self._errors(value, steps or count()), None)
        except RecursionError:
            return "it is nested too deeply"
        except OverflowError:
            return "it holds a number that is too large"
        return error and f"at {error.json_path}: {error.message}"[:_LONGEST_FAULT]

    def _errors(self, value: Any, steps: Iterator[int]) -> Iterator[ValidationError]:
        try:
            yield from _validator(self._checked, _Steps(steps, self._places)).iter_errors(value)
        except OverflowError:
            raise
        except (_Endless, Unresolvable, *_NO_SCHEMA):
            raise _refusal("a check by this schema cannot be made, has no end, or leads outside of it") from None

    def of_reply(self, reply: str) -> tuple[str | None, str]:
        """The JSON in a model's reply, and why it is not what was asked for if there is none."""
        fault, steps = "it holds no JSON", count()
        for value in _values(without_reasoning(reply)):
            if (found := self.fault(value, steps)) is None:
                return _text(value), ""
            fault = found if fault == "it holds no JSON" else fault
        return None, fault

    def of_answer(self, answer: str) -> str | None:
        """The JSON for an answer, where it can only be one; None if a model must write it."""
        value, steps = next(_values(answer, whole=True), None), count()
        candidates: list[Any] = [value] if isinstance(value, dict | list) else []
        if self._schema is not None:
            candidates += [answer, value]
            if isinstance(named := self._schema.get("properties"), dict) and len(named) == 1:
                candidates += [{name: each} for name in named for each in (answer, value)]
        return next((_text(each) for each in candidates if each is not None and self.fault(each, steps) is None), None)

    def plain(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """A prompt that also asks for the form."""
        last = messages[-1]
        return (*messages[:-1], Message(role=last.role, content=f"{last.content}\n\n{self._wish}"))

    def about(self, question: str, instructions: str, answer: str, reply: str) -> tuple[Message, ...]:
        """The prompt that writes the answer of a debate in the form; ``reply`` is the text that it was read from."""
        texts = {"instructions": instructions, "question": question, "reply": reply, "answer": answer}
        tagged = (f"<{tag}>\n{without_tags(text, tuple(texts))}\n</{tag}>" for tag, text in texts.items() if text)
        content = "\n\n".join((*tagged, self._wish))
        return Message(role="system", content=_wording()["system"]), Message(role="user", content=content)

    async def written(self, call: CallModel, messages: tuple[Message, ...]) -> Written:
        """Ask for the JSON, and once more if it is not what was asked for. Refusal if it still is not."""
        completion = await call("json", messages)
        usage = completion.usage
        text, fault = await asyncio.to_thread(self.of_reply, completion.text)
        if text is None:
            said = Message(role="assistant", content=completion.text or "(nothing)")
            mistake = Message(role="user", content=_wording()["repair"].replace("{fault}", writable(fault)))
            completion = await call("json", (*messages, said, mistake))
            usage += completion.usage
            text, fault = await asyncio.to_thread(self.of_reply, completion.text)
        if text is None:
            message = f"the model did not write the JSON that was asked for: {writable(fault)}"
            raise Refusal(502, message, kind="server_error", code="invalid_json", retryable=False)
        return Written(text=text, usage=usage)

    @property
    def _wish(self) -> str:
        wording = _wording()
        if self._schema is None:
            return f"{wording['any_object']} {wording['closing']}"
        return f"{wording['by_schema']}\n{_text(self._schema)}\n{wording['closing']}"


@cache
def _wording() -> Mapping[str, str]:
    return read_mapping(asset("prompts", "serving", "json.yaml"))


def _refusal(message: str) -> Refusal:
    return Refusal(400, f"{_FIELD}: {writable(message)}", param=_FIELD)


def _text(value: Any) -> str:
    return writable(json.dumps(value, ensure_ascii=False))


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text:.20} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def _values(text: str, *, whole: bool = False) -> Iterator[Any]:
    """The JSON values in a text: the text itself, else the objects and lists in it, those within others left out."""
    text, at = text.strip(), 0
    starts = [0] if whole else [0, *(n for n, character in enumerate(text) if character in "{[")][:_MAX_STARTS]
    for start in starts:
        if start < at or not text:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if start == 0 and end < len(text) and (whole or not isinstance(value, dict | list)):
            continue  # a number at the start of a sentence
        at = end
        yield value


def _parts(schema: Any) -> Iterator[tuple[str, Any]]:
    """All fields of a schema and of what it holds."""
    for each in schema if isinstance(schema, list) else ():
        yield from _parts(each)
    for name, value in schema.items() if isinstance(schema, dict) else ():
        yield name, value
        yield from _parts(value)


def _check_references(parts: Sequence[tuple[str, Any]]) -> None:
    for name, value in parts:
        if name in _UNCOUNTED:
            raise _refusal(f"{name} is not supported")
        if name in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
            raise _refusal("a schema can refer only to itself (#...)")


def _check_patterns(patterns: Sequence[str]) -> None:
    if len(patterns) > MAX_PATTERNS or any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise _refusal(f"a schema may have {MAX_PATTERNS} patterns of {MAX_PATTERN} characters")
    for pattern in patterns:
        try:
            _matcher(pattern)
        except PatternError:
            raise _refusal(f"the pattern {pattern!r} cannot be checked in linear time") from None


@lru_cache(maxsize=64)
def _matcher(pattern: str) -> TypeAdapter[str]:
    """Checks a pattern with an engine that takes linear time; Python's takes exponential time for some."""
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        try:
            _matcher(pattern).validate_python(instance)
        except ValueError:
            yield ValidationError(f"{instance!r:.60} does not match {pattern!r:.60}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """In linear time, unlike the library's."""
    elements = instance if wanted is True and isinstance(instance, list) else ()
    if len({json.dumps(each, sort_keys=True) for each in elements}) < len(elements):
        yield ValidationError("an element is repeated")


def _undeclared(schema: Any) -> Any:
    """The schema without declarations of its dialect: they would replace the limited validator by the library's own."""
    if isinstance(schema, list):
        return [_undeclared(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    declared = isinstance(schema.get("$schema"), str)
    return {name: _undeclared(value) for name, value in schema.items() if not (declared and name == "$schema")}


def _is_named(name: str, value: Any) -> bool:
    """Whether it gives a part of a schema a name, for which the library reads the whole schema at each reference."""
    return name in ("$id", "$anchor", "$dynamicAnchor") and isinstance(value, str)


class _Steps:
    """What a check may take.

    ``places`` is what it takes to find a name that the schema gives to one of its parts.
    """

    def __init__(self, taken: Iterator[int], places: int) -> None:
        self._taken = taken
        self._places = places
        self._sizes: dict[int, int] = {}

    def take(self, steps: int) -> None:
        """Count them; _Endless if they are too many."""
        for _ in range(steps):
            if next(self._taken) >= MAX_SCHEMA_STEPS:
                raise _Endless

    def of(self, name: str, value: Any, instance: Any) -> int:
        """The steps of a keyword."""
        match name:
            case "$ref":
                return 1 + self._places + str(value).count("/")
            case "enum" | "const":
                return 1 + (len(value) if isinstance(value, list) else 0) + self._size(value) // _STEP
            case "uniqueItems" | "pattern":
                return 1 + self._size(instance) // _STEP
            case "additionalProperties" | "propertyNames":
                return 1 + (len(instance) // _STEP if isinstance(instance, dict) else 0)
        return 1 + (len(value) // 2 if isinstance(value, dict | list) else 0)

    def _size(self, value: Any) -> int:
        if not isinstance(value, dict | list):
            return len(value) if isinstance(value, str) else 1
        if id(value) not in self._sizes:
            self._sizes[id(value)] = len(json.dumps(value))
        return self._sizes[id(value)]


def _validator(schema: Mapping[str, Any], steps: _Steps) -> Any:
    """A validator of limited steps, without access to other documents."""

    def counted(name: str, check: Any) -> Any:
        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            steps.take(steps.of(name, value, instance))
            for error in check(validator, value, instance, schema) or ():
                steps.take(1 + len(error.message) // _STEP)
                error.message = error.message[:_LONGEST_FAULT]
                yield error

        return run

    checks = {**Draft202012Validator.VALIDATORS, "pattern": _pattern, "uniqueItems": _unique}
    limited: Any = extend(Draft202012Validator, {name: counted(name, check) for name, check in checks.items()})
    return limited(schema, registry=referencing.Registry())
