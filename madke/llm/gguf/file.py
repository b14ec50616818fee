"""Find a GGUF file, and read what is needed of its header: context, chat template, control tokens.

The file is not trusted: counts and lengths in it are checked before they are used. Tensors are not looked at; llama.cpp
checks them when it loads the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, BinaryIO

from madke.core.errors import UserError
from madke.llm.control_tokens import looks_like_markup

SUFFIX = ".gguf"
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type number -> format of ``struct``. All numbers are little-endian."""
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens in ``tokenizer.ggml.token_type``."""
_MOST_ENTRIES = 10_000
_MOST_VALUES = 4_000_000
"""Values of one array. The largest vocabularies have 260,000 tokens and 510,000 merges."""
_LONGEST_STRING = 4 << 20
_TOKENS, _TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_WANTED = ("general.architecture", "tokenizer.chat_template", _TOKENS, _TOKEN_TYPES)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the header of a chat model says."""

    context: int | None
    """Tokens of the window that the model was trained with; None if the file does not say."""
    control_tokens: frozenset[str]


def find_file(name: str) -> Path:
    """The GGUF file of ``gguf/NAME``: NAME is a path, or an installed package that ships one. Runs no code of it.

    Raises:
        UserError: There is no such file or package, or the package ships no model or several.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        found = sorted(each.name for each in path.glob(f"*{SUFFIX}"))
        named = f"; it holds {', '.join(found)}" if found else ""
        raise UserError(f"gguf/{name} is a folder; expected a GGUF file{named}")
    if "/" in name or name.endswith(SUFFIX):
        raise UserError(f"gguf/{name}: there is no file {str(path)!r}")
    try:
        shipped = [Path(str(each.locate())) for each in distribution(name).files or () if each.suffix == SUFFIX]
    except (PackageNotFoundError, ValueError):
        why = "there is no such file, and no installed package of this name"
        raise UserError(f"gguf/{name}: {why}; expected the path of a GGUF file, or a package that ships one") from None
    # Of a model in parts, llama.cpp opens the first and finds the others.
    models = sorted(each for each in shipped if "-of-" not in each.stem or "-00001-of-" in each.stem)
    if len(models) == 1:
        return models[0]
    if not models:
        raise UserError(f"gguf/{name}: the package {name} ships no GGUF file")
    raise UserError(f"gguf/{name}: the package ships several models; choose gguf/{' or gguf/'.join(map(str, models))}")


def read_header(file: Path) -> Header:
    """Read the header of a chat model.

    Raises:
        UserError: The file cannot be read, is no GGUF file or a damaged one, or holds no model that is tuned for chat.
    """
    try:
        with file.open("rb") as opened:
            values = _Reader(opened, file.stat().st_size).values()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", file=file) from None
    except _Damaged as error:
        raise UserError(str(error), file=file) from None
    architecture = values.get("general.architecture")
    if not isinstance(values.get("tokenizer.chat_template"), str):
        raise UserError("has no chat template; choose a model that is tuned for chat", file=file)
    context = values.get(f"{architecture}.context_length")
    for name, kind in ((_TOKENS, str), (_TOKEN_TYPES, int)):
        listed = values.setdefault(name, [])
        if not isinstance(listed, list) or not all(isinstance(each, kind) for each in listed):
            raise UserError(f"is damaged: {name} is not a list of {'texts' if kind is str else 'numbers'}", file=file)
    control = (
        token
        for token, kind in zip(values[_TOKENS], values[_TOKEN_TYPES], strict=False)
        if kind == _CONTROL or (kind == _USER_DEFINED and looks_like_markup(token))
    )
    return Header(
        context=context if isinstance(context, int) and context > 0 else None, control_tokens=frozenset(control)
    )


class _Damaged(Exception):
    """The bytes are not the header of a GGUF file."""


class _Reader:
    """Reads the key-value pairs at the start of a file of ``size`` bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def values(self) -> dict[str, Any]:
        """The values of the keys that are needed, and all numbers."""
        magic = self._file.read(4)
        if magic != _MAGIC:
            raise _Damaged(f"is not a GGUF file: it starts with {magic!r}, expected {_MAGIC!r}")
        version = self._number("I")
        if version not in _VERSIONS:
            raise _Damaged(f"has version {version} of the GGUF format; expected {' or '.join(map(str, _VERSIONS))}")
        self._number("Q")  # tensors
        entries = self._number("Q")
        if entries > _MOST_ENTRIES:
            raise _Damaged(f"is damaged: its header declares {entries:,} entries, expected at most {_MOST_ENTRIES:,}")
        found = {}
        for _ in range(entries):
            key = self._string()
            value = self._value(self._number("I"), keep=key in _WANTED)
            if value is not None:
                found[key] = value
        return found

    def _value(self, kind: int, *, keep: bool) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string() if keep else self._skip(self._length())
        if kind != _ARRAY:
            raise _Damaged(f"is damaged: its header has a value of the unknown type {kind}")
        return self._array(keep=keep)

    def _array(self, *, keep: bool) -> list[Any] | None:
        kind, count = self._number("I"), self._number("Q")
        if count > _MOST_VALUES:
            raise _Damaged(f"is damaged: its header has a list of {count:,} values")
        if kind in _SCALARS:
            form = f"<{count}{_SCALARS[kind]}"
            if not keep:
                self._skip(struct.calcsize(form))
                return None
            return list(struct.unpack(form, self._bytes(struct.calcsize(form))))
        if kind != _STRING:
            raise _Damaged(f"is damaged: its header has a list of the unknown type {kind}")
        one: Callable[[], Any] = self._string if keep else lambda: self._skip(self._length())
        values = [one() for _ in range(count)]
        return values if keep else None

    def _string(self) -> str:
        return self._bytes(self._length()).decode(errors="replace")

    def _length(self) -> int:
        length: int = self._number("Q")
        if length > _LONGEST_STRING:
            raise _Damaged(f"is damaged: its header has a text of {length:,} bytes")
        return length

    def _number(self, form: str) -> Any:
        form = f"<{form}"
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise _Damaged(f"ends within its header, after {self._size:,} bytes; it is incomplete")
        return data

    def _skip(self, count: int) -> None:
        self._file.seek(count, 1)
