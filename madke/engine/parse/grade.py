"""A grader's mark."""

from __future__ import annotations

from madke.engine.parse.binary import Binary
from madke.engine.parse.result import Parsed

_GRADE = Binary("true", "false")


def parse_grade(text: str) -> Parsed[bool | None]:
    """Whether a grader found an answer right: ``[True]`` or ``[False]``.

    Args:
        text: The reply, reasoning left out.

    Returns:
        True, False, or None where the reply settles on neither. Rules: those of
        :meth:`madke.engine.parse.binary.Binary.parse`.
    """
    return _GRADE.parse(text)
