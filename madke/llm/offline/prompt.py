"""Reads a rendered prompt back: which stage it is, what is asked, which passages and whose words stand in it.

The layout is the one all shipped templates share: instructions, worked examples closed by a line
``(end of example)``, sections under header lines, and the question last. Passages and earlier replies are untrusted:
a header or a number inside a passage's line is part of that passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from madke.core.chat import Message
from madke.llm.offline.text import tidy

Stage = Literal["select", "speak", "judge", "summarize"]
AnswerForm = Literal["span", "claim", "choice"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """One passage under its pool number."""

    number: int
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """What a debater said."""

    who: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt, read."""

    stage: Stage
    form: AnswerForm
    question: str
    options: tuple[tuple[str, str], ...] = ()
    """Letter and text of each option of a choice."""
    knowledge: tuple[Knowledge, ...] = ()
    """The pool (select) or the chosen passages (speak)."""
    previous: str = ""
    """Its own last reply; empty in a first round."""
    remarks: tuple[Remark, ...] = ()
    """The others' replies, or all debaters' for a judge or summarizer."""
    limit: int = 3
    """How many passages may be chosen."""


_EXAMPLE_END = re.compile(r"^\(end of examples?\)\s*$", re.MULTILINE | re.IGNORECASE)
_ASKED = re.compile(r"^(Question|Claim):[ \t]*(\S.*)$", re.MULTILINE)
_OPTION = re.compile(r"^\(([A-Z])\)[ \t]*(\S.*)$", re.MULTILINE)
_HEADER = re.compile(
    r"^(Knowledge pool|Knowledge|Your previous answer|Answers of the others|Answers of the debaters):[ \t]*$",
    re.MULTILINE,
)
_PASSAGE = re.compile(r"^\[(\d{1,4})\][ \t]+(\S.*)$", re.MULTILINE)
_SPEAKER = re.compile(r"^([^\W\d_][\w .'-]{0,40}):[ \t]*(.*)$")
_LIMIT = re.compile(r"(?:up to|at most|no more than|maximum of)\s+(\d+)", re.IGNORECASE)


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """What the messages ask.

    Args:
        messages: A rendered prompt. The user messages are read as one text; an assistant message counts as the
            reader's own previous answer where no section says it.
    """
    text = "\n\n".join(message.content for message in messages if message.role == "user")
    start = _example_end(text)
    header = _HEADER.search(text, start)
    system = "\n".join(message.content for message in messages if message.role == "system")
    instructions = f"{system}\n{text[: header.start()] if header else text}"
    body = text[start:]
    asked = _last(_ASKED, body)
    question = asked.group(2).strip() if asked else ""
    sections = _sections(body[: asked.start()] if asked else body)
    options = tuple(
        (found.group(1), found.group(2).strip()) for found in _OPTION.finditer(body, asked.end() if asked else 0)
    )
    own = [message.content for message in messages if message.role == "assistant"]
    debaters = sections.get("Answers of the debaters")
    stage: Stage
    if debaters is not None:
        stage = "judge" if "[Yes]" in instructions and "[No]" in instructions else "summarize"
    else:
        stage = "select" if "Knowledge pool" in sections and "[No Found]" in instructions else "speak"
    limit = _LIMIT.search(instructions)
    return Prompt(
        stage=stage,
        form="choice" if options else "claim" if asked and asked.group(1) == "Claim" else "span",
        question=question,
        options=options,
        knowledge=_passages(sections.get("Knowledge pool") or sections.get("Knowledge") or ""),
        previous=sections.get("Your previous answer", own[-1] if own else "").strip(),
        remarks=_remarks(debaters or sections.get("Answers of the others") or ""),
        limit=int(limit.group(1)) if limit else 3,
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  the last one is wanted
        pass
    return found


def _example_end(text: str) -> int:
    """Where the worked examples end: at the first such line, for a later one stands inside somebody's reply."""
    closing = _EXAMPLE_END.search(text)
    return closing.end() if closing else 0


def _sections(text: str) -> dict[str, str]:
    """Header -> text below it. The first of each header counts, and replies run to the end: they may quote headers."""
    headers = list(_HEADER.finditer(text))
    sections: dict[str, str] = {}
    for header, following in zip_longest(headers, headers[1:]):
        name = header.group(1)
        replies = name.startswith("Answers of")
        end = following.start() if following and not replies else len(text)
        sections.setdefault(name, text[header.end() : end])
        if replies:
            break
    return sections


def _passages(section: str) -> tuple[Knowledge, ...]:
    passages: dict[int, Knowledge] = {}
    for found in _PASSAGE.finditer(section):
        number, line = int(found.group(1)), tidy(found.group(2))
        title, colon, rest = line.partition(": ")
        if not colon:
            title, rest = "", line
        passages.setdefault(number, Knowledge(number=number, title=title, text=rest))
    return tuple(passages.values())


def _remarks(section: str) -> tuple[Remark, ...]:
    """Replies under ``Name:`` lines. Only names of the form of the first one, its digits aside, open a new reply."""
    remarks: list[Remark] = []
    form = ""
    for line in section.strip().splitlines():
        opened = _SPEAKER.match(line)
        name = re.sub(r"\d+", "#", opened.group(1)) if opened else ""
        if opened and form in {"", name}:
            form = name
            remarks.append(Remark(who=opened.group(1), text=opened.group(2)))
        elif remarks:
            remarks[-1] = Remark(who=remarks[-1].who, text=f"{remarks[-1].text}\n{line}".strip())
    return tuple(remarks)
