"""How much of a run's prompts a server's prefix cache could answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

BLOCK = 16
"""Tokens of a block, as vLLM's default."""

CHARACTERS = 4
"""Of a token of English text, roughly: for where the tokenizer of the model is not at hand."""

_CAPACITY = 65_536
"""Blocks that a cache holds: a million tokens at 16 a block, about what the memory of one large accelerator does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPrefix:
    """How many tokens (or characters) of some prompts were a prefix of an earlier one."""

    prompts: int = 0
    total: int = 0
    """Tokens of all prompts."""
    within: int = 0
    """Those that stand in earlier prompts of the same question; the questions share the cache's room."""
    across: int = 0
    """Those that one cache for all questions holds."""


def shared_prefix(prompts: Iterable[tuple[str, str, str | Sequence[int]]], *, block: int = BLOCK) -> SharedPrefix:
    """Count what block caches, one for each server, answer when they get the prompts one after the other.

    The cache is that of vLLM (Kwon et al., 2023, PagedAttention; its automatic prefix caching): a block is known by its
    own tokens and all before it, only whole blocks are kept, the last token of a prompt is never taken from the cache,
    and where the cache is full (65,536 blocks) the block that was used longest ago goes first, the end of a prompt
    before its beginning. A real server sees prompts at the same time, too, and then shares less.

    Args:
        prompts: Server (the model's name, which names its endpoint), question id, and tokens or characters, in the
            order in which they are sent.
        block: Tokens of a block; 16 tokens are about 64 characters.
    """
    n = total = within = across = 0
    servers: dict[str, tuple[_Cache, _Cache]] = {}
    for server, question, tokens in prompts:
        n += 1
        total += len(tokens)
        own, shared = servers.setdefault(server, (OrderedDict(), OrderedDict()))
        chain = _chain(tokens, block)
        mark = hash(question)
        most = max(len(tokens) - 1, 0) // block
        within += block * min(_look_up(own, [each ^ mark for each in chain]), most)
        across += block * min(_look_up(shared, chain), most)
    return SharedPrefix(prompts=n, total=total, within=within, across=across)


_Cache = OrderedDict[int, None]


def _chain(tokens: str | Sequence[int], block: int) -> list[int]:
    """A hash for each whole block, of its tokens and all that stands before it."""
    pieces = (tokens[at : at + block] for at in range(0, len(tokens) - block + 1, block))
    keys = (piece if isinstance(piece, str) else tuple(piece) for piece in pieces)
    return list(accumulate(keys, lambda before, key: hash((before, key)), initial=0))[1:]


def _look_up(cache: _Cache, chain: Sequence[int]) -> int:
    """How many blocks of the prompt the cache holds from its beginning; then it holds all of them."""
    known = next((n for n, each in enumerate(chain) if each not in cache), len(chain))
    for each in reversed(chain):
        cache[each] = None
        cache.move_to_end(each)
    while len(cache) > _CAPACITY:
        cache.popitem(last=False)
    return known
