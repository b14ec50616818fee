"""Files of a folder of prompts, which may come from anybody."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from madke.assets import asset
from madke.core.errors import UserError

MAX_BYTES = 1 << 16
"""Of one file. The longest that is shipped has a few thousand."""


def read_prompt(path: Path) -> str:
    """The text of a file in a variant's folder.

    Raises:
        UserError: It is no regular file inside the folder that holds the variants, links followed; it is too large, or
            is not UTF-8 text.
    """
    _refuse_outside(path)
    try:
        # A FIFO would block until somebody writes into it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            kind = os.fstat(handle).st_mode
            if not stat.S_ISREG(kind):
                raise UserError(f"is {_name(kind)}; expected a regular file", file=path)
            with open(handle, "rb", closefd=False) as file:
                content = file.read(MAX_BYTES + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=path) from None
    if len(content) > MAX_BYTES:
        raise UserError(f"is larger than {MAX_BYTES:,} bytes; expected a short text", file=path)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path) from None


def _refuse_outside(path: Path) -> None:
    """Refuse a link that leads out of the folder that holds the variants. Package managers may link what is shipped."""
    root = path.parent.parent
    real = Path(os.path.realpath(path))
    if root != asset("prompts") and not real.is_relative_to(os.path.realpath(root)):
        raise UserError(f"is a link to {str(real)!r}; expected a file inside {root}", file=path)


def _name(kind: int) -> str:
    names = {stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(kind), "a device")
