"""The calls of each debate for the report page: the messages of the prompt and the raw reply, from the call store."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from madke.core.errors import UserError
from madke.core.transcript import Called, Transcript
from madke.llm import CallStore
from madke.llm.store import Recorded
from madke.runs.spec import run_files
from madke.scoring.arms import Results

MOST_DEBATES = 1_000
"""Runs of more debates have no prompts on the page: it would be several times as large."""

Numbered = Callable[[str], int]
"""Gives a text a number, equal texts the same."""


class PageCall(NamedTuple):
    """One call on the page. Texts are numbers."""

    stage: str
    agent: str
    round: int
    model: str
    messages: tuple[tuple[str, int], ...]
    """Role and text of each message."""
    reply: int
    outcome: str


DebateCalls = Mapping[tuple[str, int], Sequence[PageCall]]
"""Question id and repeat -> calls, in the order of writing."""


def calls_of(results: Results, numbered: Numbered) -> DebateCalls:
    """The calls of a run that its call store has; empty if the store is gone or cannot be read.

    In a store that arms share, a call that another arm made is taken for this run's only if the run has its reply, and
    no other prompt with the same purpose has the same reply.
    """
    if not results.path.is_dir() or not (file := run_files(results.path).calls).is_file():
        return {}
    shared = file.resolve().parent != results.path.resolve()
    own = results.path.resolve().name if shared else ""
    found: defaultdict[tuple[str, int], list[PageCall]] = defaultdict(list)
    try:
        with CallStore(file) as store:
            made = set()
            for call in store.recorded(payer=own):
                made.add(call.purpose)
                found[_key(call)].append(_page_call(call, numbered))
            for call in _borrowed(store, results) if shared else ():
                if call.purpose not in made:
                    found[_key(call)].append(_page_call(call, numbered))
    except UserError:
        return {}
    return found


def _borrowed(store: CallStore, results: Results) -> Iterator[Recorded]:
    """Calls of a shared store whose reply this run has, unless two prompts of one purpose have it."""
    said = {(each.id, each.repeat): {*_replies(each)} for each in results.transcripts()}
    found: dict[tuple[object, str], Recorded | None] = {}
    for call in store.recorded():
        text = call.completion.text
        if text in said.get(_key(call), ()):
            before = found.setdefault((call.purpose, text), call)
            if before is not None and before.messages != call.messages:
                found[call.purpose, text] = None
    yield from filter(None, found.values())


def _replies(transcript: Transcript) -> Iterator[str]:
    for entry in transcript.rounds:
        for turn in entry.turns:
            yield from _texts(turn.stance, turn.selection, turn.reflection)
        yield from _texts(entry.verdict, entry.digest, entry.extracted)
    yield from _texts(transcript.final)


def _texts(*replies: Called | None) -> Iterator[str]:
    return (reply.text for reply in replies if reply is not None and reply.text)


def _key(call: Recorded) -> tuple[str, int]:
    return call.purpose.question, call.purpose.repeat


def _page_call(call: Recorded, numbered: Numbered) -> PageCall:
    return PageCall(
        stage=call.purpose.stage,
        agent=call.purpose.agent,
        round=call.purpose.round,
        model=call.model,
        messages=tuple((message.role, numbered(message.content)) for message in call.messages),
        reply=numbered(call.completion.text or call.completion.error or ""),
        outcome=call.completion.outcome,
    )
