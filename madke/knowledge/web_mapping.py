"""Search services that people describe in YAML: templates of requests, keys by variable, and paths to the results."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from madke.core.errors import UserError
from madke.knowledge.web import FoundText, WebOptions, WebResult
from madke.knowledge.web_source import Answer, NoAnswer

_SLOT = re.compile(r"\{(query|k)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

JsonPath = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$")]
"""Keys and positions in a JSON value, such as ``hits.0.title``."""


class Fields(BaseModel, frozen=True, extra="forbid"):
    """Where the parts of a result are, as paths within the result."""

    text: JsonPath | None = None
    """A string, or a list of strings, which are joined."""
    title: JsonPath | None = None
    contents: JsonPath | None = None
    """Title and text in one string: the first line is the title."""
    url: JsonPath | None = None
    id: JsonPath | None = None
    """Default: the URL."""
    score: JsonPath | None = None
    """A number; higher is better."""
    date: JsonPath | None = None


class MappedOptions(WebOptions):
    """Settings of a service whose replies are JSON of any form."""

    results: Annotated[str, Field(pattern=r"^([^.\s]+(\.[^.\s]+)*)?\??$")] = ""
    """Path of the list of results. Default: the whole reply. With a ``?`` at the end it may be missing."""
    fields: Fields = Fields()
    html: bool = False
    """Whether titles and texts have HTML tags and character references, which are removed."""
    max_results: Annotated[int, Field(ge=1)] | None = None
    """The most results that the service gives; ``{k}`` is at most this."""
    credits: Annotated[int, Field(ge=0)] = 0
    """Price of a reply, for the count of spent credits."""

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if not (self.fields.text or self.fields.contents):
            raise ValueError("fields: expected the path of text, or of contents")
        return self

    def answer(self, reply: Any) -> Answer:
        """The reply with its price; NoAnswer if it is not as described."""
        self.read(reply)
        return Answer(reply, self.credits)

    def read(self, reply: Any) -> list[WebResult]:
        """The results of a reply that are not excluded; NoAnswer if the reply is not as described."""
        items = value_at(reply, self.results.removesuffix("?"))
        if items is None and self.results.endswith("?") and isinstance(reply, Mapping):
            return []
        found = [result for item in items if (result := self._result(item))] if isinstance(items, list) else []
        if not found and items != []:
            where = self.results or "the reply"
            raise NoAnswer(f"the reply has no list of results with the configured fields at {where!r}")
        if any(result.score is None for result in found):  # The ranks are comparable, some scores are not.
            found = [result.model_copy(update={"score": None}) for result in found]
        return [result for result in found if self.allows([result.link])]

    def count(self, k: int) -> int:
        """The number of results to request for ``k`` passages."""
        return min(self.wanted(k), self.max_results or self.wanted(k))

    @property
    def digest(self) -> str:
        """A short hash of the settings, so that other settings are another source."""
        values = self.model_dump(mode="json", exclude={"cache_days", "folder", "timeout", "concurrency"})
        return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    def _result(self, item: Any) -> WebResult | None:
        """A result; None if it has neither title, text nor URL."""
        paths = self.fields
        title, text = self._text(item, paths.title), self._text(item, paths.text)
        if paths.contents:
            head, newline, body = self._text(item, paths.contents).partition("\n")
            title, text = (head.strip().removeprefix('"').removesuffix('"'), body) if newline else ("", head)
        link, key, date = (string_at(item, path) for path in (paths.url, paths.id, paths.date))
        if not (title or text or link):
            return None
        score = value_at(item, paths.score) if paths.score else None
        values = {"title": title, "snippet": text, "link": link, "date": date or None, "id": key}
        try:
            return FoundText.model_validate({**values, "score": score})
        except ValidationError:
            return FoundText.model_validate(values)

    def _text(self, item: Any, path: str | None) -> str:
        text = string_at(item, path)
        return html.unescape(_TAG.sub("", text)) if self.html else text


def string_at(item: Any, path: str | None) -> str:
    """The string or number at a path; the strings of a list, joined; empty if there is none."""
    value = value_at(item, path) if path else None
    parts = value if isinstance(value, list) else [value]
    return " ".join(str(part) for part in parts if isinstance(part, str | int | float) and not isinstance(part, bool))


def value_at(value: Any, path: str) -> Any:
    """The value at a path; None if it is missing."""
    for part in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def filled(template: Any, query: str, k: int) -> Any:
    """The template with the query for ``{query}`` and the number for ``{k}`` in its strings.

    Each string is filled once: braces in the query stay as they are. A string that is only ``{k}`` becomes the number.
    """
    if isinstance(template, Mapping):
        return {name: filled(value, query, k) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, query, k) for value in template]
    if not isinstance(template, str):
        return template
    return k if template == "{k}" else _SLOT.sub(lambda slot: query if slot[1] == "query" else str(k), template)


def variables(*texts: str) -> Iterator[str]:
    """The names in ``${NAME}``."""
    for text in texts:
        yield from _VARIABLE.findall(text)


def with_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the values of ``${NAME}``; UserError if a value cannot be sent in a header."""

    def value(variable: re.Match[str]) -> str:
        found = os.environ.get(variable[1], "").strip()
        if not found.isascii() or not found.isprintable():
            raise UserError(f"{variable[1]} contains characters that cannot be sent; expected a key")
        return found

    return {name: _VARIABLE.sub(value, text) for name, text in texts.items()}


def parse_json(content: bytes | str) -> Any:
    """JSON from a service, in which lone surrogates become ``?``; NoAnswer if it is not JSON."""
    try:
        # A text that is cut inside a character ends in half a surrogate pair, which cannot be encoded.
        return json.loads(json.dumps(json.loads(content), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise NoAnswer("the reply is not JSON") from None
