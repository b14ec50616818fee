"""A person at the terminal, as a chat model; and replies made of what a person there or at the page types.

The person reads no prompt, which is written for models, but the values of the call's stage. A call without them, and a
stage of another form, is shown whole, and the person types the whole reply.
"""

import asyncio
import math
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill, shorten
from typing import Literal, TypeVar, cast

from madke._util.concurrency import in_thread
from madke._util.terminal import printable, say
from madke.core.chat import ChatModel, ChatRequest, Completion, Purpose
from madke.core.errors import UserError
from madke.core.events import DebateFinished, Event, Listener, StanceGiven, VerdictGiven, never_raising
from madke.core.stage import ShownPassage, Stage
from madke.engine.parse import answer_of, marked
from madke.engine.protocol import Protocol
from madke.tasks.choice import lettered

ASK_PASSAGES = "Passages (e.g. 0 2, Enter for none): "
ASK_SEARCH = "Search for (Enter for nothing): "
ASK_ANSWER = "Your answer: "
ASK_REASONS = "Your reasons, for the others (an empty line ends them): "
ASK_SAME = "Do all debaters give the same answer? (y/n): "
ASK_REPLY = "Your reply (an empty line ends it): "

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

NO_ANSWER = "-"
"""What a person types who does not know the answer."""

_EXPECTED: Mapping[str, str] = {"choice": "the letter of an option", "claim": "SUPPORTS, REFUTES or NOT ENOUGH INFO"}

T = TypeVar("T")


class HumanChat:
    """A person who is shown what a debater needs and is asked for each part of a reply, one request at a time.

    Args:
        ask: Shows a label and returns the line typed; called in a thread. It raises EOFError when the person leaves,
            which fails the call. Default: the terminal, where leaving (Ctrl-D) ends the command as Ctrl-C does.
        show: Shows a text. Default: on stderr.
    """

    name = "human"

    def __init__(self, ask: Callable[[str], str] | None = None, show: Callable[[str], None] | None = None) -> None:
        self._at_terminal = ask is None
        self._dialogue = Dialogue(ask or ask_terminal, show or partial(say, err=True))
        self._turn = asyncio.Lock()
        self._roles: frozenset[str] = frozenset()
        self._debates = False
        self._reads_all = False
        self._held: list[Event] = []
        self._spoken: dict[tuple[str, int], float] = {}
        """(Question, repeat) -> the last round in which the person has spoken."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Show the request to the person and wait for the reply."""
        async with self._turn:
            started = time.monotonic()
            try:
                # The loop's own threads are joined at exit, so Ctrl-C would wait for Enter.
                text = await asyncio.wrap_future(in_thread(lambda: self._dialogue.reply(request)))
            except EOFError:
                if not self._at_terminal:
                    return Completion(outcome="failed", error="the person left", finish_reason="error")
                signal.raise_signal(signal.SIGINT)  # without effect in a background job of a script, which ignores it
                raise asyncio.CancelledError from None
            self._show_held()
        return Completion(text=text, seconds=time.monotonic() - started)

    def sit(self, roles: frozenset[str], protocol: Protocol) -> None:
        """Take these roles of a debate, whose events :meth:`hear` gets."""
        self._roles = roles
        self._debates = not roles.isdisjoint(debater.name for debater in protocol.cast)
        self._reads_all = reads_all(protocol)

    def hear(self, event: Event) -> None:
        """Show the turns of the others as they end: of a round after the person's own turn, and not at a prompt."""
        if isinstance(event, StanceGiven) and event.agent in self._roles:
            self._spoken[event.question, event.repeat] = event.n
        elif isinstance(event, VerdictGiven | DebateFinished) or (isinstance(event, StanceGiven) and self._reads_all):
            self._held.append(event)
        if not self._turn.locked():
            self._show_held()

    def _show_held(self) -> None:
        held, self._held = self._held, []
        for event in held:
            before = 0 if self._debates else math.inf
            if isinstance(event, StanceGiven) and event.n > self._spoken.get((event.question, event.repeat), before):
                self._held.append(event)
            else:
                self._dialogue.tell(event)


class Dialogue:
    """The dialogue with a person over all debates. ``ask`` shows a label and returns a line; ``show`` shows a text."""

    def __init__(self, ask: Callable[[str], str], show: Callable[[str], None]) -> None:
        self._ask = ask
        self._show = show
        self._debate: tuple[str, int] | None = None
        self._stage: Stage | None = None
        self._pool: dict[int, ShownPassage] = {}
        self._known: set[tuple[str, int, str]] = set()
        """Replies of others that the person has seen."""

    def reply(self, request: ChatRequest) -> str:
        """Show a request and return the person's reply, in the form that the engine reads."""
        purpose, stage = request.purpose, request.stage
        if self._debate != (purpose.question, purpose.repeat):
            self._debate, self._stage = (purpose.question, purpose.repeat), None
            self._pool.clear()
        self._say(f"\n--- {purpose.agent}, round {purpose.round}: {_STAGES.get(purpose.stage, purpose.stage)} ---")
        if stage is None:
            return self._free(request)
        self._show_passages([passage for passage in stage.passages if passage.number not in self._pool])
        if self._stage is None:
            self._stage = stage
            self._show_question(stage)
            self._say(stage.persona)
            self._say(f"You are {'the ' if purpose.agent.islower() else ''}{purpose.agent}. {_HELP}")
        for spoken in stage.newest:
            said = spoken.text or spoken.answer or ""
            if said and _key(purpose, said) not in self._known:
                self._show_reply(purpose, f"{spoken.agent or 'another agent'}:", said)
        match asked_kind(stage):
            case "select":
                return self._selection(stage)
            case "answer":
                return self._answer(stage)
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

    def _selection(self, stage: Stage) -> str:
        numbers: list[str] = []
        self._say(
            f"Choose up to {stage.max_selected} passages that help you." if stage.passages else "There are none yet."
        )
        if stage.passages:
            numbers = self._until_read(lambda: self._numbers(stage))
        query = self._line(ASK_SEARCH) if stage.allow_search else ""
        return selection(stage, numbers, query)

    def _numbers(self, stage: Stage) -> list[str]:
        numbers = re.sub(r"[\[\](),;]", " ", self._line(ASK_PASSAGES)).split()
        selection(stage, numbers)
        return numbers

    def _answer(self, stage: Stage) -> str:
        def stated() -> tuple[str, str]:
            typed = self._line(ASK_ANSWER)
            return typed, answer(stage, typed)

        typed, reply = self._until_read(stated)
        if stage.name == "summarize":
            return reply
        return self._until_read(lambda: answer(stage, typed, "\n".join(self._lines(ASK_REASONS))))

    def _until_read(self, ask: Callable[[], T]) -> T:
        """Ask until the engine can read what the person types; the person is told why it cannot."""
        while True:
            try:
                return ask()
            except UserError as error:
                self._say(str(error))

    def _verdict(self) -> str:
        while (typed := self._line(ASK_SAME).casefold()) not in ("y", "yes", "n", "no"):
            self._say("Type y or n.")
        return verdict(typed.startswith("y"))

    def _free(self, request: ChatRequest) -> str:
        for message in request.messages:
            if message.role == "system":
                self._say(shorten(message.content, _SYSTEM_SHOWN, placeholder="..."))
            else:
                self._say(message.content if message.role == "user" else f"You said: {message.content}")
        while not (lines := self._lines(ASK_REPLY)):
            self._say("Type at least one line.")
        return "\n".join(lines)

    def _lines(self, label: str) -> list[str]:
        lines: list[str] = []
        while line := self._line("" if lines else label):
            lines.append(line)
        return lines

    def _line(self, label: str) -> str:
        while (typed := self._ask(label).strip()) == "?" and self._stage is not None:
            self._show_passages(list(self._pool.values()))
            self._show_question(self._stage)
        return typed

    def _show_question(self, stage: Stage) -> None:
        self._say(f"{'Claim' if stage.form == 'claim' else 'Question'}: {' '.join(stage.question.question.split())}")
        self._say(*(f"({letter}) {text}\n" for letter, text in lettered(stage.question.choices)))

    def _show_passages(self, passages: Sequence[ShownPassage]) -> None:
        for passage in passages:
            self._pool[passage.number] = passage
            self._say(f"[{passage.number}] {passage.title}")
            self._say(passage.text, indent="    ")

    def _show_reply(self, of: Purpose | Event, who: str, text: str) -> None:
        self._known.add(_key(of, text))
        self._say(who)
        self._say(text.strip(), indent="    ")

    def _say(self, *parts: str, indent: str = "") -> None:
        width = max(_NARROWEST, shutil.get_terminal_size().columns - 1)
        lines = printable("".join(parts)).splitlines()
        if lines:
            wrapped = (fill(line, width, initial_indent=indent, subsequent_indent=indent) for line in lines)
            self._show("\n".join(wrapped))


def _key(of: Purpose | Event, text: str) -> tuple[str, int, str]:
    return of.question, of.repeat, " ".join(text.split())


def with_people(models: Mapping[str, ChatModel], protocol: Protocol, listen: Listener) -> Listener:
    """A listener that also tells the people among the models; ``listen`` itself if there are none."""
    listeners = [listen]
    for person in people_in(models):
        person.sit(frozenset(role for role, model in models.items() if model == person), protocol)
        listeners.append(person.hear)

    def hear(event: Event) -> None:
        for each in listeners:
            each(event)

    return never_raising(hear) if people_in(models) else listen


def people_in(models: Mapping[str, ChatModel]) -> set[HumanChat]:
    """The people among the models, also as a caller's own objects."""
    return {cast(HumanChat, model) for model in models.values() if hasattr(model, "hear")}


def ask_terminal(label: str) -> str:
    """Show a label on stderr and read a line from stdin. EOFError without further input."""
    say(label, err=True, end="")
    try:
        return input()
    except EOFError:
        say("", err=True)
        raise


def asked_kind(stage: Stage) -> Literal["select", "answer", "verdict", "free"]:
    """What the person is asked for; ``free`` is a whole reply."""
    match stage.name:
        case "select":
            return "select"
        case "speak" | "reply" | "summarize" if not stage.asks_confidence and stage.marker != "text":
            return "answer"
        case "judge" if not stage.decides:
            return "verdict"
    return "free"


def selection(stage: Stage, numbers: Sequence[int | str], query: str = "") -> str:
    """The passages that the person chooses, and what it searches for."""
    known = [str(number) for number in sorted(passage.number for passage in stage.passages)]
    chosen = list(dict.fromkeys(map(str, numbers)))
    if wrong := [number for number in chosen if number not in known]:
        raise UserError(f"There is no passage {wrong[0]!r}. The numbers are {', '.join(known)}.")
    if len(chosen) > stage.max_selected:
        raise UserError(f"You chose {len(chosen)} passages. Choose up to {stage.max_selected}.")
    # A bracket would end the marker.
    query = " ".join(re.sub(r"[][]", " ", query).split())
    search = f"[Search: {query}]\n" if query else ""
    return search + "Selected: " + (" ".join(f"[{number}]" for number in chosen) or "none")


def answer(stage: Stage, typed: str, reasons: str = "") -> str:
    """The answer, after the reasons for the others; a summarizer gives none."""
    if typed == NO_ANSWER:
        return "\n".join(filter(None, [reasons, "I do not know the answer."]))
    task, question = stage.task, stage.question
    shown = {passage.number for passage in stage.passages}
    wanted = task.read(typed, question) if typed else None

    def is_read(text: str) -> bool:
        parsed = answer_of(text, task, question, stage.marker, shown=shown)
        return wanted is not None and parsed.value == wanted

    closing = f"The answer is {marked(typed, stage.marker)}."
    if not is_read(closing):
        expected = _EXPECTED.get(stage.form, "a few words without brackets")
        found = f"{typed[:60]!r} cannot be read. " if typed else ""
        raise UserError(f"{found}Type {expected}, or {NO_ANSWER} for no answer.")
    text = "\n".join(filter(None, [reasons, closing]))
    if stage.name != "summarize" and not is_read(text):
        raise UserError("These reasons state another answer than yours. Write them again.")
    return closing if stage.name == "summarize" else text


def verdict(same: bool) -> str:
    """Whether all debaters give the same answer."""
    return f"Verdict: {'SAME' if same else 'DIFFERENT'}"


def reads_all(protocol: Protocol) -> bool:
    """Whether every debater reads what all others say, with their names; only then a person hears them live."""
    sees = protocol.sees
    return sees.topology == "full" and sees.peers != "none" and not sees.anonymous
