"""What a run's recorded calls took: their cost, and how much of their prompts is a shared prefix."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from madke.core.chat import Message
from madke.core.errors import UserError
from madke.llm import kind_of
from madke.llm.chat_tokens import as_text, load_chat_tokens
from madke.llm.prices import Prices, cost, price_of
from madke.llm.store import CallStore
from madke.runs.run_json import read_spec, run_files
from madke.scoring.prefix import BLOCK, CHARACTERS, shared_prefix
from madke.scoring.spending import Spending

_NO_PROMPTS = frozenset({"search", "estimate", "grade"})
"""Stages of the call store that are no part of a debate, or no prompt of a model."""

_Tokens = Callable[[Sequence[Message]], str | Sequence[int]]


def run_spending(
    directory: Path, prices: Prices = MappingProxyType({}), tokenizer: str | None = None
) -> Spending | None:
    """Cost and shared prefixes of the calls that a run made itself; None where no call is recorded.

    What a prefix cache in blocks of 16 tokens could have answered is counted over the prompts of all calls that
    succeeded, in the order in which they ended, with a cache for each model's name, which names its endpoint. Tokens
    are those of the model where its tokenizer is known; where one model has none at hand, four characters are taken for
    a token throughout, and ``estimated`` says so. One prompt at a time is held in memory, beside the caches.

    Args:
        directory: The run. Of a call store that the arms of an experiment share, its own calls are taken.
        prices: None are needed.
        tokenizer: That of all models but ``hf/`` ones, which have their own: a folder, a ``tokenizer.json``, or a name
            on the Hugging Face Hub.

    Raises:
        UserError: The run's configuration or its call store is damaged, or there is no such tokenizer.
    """
    if not (directory / "run.json").is_file() or not (calls := run_files(directory).calls).is_file():
        return None
    tokens = _tokens_of(set(read_spec(directory).models.values()), tokenizer)
    unit = 1 if tokens else CHARACTERS
    among_arms = calls.resolve().parent != directory.resolve()
    # Arms pay under their folders' names; a run of its own has no name in its store.
    payer = directory.resolve().name if among_arms else ""
    costs: defaultdict[str, float] = defaultdict(float)
    unpriced: set[str] = set()
    recorded = 0

    def prompts() -> Iterator[tuple[str, str, str | Sequence[int]]]:
        nonlocal recorded
        for call in store.recorded(payer=payer):
            recorded += 1
            used, stage = call.completion.usage, call.purpose.stage
            if price := price_of(call.model, prices):
                costs[stage] += cost(used, price)
            elif prices and used.prompt_tokens + used.completion_tokens:
                unpriced.add(call.model)
            if call.completion.outcome == "ok" and stage not in _NO_PROMPTS:
                yield call.model, call.purpose.question, tokens.get(call.model, as_text)(call.messages)

    with _opened(calls) as store:
        found = shared_prefix(prompts(), block=BLOCK * unit)
    if not recorded:
        return None
    return Spending(
        cost=dict(costs),
        unpriced=tuple(sorted(unpriced)),
        prompts=found.prompts,
        prompt_tokens=found.total // unit,
        estimated=not tokens,
        among_arms=among_arms,
        shared_within_question=found.within / max(found.total, 1),
        shared_across_questions=found.across / max(found.total, 1),
    )


@contextmanager
def _opened(calls: Path) -> Iterator[CallStore]:
    """The call store; a copy of it where it is read-only, since SQLite writes beside a store that it reads."""
    if os.access(calls, os.W_OK) and os.access(calls.parent, os.W_OK):
        with CallStore(calls) as store:
            yield store
        return
    with TemporaryDirectory() as folder:
        for file in (calls, calls.with_name(f"{calls.name}-wal")):
            if file.exists():
                shutil.copyfile(file, Path(folder, file.name))
        with CallStore(Path(folder, calls.name)) as store:
            yield store


def _tokens_of(models: Set[str], tokenizer: str | None) -> dict[str, _Tokens]:
    """Model -> the tokens of its prompts; empty where one of them has no tokenizer at hand."""
    given = None if tokenizer is None else load_chat_tokens(tokenizer).of
    found: dict[str, _Tokens] = {}
    for model in sorted(models):
        if kind_of(model) == "hf":
            try:
                found[model] = load_chat_tokens(model.removeprefix("hf/"), local=True).of
            except UserError:
                return {}  # the model lies on another machine
        elif given is not None:
            found[model] = given
        else:
            return {}
    return found
