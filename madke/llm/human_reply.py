"""The replies made of what a person chooses and types, in the form that the engine reads.

Terminal and page ask for the same parts. Each function raises :class:`madke.core.errors.UserError` with a word to the
person if a part cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.parse import marked, parse_answer
from madke.engine.protocol import Protocol
from madke.llm.offline.prompt_reader import Prompt
from madke.tasks import get_task

NO_ANSWER = "-"
"""What a person types who does not know the answer."""

_TASKS: Mapping[str, str] = {"choice": "choice", "claim": "claim", "span": "short_answer"}
_EXPECTED: Mapping[str, str] = {"choice": "the letter of an option", "claim": "SUPPORTS, REFUTES or NOT ENOUGH INFO"}


def kind_of(prompt: Prompt) -> Literal["select", "answer", "verdict", "free"]:
    """What the person is asked for; ``free`` is a whole reply."""
    if not prompt.question:
        return "free"
    if prompt.stage == "select":
        return "select"
    if prompt.stage in ("speak", "summarize") and "The answer is" in prompt.closing:
        return "answer"
    return "verdict" if prompt.stage == "judge" and "[SAME]" in prompt.closing else "free"


def may_search(prompt: Prompt) -> bool:
    """Whether a selection may come with a search."""
    return "[Search:" in prompt.closing


def selection(prompt: Prompt, numbers: Sequence[int | str], query: str = "") -> str:
    """The passages that the person chooses, and what it searches for."""
    known = [str(number) for number in sorted(passage.number for passage in prompt.knowledge)]
    chosen = list(dict.fromkeys(map(str, numbers)))
    if wrong := [number for number in chosen if number not in known]:
        raise UserError(f"There is no passage {wrong[0]!r}. The numbers are {', '.join(known)}.")
    if len(chosen) > prompt.limit:
        raise UserError(f"You chose {len(chosen)} passages. Choose up to {prompt.limit}.")
    # A bracket would end the marker.
    query = " ".join(re.sub(r"[][]", " ", query).split())
    search = f"[Search: {query}]\n" if query else ""
    return search + "Selected: " + (" ".join(f"[{number}]" for number in chosen) or "[No Found]")


def answer(prompt: Prompt, typed: str, reasons: str = "") -> str:
    """The answer, after the reasons for the others; a summarizer gives none."""
    if typed == NO_ANSWER:
        return "\n".join(filter(None, [reasons, "I do not know the answer."]))
    task = get_task(_TASKS[prompt.form])
    question = Question(question=prompt.question, choices=tuple(text for _, text in prompt.options))
    shown = {passage.number for passage in prompt.knowledge}
    wanted = task.read(typed, question) if typed else None

    def is_read(text: str) -> bool:
        parsed = parse_answer(text, lambda raw: task.read(raw, question), prompt.marker, shown=shown)
        return wanted is not None and parsed.value == wanted

    closing = f"The answer is {marked(typed, prompt.marker)}."
    if not is_read(closing):
        expected = _EXPECTED.get(prompt.form, "a few words without brackets")
        found = f"{typed[:60]!r} cannot be read. " if typed else ""
        raise UserError(f"{found}Type {expected}, or {NO_ANSWER} for no answer.")
    text = "\n".join(filter(None, [reasons, closing]))
    if prompt.stage != "summarize" and not is_read(text):
        raise UserError("These reasons state another answer than yours. Write them again.")
    return closing if prompt.stage == "summarize" else text


def verdict(same: bool) -> str:
    """Whether all debaters give the same answer."""
    return f"Verdict: [{'SAME' if same else 'DIFFERENT'}]"


def reads_all(protocol: Protocol) -> bool:
    """Whether every debater reads what all others say, with their names; only then a person hears them live."""
    sees = protocol.sees
    return sees.topology == "full" and sees.peers != "none" and not sees.anonymous
