"""Parse a rendered prompt: its stage, the question, the passages and the debaters' replies.

All shipped templates have the same layout: instructions, examples, knowledge, replies, the question, and the closing
rule as the last paragraph. Examples, knowledge and replies are enclosed in tags, which the enclosed texts cannot
contain (:mod:`madke.engine.view`). The closing rule states the form of the last line, which identifies the stage.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from madke.core.chat import Message
from madke.engine.parse import Marker
from madke.llm.offline.language import tidy

Stage = Literal["note", "select", "speak", "reflect", "digest", "judge", "pick", "summarize", "search", "rank"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """One passage with its pool number."""

    number: int
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """The reply of a debater."""

    who: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A parsed prompt."""

    stage: Stage
    form: Literal["span", "claim", "choice"]
    question: str
    options: tuple[tuple[str, str], ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    """The pool (select) or the chosen passages (speak)."""
    previous: str = ""
    """The reader's own last reply; empty in a first round."""
    remarks: tuple[Remark, ...] = ()
    """Replies of the other debaters; for a judge or summarizer, of all debaters."""
    closing: str = ""
    limit: int = 3
    marker: Marker = "brackets"


_EXAMPLE = re.compile(r"<example>.*?</example>", re.DOTALL)
_KNOWLEDGE = re.compile(r"<knowledge>\n(.*?)</knowledge>", re.DOTALL)
_PASSAGE = re.compile(r"^Knowledge (\d{1,4})(?: -|:) (\S.*)$", re.MULTILINE)
_REPLY = re.compile(r"^(?P<who>[^\n<>]*?)(?: \(round \d+\))?:\s<reply>(?P<text>.*?)</reply>", re.MULTILINE | re.DOTALL)
_OTHER = re.compile(r"<(summary|review|notes)>.*?</\1>", re.DOTALL)
_QUESTION = re.compile(r"^(Question|Claim|Problem|Translate into English): *(\S.*)$", re.MULTILINE)
_OPTION = re.compile(r"^\(([A-Z])\) *(\S.*)$", re.MULTILINE)
_JUDGED = re.compile(r"^(?:Answers of the debaters|The debate so far):$", re.MULTILINE)
_MARKED = re.compile(r"The answer is (\\boxed|\(|\[)")
_MARKERS: dict[str, Marker] = {"\\boxed": "boxed", "(": "parentheses", "[": "brackets"}
_NAMELESS = {"Your previous answer": "You", "One agent's solution": "another agent"}
_LIMIT = re.compile(r"up to (\d+)")
_STAGES: dict[str, Stage] = {"Selected:": "select", '"settled"': "judge", "[KEEP]": "reflect", "Verdict:": "judge"}
_STAGES |= {"[name]": "pick", "Ranking:": "rank", "nothing else:\n[Search:": "search"}
"""Text in the closing rule -> stage."""


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """Parse the messages of a prompt. Assistant messages are the reader's own replies."""
    text = _EXAMPLE.sub("", "\n\n".join(message.content for message in messages if message.role == "user"))
    body, _, closing = text.rpartition("\n\n")
    replies = [
        Remark(who=_NAMELESS.get(found["who"], found["who"]), text=found["text"]) for found in _REPLY.finditer(body)
    ]
    own = [message.content for message in messages if message.role == "assistant"]
    own += [reply.text for reply in replies if reply.who == "You"]
    pool = _KNOWLEDGE.search(body)
    # The template's own text, without passages, replies and notes.
    frame = _OTHER.sub("", _KNOWLEDGE.sub("", _REPLY.sub("", body)))
    asked = next(reversed(list(_QUESTION.finditer(frame))), None)
    options = tuple((found[1], found[2].strip()) for found in _OPTION.finditer(frame, asked.end() if asked else 0))
    marker, limit = _MARKED.search(closing), _LIMIT.search(closing)
    stage = next((stage for sign, stage in _STAGES.items() if sign in closing), None)
    if stage is None and _JUDGED.search(frame):
        stage = "summarize" if marker else "digest"
    return Prompt(
        stage=stage or ("speak" if marker or pool or replies or own else "note"),
        form="choice" if options else "claim" if asked and asked[1] == "Claim" else "span",
        question=asked[2].strip() if asked else "",
        options=options,
        knowledge=_passages(pool[1]) if pool else (),
        previous=own[-1].strip() if own else "",
        remarks=_latest([reply for reply in replies if reply.who != "You"]),
        closing=closing,
        limit=int(limit[1]) if limit else 3,
        marker=_MARKERS[marker[1]] if marker else "brackets",
    )


def _passages(section: str) -> tuple[Knowledge, ...]:
    passages: dict[int, Knowledge] = {}
    for found in _PASSAGE.finditer(section):
        title, colon, rest = (line := tidy(found[2])).partition(": ")
        title, rest = (title, rest) if colon else ("", line)
        passages.setdefault(int(found[1]), Knowledge(number=int(found[1]), title=title, text=rest))
    return tuple(passages.values())


def _latest(replies: Sequence[Remark]) -> tuple[Remark, ...]:
    """The last reply of each debater, and all replies of agents without names."""
    named = {reply.who: reply for reply in replies if reply.who != "another agent"}
    return (*named.values(), *(reply for reply in replies if reply.who == "another agent"))
