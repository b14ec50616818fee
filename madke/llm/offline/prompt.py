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
from madke.engine.parse import Marker
from madke.llm.offline.text import tidy

Stage = Literal["note", "select", "speak", "reflect", "digest", "judge", "pick", "summarize"]
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
    marker: Marker = "brackets"
    """How the answer is to be marked."""
    wants_record: bool = False
    """Whether a decision is to be a JSON object."""
    wants_confidence: bool = False
    may_search: bool = False


_EXAMPLE_END = re.compile(r"^\(end of examples?\)\s*$", re.MULTILINE | re.IGNORECASE)
_ASKED = re.compile(r"^(Question|Claim):[ \t]*(\S.*)$", re.MULTILINE)
_OPTION = re.compile(r"^\(([A-Z])\)[ \t]*(\S.*)$", re.MULTILINE)
_SAID = (
    "Answers of the debaters",
    "The debate so far",
    "Answers of the others",
    "Answers of the others, grouped",
    "What was said so far",
)
"""Headers above replies. Replies run to the end of a prompt: they may quote headers."""
_OWN = ("Knowledge pool", "Knowledge", "Your previous answer", "Your review of it", "Summary of the debate so far")
_HEADER = re.compile(rf"^({'|'.join((*_OWN, *_SAID))}):[ \t]*$", re.MULTILINE)
_MARKED = re.compile(r"marked like this: (\\boxed|\(|\[)")
_MARKERS: dict[str, Marker] = {"\\boxed": "boxed", "(": "parentheses", "[": "brackets"}
_NAMES = re.compile(r"\d+ debaters: ([^.\n]+)")
_PASSAGE = re.compile(r"^\[(\d{1,4})\][ \t]+(\S.*)$", re.MULTILINE)
_SPEAKER = re.compile(r"^([^\W\d_][\w .'-]{0,40}?)( \(round \d+\))?:[ \t]*(.*)$")
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
    sections = _sections(body[: asked.start()] if asked else body)
    options = tuple(
        (found.group(1), found.group(2).strip()) for found in _OPTION.finditer(body, asked.end() if asked else 0)
    )
    named = _NAMES.search(system)
    names = {name.strip() for name in named.group(1).split(",")} if named else None
    own = [message.content for message in messages if message.role == "assistant"]
    said = next((sections[name] for name in _SAID if name in sections), None)
    remarks = _remarks(said if said is not None else body if names else "", names)
    own += [remark.text for remark in remarks if remark.who == "You"]
    marker = _MARKED.search(instructions if header else text)
    limit = _LIMIT.search(instructions)
    return Prompt(
        stage=_stage(instructions, sections, marked=marker is not None or bool(remarks)),
        form="choice" if options else "claim" if asked and asked.group(1) == "Claim" else "span",
        question=asked.group(2).strip() if asked else "",
        options=options,
        knowledge=_passages(sections.get("Knowledge pool") or sections.get("Knowledge") or ""),
        previous=sections.get("Your previous answer", own[-1] if own else "").strip(),
        remarks=tuple(remark for remark in _latest(remarks) if remark.who != "You"),
        limit=int(limit.group(1)) if limit else 3,
        marker=_MARKERS[marker.group(1)] if marker else "brackets",
        wants_record='"settled"' in instructions,
        wants_confidence="Confidence:" in text[-400:],
        may_search="[Search:" in instructions,
    )


def _stage(instructions: str, sections: dict[str, str], *, marked: bool) -> Stage:
    """What is asked for, by the markers that the instructions name."""
    decides = "[Yes]" in instructions and "[No]" in instructions
    if "Answers of the debaters" in sections or "The debate so far" in sections:
        if decides or '"settled"' in instructions:
            return "judge"
        if "[name]" in instructions:
            return "pick"
        return "summarize" if marked else "digest"
    if "Knowledge pool" in sections and "[No Found]" in instructions:
        return "select"
    if decides and "Your previous answer" in sections:
        return "reflect"
    return "note" if not marked and not sections else "speak"


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
        replies = name in _SAID
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


def _remarks(section: str, names: set[str] | None) -> tuple[Remark, ...]:
    """Replies under ``Name:`` or ``Name (round 2):`` lines.

    Only the debaters' names open a new reply; where they are not known, names of the form of the first one, digits
    aside, and with a round as it has one.
    """
    remarks: list[Remark] = []
    form = ""
    for line in section.strip().splitlines():
        opened = _SPEAKER.match(line)
        who = opened.group(1) if opened else ""
        name = "round" if opened and opened.group(2) else re.sub(r"\d+", "#", who)
        if opened and (who in names | {"You"} if names is not None else form in {"", name}):
            form = name
            remarks.append(Remark(who=who, text=opened.group(3)))
        elif remarks:
            remarks[-1] = Remark(who=remarks[-1].who, text=f"{remarks[-1].text}\n{line}".strip())
    return tuple(remarks)


def _latest(remarks: Sequence[Remark]) -> list[Remark]:
    """Each debater's last reply. Replies without a name of their own are all kept."""
    anonymous = [remark for remark in remarks if remark.who.startswith("Another ")]
    return [*{remark.who: remark for remark in remarks if remark not in anonymous}.values(), *anonymous]
