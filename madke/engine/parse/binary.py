"""Markers of two values: ``[SAME]`` / ``[DIFFERENT]`` of a judge, ``[True]`` / ``[False]`` of a grader."""

from __future__ import annotations

import re
from collections.abc import Sequence

from madke.engine.parse.context import SAYING, SOMEBODY, is_denied, is_imagined, stands_alone
from madke.engine.parse.places import MOST, NEAR, lead
from madke.engine.parse.result import Parsed, T, abstained, found, windowed

_NAME = r"(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion)"
_QUOTED = re.compile(
    rf"(?:{SOMEBODY}|\b(?:both|all|each|gold(?:en)?|reference|ground.truth|predicted|candidate|expected|student|given)\b)"
    rf"(?:['’]s)?(?:\W*\Z|\b[^.\n]*\b(?:answers?|stance|position|{SAYING})\W*(?:is\b|was\b|that\b|with\b)?\W*\Z)",  # noqa: RUF001
    re.IGNORECASE,
)
_COMPARED = re.compile(r"\b(?:same|agrees?|identical|consistent|differ|differs|different|match\w{0,2})\b", re.I)


class Binary:
    """A grammar of two values in brackets, each written as one of some words."""

    def __init__(self, yes: str, no: str) -> None:
        """``yes`` and ``no`` are patterns of words, for instance ``same|keep``."""
        word = rf"(?:(?P<yes>{yes})|{no})"
        label = rf"(?:(?:final|my|the|overall)\s+){{0,3}}{_NAME}"
        self._marker = re.compile(rf"\[\W{{0,9}}{word}\W{{0,9}}\]", re.IGNORECASE)
        self._labelled = re.compile(
            rf"^[^\w\n]{{0,9}}{label}[^\w\n]{{0,9}}[:=][^\w\n]{{0,9}}{word}[^\w\n]*$", re.IGNORECASE | re.MULTILINE
        )
        self._bare = re.compile(rf"\W*{word}\W*", re.IGNORECASE)

    def parse(self, text: str) -> Parsed[bool | None]:
        """The value that a reply settles on.

        Returns:
            True, False, or None. A marker that quotes somebody ("Debater 1 answers [No]"), denies ("not [Yes]") or
            imagines ("it would be [Yes] if") does not count. Where both values are left, the last one counts if it
            stands alone, on its line or as the whole conclusion. Rules: ``marker``, ``alone``, ``labelled`` (a line
            "Verdict: yes"), ``bare`` (a reply that is only the word), ``contradictory``, ``none``.
        """
        markers = list(self._marker.finditer(text))[-MOST:]
        if own := [(bool(marker["yes"]), marker.span()) for marker in markers if _counts(text, marker)]:
            return settled(text, own, "marker")
        labelled = [] if markers else [(bool(line["yes"]), line.span()) for line in self._labelled.finditer(text)]
        if labelled:
            return settled(text, labelled, "labelled")
        bare = self._bare.fullmatch(text)
        return found(bool(bare["yes"]), "bare", bare.span()) if bare else abstained(None)


def settled(text: str, said: Sequence[tuple[T, tuple[int, int]]], rule: str) -> Parsed[T | None]:
    """The value that all marks have, or else the last one's if it stands alone and is a marker or a name."""
    value, span = said[-1]
    if len({one for one, _ in said}) == 1:
        return found(value, rule, span)
    is_alone = rule != "labelled" and stands_alone(text, *span)
    return found(value, "alone", span) if is_alone else abstained(None, "contradictory")


def _counts(text: str, marker: re.Match[str]) -> bool:
    said = lead(text, marker.start())
    if _QUOTED.search(said) and not _COMPARED.search(said):
        return False
    after = text[marker.end() : marker.end() + NEAR]
    return not (is_denied(said, after) or is_imagined(said, after))


_GRADE = Binary("true", "false")


@windowed
def parse_grade(text: str) -> Parsed[bool | None]:
    """Whether a grader found an answer right: ``[True]`` or ``[False]``.

    Args:
        text: The reply, reasoning left out.

    Returns:
        True, False, or None where the reply settles on neither. Rules: those of :meth:`Binary.parse`.
    """
    return _GRADE.parse(text)
