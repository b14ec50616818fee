"""The final answer of a reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from madke.engine.parse.citations import without_citations
from madke.engine.parse.content import Reader, is_placeholder, unwrap
from madke.engine.parse.cues import are_joined, ends_clause, ends_sentence, fills_line
from madke.engine.parse.forms import Mark, marked, stated_forms
from madke.engine.parse.result import Parsed, abstained, found
from madke.engine.parse.sentences import last_sentence
from madke.engine.parse.statement import alone, in_words

_NOTE = re.compile(r"\s*(?:note|n)\s+\d+\s*")
_SMALL_LETTER = re.compile(r"\s*[a-z]\s*")

Marker = Literal["brackets", "parentheses", "boxed", "text"]
r"""How a protocol asks for answers: ``[X]``, ``(X)``, ``\boxed{X}``, or as the whole reply."""


def parse_answer(text: str, read: Callable[[str], str | None], marker: Marker = "brackets") -> Parsed[str | None]:
    r"""The final answer of a reply.

    A number in brackets is a citation, and citing changes no answer; it is an answer only where the text states it as
    one ("the answer is [7]") or where it alone makes up the last line. What another debater is said to have answered
    is no statement of the speaker's. A reply that names several answers and settles on none has none.

    Args:
        text: The reply, reasoning left out.
        read: The task's reader of a marker's content; None for content that is no answer.
        marker: The form that was asked for. Parentheses abound in prose, so ``(X)`` counts only right behind a cue,
            or alone at the end of the reply.

    Returns:
        The answer that is marked last, in the form asked for with a cue such as "the answer is" (rule ``cue``), or in
        a form that needs none: ``boxed``, ``tag`` (``<answer>X</answer>``), ``hashes`` (``#### 42``), ``record``
        (``{"answer": "X"}``). Else whichever comes last of an answer stated in words (``labelled``: "Answer: X";
        ``stated``: "the answer is X") and one in a marker without a cue (``last``: it stands in the last sentence, or
        all such markers agree; free text must end that sentence or fill a line). Else a label that has a line to
        itself (``alone``). With ``marker="text"`` the whole reply (``text``). An abstention's rule is ``undecided``,
        ``unreadable`` (what is marked is no answer of this task) or ``none``.
    """
    if marker == "text":
        return _whole(text, read)
    reader = Reader(read)
    said = without_citations(text)
    marks = [] if marker == "boxed" else marked(said.text, "()" if marker == "parentheses" else "[]")
    parsed = _stated(said.text, marks, reader) or _unstated(said.text, marks, reader) or abstained(None)
    return replace(parsed, span=said.original(parsed.span)) if parsed.span and said.text != text else parsed


def _whole(text: str, read: Callable[[str], str | None]) -> Parsed[str | None]:
    said = text.strip()
    # The word "answer" may be a translation; in brackets it is an echo.
    is_echo = said.startswith(("[", "(", "<", "\\")) and is_placeholder(unwrap(said))
    value = read(said) if said and not is_echo else None
    return abstained(None) if value is None else found(value, "text", (0, len(text)))


def _stated(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    """The last statement in a marker decides, even if what it states cannot be read."""
    stated = [mark for mark in marks if mark.standing in ("stated", "introduced")]
    for mark in sorted([*stated, *stated_forms(text)], key=lambda mark: mark.span[1], reverse=True):
        if mark.rule == "undecided":
            said = in_words(text, reader)
            return said if said and said.span and said.span > mark.span else abstained(None, "undecided")
        content = unwrap(mark.content)
        is_prose = mark.loose and reader.is_open and not ends_clause(text, mark.span[1])
        if is_prose or is_placeholder(content):
            continue
        value = reader.bare(content)
        if value is not None and _has_rival(text, mark, value, marks, reader):
            return abstained(None, "undecided")
        if value is not None:
            return _parsed(mark, value)
        if mark.standing == "stated":
            return abstained(None, "unreadable")
    return None


def _unstated(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    said = in_words(text, reader)
    plain = _plain(text, marks, reader)
    if said and plain:
        return max(said, plain, key=lambda parsed: parsed.span or (0, 0))
    return said or plain or alone(text, reader)


def _plain(text: str, marks: Sequence[Mark], reader: Reader) -> Parsed[str | None] | None:
    """A marker without a cue: all of them agree, or those of the last sentence do."""
    closing = last_sentence(text)
    offered = [mark for mark in marks if _is_offered(text, mark, closing, reader)]
    read = [(mark, value) for mark in offered if (value := reader(mark.content)) is not None]
    own = [(mark, value) for mark, value in read if mark.standing == "plain"]
    if len({value for _, value in read}) == 1 and (own or len(read) > 1):
        return _parsed(*read[-1])
    last = [(mark, value) for mark, value in own if mark.span[0] >= closing]
    return _parsed(*last[-1]) if len({value for _, value in last}) == 1 else None


def _is_offered(text: str, mark: Mark, closing: int, reader: Reader) -> bool:
    """Whether a marker without a cue may be an answer.

    People put remarks and footnotes in brackets, so that free text and small letters count only where they end the
    last sentence or fill a line.
    """
    if mark.standing != "plain" or _NOTE.fullmatch(mark.content):
        return mark.standing == "quoted"
    start, end = mark.span
    concludes = ends_sentence(text, end) and (start >= closing or fills_line(text, start, end))
    return concludes or not (reader.is_open or _SMALL_LETTER.fullmatch(mark.content))


def _has_rival(text: str, mark: Mark, value: str, marks: Sequence[Mark], reader: Reader) -> bool:
    """Whether another answer is offered in the same breath: "the answer is [A] or [B]"."""
    following = next((other for other in marks if other.span[0] >= mark.span[1]), None)
    if following is None or not are_joined(text, mark.span[1], following.span[0]):
        return False
    return reader(following.content) not in (None, value)


def _parsed(mark: Mark, value: str) -> Parsed[str | None]:
    return found(value, "last" if mark.standing in ("plain", "quoted") else mark.rule, mark.span)
