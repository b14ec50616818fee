"""What a person is shown and asked, and the replies made of the answers.

The person reads no prompt: a prompt is written for models. :func:`madke.llm.offline.prompt_reader.read_prompt` finds
its parts. Prompts of other forms are shown whole, and the person types the whole reply.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill, shorten

from madke.core.chat import ChatRequest, Purpose
from madke.core.errors import UserError
from madke.core.events import DebateFinished, Event, StanceGiven, VerdictGiven
from madke.llm import human_reply
from madke.llm.offline.prompt_reader import Knowledge, Prompt, read_prompt
from madke.terminal import printable

PASSAGES = "Passages (e.g. 0 2, Enter for none): "
SEARCH = "Search for (Enter for nothing): "
ANSWER = "Your answer: "
REASONS = "Your reasons, for the others (an empty line ends them): "
SAME = "Do all debaters give the same answer? (y/n): "
REPLY = "Your reply (an empty line ends it): "

_HELP = "Type ? to see the passages and the question again, Ctrl-D to leave."
_STAGES: Mapping[str, str] = {
    "select": "choose passages",
    "speak": "answer",
    "reply": "answer",
    "judge": "compare the answers",
    "summarize": "final answer",
}
_SYSTEM_SHOWN = 200
_NARROWEST = 40


class Dialogue:
    """The dialogue with a person over all debates. ``ask`` shows a label and returns a line; ``show`` shows a text."""

    def __init__(self, ask: Callable[[str], str], show: Callable[[str], None]) -> None:
        self._ask = ask
        self._show = show
        self._debate: tuple[str, int] | None = None
        self._prompt: Prompt | None = None
        self._pool: dict[int, Knowledge] = {}
        self._known: set[tuple[str, int, str]] = set()
        """Replies of others that the person has seen."""

    def reply(self, request: ChatRequest) -> str:
        """Show a request and return the person's reply, in the form that the engine reads."""
        purpose, prompt = request.purpose, read_prompt(request.messages)
        if self._debate != (purpose.question, purpose.repeat):
            self._debate, self._prompt = (purpose.question, purpose.repeat), None
            self._pool.clear()
        self._say(f"\n--- {purpose.agent}, round {purpose.round}: {_STAGES.get(purpose.stage, purpose.stage)} ---")
        if not prompt.question:
            return self._free(request)
        self._show_passages([passage for passage in prompt.knowledge if passage.number not in self._pool])
        if self._prompt is None:
            self._prompt = prompt
            self._show_question(prompt)
            # The usual instructions are for models; a part of one's own has its own paragraph.
            self._say(*(part.content for part in request.messages if part.role == "system" and "\n\n" in part.content))
            self._say(f"You are {'the ' if purpose.agent.islower() else ''}{purpose.agent}. {_HELP}")
        for remark in prompt.remarks:
            if _key(purpose, remark.text) not in self._known:
                self._show_reply(purpose, f"{remark.who}:", remark.text)
        match human_reply.kind_of(prompt):
            case "select":
                return self._selection(prompt)
            case "answer":
                return self._answer(prompt)
            case "verdict":
                return self._verdict()
        return self._free(request)

    def tell(self, event: Event) -> None:
        """Show a turn of another debater, a verdict, or the end of a debate."""
        if isinstance(event, StanceGiven):
            said = event.stance.text or f"({event.stance.error or 'no text'})"
            self._show_reply(event, f"{event.agent} (round {event.n}):", said)
        elif isinstance(event, VerdictGiven):
            found = {True: "the answers agree", False: "the answers differ", None: "no verdict"}
            self._say(f"Judge (round {event.n}): {found[event.verdict.consensus]}")
        elif isinstance(event, DebateFinished):
            self._say(f"The debate has ended. Final answer: {event.transcript.answer or 'none'}")

    def _selection(self, prompt: Prompt) -> str:
        chosen: list[int] | None = None if prompt.knowledge else []
        self._say(f"Choose up to {prompt.limit} passages that help you." if prompt.knowledge else "There are none yet.")
        while chosen is None:
            chosen = self._numbers(self._line(PASSAGES), prompt)
        query = self._line(SEARCH) if human_reply.may_search(prompt) else ""
        return human_reply.selection(prompt, chosen, query)

    def _numbers(self, typed: str, prompt: Prompt) -> list[int] | None:
        """The numbers typed; None, after a word to the person, if they are no choice."""
        words = re.sub(r"[\[\](),;]", " ", typed).split()
        known = {str(passage.number) for passage in prompt.knowledge}
        if wrong := [word for word in words if word not in known]:
            numbers = ", ".join(sorted(known, key=int))
            self._say(f"There is no passage {wrong[0]!r}. The numbers are {numbers}.")
            return None
        try:
            human_reply.selection(prompt, list(map(int, words)))
        except UserError as error:
            self._say(str(error))
            return None
        return list(map(int, words))

    def _answer(self, prompt: Prompt) -> str:
        reply = None
        while reply is None:
            typed = self._line(ANSWER)
            reply = self._read(prompt, typed)
        if prompt.stage == "summarize":
            return reply
        reply = None
        while reply is None:
            reply = self._read(prompt, typed, "\n".join(self._lines(REASONS)))
        return reply

    def _read(self, prompt: Prompt, typed: str, reasons: str = "") -> str | None:
        """The reply; None, after a word to the person, if it cannot be read."""
        try:
            return human_reply.answer(prompt, typed, reasons)
        except UserError as error:
            self._say(str(error))
            return None

    def _verdict(self) -> str:
        while (typed := self._line(SAME).casefold()) not in ("y", "yes", "n", "no"):
            self._say("Type y or n.")
        return human_reply.verdict(typed.startswith("y"))

    def _free(self, request: ChatRequest) -> str:
        """Show the messages and return a reply of one or more lines."""
        for message in request.messages:
            if message.role == "system":
                self._say(shorten(message.content, _SYSTEM_SHOWN, placeholder="..."))
            else:
                self._say(message.content if message.role == "user" else f"You said: {message.content}")
        while not (lines := self._lines(REPLY)):
            self._say("Type at least one line.")
        return "\n".join(lines)

    def _lines(self, label: str) -> list[str]:
        """The lines up to an empty one."""
        lines: list[str] = []
        while line := self._line("" if lines else label):
            lines.append(line)
        return lines

    def _line(self, label: str) -> str:
        while (typed := self._ask(label).strip()) == "?" and self._prompt is not None:
            self._show_passages(list(self._pool.values()))
            self._show_question(self._prompt)
        return typed

    def _show_question(self, prompt: Prompt) -> None:
        self._say(f"{'Claim' if prompt.form == 'claim' else 'Question'}: {prompt.question}")
        self._say(*(f"({letter}) {text}\n" for letter, text in prompt.options))

    def _show_passages(self, passages: Sequence[Knowledge]) -> None:
        for passage in passages:
            self._pool[passage.number] = passage
            self._say(f"[{passage.number}] {passage.title}")
            self._say(passage.text, indent="    ")

    def _show_reply(self, of: Purpose | Event, who: str, text: str) -> None:
        self._known.add(_key(of, text))
        self._say(who)
        self._say(text.strip(), indent="    ")

    def _say(self, *parts: str, indent: str = "") -> None:
        """Show a text, wrapped to the width of the terminal."""
        width = max(_NARROWEST, shutil.get_terminal_size().columns - 1)
        lines = printable("".join(parts)).splitlines()
        if lines:
            wrapped = (fill(line, width, initial_indent=indent, subsequent_indent=indent) for line in lines)
            self._show("\n".join(wrapped))


def _key(of: Purpose | Event, text: str) -> tuple[str, int, str]:
    return of.question, of.repeat, " ".join(text.split())
