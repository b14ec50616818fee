"""Lists and objects in the cells of a table, as Python, pandas, NumPy and ``datasets`` write them.

Nothing is evaluated: only texts, numbers, lists, arrays and objects of them are read, in linear time.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable
from typing import Any

_LIST = re.compile(r"\s*(?:array\(\s*)?\[\s*(?:[uU]?['\"]|\]|np\.str_\(|(?:None|nan|NaN)\s*[,\]\s])")
"""The start of a list of texts, of an empty list, or of one whose first text is missing. ``[1, 2]`` is an answer in
mathematics."""
_OBJECT = re.compile(r"\s*\{\s*['\"]")
_NUMBERS = re.compile(r"\s*\[\s*[-+\d.][^\],\s]*(?:\s+[-+\d.][^\],\s]*)+\s*\]\s*")
"""At least two numbers without commas: NumPy's form of ``[1, 2]``."""
_STRING = r"[uU]?'(?:[^'\\\n]|\\.)*'|[uU]?\"(?:[^\"\\\n]|\\.)*\""
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<text>{_STRING})|(?P<call>(?:array|list|np\.\w+)\()"
    r"|(?P<option>dtype\s*=\s*(?:'[^'\n]*'|\w+)|shape\s*=\s*\([\d, ]*\))"
    r"|(?P<word>[-+.\w]+)|(?P<sign>[\[\](){},:])"
)
_WORDS = {
    "True": True, "False": False, "None": None, "true": True, "false": False, "null": None, "nan": None, "NaN": None,
}  # fmt: skip
_DEEPEST = 20


def is_list(cell: str) -> bool:
    """Whether a cell begins like a list of texts."""
    return bool(_LIST.match(cell))


def is_structured(cell: str) -> bool:
    """Whether a cell begins like a list of texts or like an object."""
    return is_list(cell) or bool(_OBJECT.match(cell))


def is_ambiguous(cell: str) -> bool:
    """Whether a cell may be several numbers, or one text."""
    return bool(_NUMBERS.fullmatch(cell))


def literal(cell: str) -> Any:
    """The value that a cell describes; ValueError for anything but texts, numbers, lists and objects of them.

    In NumPy's form nothing but white space separates the elements of a list: ``['Jane Austen' 'Austen']``. Python
    would join such texts, so a list with and without commas is refused.
    """
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return _Reading(cell).whole()


class _Reading:
    """The tokens of a cell, read from left to right."""

    def __init__(self, cell: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        """(kind, token), without white space."""
        self._apart: list[bool] = []
        """Whether white space stands before the token."""
        position, apart = 0, False
        while position < len(cell):
            found = _TOKEN.match(cell, position)
            if found is None or found.lastgroup is None:
                raise ValueError(f"unexpected {cell[position]!r}")
            position = found.end()
            if found.lastgroup != "space":
                self._tokens.append((found.lastgroup, found[0]))
                self._apart.append(apart)
            apart = found.lastgroup == "space"
        self._next = 0

    def whole(self) -> Any:
        value = self._value(0)
        if self._next < len(self._tokens):
            raise ValueError(f"text after the end: {self._tokens[self._next][1]}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _take(self, expected: str) -> None:
        if self._peek() != expected:
            raise ValueError(f"expected {expected!r}, found {self._peek()!r}")
        self._next += 1

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST or self._next >= len(self._tokens):
            raise ValueError("too deep, or not closed")
        kind, token = self._tokens[self._next]
        self._next += 1
        match kind, token:
            case "text", _:
                return _text(token)
            case "word", _:
                return _WORDS[token] if token in _WORDS else _number(token)
            case "sign", "[":
                return self._listed("]", lambda: self._value(depth + 1))
            case "sign", "(":
                return self._listed(")", lambda: self._value(depth + 1))
            case "sign", "{":
                return dict(self._listed("}", lambda: self._pair(depth + 1)))
            case "call", _:
                value = self._value(depth + 1)
                while self._peek() == ",":
                    self._next += 1
                    if self._next >= len(self._tokens) or self._tokens[self._next][0] != "option":
                        raise ValueError("expected dtype=...")
                    self._next += 1
                self._take(")")
                return value
        raise ValueError(f"unexpected {token!r}")

    def _pair(self, depth: int) -> tuple[str, Any]:
        key = self._value(depth)
        self._take(":")
        if not isinstance(key, str):
            raise ValueError(f"the key {key!r} is no text")
        return key, self._value(depth)

    def _listed(self, end: str, element: Callable[[], Any]) -> list[Any]:
        """The elements up to ``end``, all separated by commas or, in a list, all by white space."""
        found: list[Any] = []
        separators: set[str] = set()
        while self._peek() != end:
            if found:
                if self._peek() == ",":
                    self._next += 1
                    separators.add(",")
                    if self._peek() == end:
                        break
                elif end == "]" and self._next < len(self._tokens) and self._apart[self._next]:
                    separators.add(" ")
                else:
                    raise ValueError("expected a comma")
            found.append(element())
        if len(separators) > 1:
            raise ValueError("only some elements are separated by commas")
        self._next += 1
        return found


def _text(token: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes
            value = ast.literal_eval(token)  # the token is one string literal
    except SyntaxError:
        raise ValueError(f"{token} is not a text") from None
    return str(value)


def _number(token: str) -> int | float:
    try:
        return int(token)
    except ValueError:
        return float(token)
