"""How much of a run's prompts is a shared prefix: what a prefix cache can save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from madke.core.chat import Message
from madke.core.errors import UserError
from madke.llm.store import CallStore
from madke.runs.directory import run_files
from madke.scoring.prefix import BLOCK, shared_prefix

_CHARACTERS = 4
"""Of a token of English text, roughly; the tokenizer of the model is not at hand."""

_NO_PROMPTS = frozenset({"search", "estimate", "grade"})
"""Stages of the call store that are no part of a debate, or no prompt of a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPrompts:
    """Shares of the prompts' tokens. Four characters are taken for a token, so they are estimates."""

    prompts: int
    tokens: int
    among_arms: bool
    """Whether the run is an arm of an experiment: what it took from earlier arms is not among its prompts."""
    within_question: float
    """The share that is a prefix of an earlier prompt of the same question, 0 .. 1."""
    across_questions: float
    """The share that is a prefix of any earlier prompt, 0 .. 1."""


def shared_prompts(directory: Path) -> SharedPrompts | None:
    """What a prefix cache in blocks of 16 tokens could have answered of a run's prompts; None without any.

    The calls are taken in the order in which they ended, those that failed left out, and all models as one. Of a call
    store that the arms of an experiment share, those that this arm made itself are taken. One prompt at a time is held
    in memory, beside the two caches of :func:`madke.scoring.prefix.shared_prefix`.

    Raises:
        UserError: The directory is no run, or its call store is missing or damaged.
    """
    calls = run_files(directory).calls
    if not calls.is_file():
        raise UserError("is not there, so the run's prompts are unknown", file=calls)
    among_arms = calls.resolve().parent != directory.resolve()
    # Arms pay under their folders' names; a run of its own has no name in its store.
    payer = directory.resolve().name if among_arms else ""
    with CallStore(calls) as store:
        found = shared_prefix(_prompts(store, payer), block=BLOCK * _CHARACTERS)
    if not found.total:
        return None
    return SharedPrompts(
        prompts=found.prompts,
        tokens=found.total // _CHARACTERS,
        among_arms=among_arms,
        within_question=found.within / found.total,
        across_questions=found.across / found.total,
    )


def _prompts(store: CallStore, payer: str) -> Iterator[tuple[str, str]]:
    for call in store.recorded(payer=payer):
        if call.completion.outcome == "ok" and call.purpose.stage not in _NO_PROMPTS:
            yield call.purpose.question, "".join(map(_marked, call.messages))


def _marked(message: Message) -> str:
    """A message as chat templates write it: its role, then its text."""
    return f"<|{message.role}|>\n{message.content}\n"
