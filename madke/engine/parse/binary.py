"""Two-valued markers: ``[Yes]`` / ``[No]`` of a judge, ``[True]`` / ``[False]`` of a grader."""

from __future__ import annotations

import re

from madke.engine.parse.cues import SAYING, SOMEBODY, is_denied, is_imagined, stands_alone
from madke.engine.parse.result import Parsed, abstained, found
from madke.engine.parse.sentences import NEAR, lead

_MOST = 200
"""Markers looked at, from the end of the reply."""

_NAME = r"(?:answer|verdict|grade|judge?ment|decision|response|result|conclusion)"
_QUOTED = re.compile(
    rf"(?:{SOMEBODY}|\b(?:gold(?:en)?|reference|ground.truth|predicted|candidate|expected|student|given|model)\b)"
    rf"(?:['’]s)?(?:\W*\Z|\b[^.\n]*\b(?:answer|stance|position|{SAYING})\W*(?:is\b|was\b|that\b|with\b)?\W*\Z)",  # noqa: RUF001
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:same|agrees?|identical|consistent|differ|differs|different|match\w{0,2})\b", re.IGNORECASE
)


class Binary:
    """A grammar of two words in brackets, for instance ``yes`` and ``no``."""

    def __init__(self, yes: str, no: str) -> None:
        self._yes = yes
        word = rf"({yes}|{no})"
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
            "Verdict: yes"), ``bare`` (a reply that is nothing but the word), ``contradictory``, ``none``.
        """
        markers = list(self._marker.finditer(text))[-_MOST:]
        own = [marker for marker in markers if _counts(text, marker)]
        if not own:
            return abstained(None) if markers else self._without_markers(text)
        last = own[-1]
        value = self._value(last)
        if len({self._value(marker) for marker in own}) == 1:
            return found(value, "marker", last.span())
        if stands_alone(text, *last.span()):
            return found(value, "alone", last.span())
        return abstained(None, "contradictory")

    def _without_markers(self, text: str) -> Parsed[bool | None]:
        labelled = list(self._labelled.finditer(text))
        if labelled:
            if len({self._value(line) for line in labelled}) > 1:
                return abstained(None, "contradictory")
            return found(self._value(labelled[-1]), "labelled", labelled[-1].span(1))
        bare = self._bare.fullmatch(text)
        return found(self._value(bare), "bare", bare.span(1)) if bare else abstained(None)

    def _value(self, marker: re.Match[str]) -> bool:
        return marker.group(1).lower() in self._yes.split("|")


def _counts(text: str, marker: re.Match[str]) -> bool:
    said = lead(text, marker.start())
    if _QUOTED.search(said) and not _COMPARED.search(said):
        return False
    after = text[marker.end() : marker.end() + NEAR]
    return not (is_denied(said, after) or is_imagined(said, after))
